/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands in for the header of the feature residency, which this series does
 * not have: as with CONFIG_LULL_RESIDENCY=n, any CPU may have an address space
 * loaded. The feature's own header replaces this file.
 */
#ifndef __ASM_LULL_RESIDENCY_H
#define __ASM_LULL_RESIDENCY_H

#include <linux/mm_types.h>
#include <linux/types.h>

static inline bool lull_is_nowhere(struct mm_struct *mm)
{
	return false;
}

#endif /* __ASM_LULL_RESIDENCY_H */
