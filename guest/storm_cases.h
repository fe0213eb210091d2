/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For storms that consist of cases: runs all cases in turn, or one of them. Also threads that hop from CPU to CPU and
 * use memory while a case changes it.
 */
#ifndef STORM_CASES_H
#define STORM_CASES_H

#include "storm.h"

#include <pthread.h>
#include <sys/sysinfo.h>

#define THREADS	2

static long rounds = 2;
static const char *only = "";

#define STORM_OPTIONS							\
	{ "rounds", &rounds, NULL, "how often each case does what it does" }, \
	{ "only", NULL, &only, "one case only; 'list' names them" }

static const char *playing;	/* the case that runs now */

/* This kernel cannot run the case. End the program if it was the only case; otherwise continue with the others. */
__attribute__((unused))
static void cannot(const char *why)
{
	if (*only)
		skip("%s", why);
	printf("%s: %s is left out: %s\n", program_invocation_short_name, playing, why);
}

/* Return true if huge pages (HUGE) are small enough for a case that uses @n of them: a quarter of memory, at most. */
__attribute__((unused))
static bool room_for(long n)
{
	struct sysinfo memory;

	must(sysinfo(&memory));
	if (n * HUGE <= memory.totalram * memory.mem_unit / 4)
		return true;
	cannot("huge pages are too large for this memory");
	return false;
}

/* ---- threads that use memory while it changes ---- */

static struct {
	pthread_t thread[THREADS];
	int running;
	char *volatile memory;	/* the memory to read; NULL: none */
	volatile size_t size;
	volatile bool stop;
	volatile long passes;
	long sum;		/* so that the compiler keeps each read */
} users;

static void *use_memory(void *argument)
{
	long number = (long)argument, cpu = number;

	while (!users.stop) {
		char *memory = users.memory;
		size_t at;

		for (at = 0; memory && at < users.size; at += PAGE)
			__atomic_fetch_add(&users.sum, *(volatile long *)(memory + at), __ATOMIC_RELAXED);
		__atomic_fetch_add(&users.passes, 1, __ATOMIC_RELAXED);
		if (users.passes % 8 == number)
			pin(++cpu);
	}
	return NULL;
}

/* Let the threads read this memory from now on, on all CPUs. On return each thread has read all of it at least once. */
__attribute__((unused))
static void begin_use(char *memory, size_t size)
{
	long i, passes;

	users.size = size;
	users.memory = memory;
	users.stop = false;
	passes = users.passes;
	for (i = 0; i < THREADS; i++)
		verify(!pthread_create(&users.thread[i], NULL, use_memory, (void *)i), "no thread");
	users.running = THREADS;
	while (users.passes < passes + 4 * THREADS)
		sched_yield();
}

__attribute__((unused))
static void end_use(void)
{
	int i;

	users.stop = true;
	for (i = 0; i < users.running; i++)
		pthread_join(users.thread[i], NULL);
	users.running = 0;
	users.memory = NULL;
}

/* ---- the cases in turn ---- */

struct storm_case {
	const char *name;
	void (*run)(long round);
};

static bool selected(const struct storm_case *one)
{
	return !*only || !strcmp(only, one->name);
}

/* Run the selected cases, each on all CPUs again, and report. */
static void run_cases(const struct storm_case *cases, size_t n)
{
	cpu_set_t everywhere;
	long round, done = 0;
	size_t i;

	if (!strcmp(only, "list")) {
		for (i = 0; i < n; i++)
			puts(cases[i].name);
		return;
	}
	must(sched_getaffinity(0, sizeof(everywhere), &everywhere));
	open_window();
	for (round = 0; round < rounds; round++)
		for (i = 0; i < n; i++)
			if (selected(&cases[i])) {
				playing = cases[i].name;
				cases[i].run(round);
				must(sched_setaffinity(0, sizeof(everywhere), &everywhere));
				done++;
			}
	close_window();
	if (rounds && !done)
		finish(USAGE, "no case '%s'; only=list names them", only);
	report(only, done, "case", "");
}

#endif
