/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs about HVO share. HVO: HugeTLB pages give back most of the memory that holds their struct pages (the
 * vmemmap). Lull's kernels can do so only if they were booted with hugetlb_free_vmemmap=on.
 */
#ifndef HVO_H
#define HVO_H

#include "lull.h"

#define OPTIMIZE	"/proc/sys/vm/hugetlb_optimize_vmemmap"

/* Return the number of pages of the vmemmap that are in use, those from before boot included. */
static long memmap(void)
{
	long now = vmstat("nr_memmap_pages"), boot = vmstat("nr_memmap_boot_pages");

	if (now < 0 || boot < 0)
		skip("/proc/vmstat does not say how many pages the vmemmap has");
	return now + boot;
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
