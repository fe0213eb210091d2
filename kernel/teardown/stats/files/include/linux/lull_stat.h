/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A statistic of the folios that are given back one after the other: added up
 * where it is, on the stack, and told to memcg and node once.
 *
 *	struct lull_stat stat = {};
 *
 *	for each folio
 *		lull_stat_add(&stat, folio, item, nr);
 *	lull_stat_flush(&stat);
 *
 * Folios of one memcg and one node add up; where one differs, what was added
 * until then is told first. So each number reaches the memcg and the node that
 * it would have reached, later, but before lull_stat_flush() returns.
 *
 * From the first lull_stat_add() to lull_stat_flush() the caller keeps what
 * __lruvec_stat_mod_folio() asks of it for the item (no preemption; for those
 * that interrupts change too, no interrupts), and memcgs from being freed: by
 * RCU, by a spinlock, or by a reference to a folio that stays charged to it.
 */
#ifndef _LINUX_LULL_STAT_H
#define _LINUX_LULL_STAT_H

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

/**
 * struct lull_stat - what is not told yet
 * @memcg: whose, or NULL
 * @pgdat: the node
 * @item: the statistic
 * @nr: by how much it changes; 0 when there is nothing
 */
struct lull_stat {
	struct mem_cgroup *memcg;
	struct pglist_data *pgdat;
	enum node_stat_item item;
	int nr;
};

#ifdef CONFIG_LULL_TEARDOWN

void __lull_stat_flush(struct lull_stat *stat);

/* Tell what there is. */
static inline void lull_stat_flush(struct lull_stat *stat)
{
	if (stat->nr)
		__lull_stat_flush(stat);
}

/* A folio's @item changes by @nr. */
static inline void lull_stat_add(struct lull_stat *stat, struct folio *folio,
				 enum node_stat_item item, int nr)
{
	struct mem_cgroup *memcg = folio_memcg(folio);
	struct pglist_data *pgdat = folio_pgdat(folio);

	if (unlikely(stat->memcg != memcg || stat->pgdat != pgdat ||
		     stat->item != item)) {
		lull_stat_flush(stat);
		stat->memcg = memcg;
		stat->pgdat = pgdat;
		stat->item = item;
	}
	stat->nr += nr;
}

#else /* CONFIG_LULL_TEARDOWN */

static inline void lull_stat_flush(struct lull_stat *stat)
{
}

static inline void lull_stat_add(struct lull_stat *stat, struct folio *folio,
				 enum node_stat_item item, int nr)
{
	__lruvec_stat_mod_folio(folio, item, nr);
}

#endif /* CONFIG_LULL_TEARDOWN */

#endif /* _LINUX_LULL_STAT_H */
