// SPDX-License-Identifier: GPL-2.0-only
/*
 * System B's program: processes that each have a second, idle thread, and change the protection of a page in a loop.
 * It was published as mprotect-threaded 10000, with one copy on each of 32 CPUs. Each loop of the published program
 * changes the protection twice, to read-only and back.
 */
#include "gate.h"

static long procs = 4, loops = 1000, pinned;

static const struct option_spec options[] = {
	{ "procs", &procs, NULL, "processes (0: one per CPU, as published)" },
	{ "loops", &loops, NULL, "protection changes in each (published: 20000)" },
	{ "pin", &pinned, NULL, "1: each process stays on a CPU of its own" },
	{ }
};

/* The idle thread: waits for a byte that comes only at the end. */
static void *idle(void *argument)
{
	char byte;

	return read(*(int *)argument, &byte, 1) < 0 ? NULL : NULL;
}

/* The words for which the processes wait; see gate.h. */
static struct steps {
	int ready, go, done, end;
} *steps;

/* One process. Writes verify that each change takes effect. */
static void work(void)
{
	volatile long *page = (long *)map_memory(PAGE, MAP_PRIVATE);
	pthread_t thread;
	int silent[2];
	long i;

	must(pipe(silent));
	verify(!pthread_create(&thread, NULL, idle, &silent[0]), "pthread_create");
	*page = 0;
	be_modest();
	arrive(&steps->ready, procs);
	await(&steps->go, 1);
	for (i = 0; i < loops; i++) {
		if (i % 2) {
			must(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
			*page += 1;
		} else {
			must(mprotect((void *)page, PAGE, PROT_READ));
			verify(*page == i / 2, "page reads %ld, not %ld", *page, i / 2);
		}
	}
	verify(*page == loops / 2, "%ld writes arrived, not %ld", *page, loops / 2);
	arrive(&steps->done, procs);
	/* The exit of the process is not part of the window. */
	await(&steps->end, 1);
	close(silent[1]);
	pthread_join(thread, NULL);
	exit(0);
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	char scale[64];
	pid_t *children;

	parse_options(argc, argv, "mprotect in a loop, in processes with an idle thread", options);
	if (!procs)
		procs = cpus;
	children = calloc(procs, sizeof(*children));
	steps = (struct steps *)map_memory(PAGE, MAP_SHARED);
	for (i = 0; i < procs; i++) {
		children[i] = fork_child();
		if (!children[i]) {
			if (pinned)
				pin(i);
			work();
		}
	}
	await(&steps->ready, procs);
	open_window();
	announce(&steps->go, 1);
	await(&steps->done, procs);
	close_window();
	announce(&steps->end, 1);
	for (i = 0; i < procs; i++)
		wait_child(children[i]);
	snprintf(scale, sizeof(scale), "%ld x %ld of 32 x 20000 changes", procs, loops);
	report("", procs * loops, "mprotect", scale);
	return 0;
}
