// SPDX-License-Identifier: GPL-2.0-only
/* Memory, and what it takes to have the kernel do with it what a program measures. */
#include "lull.h"

char *map_memory(size_t size, int flags)
{
	return must((char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0));
}

void use_small_pages(void *memory, size_t size)
{
	if (madvise(memory, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("madvise");
}

void drain_lru(void)
{
	void *page = must(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0));

	must(madvise(page, PAGE, MADV_COLD));
	must(munmap(page, PAGE));
}

void wait_for_rcu(void)
{
	for (int i = 0; i < 2; i++)
		must(syscall(SYS_membarrier, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0));
}

double clock_seconds(void)
{
	struct timespec time;

	must(clock_gettime(CLOCK_MONOTONIC, &time));
	return time.tv_sec + time.tv_nsec / 1e9;
}
