/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shadow - the rules: a TLB that forgets nothing is told what every CPU does.
 *
 * Events come in, each from the CPU that executes it and in its order; what is
 * wrong goes out as reports. Nothing here knows QEMU or Linux. Memory is read
 * as it is at the event: a store is announced after it was done, everything
 * else before.
 *
 * The caller serialises all calls, but for shadow_dsb_quick(), which each CPU
 * may do for itself at any time.
 */
#ifndef LULL_SHADOW_H
#define LULL_SHADOW_H

#include "contig.h"
#include "decode.h"
#include "global.h"
#include "lost.h"
#include "owe.h"
#include "report.h"
#include "space.h"
#include "used.h"
#include "walk.h"
#include "walks.h"

#define NO_PA UINT64_MAX

struct pending {
	struct owe *owe;	/* or NULL: the flush of whole contexts, or of reach */
	bool walkers;		/* of the owe, its walkers only */
	bool by_va;		/* no whole contexts */
	bool any_asid;
	uint16_t asid;
	cpumask cpus;
	uint64_t when;
	enum tlbi_scope scope;
	bool nxs;
	struct reach reach;	/* when owe is NULL */
};

struct cpu {
	bool mmu;
	bool no_ttl;			/* does not implement FEAT_TTL */
	uint64_t ttbr0, ttbr1, tcr;
	struct regime lower, upper;
	bool lower_ok, upper_ok;
	uint16_t asid_mask;
	struct context *context;	/* in TTBR0 now; NULL: no lower half */
	struct context *kernel;		/* in TTBR1 */
	uint64_t task;			/* sp_el0 while in the kernel */
	bool user;			/* at, or on its way to, EL0 */
	bool waits;			/* in a pause, for who has broken entries */
	struct {
		uint64_t root, start, end;
	} range;			/* that its task is at work on; root 0: none */
	uint64_t section;		/* its first obligation since it dropped a table's lock; 0: none */
	bool moving;			/* some of these have been mapped elsewhere since */
	uint64_t dsb_is, dsb_nsh;	/* last DSB that orders stores: broadcast, local */
	uint64_t synced;		/* last context synchronisation event: ISB, ERET */
	uint64_t walks_over;		/* the last such before the last DSB that completes walks */
	struct pending *pending;	/* TLBIs that no DSB has completed */
	unsigned int n_pending, room;
} __attribute__((aligned(128)));

struct shadow {
	struct spaces spaces;
	struct owes owes;
	struct used_all used;
	struct contigs contigs;
	struct walks walks;
	struct globals globals;
	struct lost lost;
	struct reports reports;
	struct seen seen;
	struct cpu *cpus;
	unsigned int ncpus;
	bool speculation;
	cpumask physical;		/* CPUs without FEAT_nTLBPA (walks.h) */
	bool broken;			/* entries that all CPUs use, by the pauser */
	unsigned int pauser;
	uint64_t now;			/* events so far */
	/* The stack of the code a CPU is executing, interned; may be NULL. */
	unsigned int (*stack)(void *arg, unsigned int cpu, uint64_t pc);
	void *arg;
	/* A page translates differently for some CPUs from now on; may be NULL. */
	void (*moved)(void *arg, cpumask cpus, const struct reach *r);
};

bool shadow_init(struct shadow *s, const struct ram *ram, unsigned int ncpus,
		 bool speculation, FILE *out);
void shadow_free_all(struct shadow *s);

/* A CPU is about to write one of the registers that choose the translation. */
void shadow_msr(struct shadow *s, unsigned int cpu, enum sysreg reg, uint64_t value,
		uint64_t pc);

/* It has stored size bytes to physical memory. */
void shadow_store(struct shadow *s, unsigned int cpu, uint64_t pa, unsigned int size,
		  uint64_t pc);

void shadow_tlbi(struct shadow *s, unsigned int cpu, const struct tlbi *t,
		 uint64_t operand, uint64_t pc);

void shadow_dsb(struct shadow *s, unsigned int cpu, enum dsb_form form);

/* All that a DSB does when the CPU has nothing pending; false: it has. */
bool shadow_dsb_quick(struct shadow *s, unsigned int cpu, enum dsb_form form);

/*
 * A context synchronisation event: what it wrote to TTBRs is in force. As with
 * shadow_dsb_quick(), each CPU may do it for itself at any time.
 */
void shadow_sync(struct shadow *s, unsigned int cpu);

/* The CPU's task goes to sleep of its own accord; it is not preempted. */
void shadow_sleeps(struct shadow *s, unsigned int cpu, uint64_t pc);

/* It has accessed an address of the lower half; pa: where it came out, or NO_PA. */
void shadow_access(struct shadow *s, unsigned int cpu, uint64_t va, uint64_t pa,
		   bool fetch, uint64_t pc);

/* Pages of 4 KiB are given back: nobody may translate to them any more. */
void shadow_free(struct shadow *s, unsigned int cpu, uint64_t pfn, unsigned int order,
		 uint64_t pc);

/* A PGD is given back. */
void shadow_dead(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t pc);

/*
 * Entries that every CPU uses at any time, those of the vmemmap, are broken and
 * made anew by one CPU while all others wait. What a CPU says of itself, as
 * markers give it in x0:
 */
enum pause {
	PAUSE_WHOLE,		/* all entries that I broke are made */
	PAUSE_BROKEN,		/* I am about to break some */
	PAUSE_WAITS,		/* I wait, and use none; said before others are told */
	PAUSE_GOES_ON,		/* I do not wait any more */
};

void shadow_pause(struct shadow *s, unsigned int cpu, uint64_t what, uint64_t pc);

/* A marker of a CPU: a window opens, or closes (lost.h). */
void shadow_open(struct shadow *s, unsigned int cpu, uint64_t id);
void shadow_close(struct shadow *s, unsigned int cpu, uint64_t id);

/*
 * Linux relies on it from here on that these pages are written by nobody (written.h).
 */
enum relies {
	RELIES_ALL,
	RELIES_OWN,		/* by nobody through what the CPU's own task has taken away */
	RELIES_UNLOCK,		/* a TLBI that is issued is known apart: "unlocked" */
};

void shadow_written(struct shadow *s, unsigned int cpu, uint64_t pfn, uint64_t pages,
		    enum relies how, uint64_t pc);

/* It has stored to an address of the lower half: hardware may have made it dirty. */
void shadow_wrote(struct shadow *s, unsigned int cpu, uint64_t va);

/* What was missing: the nearest that was tried says it, else what it was about. */
const char *owed_kind(const struct owe *w);

void shadow_verdict(struct shadow *s);

/* For rules in files of their own: what is owed, noticed by a CPU at pc, with that stack. */
void shadow_report_owe(struct shadow *s, unsigned int cpu, uint64_t pc, unsigned int stack,
		       const char *rule, const char *kind, const struct owe *w);
/* For the modules that have rules of their own: a report begins so. */
struct finding finding_here(struct shadow *s, unsigned int cpu, uint64_t pc,
			    const char *rule, const char *kind);

#endif
