/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shadow - the checker's rules, on a model of a TLB that keeps every entry until
 * a TLBI removes it.
 *
 * The caller passes in the events of each CPU in the order in which that CPU
 * executes them; the rules that are broken go out as reports. Nothing here knows
 * QEMU or Linux. Guest memory is read as it is at the time of the call. So the
 * caller announces a store after it was done, and every other event before.
 *
 * shadow.c has the state and the reports. The events are in shadow_context.c (shadow_msr
 * and shadow_sleeps), shadow_store.c, shadow_tlbi.c (DSBs and shadow_sync, too),
 * shadow_access.c and shadow_free.c; those of shadow_written() and shadow_wrote() are in
 * written.c.
 *
 * The caller serialises all calls except shadow_dsb_quick(), shadow_sync() and shadow_sp_el0(),
 * which each CPU's thread may call for its own CPU at any time.
 */
#ifndef LULL_SHADOW_H
#define LULL_SHADOW_H

#include "contig.h"
#include "decode.h"
#include "global.h"
#include "over_invalidated.h"
#include "pending.h"
#include "report.h"
#include "space.h"
#include "used.h"
#include "walk.h"
#include "walks.h"

#define NO_PA UINT64_MAX

/* A TLBI that was issued and that no DSB has completed, and one thing it will change then. */
struct incomplete {
	/* The pending invalidation that the TLBI covers; NULL: the TLBI flushes contexts, or @scope. */
	struct pending *pending;
	bool walkers;		/* removes CPUs from the pending invalidation's @walkers, not from its @held */
	enum scope_stage stage;	/* SCOPE_STAGE2: from its @alone only */
	bool by_va;		/* names addresses, so that it flushes no whole context */
	bool any_asid;
	uint16_t asid;
	cpumask cpus;
	uint64_t when;
	enum tlbi_domain domain;
	bool nxs;
	uint64_t task;		/* that issued it */
	uint64_t again;		/* when a DSB would have completed it, but broadcasts must be repeated; 0: none */
	uint64_t pc;
	struct scope scope;	/* when @pending is NULL */
};

struct cpu {
	bool mmu;
	uint64_t off;			/* when its translation was turned off (CPU_OFF); 0: never */
	uint64_t flushed;		/* when it issued its last TLBI of everything, which is complete */
	bool no_ttl;			/* does not implement FEAT_TTL */
	uint64_t ttbr0, ttbr1, tcr;
	struct regime lower, upper;
	bool lower_ok, upper_ok;
	uint16_t asid_mask;
	struct context *context;	/* in TTBR0 now; NULL: no lower half */
	struct context *kernel;		/* in TTBR1 */
	uint64_t task;			/* sp_el0 while in the kernel */
	uint64_t returns;		/* to user space, so far */
	bool user;			/* at, or on its way to, EL0 */
	struct {
		uint64_t root, start, end;
	} range;			/* the range that its task unmaps, protects or moves; root 0: none */
	/* When it made its first pending invalidation since it last dropped a table lock; 0: it made none. */
	uint64_t section;
	bool moving;			/* an old entry of one of those is mapped elsewhere by now */
	uint64_t dsb_is, dsb_nsh;	/* last DSB that orders stores for all CPUs; for this one */
	uint64_t synced;		/* last context synchronisation event: ISB, ERET */
	uint64_t walks_over;		/* value of @synced at the last DSB that completes walks */
	struct incomplete *incomplete;	/* TLBIs that no DSB has completed */
	unsigned int n_incomplete, room;
	uint64_t broadcast;		/* its last TLBI that others see */
} __attribute__((aligned(128)));

struct shadow {
	struct spaces spaces;
	struct pendings pendings;
	struct used_all used;
	struct contigs contigs;
	struct walks walks;
	struct globals globals;
	struct over over;
	struct reports reports;
	struct seen seen;
	struct cpu *cpus;
	unsigned int ncpus;
	bool speculation;
	struct stage2 *stage2;		/* of guests: contexts are VMIDs with their tables of stage 2; or NULL */
	/* Addresses that a kernel takes away lazily: it may free the pages before it flushes. At first all. */
	uint64_t lazy_start, lazy_end;
	cpumask physical;		/* CPUs without FEAT_nTLBPA (walks.h) */
	uint64_t mair;			/* MAIR_EL1 as a CPU wrote it last; 0: not known. All have the same */
	uint64_t now;			/* events so far: the clock of the model */
	/* Returns the number of the interned stack of the code that a CPU executes; may be NULL. */
	unsigned int (*stack)(void *arg, unsigned int cpu, uint64_t pc);
	void *arg;
	/*
	 * Called when these CPUs may translate the addresses of @r in another way, after a TLBI or a
	 * write of a register; may be NULL.
	 */
	void (*moved)(void *arg, cpumask cpus, const struct scope *r);
};

/* @out takes JSON lines, @text the same for people. Returns false if there is no memory. */
bool shadow_init(struct shadow *s, unsigned int ncpus, bool speculation, FILE *out, FILE *text);

/* The guest's RAM was found. Call it before the first translation is loaded. Returns false if there is no memory. */
bool shadow_ram(struct shadow *s, const struct ram *ram);
void shadow_free_all(struct shadow *s);

/* A CPU is about to write one of the registers that choose the translation. */
void shadow_msr(struct shadow *s, unsigned int cpu, enum sysreg reg, uint64_t value,
		uint64_t pc);

/* A CPU has stored @size bytes to physical memory at @pa. */
void shadow_store(struct shadow *s, unsigned int cpu, uint64_t pa, unsigned int size,
		  uint64_t pc);

void shadow_tlbi(struct shadow *s, unsigned int cpu, const struct tlbi *t,
		 uint64_t operand, uint64_t pc);

void shadow_dsb(struct shadow *s, unsigned int cpu, enum dsb_form form);

/*
 * The part of a DSB that needs no lock. Returns true when that is all, false when
 * the CPU has incomplete TLBIs that this DSB may complete: call shadow_dsb() then.
 */
bool shadow_dsb_quick(struct shadow *s, unsigned int cpu, enum dsb_form form);

/*
 * A context synchronisation event (ISB, ERET): the CPU's writes of TTBR0 and TTBR1
 * are in force. As with shadow_dsb_quick(), no lock is needed.
 */
void shadow_sync(struct shadow *s, unsigned int cpu);

/*
 * A write of SP_EL0, without the lock. Returns true when that is all, false when something may be
 * due because the CPU returns to user space: call shadow_user() then. shadow_msr() does both.
 */
bool shadow_sp_el0(struct shadow *s, unsigned int cpu, uint64_t value);
void shadow_user(struct shadow *s, unsigned int cpu, uint64_t pc);

/*
 * The pending invalidations of the CPU's task become due: it has flushed what it wanted to. With stage 2, when the
 * task returns to user space, or the MMU notifiers have told of a change.
 */
void shadow_settles(struct shadow *s, unsigned int cpu, uint64_t pc);

/* The CPU's task goes to sleep of its own accord, as opposed to being preempted. */
void shadow_sleeps(struct shadow *s, unsigned int cpu, uint64_t pc);

/* A CPU has accessed @va of the lower half; @pa: the physical address it accessed, or NO_PA. */
void shadow_access(struct shadow *s, unsigned int cpu, uint64_t va, uint64_t pa,
		   bool fetch, uint64_t pc);

/* 2^@order pages of 4 KiB are freed: no CPU may translate to them any more. */
void shadow_free(struct shadow *s, unsigned int cpu, uint64_t pfn, unsigned int order,
		 uint64_t pc);

/* The kernel's addresses from @start to before @end are given back, and may be mapped anew. */
void shadow_returned(struct shadow *s, unsigned int cpu, uint64_t start, uint64_t end, uint64_t pc);

/* A PGD, the root table of an address space, is freed. */
void shadow_dead(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t pc);

/* A CPU has executed a marker that opens, or closes, a window (over_invalidated.h). */
void shadow_open(struct shadow *s, unsigned int cpu, uint64_t id);
void shadow_close(struct shadow *s, unsigned int cpu, uint64_t id);

/*
 * The kernel relies from now on that no CPU can store to these pages (written.h).
 */
enum sync_what {
	SYNC_ALL,		/* through any old entry */
	SYNC_OWN,		/* through old entries that the CPU's current task took away */
	SYNC_UNLOCK,		/* any; the page is unlocked: an incomplete TLBI has the kind "unlocked" */
	SYNC_COPY,		/* as SYNC_ALL; who wants to store to the page from now on gets the copy */
};

void shadow_written(struct shadow *s, unsigned int cpu, uint64_t pfn, uint64_t pages,
		    enum sync_what how, uint64_t pc);

/* A CPU has stored to @va of the lower half: hardware may have set the dirty state of its entry. */
void shadow_wrote(struct shadow *s, unsigned int cpu, uint64_t va);

/* The kind of `pending`: from the TLBI that came nearest, or without one from what was changed. */
enum rule pending_kind(const struct pending *inv);

void shadow_verdict(struct shadow *s);

/* For the modules with rules of their own: report a pending invalidation, noticed by a CPU at @pc. */
void shadow_report_pending(struct shadow *s, unsigned int cpu, uint64_t pc, unsigned int stack,
			      enum rule rule, const struct pending *inv);
/* For the same modules: a finding in which the place where it was noticed is filled in. */
struct finding finding_here(struct shadow *s, unsigned int cpu, uint64_t pc, enum rule rule);

/*
 * A page is freed, or copied, while stage 2 maps it, or lets it be written. Report it, once for each root, while a guest
 * runs with that root, or when one enters: KVM forgets the tables of a machine that ends before it clears them.
 */
void shadow_mapped(struct shadow *s, unsigned int cpu, uint64_t page, enum rule rule, uint64_t pc);
void shadow_entered(struct shadow *s, struct table *root);

/* Advance the clock of the model. Returns the time of the event at hand. */
static inline uint64_t tick(struct shadow *s)
{
	return __atomic_add_fetch(&s->now, 1, __ATOMIC_RELAXED);
}

/* Returns the number of the interned stack of the code that the CPU executes; 0: unknown. */
static inline unsigned int stack_of(struct shadow *s, unsigned int cpu, uint64_t pc)
{
	return s->stack ? s->stack(s->arg, cpu, pc) : 0;
}

#endif
