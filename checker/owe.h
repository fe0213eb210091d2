/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * owe - what is owed for a changed descriptor: an invalidation, completed, on
 * every CPU that can hold the old one.
 *
 * An obligation is made when a valid descriptor is cleared, replaced or
 * allowed less. It says who can hold the old entry; TLBIs that cover it and
 * DSBs that complete them take CPUs off. It is met when none is left, or when
 * the descriptor has become as good as the old one again.
 *
 * It is *open* while the task that made it has not returned to user space:
 * a flush is under way, and entries old and new are legitimate. After that it
 * is *due*: no CPU that is left may have the context loaded, now or later.
 * That is the rule for kernels that leave TLBIs out: an address space that
 * runs nowhere may stay stale, under the condition that each CPU forgets it
 * before loading it again.
 *
 * In the kernel's half leaves that were cleared are never due: vfree() flushes
 * when it likes to. Permissions that were taken away are.
 *
 * An obligation also knows the page that the old entry leads to, so that
 * somebody who frees the page finds it. The caller serialises.
 */
#ifndef LULL_OWE_H
#define LULL_OWE_H

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"
#include "list.h"
#include "reach.h"
#include "space.h"
#include "walk.h"

#define OWE_TLBIS 4

/* Why a TLBI was not enough; in the order of nearness. */
enum miss {
	MISS_NONE, MISS_VA, MISS_ASID, MISS_NOTHING, MISS_LEVEL, MISS_LAST, MISS_LOCAL,
	MISS_ORDER, MISS_DSB,
};

const char *miss_name(enum miss m);

/* A TLBI that was executed, for reports. */
struct tlbi_seen {
	const char *name;
	uint64_t operand;
	unsigned int cpu;
	uint64_t pc;
};

/* Where a kernel relied on it that nothing is stored through an old entry (written.h). */
struct relied {
	bool is;
	bool unlock;			/* by who locks the page next: a TLBI may be on its way */
	uint8_t cpu;
	unsigned int stack;
	uint64_t pc;
};

struct owe {
	struct hash_node by_va;		/* owes.by_va */
	struct hash_node by_page;	/* owes.by_page */
	struct hash_node by_slot;	/* owes.by_slot, when there are walkers */
	struct list in_context, in_task;
	struct context *context;
	struct cached what;		/* the old entry */
	enum desc_change change;
	uint64_t old, new;		/* descriptors */
	uint64_t page;			/* what the old one leads to */
	uint64_t slot;			/* where the descriptor is */
	uint64_t since;			/* old was valid since */
	uint64_t when;			/* the store */
	uint64_t task;			/* who made it; 0: nobody knows */
	uint64_t pc;
	unsigned int stack;		/* see report.h */
	uint8_t cpu;
	bool due, freed, met;
	bool told;			/* of the rule `written`: reported */
	struct relied relied;
	bool collected;			/* its flush was put off; see rely.h for these */
	bool moved;			/* what it led to is mapped elsewhere */
	cpumask issued;			/* CPUs that a TLBI was issued for, complete or not */
	struct list also;		/* other tasks that owe it */
	uint32_t refs;			/* pending TLBIs that name it */
	cpumask held;			/* CPUs that can still hold the old entry; 0: see walks.h */
	cpumask walkers;		/* CPUs that can hold a copy by its physical address (walks.h) */
	unsigned int n_tlbis;		/* that came near since; the nearest are kept */
	struct {
		struct tlbi_seen tlbi;
		enum miss miss;
	} tlbis[OWE_TLBIS];
};

struct owes {
	struct hash by_va, by_page, by_slot;
	struct hash tasks;
	struct hash also;		/* by task: what each owes that others have made */
	uint64_t n_also;
	uint64_t open;			/* not due yet */
	uint64_t open_kernel;		/* of these, in the kernel's half */
	uint64_t n, made, most;
	uint64_t limit;			/* of n */
	bool overflow;
};

void owes_init(struct owes *o, uint64_t limit);
void owes_free(struct owes *o, struct spaces *s);

/* Takes the fields up to cpu, held and walkers of *model; NULL at the limit. */
struct owe *owe_make(struct owes *o, const struct owe *model);

/* Met, withdrawn, or reported. */
void owe_drop(struct owes *o, struct owe *w);

/*
 * It was cleared in the kernel's half, where that is never due, and has been
 * made again with fewer permissions, by a task: now it is as if they had just
 * been taken away.
 */
void owe_less(struct owes *o, struct owe *w, uint64_t task, uint64_t desc);

/* Its task has returned. */
void owe_due(struct owes *o, struct owe *w);

/* The page of its old entry was freed. */
void owe_freed(struct owe *w);

/* Relied on, here; NULL: that was reported, and is over. */
void owe_relied(struct owe *w, const struct relied *at);

void owe_saw(struct owe *w, const struct tlbi_seen *t, enum miss m);

/* Those of a task; empty list or NULL when there are none. */
struct list *owes_of_task(struct owes *o, uint64_t task);

/* One of a task's that is in the kernel's half, or NULL. */
struct owe *owe_of_kernel(struct owes *o, uint64_t task);

/* Those of one entry of a context, wherever its descriptor was; of a 4 KiB page of memory. */
struct owe *owe_at(const struct owes *o, const struct context *c, uint64_t va, int level);
struct owe *owe_at_next(const struct owe *w);
struct owe *owe_of_page(const struct owes *o, uint64_t page);
struct owe *owe_of_page_next(const struct owe *w);

/* Those with walkers, of descriptors in a 4 KiB page of memory. */
struct owe *owe_of_slot(const struct owes *o, uint64_t page);
struct owe *owe_of_slot_next(const struct owe *w);

#endif
