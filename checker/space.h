/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * space - the translation tables of every address space, and which CPUs can
 * hold entries of it.
 *
 * A *table* is one page of descriptors, with a copy of them: what they were
 * before a store. It is followed from the moment a table above it points to
 * it, or TTBRx does, until nothing does. A *context* is what a TLB knows an
 * address space by: an ASID, together with the root it was loaded with (an
 * ASID is given to others later). What TTBR1 translates is a context of its
 * own for each root, `kernel`: its entries are global, or under KPTI used with
 * every ASID. There are few, and all CPUs share nearly always one.
 *
 * Who can hold an entry? A CPU may walk at any time for the context it has
 * loaded, for any valid descriptor, also for addresses that no instruction
 * names (Arm ARM D8.2, speculative walks), and keep what it found until a
 * TLBI. So: every CPU that has the context loaded, and each that had it loaded
 * while the descriptor was valid and has not been flushed since. Descriptors
 * remember since when they are valid, contexts when each CPU left them and
 * when it was flushed: that decides it without following single accesses. A
 * flush of one address does not make a CPU forget here what is still valid in
 * the table: it may come again for all we know. This says too much for a CPU
 * that has meanwhile left, which costs nothing: a later flush of that address
 * must reach it anyway.
 *
 * AF = 0 counts as valid: hardware may set AF (FEAT_HAFDBS) without a store
 * that we see.
 *
 * Times are those of the caller's event counter. The caller serialises.
 */
#ifndef LULL_SPACE_H
#define LULL_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"
#include "list.h"
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
	struct table *root;		/* NULL: given back */
	uint16_t asid;
	bool kernel;
	bool hollow;			/* its root never had a valid descriptor */
	cpumask loaded;			/* CPUs that have it in TTBR0, or TTBR1, now */
	cpumask current;		/* CPUs whose ASID is this one, whatever is in TTBR0 */
	uint64_t left[MAX_CPUS];	/* when each last unloaded it; 0: never had it */
	uint64_t flushed[MAX_CPUS];	/* when each last forgot all of it */

	/* For owe.c and used.c */
	struct list owes;
	unsigned int n_owes, n_due, n_freed, n_relied;
	unsigned int n_less;		/* of a kernel's: due, for a permission */
	struct list used;
	unsigned int n_used;
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
	cpumask unloaded;		/* CPUs that say that they have not loaded this root: unload.h */
	uint16_t n;			/* descriptors */
	uint64_t pa;
	struct link *parents;
	struct list contexts;		/* when it is a root */
	struct list armed;		/* for walks.c */
	bool global;			/* has, or had, global leaves of the lower half, or those below */
	uint64_t *desc;			/* copy */
	uint64_t *since;		/* when each became valid as it is */
};

#define WAS_TABLE 0x80	/* a table was in this page since it was freed last */

struct spaces {
	struct ram ram;
	unsigned int ncpus;
	struct hash tables, by_asid;
	struct list contexts, kernels;
	uint64_t flushed_all[MAX_CPUS];	/* when each forgot everything of EL1&0 */
	uint8_t *followed;		/* per page of RAM: how many tables lie in it, and WAS_TABLE */
	uint64_t bytes;			/* memory used */
	uint64_t n_tables;
	/* A table is followed from now on; its contents are not read yet. */
	void (*linked)(void *arg, struct table *t);
	void *arg;
};

bool spaces_init(struct spaces *s, const struct ram *ram, unsigned int ncpus);
void spaces_free(struct spaces *s);

/* The context of an ASID and a root, for the half that the regime says; followed from now on. */
struct context *context_get(struct spaces *s, uint16_t asid, uint64_t root,
			    const struct regime *r, uint64_t now);

/*
 * With another root under the same ASID (the reserved one, say) a CPU starts
 * no walk of it, but uses what it holds, table descriptors too.
 */
void context_load(struct context *c, unsigned int cpu);
void context_unload(struct context *c, unsigned int cpu, uint64_t now);

/* CPUs that can hold an entry which is valid since then. */
cpumask context_holders(const struct spaces *s, const struct context *c, uint64_t since);

/*
 * Those of them on which no TLBI of another ASID is complete either that the
 * root was loaded with: for copies that have no ASID (walks.h).
 */
cpumask context_walkers(const struct spaces *s, const struct context *c, uint64_t since);

/* The contexts of an ASID: for (n = context_first(); n; n = hash_next(n)). */
struct context *context_first(const struct spaces *s, uint16_t asid);
struct context *context_next(const struct context *c);

/* The table that holds a descriptor's address and its index; NULL: none. */
struct table *table_at(const struct spaces *s, uint64_t pa, unsigned int *index);

static inline bool page_is_followed(const struct spaces *s, uint64_t pa)
{
	return ram_has(&s->ram, pa, 1) && s->followed[(pa - s->ram.base) >> 12] & ~WAS_TABLE;
}

/* A page is given back; was there a table in it? */
bool page_was_table(struct spaces *s, uint64_t pa);

/* Where a descriptor stands in the address spaces that reach it. */
typedef void (*place_fn)(void *arg, struct context *c, uint64_t va);
void table_places(struct spaces *s, const struct table *t, unsigned int index,
		  place_fn fn, void *arg);

/*
 * What is below a descriptor: every valid one of the table that it points to,
 * and of the tables below that. offset: of the first address it translates.
 */
typedef void (*below_fn)(void *arg, struct table *t, unsigned int index, uint64_t offset);
void table_below(struct spaces *s, const struct table *t, unsigned int index,
		 below_fn fn, void *arg);

/* The same of all of a table. */
void table_all(struct spaces *s, struct table *t, below_fn fn, void *arg);

/* A leaf of the lower half in it is global: known from its roots on. */
void table_global(struct table *t);

/* The descriptor is a table's now, or no longer: follow, or leave, what is below. */
void table_link(struct spaces *s, struct table *t, unsigned int index, uint64_t now);
void table_unlink(struct spaces *s, struct table *t, unsigned int index);

/*
 * The page of a table is given back. Its contexts lose it; nothing is followed
 * through it any more.
 */
void table_forget(struct spaces *s, struct table *t);

/* Contexts without a root that no CPU can hold entries of. */
void contexts_collect(struct spaces *s);

#endif
