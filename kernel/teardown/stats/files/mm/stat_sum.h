/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One statistic of many folios, applied to their memcg and node once:
 *
 *	struct stat_sum sum = {};
 *
 *	for each folio
 *		stat_sum_add(&sum, folio, item, nr);
 *	stat_sum_apply(&sum);
 *
 * Where memcg, node or item of a folio differ from those of the folios before
 * it, what was added until then is applied first.
 *
 * From the first stat_sum_add() to stat_sum_apply() the caller prevents what
 * __lruvec_stat_mod_folio() asks it to prevent for the item (preemption; for
 * items that interrupts change too, interrupts), and keeps a reference to each
 * folio, so that it stays charged: its memcg is not released before the sum has
 * been applied, and passes it on to its parents.
 */
#ifndef __MM_STAT_SUM_H
#define __MM_STAT_SUM_H

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

/**
 * struct stat_sum - what has not been applied yet
 * @memcg: of the folios; NULL if they are not charged
 * @pgdat: their node
 * @item: the statistic
 * @nr: by how much it changes
 */
struct stat_sum {
	struct mem_cgroup *memcg;
	struct pglist_data *pgdat;
	enum node_stat_item item;
	int nr;
};

void stat_sum_apply(struct stat_sum *sum);

static inline void stat_sum_add(struct stat_sum *sum, struct folio *folio,
				enum node_stat_item item, int nr)
{
	struct pglist_data *pgdat = folio_pgdat(folio);
	struct mem_cgroup *memcg;

	/* Charged to an obj_cgroup, which pins no memcg. */
	if (folio_memcg_kmem(folio)) {
		__lruvec_stat_mod_folio(folio, item, nr);
		return;
	}
	memcg = folio_memcg(folio);
	if (unlikely(sum->memcg != memcg || sum->pgdat != pgdat ||
		     sum->item != item)) {
		stat_sum_apply(sum);
		sum->memcg = memcg;
		sum->pgdat = pgdat;
		sum->item = item;
	}
	sum->nr += nr;
}

#endif /* __MM_STAT_SUM_H */
