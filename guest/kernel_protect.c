// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page of the kernel's own memory becomes read-only and writable again: by a system call of this program, by a
 * kernel thread, and with its entry cleared in between. Only the kernel "lab" has a file by which programs can ask for
 * this (lab_protect.c of the kernel lab). Between two changes this program is in user space, and so are its children on
 * other CPUs.
 */
#include "lull.h"

#define ASK	"/sys/kernel/mm/lull/lab_page"

static long rounds = 20;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "changes of each kind" },
	{ }
};

static void ask(int file, const char *what)
{
	verify(pwrite(file, what, strlen(what), 0) == (ssize_t)strlen(what), "cannot write %s to " ASK, what);
	/* The children keep the other CPUs in user space. */
	usleep(500);
}

int main(int argc, char **argv)
{
	static const char *const changes[] = { "ro", "rw", "kthread-ro", "kthread-rw", "anew-ro", "rw" };
	int file, children = get_nprocs() - 1;
	pid_t child[64];
	long round;
	size_t i;

	parse_options(argc, argv, "a page of the kernel's memory becomes read-only and writable again", options);
	file = open(ASK, O_WRONLY);
	if (file < 0 && errno == ENOENT)
		skip("this kernel has no " ASK);
	must(file);
	if (children > 64)
		children = 64;
	for (i = 0; i < (size_t)children; i++) {
		child[i] = must(fork());
		if (!child[i]) {
			must(prctl(PR_SET_PDEATHSIG, SIGKILL));
			for (;;)
				must(getppid());
		}
	}
	open_window();
	for (round = 0; round < rounds; round++)
		for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
			ask(file, changes[i]);
	close_window();
	for (i = 0; i < (size_t)children; i++) {
		must(kill(child[i], SIGKILL));
		must(waitpid(child[i], NULL, 0));
	}
	report("", rounds * 6, "change", "");
	return 0;
}
