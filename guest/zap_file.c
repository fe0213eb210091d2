// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unmaps pages of a file that were mapped read-only and read, as program text is, in folios of 64 KiB. The page-table
 * entries are clean.
 */
#include "lull.h"

#define FOLIOS	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled"

static long mib = 8, windows = 9;

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory unmapped, MiB" },
	{ "windows", &windows, NULL, "times that is measured" },
	{ }
};

/* At an address where each folio is a contiguous block. */
static volatile char *map_file(int fd, int prot, int flags)
{
	return must((char *)mmap((void *)(1UL << 40), mib << 20, prot, flags | MAP_FIXED_NOREPLACE, fd, 0));
}

int main(int argc, char **argv)
{
	volatile char *memory;
	long i, w;
	int fd;

	parse_options(argc, argv, "unmap clean pages of a file", options);
	pin(1);
	keep_setting(FOLIOS);
	if (!put_file(FOLIOS, "always"))
		skip("no folios of 64 KiB in shared memory");
	fd = must(memfd_create("zap_file", 0));
	must(ftruncate(fd, mib << 20));
	memory = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	for (i = 0; i < mib << 20; i += PAGE)
		memory[i] = 1;
	must(munmap((char *)memory, mib << 20));
	for (w = 0; w < windows; w++) {
		memory = map_file(fd, PROT_READ, MAP_PRIVATE);
		for (i = 0; i < mib << 20; i += PAGE)
			verify(memory[i] == 1, "page %ld is lost", i / (long)PAGE);
		fresh_window();
		open_window();
		must(munmap((char *)memory, mib << 20));
		close_window();
		report("", (mib << 20) / PAGE, "page", "");
	}
	return 0;
}
