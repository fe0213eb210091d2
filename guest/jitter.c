// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jitter: for how long is a CPU held up by what other CPUs do? A loop without system calls runs on one CPU, where nothing
 * else runs. It has iterations of the same work, each in a window of its own, as the benchmark FWQ (fixed work quantum).
 * In the case "alone" the other CPUs sleep. In the second case each of them has a process that makes the kernel flush all
 * the time: it changes the protection of a page, or forks.
 *
 * On a machine, the mean iteration beside the others less the mean iteration alone, divided by the metric "changes" of an
 * iteration, is the time that a change on another CPU costs. A change is two calls of mprotect(), or a fork. An emulator shows only the
 * broadcasts in each iteration.
 */
#include "gate.h"

#include <limits.h>

#include <sys/random.h>

static long windows = 40, numbers = 150000;
static const char *by = "mprotect";

static const struct option_spec options[] = {
	{ "windows", &windows, NULL, "iterations of the loop in each case" },
	{ "numbers", &numbers, NULL, "pseudo-random numbers that are added in an iteration" },
	{ "by", NULL, &by, "what the others do: mprotect, or fork" },
	{ }
};

/* Shared by all processes. Each of the others counts its changes in a cache line of its own, so that no two share one. */
static struct shared {
	int ready, go, stop, unused;
	struct {
		long changes;
		char pad[248];
	} of_cpu[];
} *shared;

static uint64_t state = 0x9e3779b97f4a7c15, sum;

static void iterate(void)
{
	long i;

	for (i = 0; i < numbers; i++)
		sum += next_random(&state);
}

/* Change the protection of a page, and change it back. */
static void protect(volatile long *page)
{
	long before = *page;

	must(mprotect((void *)page, PAGE, PROT_READ));
	verify(*page == before, "page reads %ld, not %ld", *page, before);
	must(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
	*page = before + 1;
}

/* Fork a child that reads a page, which the parent writes meanwhile. */
static void fork_once(volatile long *page)
{
	long before = *page;
	pid_t child = fork_child();

	if (!child)
		_exit(*page == before ? 0 : FAILED);
	*page = before + 1;
	wait_child(child);
}

/* One of the others: make changes until the loop has ended. */
static void disturb(long cpu, void (*change)(volatile long *page))
{
	volatile long *page = (long *)map_memory(PAGE, MAP_PRIVATE), *done = &shared->of_cpu[cpu].changes;

	pin(cpu);
	*page = 0;
	arrive(&shared->ready, sysconf(_SC_NPROCESSORS_ONLN) - 1);
	await(&shared->go, 1);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		change(page);
		*done += 1;
	}
	verify(*page == *done, "%ld writes arrived, not %ld", *page, *done);
	must(mprotect((void *)page, PAGE, PROT_READ));
	verify(getrandom((void *)page, 1, 0) < 0 && errno == EFAULT, "a page that is read-only can be written");
	exit(0);
}

/* Return the changes that all others have made; @least: how many the process with the fewest has made. */
static long changes(long cpus, long own, long *least)
{
	long cpu, all = 0;

	*least = LONG_MAX;
	for (cpu = 0; cpu < cpus; cpu++) {
		long n = __atomic_load_n(&shared->of_cpu[cpu].changes, __ATOMIC_RELAXED);

		all += n;
		if (cpu != own && n < *least)
			*least = n;
	}
	return all;
}

/* Run the loop, with an iteration before that is not counted, and report it. */
static void measure(const char *name, long cpus, long own)
{
	struct window *closed = calloc(windows, sizeof(*closed));
	long i, before, least;

	verify(closed, "out of memory");
	iterate();
	for (i = 0; i < windows; i++) {
		fresh_window();
		before = changes(cpus, own, &least);
		open_window();
		iterate();
		close_window();
		add_metric("changes", changes(cpus, own, &least) - before);
		closed[i] = window;
	}
	verify(sched_getcpu() == own, "the loop left CPU %ld", own);
	report_windows(closed, windows, name, 1, "iteration");
	free(closed);
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), own = isolated(), cpu, i, least;
	uint64_t again = state, expected = 0;
	void (*change)(volatile long *page);
	pid_t *others;

	parse_options(argc, argv, "a loop on a CPU of its own, while the others flush", options);
	if (windows < 1 || windows > 499 || numbers < 1)
		finish(USAGE, "1 to 499 windows, and numbers is at least 1");
	if (strcmp(by, "mprotect") && strcmp(by, "fork"))
		finish(USAGE, "by is mprotect or fork");
	change = *by == 'm' ? protect : fork_once;
	if (cpus < 2)
		skip("one CPU has no others beside it");
	if (own < 0)
		own = cpus - 1;
	shared = (struct shared *)map_memory(sizeof(*shared) + cpus * sizeof(*shared->of_cpu), MAP_SHARED);
	others = calloc(cpus, sizeof(*others));
	verify(others, "out of memory");
	for (cpu = 0; cpu < cpus; cpu++) {
		if (cpu == own)
			continue;
		others[cpu] = fork_child();
		if (!others[cpu])
			disturb(cpu, change);
	}
	pin(own);
	await(&shared->ready, cpus - 1);
	measure("alone", cpus, own);
	announce(&shared->go, 1);
	while (!changes(cpus, own, &least) || !least)
		;
	measure(by, cpus, own);
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
	for (cpu = 0; cpu < cpus; cpu++)
		if (cpu != own)
			wait_child(others[cpu]);
	for (i = 0; i < 2 * (windows + 1) * numbers; i++)
		expected += next_random(&again);
	verify(sum == expected, "the loop lost some of its work");
	return 0;
}
