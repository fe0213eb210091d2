// SPDX-License-Identifier: GPL-2.0-only
/*
 * Statistics of folios that are given back, told once for many: see
 * include/linux/lull_stat.h.
 */
#include <linux/lull_stat.h>
#include <linux/vmstat.h>

/**
 * __lull_stat_flush() - tell memcg and node what has been added up
 * @stat: what it is; empty afterwards
 *
 * Context: as __lruvec_stat_mod_folio() for the item.
 */
void __lull_stat_flush(struct lull_stat *stat)
{
	if (stat->memcg)
		__mod_lruvec_state(mem_cgroup_lruvec(stat->memcg, stat->pgdat),
				   stat->item, stat->nr);
	else
		__mod_node_page_state(stat->pgdat, stat->item, stat->nr);
	stat->nr = 0;
	count_vm_event(TEARDOWN_STATS);
}
