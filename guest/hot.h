/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that run beside the measured work, each on a CPU of its own, and read a few pages of their own again and
 * again. A flush that is wider than necessary removes the entries of these pages from their CPUs' TLBs.
 */
#ifndef LULL_HOT_H
#define LULL_HOT_H

#include "lull.h"

#include <pthread.h>

#define HOT_PAGES	64
#define HOT_THREADS	15

static struct hot_thread {
	long cpu, rounds;	/* rounds: times it has read all its pages */
	volatile long *pages;
	pthread_t thread;
} hot_threads[HOT_THREADS];

static long hot_count;
static bool hot_stop;

static void *read_hot(void *argument)
{
	struct hot_thread *hot = argument;
	long i;

	pin(hot->cpu);
	while (!__atomic_load_n(&hot_stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < HOT_PAGES; i++) {
			long holds = hot->pages[i * PAGE / sizeof(long)];

			verify(holds == hot->cpu * HOT_PAGES + i, "hot page %ld of CPU %ld holds %ld", i, hot->cpu, holds);
		}
		__atomic_add_fetch(&hot->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Wait until each thread has read all its pages @times more. */
static void hot_rounds(long times)
{
	long i;

	for (i = 0; i < hot_count; i++) {
		long before = __atomic_load_n(&hot_threads[i].rounds, __ATOMIC_RELAXED);

		while (__atomic_load_n(&hot_threads[i].rounds, __ATOMIC_RELAXED) < before + times)
			;
	}
}

/* Start the threads on CPU 1 and up. The caller must run on CPU 0. */
static void hot_start(long count)
{
	long i, page;

	if (count > HOT_THREADS || count >= sysconf(_SC_NPROCESSORS_ONLN))
		skip("%ld threads beside this one need as many CPUs, and at most %d", count, HOT_THREADS);
	hot_count = count;
	for (i = 0; i < count; i++) {
		struct hot_thread *hot = &hot_threads[i];

		hot->cpu = i + 1;
		hot->pages = (long *)map_memory(HOT_PAGES * PAGE, MAP_PRIVATE);
		for (page = 0; page < HOT_PAGES; page++)
			hot->pages[page * PAGE / sizeof(long)] = hot->cpu * HOT_PAGES + page;
		verify(!pthread_create(&hot->thread, NULL, read_hot, hot), "pthread_create");
	}
	hot_rounds(2);
}

static void hot_end(void)
{
	long i;

	__atomic_store_n(&hot_stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < hot_count; i++)
		verify(!pthread_join(hot_threads[i].thread, NULL), "pthread_join");
}

#endif
