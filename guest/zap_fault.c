// SPDX-License-Identifier: GPL-2.0-only
/*
 * Thread A discards memory by one MADV_DONTNEED, which flushes at its end. Thread B touches the first page as soon as its
 * entry is gone, and gets a huge page, or a folio whose entries are contiguous, beside entries of pages that CPUs still
 * have (docs/findings.md#fault-mixes-sizes).
 *
 * The metric early counts the rounds in which B was before the flush.
 */
#include "lull.h"

#define SIZES	"/sys/kernel/mm/transparent_hugepage/"

static long rounds = 20, mib = 64;
static const char *with = "block";

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "times that the memory is discarded" },
	{ "mib", &mib, NULL, "MiB of it" },
	{ "with", NULL, &with, "what the fault maps: block (2 MiB), contiguous (64 KiB)" },
	{ }
};

static volatile char *memory;
static long turn, ready, ended, touched, early;

static void *touch(void *unused)
{
	unsigned char here;

	(void)unused;
	pin(1);
	for (long n = 1; n <= rounds; n++) {
		while (seen(&turn) < n)
			;
		for (unsigned long at = 0; at < CONT; at += PAGE)
			(void)memory[at];
		__atomic_store_n(&ready, n, __ATOMIC_RELEASE);
		do
			must(mincore((void *)memory, PAGE, &here));
		while (here & 1);
		early += seen(&ended) < n;
		memory[0] = 1;
		__atomic_store_n(&touched, n, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	bool block;
	pthread_t other;
	size_t size;
	long n;

	parse_options(argc, argv, "fault in large folios where entries were cleared and not flushed", options);
	block = *with == 'b';
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || PAGE != 4096)
		skip("needs two CPUs, and pages of 4 KiB");
	keep_setting(SIZES "hugepages-2048kB/enabled");
	keep_setting(SIZES "hugepages-64kB/enabled");
	if (!put_file(SIZES "hugepages-2048kB/enabled", block ? "madvise" : "never") ||
	    !put_file(SIZES "hugepages-64kB/enabled", block ? "never" : "madvise"))
		skip("no control of folio sizes");
	pin(0);
	size = mib << 20;
	memory = must((volatile char *)mmap((void *)(1UL << 40), size, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	verify(!pthread_create(&other, NULL, touch, NULL), "no second thread");
	open_window();
	for (n = 1; n <= rounds; n++) {
		/* The page of zeros: for others, the kernel flushes earlier. */
		use_small_pages((void *)memory, size);
		for (size_t at = 0; at < size; at += PAGE)
			(void)memory[at];
		must(madvise((void *)memory, size, MADV_HUGEPAGE));
		__atomic_store_n(&turn, n, __ATOMIC_RELEASE);
		while (seen(&ready) < n)
			;
		must(madvise((void *)memory, size, MADV_DONTNEED));
		__atomic_store_n(&ended, n, __ATOMIC_RELEASE);
		/* Not by a look at the memory: that would map it before B sees that it is gone. */
		while (seen(&touched) < n)
			;
		(void)memory[0];
		must(madvise((void *)memory, size, MADV_DONTNEED));
	}
	pthread_join(other, NULL);
	add_metric("early", early);
	close_window();
	report("", rounds, "round", "");
	return 0;
}
