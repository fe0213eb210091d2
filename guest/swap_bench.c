// SPDX-License-Identifier: GPL-2.0-only
/*
 * System A's program: 1 MiB of shared anonymous memory filled with 0x88; again and again one byte of every page is
 * read (swap in), then madvise(MADV_PAGEOUT) sends all of it to swap. Published with 10 000 rounds and zRAM.
 */
#include "lull.h"

#include <pthread.h>

#define SIZE	(1UL << 20)
#define PAGES	(SIZE / PAGE)
#define MAX_SHARE	16

static long rounds = 10, share = 1;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "times everything is swapped in and out (published: 10000)" },
	{ "share", &share, NULL, "CPUs that run this address space, each in a thread (published: 1)" },
	{ }
};

static const char *const rows[] = { "pgfault", "pswpin", "pswpout", NULL };

static bool stop;

/*
 * A thread that runs and does nothing, so that the address space is loaded on one CPU more. Not a process that maps
 * the same memory: MADV_PAGEOUT leaves pages alone that are mapped twice.
 */
static void *companion(void *cpu)
{
	pin((long)cpu);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

static void swap_all(volatile unsigned char *memory)
{
	unsigned long page;

	for (page = 0; page < PAGES; page++)
		verify(memory[page * PAGE] == 0x88, "page %lu reads 0x%x", page, memory[page * PAGE]);
	must(madvise((void *)memory, SIZE, MADV_PAGEOUT));
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	pthread_t companions[MAX_SHARE];
	unsigned char *memory;
	char scale[64];

	parse_options(argc, argv, "swap 1 MiB in and out, page by page", options);
	if (share < 1 || share > MAX_SHARE || rounds < 1)
		finish(USAGE, "share is 1 to %d, rounds at least 1", MAX_SHARE);
	if (share > cpus)
		skip("share=%ld needs as many CPUs, there are %ld", share, cpus);
	/* On one CPU throughout: fresh pages wait in a list of its own, which only MADV_PAGEOUT here empties. */
	pin(0);
	memory = (unsigned char *)map_memory(SIZE, MAP_SHARED);
	memset(memory, 0x88, SIZE);
	must(madvise(memory, SIZE, MADV_PAGEOUT));
	for (i = 1; i < share; i++)
		verify(!pthread_create(&companions[i], NULL, companion, (void *)i), "pthread_create");

	begin_vmstat(rows);
	open_window();
	for (i = 0; i < rounds; i++)
		swap_all(memory);
	close_window();
	end_vmstat(rows);

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 1; i < share; i++)
		pthread_join(companions[i], NULL);
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	for (i = 0; i < (long)SIZE; i++)
		verify(memory[i] == 0x88, "byte %ld reads 0x%x", i, memory[i]);
	verify(metric("pswpout") >= rounds * (long)PAGES, "only %ld of %ld pages went to swap",
	       metric("pswpout"), rounds * (long)PAGES);
	snprintf(scale, sizeof(scale), "%ld of 10000 rounds", rounds);
	report("", rounds * PAGES, "page", scale);
	return 0;
}
