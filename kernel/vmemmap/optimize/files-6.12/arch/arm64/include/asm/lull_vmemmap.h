/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __ASM_LULL_VMEMMAP_H
#define __ASM_LULL_VMEMMAP_H

#include <linux/types.h>

#ifdef CONFIG_LULL_VMEMMAP
extern bool hvo_by_pages;
#else
#define hvo_by_pages	false
#endif

#endif /* __ASM_LULL_VMEMMAP_H */
