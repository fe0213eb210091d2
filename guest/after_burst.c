// SPDX-License-Identifier: GPL-2.0-only
/*
 * mprotect() in a loop, in a process that ran on many CPUs before and runs on one now.
 *
 * Threads start, each pinned to a CPU of its own, run at the same time, and end. The one thread that is left then
 * changes the protection of a page in a loop. Programs that start with a pool of threads, or that compute in parallel
 * now and then, have this shape.
 */
#include "lull.h"

#define MAX_THREADS	64

static long threads = 8, loops = 2000;

static const struct option_spec options[] = {
	{ "threads", &threads, NULL, "threads in the burst, at most 64, and at most one per CPU" },
	{ "loops", &loops, NULL, "protection changes after it" },
	{ }
};

static volatile long arrived;

static void *burst(void *number)
{
	pin((long)number);
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	/* All threads run at the same time: none ends before the last one has started. */
	while (arrived < threads)
		;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[MAX_THREADS];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	volatile long *page;

	parse_options(argc, argv, "mprotect in a loop, after a burst of threads", options);
	if (threads < 1 || threads > MAX_THREADS)
		finish(USAGE, "1 to %d threads", MAX_THREADS);
	if (threads > cpus)
		threads = cpus;
	page = (long *)map_memory(PAGE, MAP_PRIVATE);
	*page = 0;
	for (i = 0; i < threads; i++)
		verify(!pthread_create(&thread[i], NULL, burst, (void *)i), "pthread_create");
	for (i = 0; i < threads; i++)
		verify(!pthread_join(thread[i], NULL), "pthread_join");
	pin(0);

	open_window();
	for (i = 0; i < loops; i++) {
		must(mprotect((void *)page, PAGE, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ));
		if (i % 2)
			*page += 1;
		else
			verify(*page == i / 2, "page reads %ld, not %ld", *page, i / 2);
	}
	close_window();
	verify(*page == loops / 2, "%ld writes arrived, not %ld", *page, loops / 2);
	report("", loops, "mprotect", "");
	return 0;
}
