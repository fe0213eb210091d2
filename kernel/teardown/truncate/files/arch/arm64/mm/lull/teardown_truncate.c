// SPDX-License-Identifier: GPL-2.0-only
/*
 * What leaves the page cache of tmpfs in batches: mm/truncate.c does it, this
 * counts.
 */
#include <linux/lull_teardown.h>
#include <linux/mm.h>
#include <linux/vmstat.h>

/* A batch has left the page cache. */
void lull_count_truncate(void)
{
	count_vm_event(TEARDOWN_TRUNCATE);
}
