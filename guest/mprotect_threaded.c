// SPDX-License-Identifier: GPL-2.0-only
/*
 * System B's program: processes that each have a second, idle thread, and change the protection of a page in a loop.
 * Published as mprotect-threaded 10000, a copy per CPU of 32; each of its loops changes it twice, there and back.
 */
#include "lull.h"

#include <pthread.h>

static long procs = 4, loops = 1000, pinned;

static const struct option_spec options[] = {
	{ "procs", &procs, NULL, "processes (0: one per CPU, as published)" },
	{ "loops", &loops, NULL, "protection changes in each (published: 20000)" },
	{ "pin", &pinned, NULL, "1: each process stays on a CPU of its own" },
	{ }
};

/* The idle thread: waits for a byte that never comes before the end. */
static void *idle(void *argument)
{
	char byte;

	return read(*(int *)argument, &byte, 1) < 0 ? NULL : NULL;
}

/* One process: each change really takes effect, which the writes verify. */
static void work(int ready, int start, int end)
{
	volatile long *page = (long *)map_memory(PAGE, MAP_PRIVATE);
	pthread_t thread;
	int silent[2];
	char byte;
	long i;

	must(pipe(silent));
	verify(!pthread_create(&thread, NULL, idle, &silent[0]), "pthread_create");
	*page = 0;
	tell(ready);
	verify(read(start, &byte, 1) == 0, "pipe: no end of it");
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
	tell(ready);
	/* Its teardown is not part of the window: wait to be told. */
	hear(end);
	close(silent[1]);
	pthread_join(thread, NULL);
	exit(0);
}

/* Send every process one byte, or take one from each. */
static void each(void (*step)(int), int fd)
{
	long i;

	for (i = 0; i < procs; i++)
		step(fd);
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	int ready[2], start[2], end[2];
	char scale[64];
	pid_t *children;

	parse_options(argc, argv, "mprotect in a loop, in processes with an idle thread", options);
	if (!procs)
		procs = cpus;
	children = calloc(procs, sizeof(*children));
	must(pipe(ready));
	must(pipe(start));
	must(pipe(end));
	for (i = 0; i < procs; i++) {
		children[i] = fork_child();
		if (!children[i] && pinned)
			pin(i);
		if (!children[i]) {
			close(start[1]);
			work(ready[1], start[0], end[0]);
		}
	}
	each(hear, ready[0]);
	open_window();
	/* All at once: one that is told before the others may take this process's CPU from it. */
	close(start[1]);
	each(hear, ready[0]);
	close_window();
	each(tell, end[1]);
	for (i = 0; i < procs; i++)
		wait_child(children[i]);
	snprintf(scale, sizeof(scale), "%ld x %ld of 32 x 20000 changes", procs, loops);
	report("", procs * loops, "mprotect", scale);
	return 0;
}
