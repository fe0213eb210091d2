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
 * __lruvec_stat_mod_folio() asks it to prevent for the item: preemption, or
 * interrupts where they change the item, too. It has a reference to each folio,
 * which stays charged, and is in an RCU read-side section. So the memcg is not
 * released, and its statistics not passed on to its parents, before the sum has
 * been applied. (memcg v1 can move a charge away; RCU alone keeps the memcg then.)
 */
#ifndef __MM_STAT_SUM_H
#define __MM_STAT_SUM_H

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

/**
 * struct stat_sum - what has not been applied yet
 * @memcg: of the folios; NULL if they are not charged
 * @nid: their node
 * @item: the statistic
 * @nr: by how much it changes
 */
struct stat_sum {
	struct mem_cgroup *memcg;
	int nid;
	enum node_stat_item item;
	int nr;
};

void stat_sum_apply(struct stat_sum *sum);
void stat_sum_start(struct stat_sum *sum, struct folio *folio,
		    enum node_stat_item item, int nr);

/*
 * Folios with the same key are charged to the same memcg: to this one, if they
 * are not charged to an obj_cgroup. Read once, because memcg v1 can move a
 * charge meanwhile.
 */
static inline unsigned long folio_memcg_key(struct folio *folio)
{
#ifdef CONFIG_MEMCG
	return READ_ONCE(folio->memcg_data);
#else
	return 0;
#endif
}

static inline void stat_sum_add(struct stat_sum *sum, struct folio *folio,
				enum node_stat_item item, int nr)
{
	if (likely((unsigned long)sum->memcg == folio_memcg_key(folio) &&
		   sum->item == item && sum->nid == folio_nid(folio)))
		sum->nr += nr;
	else
		stat_sum_start(sum, folio, item, nr);
}

#endif /* __MM_STAT_SUM_H */
