// SPDX-License-Identifier: GPL-2.0-only
#include "hot.h"

#define HOT_PAGES	64
#define HOT_THREADS	15

static struct hot_thread {
	long cpu, rounds;	/* rounds: times it has read all its pages */
	volatile long *pages;
	pthread_t thread;
} threads[HOT_THREADS];

static long started;
static bool stopping;

static void *read_hot(void *argument)
{
	struct hot_thread *hot = argument;
	long i;

	pin(hot->cpu);
	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED)) {
		for (i = 0; i < HOT_PAGES; i++) {
			long holds = hot->pages[i * PAGE / sizeof(long)];

			verify(holds == hot->cpu * HOT_PAGES + i, "hot page %ld of CPU %ld holds %ld", i, hot->cpu, holds);
		}
		__atomic_add_fetch(&hot->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

void hot_rounds(long times)
{
	long i;

	for (i = 0; i < started; i++) {
		long before = __atomic_load_n(&threads[i].rounds, __ATOMIC_RELAXED);

		while (__atomic_load_n(&threads[i].rounds, __ATOMIC_RELAXED) < before + times)
			;
	}
}

void hot_start(long count)
{
	long i, page;

	if (count > HOT_THREADS || count >= sysconf(_SC_NPROCESSORS_ONLN))
		skip("%ld threads beside this one need as many CPUs, and at most %d", count, HOT_THREADS);
	started = count;
	for (i = 0; i < count; i++) {
		struct hot_thread *hot = &threads[i];

		hot->cpu = i + 1;
		hot->pages = (long *)map_memory(HOT_PAGES * PAGE, MAP_PRIVATE);
		for (page = 0; page < HOT_PAGES; page++)
			hot->pages[page * PAGE / sizeof(long)] = hot->cpu * HOT_PAGES + page;
		verify(!pthread_create(&hot->thread, NULL, read_hot, hot), "pthread_create");
	}
	hot_rounds(2);
}

void hot_end(void)
{
	long i;

	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	for (i = 0; i < started; i++)
		verify(!pthread_join(threads[i].thread, NULL), "pthread_join");
}
