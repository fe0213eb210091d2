// SPDX-License-Identifier: GPL-2.0-only
/*
 * contig - the rule bbm/set: contiguous blocks whose descriptors do not agree. See contig.h.
 */
#include <stdlib.h>

#include "contig.h"
#include "once.h"
#include "shadow.h"

#define LEAF_AP2	(1ull << 7)
#define LEAF_AF		(1ull << 10)
#define LEAF_DBM	(1ull << 51)

/* A set that does not agree. */
struct contig {
	struct hash_node node;
	uint64_t pa;		/* physical address of its first descriptor */
	uint64_t task, pc;	/* of the last store to it */
	unsigned int cpu, stack;
	struct contig *next;	/* in contig_user(): the next set of the same task */
};

/* The number of descriptors in a set of that level; 0: the level has no sets. */
static unsigned int set_size(const struct regime *r, int level)
{
	if (level < 1)
		return 0;
	switch (r->granule) {
	case 12:
		return 16;
	case 14:
		return level == 3 ? 128 : level == 2 ? 32 : 0;
	default:
		return level >= 2 ? 32 : 0;
	}
}

/* The descriptor without the bits that hardware may change in one of a set: AF, and the dirty state. */
static uint64_t plain(uint64_t desc)
{
	if (desc & LEAF_DBM)
		desc &= ~LEAF_AP2;
	return desc | LEAF_AF;
}

static bool is_contiguous(const struct table *t, unsigned int index)
{
	return desc_kind(&t->r, t->level, t->desc[index]) == DESC_LEAF &&
	       desc_contiguous(t->desc[index]);
}

/* Return true if the descriptor agrees with the first one of the set. */
static bool agrees(const struct table *t, unsigned int first, unsigned int index)
{
	const struct regime *r = &t->r;
	uint64_t a = t->desc[first], b = t->desc[index];
	uint64_t at = desc_output(r, t->level, a), output = desc_output(r, t->level, b);

	if (!is_contiguous(t, index) ||
	    output != at + ((uint64_t)(index - first) << level_shift(r, t->level)))
		return false;
	/* The same but for the output, which is known to be right. */
	return desc_change(r, t->level, plain(a), (plain(b) & ~output) | at) == CHANGE_NOTHING;
}

/* Returns the first descriptor that does not agree with the others, or the size of the set. */
static unsigned int odd_one(const struct table *t, unsigned int first, unsigned int size)
{
	bool contiguous = false;
	uint64_t output;

	for (unsigned int i = first; i < first + size; i++)
		contiguous |= is_contiguous(t, i);
	if (!contiguous)
		return size;
	output = desc_output(&t->r, t->level, t->desc[first]);
	if (!is_contiguous(t, first) ||
	    output & (((uint64_t)size << level_shift(&t->r, t->level)) - 1))
		return 0;
	for (unsigned int i = 1; i < size; i++)
		if (!agrees(t, first, first + i))
			return i;
	return size;
}

static struct contig *find(const struct contigs *c, uint64_t pa)
{
	for (struct hash_node *n = hash_first(&c->by_set, pa); n; n = hash_next(n))
		if (container_of(n, struct contig, node)->pa == pa)
			return container_of(n, struct contig, node);
	return NULL;
}

static void drop(struct contigs *c, struct contig *set)
{
	hash_del(&c->by_set, &set->node);
	free(set);
	add_once(&c->n, -1);
}

void contig_stored(struct shadow *s, unsigned int cpu, struct table *t, unsigned int index,
		   uint64_t old, uint64_t pc)
{
	unsigned int size = set_size(&t->r, t->level), first;
	struct contig *set;
	uint64_t pa;

	if (!size || size > t->n)
		return;
	first = index & ~(size - 1);
	pa = t->pa + 8ull * first;
	set = find(&s->contigs, pa);
	/*
	 * Most descriptors neither are nor were contiguous, and neither are the others of
	 * their set. If others are, the set does not agree, and is in s->contigs already.
	 */
	if (!set && !is_contiguous(t, index) && !desc_contiguous(old))
		return;
	if (odd_one(t, first, size) == size) {
		if (set)
			drop(&s->contigs, set);
		return;
	}
	if (!set) {
		set = calloc(1, sizeof(*set));
		if (!set)
			abort();
		set->pa = pa;
		hash_add(&s->contigs.by_set, &set->node, pa);
		add_once(&s->contigs.n, 1);
	}
	/* The same loop stores to its next descriptor: keep the stack. */
	if (set->task == s->cpus[cpu].task && set->cpu == cpu && set->pc == pc)
		return;
	set->task = s->cpus[cpu].task;
	set->cpu = cpu;
	set->pc = pc;
	set->stack = stack_of(s, cpu, pc);
}

struct told {
	struct shadow *s;
	const struct contig *set;
	const struct table *t;
	unsigned int index;
};

static void tell(void *arg, struct context *c, uint64_t va)
{
	const struct told *told = arg;
	const struct table *t = told->t;
	unsigned int size = set_size(&t->r, t->level);
	unsigned int first = told->index & ~(size - 1);
	struct finding f = {
		.rule = RULE_BBM_SET, .cpu = told->set->cpu,
		.pc = told->set->pc, .stack = told->set->stack, .task = told->set->task,
		.asid = c->asid, .kernel = c->kernel, .va = va, .level = t->level,
		.old = t->desc[first], .new = t->desc[told->index],
		.old_page = desc_output(&t->r, t->level, t->desc[first]),
		.new_page = desc_output(&t->r, t->level, t->desc[told->index]),
		.holders = c->loaded,
	};

	if (c->loaded)
		report(&told->s->reports, &f);
}

static void contig_left(struct shadow *s, const struct contig *set)
{
	struct told told = { .s = s, .set = set };
	unsigned int first, odd;

	told.t = table_at(&s->spaces, set->pa, &first);
	if (!told.t || first & (set_size(&told.t->r, told.t->level) - 1))
		return;		/* the table was freed */
	odd = odd_one(told.t, first, set_size(&told.t->r, told.t->level));
	if (odd == set_size(&told.t->r, told.t->level))
		return;
	told.index = first + odd;
	table_places(&s->spaces, told.t, told.index, tell, &told);
}

void contig_user(struct shadow *s, uint64_t task)
{
	struct contigs *c = &s->contigs;
	struct contig *mine = NULL;

	if (!c->n)
		return;
	for (size_t i = 0; i < (size_t)1 << (64 - c->by_set.shift); i++) {
		for (struct hash_node *n = c->by_set.bucket[i]; n; n = n->next) {
			struct contig *set = container_of(n, struct contig, node);

			if (set->task == task) {
				set->next = mine;
				mine = set;
			}
		}
	}
	while (mine) {
		struct contig *set = mine;

		mine = set->next;
		contig_left(s, set);
		drop(c, set);
	}
}

void contig_free(struct shadow *s)
{
	struct contigs *c = &s->contigs;

	for (size_t i = 0; c->by_set.bucket && i < (size_t)1 << (64 - c->by_set.shift); i++)
		while (c->by_set.bucket[i])
			drop(c, container_of(c->by_set.bucket[i], struct contig, node));
	free(c->by_set.bucket);
}
