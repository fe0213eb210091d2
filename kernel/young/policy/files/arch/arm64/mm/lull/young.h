/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The access flag policy, for young.c and its tests.
 */
#ifndef __ARM64_MM_LULL_YOUNG_H
#define __ARM64_MM_LULL_YOUNG_H

#include <linux/mm_types.h>

#include "lull.h"

/**
 * enum lull_young_policy - what to do when a page has been made old
 * @LULL_YOUNG_SYNC: invalidate its TLB entry, and wait until every CPU has
 * @LULL_YOUNG_NOSYNC: invalidate it, and do not wait
 * @LULL_YOUNG_NONE: leave the entry in the TLBs
 * @LULL_YOUNG_AUTO: choose one of them each time
 */
enum lull_young_policy {
	LULL_YOUNG_SYNC,
	LULL_YOUNG_NOSYNC,
	LULL_YOUNG_NONE,
	LULL_YOUNG_AUTO,
};

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_young_switch;

enum lull_young_policy lull_young_decide(struct mm_struct *mm);
#endif

#endif /* __ARM64_MM_LULL_YOUNG_H */
