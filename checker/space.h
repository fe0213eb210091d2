/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * space - the shadow of the translation tables of every address space, and which
 * CPUs can hold entries of it.
 *
 * A *table* is one page of descriptors. Its struct has a copy of them, so that the
 * value before a store is known. A table is followed from the moment at which a
 * table above it, or a TTBR, points to it, until none does. A *context* is what a
 * TLB knows an address space by: an ASID together with the root table it was loaded
 * with (the ASID may later belong to another root). Each root in TTBR1 is a context
 * of its own, `kernel`: its entries are global, or under KPTI used with every ASID.
 * There are few of these, and nearly always all CPUs have the same one loaded.
 *
 * Which CPUs can hold an entry? A CPU may at any time walk any valid descriptor of
 * the context it has loaded, also for addresses that no instruction names (Arm ARM
 * D8.2, speculative walks), and keep the entry until a TLBI. So the holders are the
 * CPUs that have the context loaded, and those that had it loaded while the
 * descriptor was valid and have not been flushed since. Descriptors have the time
 * since which they are valid; contexts have the times at which each CPU left them
 * and was flushed. Comparing these gives the holders, without a record of accesses.
 *
 * A CPU that has unloaded a context but keeps its ASID may go on walking from table
 * descriptors in its TLB. A TLBI that was issued after the CPU unloaded the context
 * ends that, and removes what such walks found before it is complete.
 *
 * A flush of one address does not take a CPU off the holders of a descriptor that is
 * still valid: the CPU may fetch it again. For a CPU that has left the context since
 * then this is too strict. It costs a kernel nothing: a later flush of that address
 * must reach this CPU anyway.
 *
 * A descriptor with AF = 0 counts as valid: hardware may set AF (FEAT_HAFDBS) without
 * a store that the plugin sees.
 *
 * Times are those of the caller's event counter. The caller serialises all calls.
 */
#ifndef LULL_SPACE_H
#define LULL_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"
#include "list.h"
#include "once.h"
#include "ram.h"
#include "walk.h"

#define MAX_CPUS 64
typedef uint64_t cpumask;

#define CPU(n) ((cpumask)1 << (n))
#define for_cpus(c, mask) \
	for (cpumask m_ = (mask); m_ && ((c) = __builtin_ctzll(m_), 1); m_ &= m_ - 1)

struct context {
	struct hash_node by_asid;	/* spaces.by_asid; not of kernel contexts */
	struct list in_root;		/* table.contexts */
	struct list all;		/* spaces.contexts, or spaces.kernels */
	struct table *root;		/* NULL: freed */
	uint16_t asid;
	bool kernel;
	bool hollow;			/* its root never had a valid descriptor */
	cpumask loaded;			/* CPUs that have it in TTBR0, or TTBR1, now */
	cpumask current;		/* CPUs whose ASID is this one, whatever is in TTBR0 */
	cpumask shared;			/* CPUs that have loaded it with CnP (FEAT_TTCNP): each may use the others' entries */
	uint64_t unloaded[MAX_CPUS];	/* when each CPU last unloaded it; 0: never had it */
	uint64_t left[MAX_CPUS];	/* when it could last walk: that, or until when it kept the ASID */
	uint64_t first[MAX_CPUS];	/* when each CPU first loaded it; 0: never */
	uint64_t flushed[MAX_CPUS];	/* when each CPU last invalidated all entries of it */

	/* For pending.c and used.c */
	struct list pendings;
	unsigned int n_pending, n_due, n_freed, n_sync_points;
	unsigned int n_urgent;		/* in a kernel context: due pending invalidations that are not pending_lazy() */
	struct list used;
	unsigned int n_used;
	struct list absent;
};

struct link {
	struct link *next;
	struct table *parent;
	uint16_t index;
};

struct table {
	struct hash_node by_pa;		/* spaces.tables */
	struct regime r;
	int8_t level;
	bool seen_valid;		/* had a valid descriptor once */
	bool told;			/* a root of stage 2: of a page that it still maps; see shadow_mapped() */
	struct finding *untold;		/* the same, until a guest enters */
	cpumask unloaded;		/* CPUs that announced this root as not loaded: unload.h */
	uint16_t n;			/* number of descriptors */
	uint64_t pa;
	struct link *parents;
	struct list contexts;		/* when it is a root */
	struct list armed;		/* for walks.c */
	bool global;			/* it, or a table below, has or had global leaves of the lower half */
	uint64_t *desc;			/* copy of the descriptors */
	uint64_t *since;		/* since when each is valid with its present value */
};

#define WAS_TABLE 0x80	/* the page has held a table since it was last freed */

struct spaces {
	struct ram ram;
	unsigned int ncpus;
	struct hash tables, by_asid;
	struct list contexts, kernels;
	uint64_t flushed_all[MAX_CPUS];	/* when each CPU last invalidated all of EL1&0 */
	uint8_t *followed;		/* for each page of RAM: number of tables in it, and WAS_TABLE */
	uint32_t *mapped;		/* for each page of RAM: number of valid leaves that lead to it; NULL: not counted */
	uint64_t bytes;			/* memory used */
	uint64_t n_tables;
	/* A table begins to be followed, and its descriptors are not read yet; or it was linked at one more place. */
	void (*linked)(void *arg, struct table *t);
	void *arg;
};

void spaces_init(struct spaces *s, unsigned int ncpus);

/* The guest's RAM was found; until then there is none. Returns false if there is no memory. */
bool spaces_ram(struct spaces *s, const struct ram *ram);
void spaces_free(struct spaces *s);

/*
 * Returns the context of an ASID and a root table, in the half that the regime says.
 * The root is followed from now on.
 */
struct context *context_get(struct spaces *s, uint16_t asid, uint64_t root,
			    const struct regime *r, uint64_t now);

/*
 * A CPU loads, or unloads, a context in its TTBR. A CPU that has another root (for
 * example the reserved one) under the same ASID starts no walk at this context's
 * root, but may use entries that it holds, table descriptors included.
 */
void context_load(struct context *c, unsigned int cpu, uint64_t now);
void context_unload(struct context *c, unsigned int cpu, uint64_t now);

/* Returns the CPUs that can hold an entry whose descriptor is valid since @since. */
cpumask context_holders(const struct spaces *s, const struct context *c, uint64_t since);

/*
 * Returns those of context_holders() on which no flush of another ASID that the same
 * root was loaded with is complete: for copies that have no ASID (walks.h).
 */
cpumask context_walkers(const struct spaces *s, const struct context *c, uint64_t since);

/* To go through the contexts of an ASID: for (c = context_first(); c; c = context_next(c)). */
struct context *context_first(const struct spaces *s, uint16_t asid);
struct context *context_next(const struct context *c);

/* Returns the table that the descriptor at @pa is in, and its index; NULL: none is followed there. */
struct table *table_at(const struct spaces *s, uint64_t pa, unsigned int *index);

static inline bool page_is_followed(const struct spaces *s, uint64_t pa)
{
	return ram_has(&s->ram, pa, 1) && read_once(&s->followed[(pa - s->ram.base) >> 12]) & ~WAS_TABLE;
}

/* A descriptor of the table is valid from now on (@n is 1), or no longer (-1): for spaces.mapped, if that is counted. */
void table_maps(struct spaces *s, const struct table *t, uint64_t desc, int n);

/* A page is freed. Returns true if it has held a table since it was last freed. */
bool page_was_table(struct spaces *s, uint64_t pa);

/* Calls @fn with each context that reaches a descriptor, and the address it translates there. */
typedef void (*place_fn)(void *arg, struct context *c, uint64_t va);
void table_places(struct spaces *s, const struct table *t, unsigned int index,
		  place_fn fn, void *arg);

/*
 * Calls @fn for each valid descriptor of the table that a descriptor points to, and of
 * the tables below. offset: from the first address that the upper descriptor translates.
 */
typedef void (*below_fn)(void *arg, struct table *t, unsigned int index, uint64_t offset);
void table_below(struct spaces *s, const struct table *t, unsigned int index,
		 below_fn fn, void *arg);

/* The same for all descriptors of a table. */
void table_all(struct spaces *s, struct table *t, below_fn fn, void *arg);

/* The table has a global leaf of the lower half: mark it, and all tables above it. */
void table_global(struct table *t);

/* The descriptor points to a table now, or no longer: begin, or cease, to follow that table. */
void table_link(struct spaces *s, struct table *t, unsigned int index, uint64_t now);
void table_unlink(struct spaces *s, struct table *t, unsigned int index);

/*
 * The page of a table is freed. Its contexts lose their root, and nothing is followed
 * through the table any more.
 */
void table_forget(struct spaces *s, struct table *t);

/* Free the contexts whose root is freed and of which no CPU can hold entries. */
void contexts_collect(struct spaces *s);

#endif
