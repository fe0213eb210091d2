// SPDX-License-Identifier: GPL-2.0-only
/*
 * shadow_free - pages and page tables are freed: the rule `free`. See shadow.h.
 *
 * When a page is freed, no CPU that runs user code may hold an old entry that leads to
 * the page, and no CPU an old entry of the kernel's half, unless it was just cleared and is of
 * vmalloc: Linux flushes those before it gives the address back, and that is judged then. When a table is freed, no CPU that can use the context may hold an old
 * descriptor that leads to the table, and no CPU may have a context loaded that still
 * reaches the table. If no CPU can use an old entry at that time, it is checked again
 * when a CPU gets the context (shadow_context.c) or runs user code with it.
 */
#include <stdlib.h>

#include "once.h"
#include "shadow_internal.h"

static bool somebody_runs(const struct shadow *s, const struct pending *inv, unsigned int *who)
{
	for_cpus(*who, inv->held & inv->context->current)
		if (read_once(&s->cpus[*who].user))
			return true;
	return false;
}

/* The page that the old entry of a pending invalidation leads to is freed. */
static void page_freed(struct shadow *s, unsigned int cpu, struct pending *inv, uint64_t pc)
{
	unsigned int who;

	/*
	 * After vfree() the kernel frees pages before it flushes; nothing uses the addresses any more. Not those
	 * of code (VM_FLUSH_RESET_PERMS), through which a CPU could execute what the page has next.
	 */
	if (!inv->held || inv->said & SAID_FREE ||
	    (inv->lazy && !inv->what.table && !desc_executable(inv->old)))
		return;
	/* A walk may use a table descriptor in the TLB at any time, whatever TTBR0 points to. */
	if (inv->context->kernel || (inv->what.table ? inv->held & inv->context->current :
						       somebody_runs(s, inv, &who))) {
		report_pending(s, cpu, pc, inv->what.table ? RULE_FREE_TABLE : RULE_FREE_PAGE, inv);
		pending_say(inv, SAID_FREE);
		return;
	}
	pending_freed(inv, true);
	pending_due(&s->pendings, inv);
}

void check_freed(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc)
{
	if (!c->n_freed)
		return;
	list_for(node, &c->pendings) {
		struct pending *inv = container_of(node, struct pending, in_context);

		if (!inv->freed || !(inv->held & CPU(cpu)))
			continue;
		report_pending(s, cpu, pc, inv->what.table ? RULE_FREE_TABLE : RULE_FREE_PAGE, inv);
		pending_say(inv, SAID_FREE);
		pending_freed(inv, false);
	}
}

static void context_dies(struct shadow *s, struct context *c)
{
	walks_context_dies(s, c);
	while (!list_empty(&c->pendings))
		pending_drop(&s->pendings,
			 container_of(c->pendings.next, struct pending, in_context));
	used_drop_context(&s->used, c);
}

static void add_loaded(void *arg, struct context *c, uint64_t va)
{
	(void)va;
	*(cpumask *)arg |= c->loaded;
}

/* A table that other tables or contexts still point to is freed. */
static void table_freed(struct shadow *s, unsigned int cpu, struct table *t, uint64_t pc)
{
	cpumask loaded = 0;
	struct finding f;

	table_places(&s->spaces, t, 0, add_loaded, &loaded);
	if (loaded) {
		f = finding_here(s, cpu, pc, t->parents ? RULE_FREE_TABLE : RULE_FREE_ROOT);
		f.old_page = t->pa;
		f.level = t->level;
		f.table = true;
		f.kernel = t->r.upper;
		f.holders = loaded;
		report(&s->reports, &f);
	}
	walks_table_freed(s, cpu, t, pc);
	list_for(node, &t->contexts)
		context_dies(s, container_of(node, struct context, in_root));
	table_forget(&s->spaces, t);
}

struct search {
	uint64_t page;
	bool written;		/* only entries that may be written */
	struct finding f;
	bool found;
};

static void leads_to(void *arg, struct table *t, unsigned int index, uint64_t offset)
{
	struct search *at = arg;
	uint64_t first = desc_output(&t->r, t->level, t->desc[index]);

	if (at->found || desc_kind(&t->r, t->level, t->desc[index]) != DESC_LEAF || at->page < first ||
	    at->page - first >= 1ull << level_shift(&t->r, t->level) ||
	    (at->written && !desc_writable(&t->r, t->desc[index])))
		return;
	at->found = true;
	at->f.va = offset;
	at->f.level = t->level;
	at->f.old = at->f.new = t->desc[index];
	at->f.old_page = at->f.new_page = first;
}

void shadow_mapped(struct shadow *s, unsigned int cpu, uint64_t page, enum rule rule, uint64_t pc)
{
	if (!s->spaces.mapped || !ram_has(&s->spaces.ram, page, 1) ||
	    !s->spaces.mapped[(page - s->spaces.ram.base) >> 12])
		return;
	list_for(node, &s->spaces.contexts) {
		struct context *c = container_of(node, struct context, all);
		struct search at = { .page = page, .written = rule != RULE_FREE_MAPPED };
		struct table *root = c->root;

		if (!root || root->told)
			continue;
		if (!root->untold) {
			at.f = finding_here(s, cpu, pc, rule);
			at.f.asid = c->asid;
			at.f.holders = c->loaded;
			table_all(&s->spaces, root, leads_to, &at);
			if (!at.found)
				continue;
			root->untold = malloc(sizeof(at.f));
			if (!root->untold)
				abort();
			*root->untold = at.f;
		}
		if (c->loaded)
			shadow_entered(s, root);
	}
}

void shadow_entered(struct shadow *s, struct table *root)
{
	if (!root->untold)
		return;
	root->told = true;
	report(&s->reports, root->untold);
	free(root->untold);
	root->untold = NULL;
}

void shadow_free(struct shadow *s, unsigned int cpu, uint64_t pfn, unsigned int order,
		 uint64_t pc)
{
	s->seen.frees++;
	for (uint64_t page = pfn << 12; page < (pfn + (1ull << order)) << 12; page += 0x1000) {
		struct pending *next;

		for (unsigned int at = 0; page_is_followed(&s->spaces, page) && at < 0x1000; at += 16) {
			unsigned int index;
			struct table *t = table_at(&s->spaces, page + at, &index);

			if (t && t->pa == page + at)
				table_freed(s, cpu, t, pc);
		}
		shadow_mapped(s, cpu, page, RULE_FREE_MAPPED, pc);
		s->seen.table_frees += page_was_table(&s->spaces, page);
		if (!s->pendings.n)
			continue;
		walks_page_freed(s, page);
		for (struct pending *inv = pending_of_page(&s->pendings, page); inv; inv = next) {
			next = pending_of_page_next(inv);
			page_freed(s, cpu, inv, pc);
		}
		/* The page may be part of a block, whose pending invalidation is found by the block's first page. */
		for (int b = 0; b < BLOCKS; b++) {
			uint64_t first = page >> block_shifts[b] << block_shifts[b];

			for (struct pending *inv = pending_of_page(&s->pendings, first);
			     inv && first != page; inv = next) {
				next = pending_of_page_next(inv);
				if (!inv->what.table && inv->what.size > page - first)
					page_freed(s, cpu, inv, pc);
			}
		}
	}
}

void shadow_returned(struct shadow *s, unsigned int cpu, uint64_t start, uint64_t end, uint64_t pc)
{
	s->seen.returned++;
	list_for(kernel, &s->spaces.kernels) {
		struct context *c = container_of(kernel, struct context, all);

		list_for(node, &c->pendings) {
			struct pending *inv = container_of(node, struct pending, in_context);

			if (!inv->held || inv->said & SAID_PENDING || inv->what.va >= end ||
			    inv->what.va + (inv->what.size - 1) < start)
				continue;
			report_pending(s, cpu, pc, pending_kind(inv), inv);
			pending_reported(&s->pendings, inv);
		}
	}
}

void shadow_dead(struct shadow *s, unsigned int cpu, uint64_t root, uint64_t pc)
{
	unsigned int index;
	struct table *t = table_at(&s->spaces, root, &index);

	s->seen.frees++;
	if (!t || t->pa != root)
		return;
	table_freed(s, cpu, t, pc);
	s->seen.table_frees++;
}
