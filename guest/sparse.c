// SPDX-License-Identifier: GPL-2.0-only
/*
 * Few pages in large holes: three pages, far apart, in each GiB of a large mapping, while threads on other CPUs read
 * pages of their own. munmap() and madvise(MADV_DONTNEED) should flush in proportion to the pages that were present,
 * and neither the whole hole nor all entries of the address space. The cases free the mapping one GiB at a time, or
 * all at once.
 */
#include "hot.h"

#define GIB	(1UL << 30)
#define EACH	3	/* pages in a GiB */

static long gib = 16, threads = 3, windows = 4;
static const char *wanted = "";

static const struct option_spec options[] = {
	{ "gib", &gib, NULL, "size of the mapping, GiB" },
	{ "threads", &threads, NULL, "threads on other CPUs that read pages of their own" },
	{ "windows", &windows, NULL, "times each case is measured" },
	{ "case", NULL, &wanted, "munmap, dontneed, munmap-all or dontneed-all (default: all of them)" },
	{ }
};

static const char *const rows[] = { "pgfree", NULL };

static const struct sort {
	const char *name;
	bool unmap, whole;
} sorts[] = {
	{ "munmap", true, false }, { "dontneed", false, false },
	{ "munmap-all", true, true }, { "dontneed-all", false, true },
};

/* Page @i of all: at a sixth, a half or five sixths of its GiB. */
static volatile long *page_of(char *memory, long i)
{
	return (long *)(memory + i / EACH * GIB + (2 * (i % EACH) + 1) * (GIB / PAGE / 6) * PAGE);
}

static char *map_sparse(void)
{
	char *memory = map_memory(gib * GIB, MAP_PRIVATE | MAP_NORESERVE);
	long i;

	use_small_pages(memory, gib * GIB);
	for (i = 0; i < gib * EACH; i++)
		*page_of(memory, i) = i + 1;
	for (i = 0; i < gib * EACH; i++)
		verify(*page_of(memory, i) == i + 1, "page %ld holds %ld", i, *page_of(memory, i));
	return memory;
}

static void give_back(const struct sort *sort, char *memory)
{
	size_t step = sort->whole ? gib * GIB : GIB, at;

	for (at = 0; at < gib * GIB; at += step)
		if (sort->unmap)
			must(munmap(memory + at, step));
		else
			must(madvise(memory + at, step, MADV_DONTNEED));
}

static void verify_gone(const struct sort *sort, char *memory)
{
	unsigned char there;
	long i;

	for (i = 0; i < gib * EACH; i++)
		if (sort->unmap)
			verify(mincore((void *)page_of(memory, i), PAGE, &there) < 0 && errno == ENOMEM,
			       "page %ld is still mapped", i);
		else
			verify(*page_of(memory, i) == 0, "page %ld is not empty", i);
	if (!sort->unmap)
		must(munmap(memory, gib * GIB));
}

static void play(const struct sort *sort)
{
	struct window *closed = calloc(windows, sizeof(*closed));
	char *memory;
	long i;

	verify(closed, "out of memory");
	for (i = 0; i < windows; i++) {
		memory = map_sparse();
		hot_rounds(1);
		fresh_window();
		begin_vmstat(rows);
		open_window();
		give_back(sort, memory);
		close_window();
		end_vmstat(rows);
		hot_rounds(1);
		closed[i] = window;
		verify_gone(sort, memory);
	}
	report_windows(closed, windows, sort->name, gib * EACH, "page");
	free(closed);
}

int main(int argc, char **argv)
{
	const long count = sizeof(sorts) / sizeof(*sorts);
	bool found = false;
	long i;

	parse_options(argc, argv, "few pages in large holes", options);
	if (gib < 1 || gib > 1024 || windows < 1 || windows > 999 / count)
		finish(USAGE, "gib is 1 to 1024, windows 1 to %ld", 999 / count);
	pin(0);
	hot_start(threads);
	for (i = 0; i < count; i++) {
		if (*wanted && strcmp(wanted, sorts[i].name))
			continue;
		found = true;
		play(&sorts[i]);
	}
	hot_end();
	if (!found)
		finish(USAGE, "no case '%s'; '--help' lists them", wanted);
	return 0;
}
