// SPDX-License-Identifier: GPL-2.0-only
#include "hvo.h"

long memmap(void)
{
	long now = vmstat("nr_memmap_pages"), boot = vmstat("nr_memmap_boot_pages");

	if (now < 0 || boot < 0)
		skip("/proc/vmstat does not say how many pages the vmemmap has");
	return now + boot;
}

const char *pool(size_t bytes, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), POOLS "hugepages-%zukB/%s", bytes >> 10, file);
	return path;
}

void need_pool(size_t bytes)
{
	if (number_in(pool(bytes, "nr_hugepages")) < 0)
		skip("this kernel has no HugeTLB pages of %zu KiB", bytes >> 10);
}

bool booted_with_hvo(void)
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
