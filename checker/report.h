/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report - what was found, once each, as JSON lines; and the verdict.
 *
 * Two findings are the same when rule, kind and the code that changed the
 * descriptor (the first frames of its stack) are.
 */
#ifndef LULL_REPORT_H
#define LULL_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "owe.h"
#include "space.h"

#define FRAMES 16

/* Stacks are interned: each is kept once and has a number; 0 is no stack. */
struct stack {
	unsigned int n;
	uint64_t pc[FRAMES];
};

struct finding {
	const char *rule, *kind;
	unsigned int cpu;		/* where it was noticed */
	uint64_t pc;
	unsigned int stack;
	uint16_t asid;
	bool kernel;
	uint64_t va;
	int level;
	bool table;
	uint64_t old, new;		/* descriptors */
	uint64_t old_page, new_page;
	uint64_t task;
	cpumask holders;
	bool changed;			/* the following are known */
	unsigned int changed_cpu;
	uint64_t changed_pc;
	unsigned int changed_stack;
	const struct owe *owe;		/* for its TLBIs; or NULL */
};

struct reports {
	FILE *out;
	struct hash by_key;
	unsigned int n;
	uint64_t occurrences;
	struct stack *stacks;		/* number n is stacks[n - 1] */
	unsigned int n_stacks;
	struct hash stack_nodes;
};

/* How much was seen: a checker that saw nothing must not look like a silent one. */
struct seen {
	uint64_t table_stores, obligations, left, tlbis, dsbs, frees, table_frees;
	uint64_t accesses, misses, walks, loads, user_returns, races, pauses, published, tlb_lost, memory;
	uint64_t relied, ranges, unlocks;	/* rely.h */
	uint64_t cleaned;			/* written.h */
	uint64_t physical;		/* CPUs without FEAT_nTLBPA */
};

unsigned int stack_intern(struct reports *r, const struct stack *s);
void report_header(FILE *out, int api, unsigned int ncpus, bool speculation);
void report(struct reports *r, const struct finding *f);

/* The last line: what was found, and whether anything was seen at all. */
void report_verdict(struct reports *r, const struct seen *seen);
void reports_free(struct reports *r);

#endif
