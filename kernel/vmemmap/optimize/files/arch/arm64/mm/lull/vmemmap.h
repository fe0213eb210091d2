/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the KUnit tests of vmemmap.c use of it.
 */
#ifndef __ARM64_MM_LULL_VMEMMAP_H
#define __ARM64_MM_LULL_VMEMMAP_H

#include <linux/types.h>

struct page;

#if IS_ENABLED(CONFIG_KUNIT)
extern bool hvo_enabled;
unsigned int hvo_alloc_few(int nid, unsigned int nr, struct page **frames);
#endif

#endif /* __ARM64_MM_LULL_VMEMMAP_H */
