/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report - writes each finding once, and the verdict, as JSON lines and as text for people.
 *
 * Two findings are the same when these agree: rule and kind; the conflict; why the nearest
 * TLBI was not enough; the code that changed the descriptor (the first frames of its stack);
 * and the place that noticed it. For the rule `written`, and if no change is known, the
 * stack of that place must agree, too. So a report that belongs to a known issue does not
 * hide one from elsewhere.
 */
#ifndef LULL_REPORT_H
#define LULL_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pending.h"
#include "rules.h"
#include "space.h"
#include "symbols.h"

#define FRAMES 16

/* Stacks are interned: each is kept once and has a number; 0 is no stack. */
struct stack {
	unsigned int n;
	uint64_t pc[FRAMES];
};

struct finding {
	enum rule rule;
	unsigned int cpu;		/* where it was noticed */
	uint64_t pc;
	unsigned int stack;
	uint16_t asid;			/* of stage 2: the VMID */
	bool kernel, stage2;
	uint64_t va;
	int level;
	bool table;
	uint64_t old, new;		/* descriptors */
	uint64_t old_page, new_page;
	const char *conflict;		/* what the old entry has that the new one must not; NULL: unknown */
	uint64_t differs;		/* 1 + offset of the first byte in which the pages differ; 0: unknown */
	uint64_t task;
	cpumask holders;
	bool changed;			/* the following three are known */
	unsigned int changed_cpu;
	uint64_t changed_pc;
	unsigned int changed_stack;
	/* The pending invalidation, whose TLBIs are written; or NULL. */
	const struct pending *pending;
};

struct reports {
	struct reports *to;		/* of stage 2: findings go there; NULL: they are of stage 1, and stay here */
	FILE *out;			/* of JSON lines */
	FILE *text;			/* for people */
	struct hash by_key;
	unsigned int n;
	uint64_t occurrences;
	struct coverage *cover;		/* takes the occurrences of each (cover.h); may be NULL */
	bool failed;			/* report_error() was called */
	struct stack *stacks;		/* number n is stacks[n - 1] */
	unsigned int n_stacks;
	struct hash stack_nodes;
	const struct symbols *names;	/* of the kernel; NULL: not known */
};

/* Counts of events, for the verdict: a run in which nothing was seen must not look like a good one. */
struct seen {
	uint64_t table_stores, pending, left, tlbis, dsbs, frees, table_frees;
	uint64_t accesses, misses, walks, loads, user_returns, races, repointed, published, memory;
	uint64_t tlb_over_invalidated, tlb_refills, tlb_refills_unchanged;	/* over_invalidated.h */
	uint64_t sync_points, ranges, unlocks;	/* sync_point.h */
	uint64_t cleaned;			/* written.h */
	uint64_t repeats;			/* of broadcasts, a workaround of errata */
	uint64_t returned;			/* areas of the kernel's addresses */
	uint64_t physical;		/* CPUs without FEAT_nTLBPA */
	uint64_t guest_entries, guest_tlbis, stage2_stores, stage2_pending;	/* stage2.h */
};

unsigned int stack_intern(struct reports *r, const struct stack *s);
void report_header(FILE *out, int api, unsigned int ncpus, bool speculation);

/*
 * Write what is found out about the guest: "ram", the size of its RAM in bytes, or "slide",
 * by how much its addresses differ from those of its symbols.
 */
void report_guest(FILE *out, const char *key, uint64_t value);
void report(struct reports *r, const struct finding *f);

/* Write what is wrong with the check itself, so that its silence says nothing. */
void report_error(struct reports *r, const char *text);

/* Write the last line: passed, reports, or inconclusive, with the counts. */
void report_verdict(struct reports *r, const struct seen *seen);
void reports_free(struct reports *r);

#endif
