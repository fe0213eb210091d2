/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What teardown_test.c has other names for in other Linux releases.
 */
#ifndef __MM_TEARDOWN_TEST_H
#define __MM_TEARDOWN_TEST_H

#include <linux/pagevec.h>

#define compound_info		compound_head
#define EMPTY_VMA_FLAGS		0
#define FOLIO_BATCH_SIZE	PAGEVEC_SIZE

static inline unsigned long *flags_of(struct page *page)
{
	return &page->flags;
}

#endif /* __MM_TEARDOWN_TEST_H */
