// SPDX-License-Identifier: GPL-2.0-only
/*
 * written - the rule `written`: pages that may no longer be written. See written.h.
 */
#include "once.h"
#include "written.h"

#define PTE_AP2	(1ull << 7)
#define PTE_DBM	(1ull << 51)

static bool was_writable(const struct shadow *s, const struct pending *inv)
{
	bool set = inv->old & PTE_AP2;

	/* In stage 2 the bit allows writes. */
	return !inv->context->kernel && !inv->what.table && (s->stage2 ? set : !set);
}

/* Report the old entry of @inv, on which the kernel relied at @at. */
static void tell(struct shadow *s, struct pending *inv, const struct sync_point *at)
{
	bool issued = pending_nearest(inv) >= MISS_DSB, unlocked = issued && at->unlock;
	enum rule rule = !issued ? RULE_WRITTEN_NO_TLBI :
			 unlocked ? RULE_WRITTEN_UNLOCKED : RULE_WRITTEN_NO_DSB;

	shadow_report_pending(s, at->cpu, at->pc, at->stack, rule, inv);
	pending_at_sync(inv, NULL);
}

/* The kernel relies at @at on no CPU storing through this old entry: report it now, or keep it for later. */
static void look(struct shadow *s, struct pending *inv, struct sync_point *at)
{
	unsigned int cpu;

	if (inv->freed || inv->said & SAID_FREE || !was_writable(s, inv))
		return;
	if (!at->stack && s->stack)
		at->stack = s->stack(s->arg, at->cpu, at->pc);
	if (!inv->sync_point.is || (inv->sync_point.unlock && !at->unlock))
		pending_at_sync(inv, at);
	for_cpus(cpu, inv->held & inv->context->loaded) {
		if (!read_once(&s->cpus[cpu].user))
			continue;
		tell(s, inv, at);
		return;
	}
}

void shadow_written(struct shadow *s, unsigned int cpu, uint64_t pfn, uint64_t pages,
		    enum sync_what how, uint64_t pc)
{
	struct sync_point at = { .is = true, .unlock = how == SYNC_UNLOCK, .cpu = cpu, .pc = pc };
	uint64_t task = s->cpus[cpu].task;

	add_once(&s->seen.cleaned, 1);
	for (uint64_t page = pfn << 12; how == SYNC_COPY && page < (pfn + pages) << 12; page += 0x1000)
		shadow_mapped(s, cpu, page, RULE_WRITTEN_MAPPED, pc);
	if (!s->pendings.n)
		return;
	for (uint64_t page = pfn << 12; page < (pfn + pages) << 12; page += 0x1000) {
		/* Old entries of the page itself, or of a block that the page is part of. */
		for (int b = -1; b < BLOCKS; b++) {
			uint64_t first = b < 0 ? page : page >> block_shifts[b] << block_shifts[b];

			if (b >= 0 && first == page)
				continue;
			for (struct pending *inv = pending_of_page(&s->pendings, first); inv;
			     inv = pending_of_page_next(inv))
				if (inv->what.size > page - first &&
				    (how != SYNC_OWN || inv->task == task))
					look(s, inv, &at);
		}
	}
}

void written_user(struct shadow *s, unsigned int cpu, struct context *c)
{
	if (!c->n_sync_points)
		return;
	list_for(node, &c->pendings) {
		struct pending *inv = container_of(node, struct pending, in_context);

		if (inv->sync_point.is && inv->held & CPU(cpu)) {
			const struct sync_point at = inv->sync_point;

			tell(s, inv, &at);
		}
	}
}

void shadow_wrote(struct shadow *s, unsigned int cpu, uint64_t va)
{
	const struct cpu *c = &s->cpus[cpu];
	const struct step *step;
	unsigned int index;
	struct table *t;
	struct walk w;

	va &= ~(0xffull << 56);
	if (!c->context || !c->context->root || !regime_has(&c->lower, va))
		return;
	walk(&c->lower, c->context->root->pa, va, ram_read, &s->spaces.ram, &w);
	if (!w.valid)
		return;
	step = &w.step[w.steps - 1];
	t = table_at(&s->spaces, step->desc_pa, &index);
	if (t && step->desc & PTE_DBM && (t->desc[index] ^ step->desc) == PTE_AP2 &&
	    !(step->desc & PTE_AP2))
		t->desc[index] = step->desc;
}
