/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * contig - contiguous blocks as a set.
 *
 * A TLB may hold one entry for a whole set of descriptors when one of them has
 * the contiguous bit, whichever it has walked to. So all descriptors of the set
 * must say the same (Arm ARM D8.7.1, "The Contiguous bit"): each is valid and
 * has the bit, the outputs follow each other from an aligned one, and memory
 * type and permissions are equal. The access flag and the dirty state may
 * differ: hardware sets them in one of them.
 *
 * A kernel changes a set one store after the other. So a set that does not agree
 * is kept, with the task that stored to it last, and reported when this task
 * returns to user space. Another task that is about to change the set has stored
 * to it later, and returns later. What a kernel thread leaves behind is not seen.
 */
#ifndef LULL_CONTIG_H
#define LULL_CONTIG_H

#include "hash.h"
#include "space.h"

struct shadow;

struct contigs {
	struct hash by_set;
	uint64_t n;		/* that do not agree */
};

/* The CPU has changed a descriptor, whose value was @old; the table has the new one. */
void contig_stored(struct shadow *s, unsigned int cpu, struct table *t, unsigned int index,
		   uint64_t old, uint64_t pc);

/* A task returns to user space. */
void contig_user(struct shadow *s, uint64_t task);

void contig_free(struct shadow *s);

#endif
