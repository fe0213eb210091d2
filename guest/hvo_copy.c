// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel copies HugeTLB pages that have given their struct pages back: by copy-on-write after fork(), and by
 * migration. It copies 2 MiB pages, 2 MiB pages that were part of a 1 GiB page, and 32 MiB pages; with pages of 16 KiB,
 * 32 MiB pages of both kinds, and with pages of 64 KiB, 512 MiB pages. Contents are compared.
 *
 * Most struct pages of such a page are read-only. A kernel that writes to one of them while it copies stops with an
 * oops. KASAN with memory tags did so: it resets a tag in page->flags of each page to which it copies.
 */
#include "hvo.h"

#define MIB	(1UL << 20)

static long rounds = 2;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "how often each kind of page is copied" },
	{ }
};

static void fill(uint64_t *memory, size_t size, uint64_t seed)
{
	for (size_t at = 0; at < size / sizeof(*memory); at += PAGE / sizeof(*memory))
		memory[at] = seed + at;
}

static void compare(const uint64_t *memory, size_t size, uint64_t seed, const char *what)
{
	for (size_t at = 0; at < size / sizeof(*memory); at += PAGE / sizeof(*memory))
		verify(memory[at] == seed + at, "%s: page %zu is not what was written there", what,
		       at / (PAGE / sizeof(*memory)));
}

/* The child first writes to the middle: the kernel copies a page from both ends towards the address of the fault. */
static void copy_on_write(uint64_t *memory, size_t size)
{
	pid_t child = fork_child();

	if (!child) {
		memory[size / 2 / sizeof(*memory)] = 1 + size / 2 / sizeof(*memory);
		compare(memory, size, 1, "copied");
		_exit(0);
	}
	wait_child(child);
	compare(memory, size, 1, "the copy's origin");
}

/* Soft-offlining takes a page out of use for good. The kernel may refuse it, if no other page is free. */
static bool migrate(uint64_t *memory, size_t size)
{
	bool moved = !madvise(memory, PAGE, MADV_SOFT_OFFLINE);

	compare(memory, size, 1, "migrated");
	return moved;
}

static long copied, migrated;

static void copy_pages(size_t size)
{
	uint64_t *memory = (uint64_t *)map_memory(size, MAP_PRIVATE | MAP_HUGETLB | huge_flag(size));

	fill(memory, size, 1);
	for (long i = 0; i < rounds; i++, copied++)
		copy_on_write(memory, size);
	migrated += migrate(memory, size);
	must(munmap(memory, size));
}

static void order(size_t bytes, const char *file, const char *text)
{
	if (!put_file(pool(bytes, file), text))
		skip("%s cannot be %s", pool(bytes, file), text);
}

static long given;	/* pages of vmemmap that were given back */

/* Fill a pool, or demote pages, and verify that vmemmap is given back: @before is the pages of it with empty pools. */
static void order_optimized(size_t bytes, const char *file, const char *text, long before)
{
	order(bytes, file, text);
	verify(memmap() < before, "%s is %s, and no vmemmap was given back", pool(bytes, file), text);
	given += before - memmap();
}

static void copy_from_pool(size_t bytes, const char *n)
{
	long before = memmap();

	order_optimized(bytes, "nr_hugepages", n, before);
	if (number_in(pool(bytes, "nr_hugepages")) < atol(n))
		skip("there is no memory for %s HugeTLB pages of %zu KiB", n, bytes >> 10);
	copy_pages(bytes);
	order(bytes, "nr_hugepages", "0");
}

static void copy_demoted(void)
{
	long before = memmap();
	char mib[24];

	snprintf(mib, sizeof(mib), "%luM", HUGE / MIB);
	order_optimized(GIB, "nr_hugepages", "1", before);
	order(GIB, "demote_size", mib);
	order_optimized(GIB, "demote", "1", before);
	copy_pages(HUGE);
	order(HUGE, "nr_hugepages", "0");
}

int main(int argc, char **argv)
{
	parse_options(argc, argv, "HugeTLB pages without their own struct pages are copied", options);
	need_pool(HUGE);
	if (!booted_with_hvo() || !put_file(OPTIMIZE, "1"))
		skip("this kernel has no HVO, or was not booted with hugetlb_free_vmemmap=on");

	copy_from_pool(HUGE, HUGE > 2 * MIB ? "4" : "8");
	if (HUGE < 32 * MIB)
		copy_from_pool(32 * MIB, "4");
	if (!access(pool(GIB, "demote"), W_OK))
		copy_demoted();
	printf("hvo_copy: %ld copied, %ld migrated, %ld pages of vmemmap were given back\n", copied, migrated, given);
	return 0;
}
