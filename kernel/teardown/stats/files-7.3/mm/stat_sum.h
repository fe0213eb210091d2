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
 * From the first stat_sum_add() to stat_sum_apply() the caller is in one RCU
 * read-side section, as with a page table mapped, or has the folios locked. So no
 * obj_cgroup is freed meanwhile: memory failure may uncharge a folio that others
 * have references to, but not one that is locked. The memcg is read from the
 * obj_cgroup when the sum is applied. If it has become the parent meanwhile, the
 * parent has taken over the child's statistics, too.
 */
#ifndef __MM_STAT_SUM_H
#define __MM_STAT_SUM_H

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

/**
 * struct stat_sum - what has not been applied yet
 * @memcg_data: of the folios; 0 if they are not charged
 * @nid: their node
 * @item: the statistic
 * @nr: by how much it changes
 */
struct stat_sum {
	unsigned long memcg_data;
	int nid;
	enum node_stat_item item;
	int nr;
};

void stat_sum_apply(struct stat_sum *sum);
void stat_sum_start(struct stat_sum *sum, struct folio *folio,
		    enum node_stat_item item, int nr);

/* Folios with the same key are charged to the same obj_cgroup, or to none. */
static inline unsigned long folio_memcg_key(struct folio *folio)
{
#ifdef CONFIG_MEMCG
	return folio->memcg_data;
#else
	return 0;
#endif
}

static inline void stat_sum_add(struct stat_sum *sum, struct folio *folio,
				enum node_stat_item item, int nr)
{
	if (likely(sum->memcg_data == folio_memcg_key(folio) &&
		   sum->item == item && sum->nid == folio_nid(folio)))
		sum->nr += nr;
	else
		stat_sum_start(sum, folio, item, nr);
}

#endif /* __MM_STAT_SUM_H */
