// SPDX-License-Identifier: GPL-2.0-only
/*
 * Verifies the counting itself: a window has known numbers of operations, and the program reports them to the host as
 * expect_NAME (the count must be equal) or atleast_NAME (the count may be higher, because the kernel executes some,
 * too).
 *
 *	dsb		DSBs executed at EL0. The kernel also uses some of their kinds, but never OSH or OSHLD
 *	atomics		atomic read-modify-writes of each form; the kernel adds its own
 *	mprotect	in a single-threaded process, the protection of a touched page is taken away and given back.
 *			Linux flushes the page each time, with one TLBI for its ASID
 */
#include "lull.h"

static long barriers = 10007, atomics = 10007, flushes = 1009;

static const struct option_spec options[] = {
	{ "barriers", &barriers, NULL, "DSBs of each kind, and a number of its own more" },
	{ "atomics", &atomics, NULL, "atomics of each form, and a number of its own more" },
	{ "flushes", &flushes, NULL, "times protection is taken and given back" },
	{ }
};

/* @extra makes the number of each kind different, so that the host cannot mistake one for another. */
#ifdef __aarch64__
#define DSB(kind, extra) do {						\
	long dsb_i;							\
									\
	for (dsb_i = 0; dsb_i < barriers + (extra); dsb_i++)		\
		asm volatile("dsb " #kind : : : "memory");		\
} while (0)
#else
#define DSB(kind, extra) ((void)0)
#endif

static void count_barriers(void)
{
	fresh_window();
	open_window();
	DSB(ish, 1000);
	DSB(ishst, 2000);
	DSB(nsh, 3000);
	DSB(osh, 4000);
	DSB(oshld, 5000);
	DSB(sy, 6000);
	close_window();
	add_metric("atleast_dsb_ish", barriers + 1000);
	add_metric("atleast_dsb_ishst", barriers + 2000);
	add_metric("atleast_dsb_nsh", barriers + 3000);
	add_metric("expect_dsb_osh", barriers + 4000);
	add_metric("expect_dsb_oshld", barriers + 5000);
	add_metric("atleast_dsb_sy", barriers + 6000);
	report("dsb", 6 * barriers + 21000, "dsb", "");
}

#ifdef __aarch64__
#define ATOMIC(extra, text) do {							\
	long atomic_i, old = 0;						\
									\
	for (atomic_i = 0; atomic_i < atomics + (extra); atomic_i++)	\
		asm volatile(".arch_extension lse\n" text		\
			     : "+m" (word), "+r" (old) : "r" (&word), "r" (1L) : "memory"); \
} while (0)
#else
#define ATOMIC(extra, text)	((void)word)
#endif

static void count_atomics(void)
{
	long word = 0;

	fresh_window();
	open_window();
	ATOMIC(1000, "stadd %3, [%2]");
	ATOMIC(2000, "swpal %3, %1, [%2]");
	ATOMIC(3000, "cas %1, %3, [%2]");
	ATOMIC(4000, "stxr %w1, %3, [%2]");		/* without a preceding exclusive load: it fails */
	close_window();
	add_metric("atleast_atomics_own", 4 * atomics + 10000);
	report("atomics", 4 * atomics + 10000, "atomic", "");
}

static void count_flushes(void)
{
	volatile long *page = (long *)map_memory(PAGE, MAP_PRIVATE);
	long i;

	fresh_window();
	*page = 0;
	open_window();
	for (i = 0; i < flushes; i++) {
		must(mprotect((void *)page, PAGE, PROT_READ));
		must(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
		*page += 1;
	}
	close_window();
	verify(*page == flushes, "%ld writes arrived, not %ld", *page, flushes);
	add_metric("expect_tlbi_user", 2 * flushes);
	report("mprotect", 2 * flushes, "flush", "");
}

int main(int argc, char **argv)
{
	parse_options(argc, argv, "known numbers of barriers, atomics and flushes", options);
	pin(0);
	count_barriers();
	count_atomics();
	count_flushes();
	return 0;
}
