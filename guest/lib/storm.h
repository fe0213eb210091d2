/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory whose contents are known, and other functions that all storms use.
 */
#ifndef STORM_H
#define STORM_H

#include "lull.h"

#include <setjmp.h>

/* POLICY, the switch that makes flushes local, is defined on the command line: src/lull/guest/__init__.py. */

/* Return the word that page @at holds after fill() with @seed. */
static inline long expected(size_t at, long seed)
{
	return (long)(at / PAGE * 0x9e3779b9UL + seed + 1);
}

/* Write each page; and verify that they hold what was written, or are empty. @what names them in the message. */
void fill(char *memory, size_t size, long seed);
void check(const char *memory, size_t size, long seed, const char *what);
void check_zero(const char *memory, size_t size, const char *what);

/* Return addresses that nothing else uses. Each is returned only once. */
char *fresh(size_t size);

/* Map memory, or a file, at @place, where nothing is mapped. */
char *map_at(char *place, size_t size, int flags, int fd);

/* Map small pages at unused addresses, and fill them. */
char *small(size_t size, long seed);

/* ---- accesses that may fault ---- */

struct access {
	char *at;
	bool write;
	long value;		/* the value to write, or the value that was read */
	bool faulted;
};

/* From now on, only such an access may fault. run_storm() does so for each actor. */
void expect_faults(void);

void attempt(struct access *access);

/* Where to go on after a fault, and the address that may fault just now. */
extern __thread sigjmp_buf way_back;
extern __thread char *volatile dared;

#endif
