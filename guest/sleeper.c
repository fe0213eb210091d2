// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process that sleeps is paged out by another with process_madvise(MADV_PAGEOUT), as Android does to applications
 * in the background. Nobody runs its address space: no TLBI is needed at all.
 */
#include "lull.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open		434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise	440
#endif

static long pages = 2048, rounds = 2;

static const struct option_spec options[] = {
	{ "pages", &pages, NULL, "pages of the sleeper" },
	{ "rounds", &rounds, NULL, "times it touches them before it is paged out at last" },
	{ }
};

static const char *const rows[] = { "pswpout", "pgsteal_anon", NULL };

/* Touch, sleep until told, and verify. */
static void sleeper(long *memory, int told, int say)
{
	const long step = PAGE / sizeof(long);
	long i, round;

	for (round = 0; round < rounds; round++)
		for (i = 0; i < pages; i++)
			memory[i * step] = i * 7 + round;
	tell(say);
	hear(told);
	for (i = 0; i < pages; i++)
		verify(memory[i * step] == i * 7 + rounds - 1, "page %ld lost its contents", i);
	exit(0);
}

int main(int argc, char **argv)
{
	int down[2], up[2], pidfd;
	struct iovec { void *base; size_t length; } range;
	struct timespec moment = { .tv_nsec = 50 * 1000 * 1000 };
	char *memory;
	pid_t pid;

	parse_options(argc, argv, "a sleeping process is paged out", options);
	if (pages < 1 || rounds < 1)
		finish(USAGE, "pages and rounds are at least 1");
	memory = map_memory(pages * PAGE, MAP_PRIVATE);
	must(madvise(memory, pages * PAGE, MADV_NOHUGEPAGE));
	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid)
		sleeper((long *)memory, down[0], up[1]);
	hear(up[0]);
	nanosleep(&moment, NULL);	/* it is asleep, and its CPU has gone on */
	pidfd = must((int)syscall(SYS_pidfd_open, pid, 0));
	range.base = memory;
	range.length = pages * PAGE;
	begin_vmstat(rows);
	open_window();
	if (syscall(SYS_process_madvise, pidfd, &range, 1, MADV_PAGEOUT, 0) != (long)range.length)
		die("process_madvise");
	close_window();
	end_vmstat(rows);
	tell(down[1]);
	wait_child(pid);
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	verify(metric("pswpout") >= pages * 9 / 10, "only %ld of %ld pages went to swap", metric("pswpout"), pages);
	report("", pages, "page", "");
	return 0;
}
