/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ways to clear the access flag, for young.c and its tests.
 */
#ifndef __ARM64_MM_LULL_YOUNG_H
#define __ARM64_MM_LULL_YOUNG_H

#include "lull.h"

/**
 * enum lull_young_policy - what to do when a page has been made old
 * @LULL_YOUNG_SYNC: invalidate its TLB entry, and wait until every CPU has
 * @LULL_YOUNG_NOSYNC: as stock: invalidate it, and wait only for huge pages
 * @LULL_YOUNG_NONE: as aging_tlbi=off: leave the entry in the TLBs
 */
enum lull_young_policy {
	LULL_YOUNG_SYNC,
	LULL_YOUNG_NOSYNC,
	LULL_YOUNG_NONE,
};

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_young_switch;
#endif

#endif /* __ARM64_MM_LULL_YOUNG_H */
