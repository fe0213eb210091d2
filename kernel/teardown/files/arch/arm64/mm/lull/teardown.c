// SPDX-License-Identifier: GPL-2.0-only
/*
 * Giving memory back with fewer instructions: the switch, and the tail pages
 * of what is freed.
 */
#include <kunit/visibility.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/lull_teardown.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/vmstat.h>

#include "teardown.h"

DEFINE_STATIC_KEY_FALSE(lull_teardown_key);

static const char * const teardown_policies[] = {
	[LULL_TEARDOWN_OFF]	= "off",
	[LULL_TEARDOWN_ON]	= "on",
	NULL
};

static void teardown_apply(int policy)
{
	lull_set_key(&lull_teardown_key, policy == LULL_TEARDOWN_ON);
}

VISIBLE_IF_KUNIT struct lull_switch lull_teardown_switch =
	LULL_SWITCH(teardown, teardown_policies, LULL_TEARDOWN_ON,
		    teardown_apply);

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

static int __init teardown_boot(char *name)
{
	return lull_switch_boot(&lull_teardown_switch, name);
}
early_param("lull_teardown", teardown_boot);

static int __init teardown_init(void)
{
	return lull_switch_register(&lull_teardown_switch);
}
subsys_initcall(teardown_init);
