/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pending - pending invalidations. A changed descriptor obliges the kernel to complete an
 * invalidation of the old entry on every CPU that can hold it.
 *
 * A pending invalidation is made when a valid descriptor is cleared, replaced, or loses
 * permissions. It lists the CPUs that can hold the old entry. A TLBI that covers
 * the entry, and a DSB that completes the TLBI, take CPUs off the list. The
 * pending invalidation is complete when no CPU is left, or when the descriptor again allows all
 * that the old one did.
 *
 * A pending invalidation is *open* until the task that made it returns to user space: the
 * task may still flush, and both the old and the new entry are legitimate. After
 * that it is *due*: no CPU on the list may have the context loaded, then or later.
 * This is what lets a kernel elide TLBIs: an address space that is loaded nowhere
 * may have stale entries, if each CPU removes them before it loads it again.
 *
 * Cleared leaves of vmalloc's addresses are never reported as due, because vfree() may
 * flush at any later time. Others of the kernel's half are, and permissions taken away there, and
 * leaves that were pointed to another page without break-before-make.
 *
 * A pending invalidation can also be found by the page that the old entry leads to, for
 * when that page is freed. The caller serialises all calls.
 */
#ifndef LULL_PENDING_H
#define LULL_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"
#include "list.h"
#include "scope.h"
#include "space.h"
#include "walk.h"

#define PENDING_TLBIS 4

/* Why a TLBI did not complete a pending invalidation; the later in this list, the nearer it came. */
enum miss {
	MISS_NONE, MISS_VA, MISS_ASID, MISS_NOTHING, MISS_LEVEL, MISS_LAST, MISS_LOCAL,
	MISS_ORDER, MISS_STAGE, MISS_DSB, MISS_REPEAT,
};

const char *miss_name(enum miss m);

struct pending;

/* Why the TLBI that came nearest was not enough; MISS_NONE if there was none. */
enum miss pending_nearest(const struct pending *inv);

/* A TLBI that was executed, for reports. */
struct tlbi_seen {
	const char *name;
	uint64_t operand;
	unsigned int cpu;
	uint64_t pc;
};

/* Where a kernel relied on no CPU storing through an old entry (written.h). */
struct sync_point {
	bool is;
	bool unlock;			/* when it unlocked the page: the TLBI may be incomplete */
	uint8_t cpu;
	unsigned int stack;
	uint64_t pc;
};

/*
 * A report ends nothing: the pending invalidation stays until it is complete or withdrawn, because worse may
 * follow. Each of these is reported once.
 */
enum said {
	SAID_PENDING = 1 << 0, SAID_FREE = 1 << 1, SAID_UNSETTLED = 1 << 2, SAID_UNLOCKED = 1 << 3,
	SAID_RMAP = 1 << 4, SAID_COLLECTED = 1 << 5, SAID_CONTENTS = 1 << 6,
};

struct pending {
	struct hash_node by_va;		/* pendings.by_va */
	struct hash_node by_page;	/* pendings.by_page */
	struct hash_node by_slot;	/* pendings.by_slot, when there are walkers */
	struct list in_context, in_task;
	struct context *context;
	struct cached what;		/* the old entry */
	enum desc_change change;
	uint64_t old, new;		/* descriptors */
	uint64_t page;			/* what the old one leads to */
	/*
	 * The page that the new one leads to, if the entry was replaced without break-before-make
	 * because both are read-only and the pages have the same contents; otherwise 0.
	 */
	uint64_t twin;
	uint64_t slot;			/* where the descriptor is */
	uint64_t since;			/* old was valid since */
	uint64_t when;			/* the store */
	uint64_t task;			/* the task that made the store; 0: unknown */
	uint64_t pc;
	unsigned int stack;		/* see report.h */
	uint8_t cpu;
	bool lazy;			/* nobody waits for the flush: an entry of vmalloc's addresses was cleared (vfree()) */
	bool due, freed, met;
	uint8_t said;			/* what was reported of it, enum said */
	struct sync_point sync_point;
	/* For sync_point.c: */
	bool collected;			/* its flush was deferred */
	bool moved;			/* the page or table it led to is mapped at another address now */
	cpumask issued;			/* CPUs that a TLBI was issued for, complete or not */
	struct list also;		/* other tasks that rely on its flush (struct also) */
	uint32_t refs;			/* incomplete TLBIs that point to it */
	cpumask held;			/* CPUs that can still hold the old entry; 0: see walks.h */
	cpumask walkers;		/* CPUs that can hold a copy by physical address (walks.h) */
	/*
	 * Of stage 2: of @held, those that can hold the entry of stage 2 itself. The others hold at most
	 * entries that a walk of both stages has combined of it before.
	 */
	cpumask alone;
	unsigned int n_tlbis;		/* TLBIs that came near since the store; the nearest are kept */
	struct {
		struct tlbi_seen tlbi;
		enum miss miss;
	} tlbis[PENDING_TLBIS];
};

/* A task relies on the flush of a pending invalidation that another task has made. */
struct also {
	struct list in_pending, in_task;
	struct pending *pending;
	uint64_t task;			/* the task that relies on the flush */
	uint64_t pc;			/* where it began to */
	unsigned int stack;
	uint8_t cpu;
};

struct pendings {
	struct hash by_va, by_page, by_slot;
	struct hash tasks;
	struct hash also;		/* by task: pending invalidations of others whose flush it relies on */
	uint64_t n_also;
	uint64_t n_reported;		/* reported as pending */
	uint64_t open;			/* not due yet */
	uint64_t open_kernel;		/* of these, in the kernel's half */
	uint64_t n, made, most;
	uint64_t limit;			/* the most that n may be */
	bool overflow;
};

void pendings_init(struct pendings *o, uint64_t limit);
void pendings_free(struct pendings *o, struct spaces *s);

/* Make a pending invalidation with the fields of *model up to cpu, held and walkers. Returns NULL at the limit. */
struct pending *pending_make(struct pendings *o, const struct pending *model);

/* Return true the first time that this is to be reported of the pending invalidation. */
bool pending_say(struct pending *inv, enum said what);

/* It was reported as pending: nobody may load its context, and that is known. Keeps it, if there are not too many. */
void pending_reported(struct pendings *o, struct pending *inv);

/* End a pending invalidation: it is complete, or withdrawn. */
void pending_drop(struct pendings *o, struct pending *inv);

/*
 * An entry of the kernel's half was cleared, for which nothing is ever due, and
 * @task has now written it again with fewer permissions. From now on the
 * pending invalidation is one for permissions that @task has taken away.
 */
void pending_less(struct pendings *o, struct pending *inv, uint64_t task, uint64_t desc);

/* The pending invalidation's task has returned to user space. */
void pending_due(struct pendings *o, struct pending *inv);

/* The page that the old entry leads to was freed, and no CPU could use it; or that is reported now. */
void pending_freed(struct pending *inv, bool freed);

/* The kernel relies on the old entry at @at; NULL: that was reported. */
void pending_at_sync(struct pending *inv, const struct sync_point *at);

/* A DSB has completed the TLBIs of this CPU, and @m is why this is not enough. */
void pending_completed(struct pending *inv, unsigned int cpu, enum miss m);

/* A TLBI was executed that does not, or does not yet, complete the pending invalidation: keep it for the report. */
void pending_saw(struct pending *inv, const struct tlbi_seen *t, enum miss m);

/* The task of @model relies on the flush of a pending invalidation from now on. */
void also_make(struct pendings *o, struct pending *inv, const struct also *model);
void also_free(struct pendings *o, struct also *a);

/* Returns a pending invalidation of another task that @task relies on, or NULL. */
struct also *also_of(const struct pendings *o, uint64_t task);

/* The open pending invalidations of a task; an empty list or NULL when there are none. */
struct list *pendings_of_task(struct pendings *o, uint64_t task);

/*
 * Returns an open pending invalidation of a task in the kernel's half that is due when the task sleeps, or NULL.
 * Those of cleared entries are not: the task may flush after it has slept (vfree() of code, memfd_secret()).
 */
struct pending *pending_of_kernel(struct pendings *o, uint64_t task);

/*
 * The pending invalidations for one entry of a context, whichever table its descriptor was in;
 * and those whose old entry leads to a 4 KiB page of memory.
 */
struct pending *pending_at(const struct pendings *o, const struct context *c, uint64_t va,
			  int level);
struct pending *pending_at_next(const struct pending *inv);
struct pending *pending_of_page(const struct pendings *o, uint64_t page);
struct pending *pending_of_page_next(const struct pending *inv);

/* The pending invalidations with walkers (walks.h) whose descriptor is in a 4 KiB page of memory. */
struct pending *pending_of_slot(const struct pendings *o, uint64_t page);
struct pending *pending_of_slot_next(const struct pending *inv);

#endif
