/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_LULL_VMEMMAP_H
#define __ASM_LULL_VMEMMAP_H

#include <linux/init.h>
#include <linux/types.h>

#ifdef CONFIG_LULL_VMEMMAP
bool __meminit lull_vmemmap_by_pages(void);
#else
static inline bool lull_vmemmap_by_pages(void)
{
	return false;
}
#endif

#if IS_ENABLED(CONFIG_KUNIT)
struct page;

unsigned int hvo_alloc_few(int nid, unsigned int nr, struct page **frames);
#endif

#endif /* __ASM_LULL_VMEMMAP_H */
