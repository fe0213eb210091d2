// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVO (system D): HugeTLB pages give most of their struct pages back. The program runs the four operations with which
 * system D was published, each in a window: allocate 1 GiB pages; demote them to 2 MiB pages; free these; and, after 1
 * GiB pages are allocated again, free 1 GiB pages. On kernels with pages of 16 KiB, it demotes to 32 MiB pages: what an
 * entry of a PMD table maps (HUGE).
 *
 * After each step the program verifies that the pools have the right sizes, and that the vmemmap has exactly as many
 * pages less as the kernel said in its log at boot. It maps, writes and reads back memory of the pools. A kernel without
 * HVO runs it, too, and must give nothing back.
 *
 * One page of the small size is kept allocated all the time. The first optimised page turns a static key on, and the last one
 * turns it off. Each patches about 380 jumps in the kernel, with a TLBI and a barrier for each jump, and that is not
 * part of the four operations.
 */
#include "hvo.h"

#include <ctype.h>
#include <sys/klog.h>

#define PIECES	((long)(GIB / HUGE))
#define KEPT	1L		/* pages of the small size that stay allocated all the time */

static long pages = 2, touch = 16;

static const struct option_spec options[] = {
	{ "pages", &pages, NULL, "1 GiB pages (published: 600)" },
	{ "touch", &touch, NULL, "small HugeTLB pages whose memory is used, and if any, that of a 1 GiB page too" },
	{ }
};

static long memmap_before;	/* pages of vmemmap when the pools were empty */
static long gives_small, gives_giga;	/* pages of vmemmap that a small page and a 1 GiB page give back */

/* Empty the pools, however the program ends. */
static void put_back(void)
{
	put_file(pool(HUGE, "nr_hugepages"), "0");
	put_file(pool(GIB, "nr_hugepages"), "0");
}

/*
 * Return the number of pages of vmemmap that a HugeTLB page gives back. The kernel says it in its log at boot, for each
 * size of HugeTLB pages, and says 0 if it has no HVO. Linux keeps one page of vmemmap for each HugeTLB page, and Lull
 * keeps two.
 */
static long said_to_give(const char *log, unsigned long bytes)
{
	const char *found, *unit = bytes < GIB ? "MiB" : "GiB";
	double size = bytes < GIB ? bytes >> 20 : bytes >> 30;
	char text[64];

	/* The kernel writes numbers with three digits. */
	snprintf(text, sizeof(text), " KiB vmemmap can be freed for a %.*f %s page\n", (size < 10) + (size < 100), size,
		 unit);
	found = strstr(log, text);
	if (!found)
		skip("the kernel's log does not say how much vmemmap a page of %.0f %s gives back", size, unit);
	while (found > log && isdigit(found[-1]))
		found--;
	return atol(found) * 1024 / (long)PAGE;
}

/* Find out what is to be given back, and turn HVO on. */
static void turn_on(void)
{
	enum { READ_ALL = 3, SIZE_BUFFER = 10 };
	int size = must(klogctl(SIZE_BUFFER, NULL, 0));
	char *log = calloc(size + 1, 1);

	verify(log, "no memory for the kernel's log");
	must(klogctl(READ_ALL, log, size));
	gives_small = said_to_give(log, HUGE);
	gives_giga = said_to_give(log, GIB);
	free(log);
	if (!gives_small && !gives_giga) {
		printf("hvo: this kernel has no HVO: nothing is to be given back\n");
		return;
	}
	if (!booted_with_hvo())
		skip("this kernel has HVO, and was not booted with hugetlb_free_vmemmap=on");
	verify(put_file(OPTIMIZE, "1"), "%s: cannot be set", OPTIMIZE);
}

/* ---- verification ---- */

static void verify_pool(size_t bytes, long wanted)
{
	long all = number_in(pool(bytes, "nr_hugepages")), idle = number_in(pool(bytes, "free_hugepages"));

	verify(all == wanted && idle == wanted, "%s: %ld pages, %ld of them free, and not %ld", pool(bytes, ""), all, idle,
	       wanted);
}

/* Return the number of pages of vmemmap that are given back, without those of the kept page. */
static long given_back(void)
{
	return memmap_before - memmap() - KEPT * gives_small;
}

/* Verify the sizes of the pools, and that their pages have given back all the vmemmap that they can. */
static void verify_pools(long giga, long small)
{
	long given = given_back(), due = giga * gives_giga + small * gives_small;

	verify_pool(GIB, giga);
	verify_pool(HUGE, small + KEPT);
	verify(given == due, "%ld pages of vmemmap are given back, and not %ld", given, due);
}

/*
 * Verify that memory of the pool of HugeTLB pages of @bytes can be used: write a different word to each page of the
 * kernel, and read all back.
 */
static void use(size_t size, size_t bytes)
{
	uint64_t *memory = (uint64_t *)map_memory(size, MAP_PRIVATE | MAP_HUGETLB | huge_flag(bytes));
	size_t step = PAGE / sizeof(*memory), words = size / sizeof(*memory), at;

	for (at = 0; at < words; at += step) {
		verify(!memory[at], "page %zu of a HugeTLB mapping is not empty", at / step);
		memory[at] = at + 1;
	}
	for (at = 0; at < words; at += step)
		verify(memory[at] == at + 1, "page %zu of a HugeTLB mapping lost its contents", at / step);
	must(munmap(memory, size));
}

/* ---- the operations ---- */

/* Finish earlier work and compact free memory, so that counts repeat. */
static void settle(void)
{
	struct timespec moment = { .tv_nsec = 100 * 1000 * 1000 };

	put_file("/proc/sys/vm/drop_caches", "3");
	put_file("/proc/sys/vm/compact_memory", "1");
	nanosleep(&moment, NULL);
}

/* Write a number to a file of the kernel. If it is one of the operations (@name), do so in a window. */
static void order(const char *path, long number, const char *name)
{
	int fd = must(open(path, O_WRONLY | O_CLOEXEC));
	char text[24];
	ssize_t length = snprintf(text, sizeof(text), "%ld", number), written;

	settle();
	if (!name) {
		must(write(fd, text, length));
		close(fd);
		return;
	}
	fresh_window();
	open_window();
	written = write(fd, text, length);
	close_window();
	if (written != length)
		die("%s: cannot write %ld", path, number);
	close(fd);
}

/* Report the operation that was just done and verified. */
static void tell_of(const char *name, long operations, const char *unit)
{
	long given = given_back();
	char scale[48];

	add_metric("memmap_given_back", given);
	printf("hvo: %-11s %4ld x %s: %ld pages of vmemmap are given back\n", name, operations, unit, given);
	snprintf(scale, sizeof(scale), "%ld of 600 pages of 1 GiB", pages);
	report(name, operations, unit, scale);
}

/* Fill the pool of 1 GiB pages. */
static void allocate(const char *name)
{
	order(pool(GIB, "nr_hugepages"), pages, name);
	if (number_in(pool(GIB, "nr_hugepages")) < pages)
		skip("only %ld of %ld pages of 1 GiB: it takes %ld GiB of memory, and a kernel with CONFIG_CONTIG_ALLOC",
		     number_in(pool(GIB, "nr_hugepages")), pages, pages + 6);
	verify_pools(pages, 0);
}

int main(int argc, char **argv)
{
	char mib[24], free_small[24], small_page[24];

	parse_options(argc, argv, "HugeTLB pages give their struct pages back", options);
	need_pool(HUGE);
	need_pool(GIB);
	if (pages < 1 || touch > pages * PIECES)
		finish(USAGE, "pages is at least 1, and has at least touch x %lu MiB", HUGE >> 20);
	if (number_in(pool(GIB, "nr_hugepages")) || number_in(pool(HUGE, "nr_hugepages")))
		skip("somebody else uses HugeTLB pages");
	keep_setting(OPTIMIZE);
	keep_setting(pool(GIB, "demote_size"));
	must(atexit(put_back));
	memmap_before = memmap();
	turn_on();
	snprintf(mib, sizeof(mib), "%luM", HUGE >> 20);
	snprintf(free_small, sizeof(free_small), "free-%lum", HUGE >> 20);
	snprintf(small_page, sizeof(small_page), "%lu MiB page", HUGE >> 20);
	if (!put_file(pool(GIB, "demote_size"), mib))
		die("1 GiB pages cannot be demoted to %s", mib);
	pin(0);
	order(pool(HUGE, "nr_hugepages"), KEPT, NULL);
	verify_pools(0, 0);

	allocate("allocate-1g");
	tell_of("allocate-1g", pages, "1 GiB page");

	order(pool(GIB, "demote"), pages, "demote");
	verify_pools(0, pages * PIECES);
	tell_of("demote", pages, "1 GiB page");
	if (touch)
		use(touch * HUGE, HUGE);
	verify_pools(0, pages * PIECES);

	order(pool(HUGE, "nr_hugepages"), KEPT, free_small);
	verify_pools(0, 0);
	tell_of(free_small, pages * PIECES, small_page);

	allocate(NULL);
	if (touch)
		use(GIB, GIB);
	verify_pools(pages, 0);
	order(pool(GIB, "nr_hugepages"), 0, "free-1g");
	verify_pools(0, 0);
	tell_of("free-1g", pages, "1 GiB page");
	return 0;
}
