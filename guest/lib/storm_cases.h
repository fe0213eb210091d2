/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For storms that consist of cases: runs all cases in turn, or one of them. Also threads that hop from CPU to CPU and
 * use memory while a case changes it.
 */
#ifndef STORM_CASES_H
#define STORM_CASES_H

#include "storm.h"

extern long rounds;
extern const char *only;

#define STORM_OPTIONS							\
	{ "rounds", &rounds, NULL, "how often each case does what it does" }, \
	{ "only", NULL, &only, "one case only; 'list' names them" }

struct storm_case {
	const char *name;
	void (*run)(long round);
};

extern const char *playing;	/* the case that runs now */

/* Run the selected cases, each on all CPUs again, and report. */
void run_cases(const struct storm_case *cases, size_t n);

/* This kernel cannot run the case. End the program if it was the only case; otherwise continue with the others. */
void cannot(const char *why);

/* Return true if huge pages (HUGE) are small enough for a case that uses @n of them: a quarter of memory, at most. */
bool room_for(long n);

/* Let threads read this memory from now on, on all CPUs. On return each thread has read all of it at least once. */
void begin_use(char *memory, size_t size);
void end_use(void);

#endif
