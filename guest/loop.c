// SPDX-License-Identifier: GPL-2.0-only
/*
 * A known number of instructions: a loop of two instructions, in windows of two lengths. The lab compares the difference
 * with what was counted, which says whether the count can be trusted, and what an empty window counts.
 */
#include "lull.h"

static long windows = 21, rounds = 50000;

static const struct option_spec options[] = {
	{ "windows", &windows, NULL, "windows of each of the two lengths" },
	{ "rounds", &rounds, NULL, "rounds of the long loop, of two instructions each; the short one has a hundredth" },
	{ }
};

/* Execute 2 * @n instructions. */
static void run_loop(long n)
{
#ifdef __aarch64__
	asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r" (n) : : "cc");
#elif defined(__x86_64__)
	asm volatile("1: sub $1, %0\n\tjne 1b" : "+r" (n) : : "cc");
#endif
}

static void measure(const char *name, long n)
{
	long i;

	for (i = 0; i < windows; i++) {
		fresh_window();
		open_window();
		run_loop(n);
		close_window();
		report(name, 2 * n, "instruction", "");
	}
}

int main(int argc, char **argv)
{
	parse_options(argc, argv, "executes a known number of instructions", options);
	if (windows < 1 || windows > 499)
		finish(USAGE, "windows is 1 to 499");
	if (rounds < 100)
		finish(USAGE, "rounds is 100 or more");
	pin(0);
	measure("short", rounds / 100);
	measure("long", rounds);
	return 0;
}
