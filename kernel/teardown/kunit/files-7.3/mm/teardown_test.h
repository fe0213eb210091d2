/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What teardown_test.c has other names for in other Linux releases.
 */
#ifndef __MM_TEARDOWN_TEST_H
#define __MM_TEARDOWN_TEST_H

#include <linux/folio_batch.h>

static inline unsigned long *flags_of(struct page *page)
{
	return &page->flags.f;
}

#endif /* __MM_TEARDOWN_TEST_H */
