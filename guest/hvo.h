/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs about HVO share. HVO: HugeTLB pages give back most of the memory that holds their struct pages (the
 * vmemmap). Lull's kernels can do so only if they were booted with hugetlb_free_vmemmap=on.
 */
#ifndef HVO_H
#define HVO_H

#include "lull.h"

#define OPTIMIZE	"/proc/sys/vm/hugetlb_optimize_vmemmap"
#define POOLS		"/sys/kernel/mm/hugepages/"
#define GIB		(1UL << 30)

/* Return the number of pages of the vmemmap that are in use, those from before boot included. */
__attribute__((unused))
static long memmap(void)
{
	long now = vmstat("nr_memmap_pages"), boot = vmstat("nr_memmap_boot_pages");

	if (now < 0 || boot < 0)
		skip("/proc/vmstat does not say how many pages the vmemmap has");
	return now + boot;
}

/* Return the number in a file of the kernel, or -1. */
__attribute__((unused))
static long number_in(const char *path)
{
	FILE *in = fopen(path, "r");
	long value;

	if (!in)
		return -1;
	if (fscanf(in, "%ld", &value) != 1)
		value = -1;
	fclose(in);
	return value;
}

/* Return the path of a file of the pool of HugeTLB pages of @bytes. It is overwritten by the next call. */
__attribute__((unused))
static const char *pool(size_t bytes, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), POOLS "hugepages-%zukB/%s", bytes >> 10, file);
	return path;
}

/* The flag of mmap() for HugeTLB pages of @bytes. */
#define huge_flag(bytes)	(__builtin_ctzl(bytes) << MAP_HUGE_SHIFT)

/* Skip a kernel that has no HugeTLB pages of @bytes, before anything changes. */
__attribute__((unused))
static void need_pool(size_t bytes)
{
	if (number_in(pool(bytes, "nr_hugepages")) < 0)
		skip("this kernel has no HugeTLB pages of %zu KiB", bytes >> 10);
}

/* Return true if the kernel was booted with hugetlb_free_vmemmap=on. */
__attribute__((unused))
static bool booted_with_hvo(void)
{
	FILE *in = fopen("/proc/cmdline", "r");
	bool found = false;
	char word[256];

	while (in && !found && fscanf(in, "%255s", word) == 1)
		found = !strcmp(word, "hugetlb_free_vmemmap=on");
	if (in)
		fclose(in);
	return found;
}

#endif
