// SPDX-License-Identifier: GPL-2.0-only
/*
 * A sweep over what one madvise(MADV_DONTNEED) gives back: 2 to 24 pages, at equal distances of 2 pages to 1 GiB, while
 * threads on other CPUs read pages of their own. Should the kernel flush each page, or all addresses from the first page
 * to the last, or the whole address space? A case is named N-DISTANCE, the distance in pages.
 */
#include "hot.h"

static long threads = 3, windows = 4;

static const struct option_spec options[] = {
	{ "threads", &threads, NULL, "threads on other CPUs that read pages of their own" },
	{ "windows", &windows, NULL, "times each case is measured" },
	{ }
};

static const char *const rows[] = { "pgfree", NULL };

static const long numbers[] = { 2, 3, 4, 6, 8, 12, 16, 24 };
static const long distances[] = { 2, 16, 32, 200, 1000, 10000, 1 << 18 };

#define COUNT(array)	((long)(sizeof(array) / sizeof(*(array))))

static volatile long *page_of(char *memory, long distance, long i)
{
	return (long *)(memory + i * distance * PAGE);
}

static void play(char *memory, long number, long distance)
{
	struct window *closed = calloc(windows, sizeof(*closed));
	size_t size = ((number - 1) * distance + 1) * PAGE;
	char name[32];
	long i, j;

	verify(closed, "out of memory");
	for (i = 0; i < windows; i++) {
		for (j = 0; j < number; j++)
			*page_of(memory, distance, j) = j + 1;
		hot_rounds(1);
		fresh_window();
		begin_vmstat(rows);
		open_window();
		must(madvise(memory, size, MADV_DONTNEED));
		close_window();
		end_vmstat(rows);
		hot_rounds(1);
		closed[i] = window;
		for (j = 0; j < number; j++)
			verify(*page_of(memory, distance, j) == 0, "page %ld is not empty", j);
		/* The pages that were read are the zero page. */
		must(madvise(memory, size, MADV_DONTNEED));
	}
	snprintf(name, sizeof(name), "%ld-%ld", number, distance);
	report_windows(closed, windows, name, 1, "call");
	free(closed);
}

int main(int argc, char **argv)
{
	size_t size = (numbers[COUNT(numbers) - 1] * distances[COUNT(distances) - 1] + 1) * PAGE;
	char *memory;
	long i, j;

	parse_options(argc, argv, "few pages given back by one call, at many distances", options);
	if (windows < 1 || windows > 999 / (COUNT(numbers) * COUNT(distances)))
		finish(USAGE, "windows is 1 to %ld", 999 / (COUNT(numbers) * COUNT(distances)));
	pin(0);
	hot_start(threads);
	memory = map_memory(size, MAP_PRIVATE | MAP_NORESERVE);
	use_small_pages(memory, size);
	for (i = 0; i < COUNT(numbers); i++)
		for (j = 0; j < COUNT(distances); j++)
			play(memory, numbers[i], distances[j]);
	must(munmap(memory, size));
	hot_end();
	return 0;
}
