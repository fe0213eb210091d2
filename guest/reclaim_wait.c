// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a task waits for pages that reclaim has in its hands. One thread pages anonymous memory out on CPU 0, again
 * and again, while another one on CPU 1 reads pages at random, and takes the time of each read that has to fault.
 *
 * The times are seconds under emulation. Only their ratio between kernels of one run says something.
 */
#include "lull.h"

#include <time.h>

static long mib = 1, rounds = 40;

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory, MiB" },
	{ "rounds", &rounds, NULL, "times everything is paged out" },
	{ }
};

static const char *const rows[] = { "pswpin", "pswpout", NULL };

#define MOST	(1 << 20)
#define FAULT	3000	/* ns: a read that takes longer has met a fault */

static long *memory;
static long pages, faults;
static uint32_t *took;		/* ns of each read that faulted */
static bool stop;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *reader(void *unused)
{
	uint64_t state = 0x9e3779b97f4a7c15UL;

	pin(1);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long page = next_random(&state) % pages, before = now(), word, took_now;

		word = __atomic_load_n(&memory[page * PAGE / sizeof(long)], __ATOMIC_RELAXED);
		took_now = now() - before;
		verify(word == page + 1, "page %ld reads %ld", page, word);
		if (took_now > FAULT && faults < MOST)
			took[faults++] = took_now;
	}
	return unused;
}

static int rising(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	long i;

	parse_options(argc, argv, "how long a task waits for pages that reclaim takes", options);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("2 CPUs are needed");
	pin(0);
	pages = (mib << 20) / PAGE;
	memory = (long *)map_memory(mib << 20, MAP_PRIVATE);
	took = (uint32_t *)map_memory(MOST * sizeof(*took), MAP_PRIVATE);
	for (i = 0; i < pages; i++)
		memory[i * PAGE / sizeof(long)] = i + 1;
	verify(!pthread_create(&thread, NULL, reader, NULL), "pthread_create");
	begin_vmstat(rows);
	open_window();
	for (i = 0; i < rounds; i++)
		must(madvise(memory, mib << 20, MADV_PAGEOUT));
	close_window();
	end_vmstat(rows);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	verify(faults > 100, "only %ld reads have met a fault", faults);
	qsort(took, faults, sizeof(*took), rising);
	add_metric("faults", faults);
	add_metric("wait_median_ns", took[faults / 2]);
	add_metric("wait_99_ns", took[faults - 1 - faults / 100]);
	add_metric("wait_999_ns", took[faults - 1 - faults / 1000]);
	add_metric("wait_longest_ns", took[faults - 1]);
	report("", metric("pswpout"), "page", "");
	return 0;
}
