// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVO of surplus pages: one mmap() makes the kernel allocate many HugeTLB pages at once. Until mmap() has all of them, they
 * are HugeTLB pages in no pool, and the kernel busy-waits for such pages when it allocates or offlines the memory that they
 * are in. So HVO must not wait for a grace period of RCU for each page.
 *
 * Meanwhile a real-time thread asks for one page of 1 GiB more than there is room for. Another thread maps and unmaps memory
 * of the same process, and so waits for the mmap(). The program measures the longest time of each. It verifies that mmap()
 * took less than one grace period for each page, and that the pages gave struct pages back. After they are unmapped, all must
 * be as before.
 */
#include "hvo.h"

#include <sys/syscall.h>

static long pages, same;

static const struct option_spec options[] = {
	{ "pages", &pages, NULL, "HugeTLB pages of 2 MiB; 0: what fits into half of the free memory" },
	{ "same", &same, NULL, "1: the real-time thread has the CPU that calls mmap()" },
	{ }
};

static long giant;		/* pages of 1 GiB that there is room for, beside the surplus pages */
static bool stop;
static double longest_giant, longest_mmap;
static long giants;

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void resize(size_t bytes, const char *file, long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", number);
	verify(put_file(pool(bytes, file), text), "%s: cannot be set", pool(bytes, file));
}

static void *want_giant(void *unused)
{
	struct sched_param priority = { .sched_priority = 50 };
	char surplus[128], file[128], more[24], less[24];
	double began, took;

	(void)unused;
	strcpy(surplus, pool(HUGE, "surplus_hugepages"));
	strcpy(file, pool(GIB, "nr_hugepages"));
	snprintf(more, sizeof(more), "%ld", giant);
	snprintf(less, sizeof(less), "%ld", giant - 1);
	pin(!same);
	must(sched_setscheduler(0, SCHED_FIFO, &priority));
	while (!stopped()) {
		usleep(10000);
		if (number_in(surplus) < 8)
			continue;
		began = clock_seconds();
		put_file(file, more);
		took = clock_seconds() - began;
		put_file(file, less);
		longest_giant = took > longest_giant ? took : longest_giant;
		giants++;
	}
	return NULL;
}

static void *want_mmap(void *unused)
{
	double began, took;

	(void)unused;
	pin(2);
	while (!stopped()) {
		began = clock_seconds();
		must(munmap(map_memory(PAGE, MAP_PRIVATE), PAGE));
		took = clock_seconds() - began;
		longest_mmap = took > longest_mmap ? took : longest_mmap;
		usleep(1000);
	}
	return NULL;
}

static void put_back(void)
{
	put_file(pool(HUGE, "nr_overcommit_hugepages"), "0");
	put_file(pool(GIB, "nr_hugepages"), "0");
}

/* The seconds of one grace period: membarrier() waits for one. */
static double grace_period(void)
{
	double began = clock_seconds();
	int i;

	for (i = 0; i < 8; i++)
		must(syscall(SYS_membarrier, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0));
	return (clock_seconds() - began) / 8;
}

int main(int argc, char **argv)
{
	double began, took, grace;
	pthread_t threads[2];
	struct sysinfo memory;
	long before, given, i;
	char *mapped;

	parse_options(argc, argv, "one mmap() for which many HugeTLB pages are allocated, while others want them gone", options);
	need_pool(HUGE);
	need_pool(GIB);
	must(atexit(put_back));
	resize(GIB, "nr_hugepages", 64);
	giant = number_in(pool(GIB, "nr_hugepages"));
	if (giant < 1)
		skip("there is no room for a page of 1 GiB");
	giant -= pages * HUGE / GIB;
	giant = giant < 1 ? 1 : giant;
	resize(GIB, "nr_hugepages", giant - 1);
	must(sysinfo(&memory));
	if (!pages)
		pages = memory.freeram / 2 / HUGE;
	resize(HUGE, "nr_overcommit_hugepages", pages);
	before = memmap();
	grace = grace_period();
	verify(!pthread_create(&threads[0], NULL, want_giant, NULL), "pthread_create");
	verify(!pthread_create(&threads[1], NULL, want_mmap, NULL), "pthread_create");
	pin(0);
	usleep(100000);
	open_window();
	began = clock_seconds();
	mapped = mmap(NULL, pages * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | huge_flag(HUGE),
		      -1, 0);
	took = clock_seconds() - began;
	close_window();
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		verify(!pthread_join(threads[i], NULL), "pthread_join");
	if (mapped == MAP_FAILED)
		skip("there is no memory for %ld HugeTLB pages", pages);
	given = before - memmap();
	printf("hvo_surplus: mmap() of %ld pages: %.1f ms, %.1f grace periods of %.1f ms; longest: another mmap() %.1f ms, a page of 1 GiB %.1f ms (%ld tries); %ld pages of vmemmap given back\n",
	       pages, took * 1e3, took / grace, grace * 1e3, longest_mmap * 1e3, longest_giant * 1e3, giants, given);
	must(munmap(mapped, pages * HUGE));
	for (i = 0; i < 600 && memmap() != before; i++)
		usleep(100000);
	verify(memmap() == before, "%ld pages of vmemmap, and not %ld as before", memmap(), before);
	verify(!booted_with_hvo() || access(OPTIMIZE, F_OK) || given >= 6 * pages, "%ld pages gave back %ld pages of vmemmap",
	       pages, given);
	verify(took < grace * pages, "mmap() of %ld pages took %.0f grace periods", pages, took / grace);
	report("", pages, "surplus page", "");
	return 0;
}
