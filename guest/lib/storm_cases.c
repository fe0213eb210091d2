// SPDX-License-Identifier: GPL-2.0-only
#include "storm_cases.h"

#define THREADS	2

long rounds = 2;
const char *only = "", *playing;

void cannot(const char *why)
{
	if (*only)
		skip("%s", why);
	printf("%s: %s is left out: %s\n", program_invocation_short_name, playing, why);
}

bool room_for(long n)
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

void begin_use(char *memory, size_t size)
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

void end_use(void)
{
	int i;

	users.stop = true;
	for (i = 0; i < users.running; i++)
		pthread_join(users.thread[i], NULL);
	users.running = 0;
	users.memory = NULL;
}

/* ---- the cases in turn ---- */

static bool selected(const struct storm_case *one)
{
	return !*only || !strcmp(only, one->name);
}

void run_cases(const struct storm_case *cases, size_t n)
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
