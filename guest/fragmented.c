// SPDX-License-Identifier: GPL-2.0-only
/*
 * An allocator that gives the memory of large blocks back with MADV_DONTNEED, as tcmalloc does, although only a few
 * pages of each block were used. Meanwhile threads on other CPUs read pages of their own. Three pages of each block
 * are written: the first, one in the middle, and the last.
 *
 *	growing		the shape of gperftools' large_heap_fragmentation unit test, with which system B was published:
 *			a block of 100 MiB is allocated and freed, then one that is 20,000 bytes larger, up to 500 MiB.
 *			The program runs a few of the 20,972 sizes
 *	alternate	the fragmentation for which that test looks: blocks lie side by side, and every other one is
 *			freed
 */
#include "hot.h"

#define GROWTH	20000UL			/* bytes by which each block is larger than the one before */
#define FIRST	(100UL << 20)
#define LAST	(500UL << 20)
#define SIZES	((LAST - FIRST + GROWTH - 1) / GROWTH)
#define BLOCKS	32			/* in case alternate; the first has 1 MiB */
#define EACH	3			/* used pages of each block */

static long threads = 3, windows = 32;
static const char *wanted = "";

static const struct option_spec options[] = {
	{ "threads", &threads, NULL, "threads on other CPUs that read pages of their own" },
	{ "windows", &windows, NULL, "times each case is measured: sizes of a block, or of its neighbours' coming and going" },
	{ "case", NULL, &wanted, "growing or alternate (default: both)" },
	{ }
};

static const char *const rows[] = { "pgfree", NULL };

struct block {
	char *memory;
	size_t size;		/* whole pages */
};

static struct block block_at(char *memory, size_t bytes)
{
	return (struct block){ memory, (bytes + PAGE - 1) / PAGE * PAGE };
}

static volatile long *page_of(const struct block *b, long i)
{
	return (long *)(b->memory + (i == 2 ? b->size - PAGE : i * (b->size / PAGE / 2) * PAGE));
}

static void use_block(const struct block *b, long number)
{
	long i;

	for (i = 0; i < EACH; i++)
		*page_of(b, i) = number * EACH + i + 1;
}

static void free_block(const struct block *b)
{
	must(madvise(b->memory, b->size, MADV_DONTNEED));
}

static void verify_block(const struct block *b, long number, bool freed)
{
	long i;

	for (i = 0; i < EACH; i++)
		verify(*page_of(b, i) == (freed ? 0 : number * EACH + i + 1), "page %ld of block %ld holds %ld", i, number,
		       *page_of(b, i));
}

static char *heap(size_t size)
{
	char *memory = map_memory(size, MAP_PRIVATE | MAP_NORESERVE);

	use_small_pages(memory, size);
	return memory;
}

static void open_case(void)
{
	hot_rounds(1);
	fresh_window();
	begin_vmstat(rows);
	open_window();
}

static void close_case(void)
{
	close_window();
	end_vmstat(rows);
	hot_rounds(1);
}

static void grow(struct window *closed)
{
	char *memory = heap(LAST + GROWTH);
	long i;

	for (i = 0; i < windows; i++) {
		struct block b = block_at(memory, FIRST + i * (SIZES / windows) * GROWTH);

		use_block(&b, i);
		open_case();
		free_block(&b);
		close_case();
		closed[i] = window;
		verify_block(&b, i, true);
		/* A page that was read there is the zero page. */
		free_block(&b);
	}
	must(munmap(memory, LAST + GROWTH));
	report_windows(closed, windows, "growing", EACH, "page");
}

static void alternate(struct window *closed)
{
	char *memory = heap(BLOCKS * ((1UL << 20) + BLOCKS * GROWTH)), *at = memory;
	struct block blocks[BLOCKS];
	long i, j;

	for (j = 0; j < BLOCKS; j++) {
		blocks[j] = block_at(at, (1UL << 20) + j * GROWTH);
		at += blocks[j].size;
	}
	for (i = 0; i < windows; i++) {
		for (j = 0; j < BLOCKS; j++)
			use_block(&blocks[j], j);
		open_case();
		for (j = i % 2; j < BLOCKS; j += 2)
			free_block(&blocks[j]);
		close_case();
		closed[i] = window;
		for (j = 0; j < BLOCKS; j++)
			verify_block(&blocks[j], j, j % 2 == i % 2);
	}
	must(munmap(memory, BLOCKS * ((1UL << 20) + BLOCKS * GROWTH)));
	report_windows(closed, windows, "alternate", BLOCKS / 2 * EACH, "page");
}

int main(int argc, char **argv)
{
	struct window *closed;

	parse_options(argc, argv, "large blocks given back with MADV_DONTNEED", options);
	if (*wanted && strcmp(wanted, "growing") && strcmp(wanted, "alternate"))
		finish(USAGE, "case is growing or alternate, not '%s'", wanted);
	if (windows < 1 || windows > 499)
		finish(USAGE, "windows is 1 to 499: they are numbered to 999");
	closed = calloc(windows, sizeof(*closed));
	verify(closed, "out of memory");
	pin(0);
	hot_start(threads);
	if (strcmp(wanted, "alternate"))
		grow(closed);
	if (strcmp(wanted, "growing"))
		alternate(closed);
	hot_end();
	return 0;
}
