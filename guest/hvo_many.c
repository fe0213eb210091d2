// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVO of many HugeTLB pages at once: 1, 4 and 16 processes each map, use and unmap a page again and again, pages that the
 * kernel allocates for the mapping (surplus pages), of the size that an entry of a PMD table maps: 2 MiB with pages of 4
 * KiB. So each round optimizes one page and restores one. They are processes, because the kernel allocates the pages with
 * the address space locked.
 *
 * Each number of processes has a window. It ends when all pages are restored, which Linux leaves to a kernel thread.
 */
#include "hvo.h"

#include <pthread.h>
#include <sys/sysinfo.h>

#define MAX_PROCESSES	16

static long rounds = 16;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "pages that each process maps, one after the other" },
	{ }
};

static pthread_barrier_t *start;	/* shared by all processes */

/* Restore the pools, however the program ends. */
static void put_back(void)
{
	put_file(pool(HUGE, "nr_overcommit_hugepages"), "0");
	put_file(pool(HUGE, "nr_hugepages"), "0");
	put_file(OPTIMIZE, "0");
}

static long *map_page(void)
{
	return (long *)map_memory(HUGE, MAP_PRIVATE | MAP_HUGETLB | huge_flag(HUGE));
}

static void work(long number)
{
	long i;

	pin(number % sysconf(_SC_NPROCESSORS_ONLN));
	pthread_barrier_wait(start);
	for (i = 0; i < rounds; i++) {
		volatile long *memory = map_page();

		verify(!*memory, "a new HugeTLB page is not empty");
		*memory = number + 1;
		verify(*memory == number + 1, "a HugeTLB page lost its contents");
		must(munmap((void *)memory, HUGE));
	}
}

/* Wait until the vmemmap has as many pages as before. */
static void wait_restored(long before)
{
	struct timespec moment = { .tv_nsec = 50 * 1000 * 1000 };	/* looking costs instructions */
	int i;

	for (i = 0; i < 600 && memmap() != before; i++)
		nanosleep(&moment, NULL);
	verify(memmap() == before, "%ld pages of vmemmap, and not %ld as before", memmap(), before);
}

static void measure(long processes)
{
	pid_t all[MAX_PROCESSES];
	long i, before = memmap();
	pthread_barrierattr_t shared;
	char name[32];

	verify(!pthread_barrierattr_init(&shared), "pthread_barrierattr_init");
	verify(!pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), "pthread_barrierattr_setpshared");
	verify(!pthread_barrier_init(start, &shared, processes + 1), "pthread_barrier_init");
	for (i = 0; i < processes; i++) {
		all[i] = fork_child();
		if (!all[i]) {
			work(i);
			_exit(0);
		}
	}
	fresh_window();
	open_window();
	pthread_barrier_wait(start);
	for (i = 0; i < processes; i++)
		wait_child(all[i]);
	wait_restored(before);
	close_window();
	pthread_barrier_destroy(start);
	snprintf(name, sizeof(name), "processes-%ld", processes);
	report(name, processes * rounds, "page optimized and restored", "");
}

int main(int argc, char **argv)
{
	struct sysinfo memory;
	long processes;

	parse_options(argc, argv, "processes that map HugeTLB pages, which are optimized and restored", options);
	if (rounds < 1)
		finish(USAGE, "rounds is at least 1");
	need_pool(HUGE);
	if (access(OPTIMIZE, W_OK) || !booted_with_hvo())
		skip("this kernel has no HVO, or was not booted with hugetlb_free_vmemmap=on");
	must(atexit(put_back));
	verify(put_file(OPTIMIZE, "1"), "%s: cannot be set", OPTIMIZE);
	/*
	 * One page stays optimized, because Linux's own HVO patches the kernel's code at the first page and after the last.
	 * It is mapped, so that the processes get others.
	 */
	verify(put_file(pool(HUGE, "nr_hugepages"), "1"), "a HugeTLB page cannot be allocated");
	if (!number_in(pool(HUGE, "nr_hugepages")))
		skip("there is no memory for a HugeTLB page of %lu KiB", HUGE >> 10);
	verify(put_file(pool(HUGE, "nr_overcommit_hugepages"), "64"), "nr_overcommit_hugepages cannot be set");
	*map_page() = 1;
	start = (pthread_barrier_t *)map_memory(PAGE, MAP_SHARED);
	for (processes = 1; processes <= MAX_PROCESSES; processes *= 4) {
		must(sysinfo(&memory));
		if (processes * HUGE < memory.freeram / 2)
			measure(processes);
		else
			printf("hvo_many: there is no memory for %ld processes\n", processes);
	}
	return 0;
}
