/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Giving memory back with fewer instructions.
 *
 * Each place that can do with fewer asks lull_teardown(), at each decision
 * anew, and else does what it always did: the switch
 * /sys/kernel/mm/lull/teardown may change between any two of them. So nothing
 * that is kept for later may depend on the answer that comes then.
 */
#ifndef _LINUX_LULL_TEARDOWN_H
#define _LINUX_LULL_TEARDOWN_H

#include <linux/jump_label.h>

struct page;

#ifdef CONFIG_LULL_TEARDOWN

DECLARE_STATIC_KEY_FALSE(lull_teardown_key);

static __always_inline bool lull_teardown(void)
{
	return static_branch_likely(&lull_teardown_key);
}

void lull_free_tails(struct page *head, unsigned int nr);

#else /* CONFIG_LULL_TEARDOWN */

static __always_inline bool lull_teardown(void)
{
	return false;
}

static inline void lull_free_tails(struct page *head, unsigned int nr)
{
}

#endif /* CONFIG_LULL_TEARDOWN */

#endif /* _LINUX_LULL_TEARDOWN_H */
