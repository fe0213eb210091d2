/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cover - what a program of the guest has reached, for a search of programs (./lull search).
 *
 * The plugin and the host map one file, with a byte for each thing that was reached. Its first half has blocks of kernel
 * code, by address. Its second half has ways in which an entry was taken away: by which code, what it was and became, and
 * whether other CPUs had it. Different things may share a byte. When a marker says that a program has ended, the host reads
 * and clears the bytes, and sees to which reports the program has added.
 */
#ifndef LULL_COVER_H
#define LULL_COVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pending.h"
#include "report.h"

#define COVER_REPORTS	1024	/* the most reports whose occurrences are counted */
#define COVER_HALF	32768	/* 2^15: cover.c */

struct coverage {
	uint64_t ended;			/* x0 of the last marker: 1 more than the programs that have ended */
	uint64_t reports;		/* different ones */
	uint32_t occurrences[COVER_REPORTS]; /* of report n at n - 1 */
	uint8_t reached[2 * COVER_HALF];
};

/* Make and map the file. Returns NULL with a reason in @error. */
struct coverage *cover_open(const char *file, char *error, size_t size);

/* The byte of the block of kernel code at @pc, as in the kernel's symbols. */
uint8_t *cover_block(struct coverage *c, uint64_t pc);

/* A report was made, for the first time or again. @c may be NULL. */
static inline void cover_report(struct coverage *c, unsigned int number)
{
	if (!c)
		return;
	c->occurrences[(number - 1) % COVER_REPORTS]++;
	if (c->reports < number)
		c->reports = number;
}

/* An entry was taken away, by the code with the stack @s. */
void cover_pending(struct coverage *c, const struct pending *inv, const struct stack *s);

#endif
