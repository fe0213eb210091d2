/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * contig - the rule bbm/set: the descriptors of a contiguous block must agree.
 *
 * When one descriptor of a block has the contiguous bit, a TLB that walked to it may
 * hold one entry for the whole block, here called a set. So all descriptors of the set
 * must agree (Arm ARM D8.7.1, "The Contiguous bit"): each is valid and has the bit, the
 * output addresses follow each other from an aligned one, and memory type and
 * permissions are equal. The access flag and the dirty state may differ, because
 * hardware sets them in one descriptor.
 *
 * A kernel changes a set with one store after the other. So a set that does not agree
 * is remembered with the task that stored to it last, and reported when this task
 * returns to user space. If another task is still changing the set, that task was the
 * last to store. Sets that a kernel thread leaves behind are not reported.
 */
#ifndef LULL_CONTIG_H
#define LULL_CONTIG_H

#include "hash.h"
#include "space.h"

struct shadow;

struct contigs {
	struct hash by_set;
	uint64_t n;		/* sets that do not agree */
};

/* The CPU has stored to a descriptor, whose value was @old; t->desc has the new value. */
void contig_stored(struct shadow *s, unsigned int cpu, struct table *t, unsigned int index,
		   uint64_t old, uint64_t pc);

/* A task returns to user space: report the sets that it left in disagreement. */
void contig_user(struct shadow *s, uint64_t task);

void contig_free(struct shadow *s);

#endif
