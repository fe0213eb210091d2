// SPDX-License-Identifier: GPL-2.0-only
/*
 * Giving memory back with fewer instructions: the switch, and the tail pages
 * of what is freed.
 */
#include <linux/jump_label.h>
#include <linux/lull_teardown.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/vmstat.h>

#include "teardown.h"

DEFINE_STATIC_KEY_FALSE(lull_teardown_key);

/**
 * lull_free_tails() - make the tail pages of a compound page plain pages
 * @head: the compound page, which is being freed
 * @nr: how many pages it has, the head among them
 *
 * What free_pages_prepare() does to each of them when pages are not checked,
 * and nothing else. A page is three stores; eight pages a round make what the
 * loop costs by itself small beside them.
 */
void lull_free_tails(struct page *head, unsigned int nr)
{
	struct page *end = head + nr;
	struct page *tail;

#pragma GCC unroll 8
	for (tail = head + 1; tail < end; tail++) {
		tail->flags &= ~PAGE_FLAGS_CHECK_AT_PREP;
		tail->mapping = NULL;
		clear_compound_head(tail);
	}
	count_vm_event(TEARDOWN_TAILS);
}

LULL_KEY_SWITCH(teardown, "on", lull_teardown_key);
