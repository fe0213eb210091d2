/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * arch/arm64/mm/lull/residency.c has the protocol and its proof.
 *
 * Without CONFIG_LULL_RESIDENCY every function here leaves its caller as it was.
 */
#ifndef __ASM_LULL_RESIDENCY_H
#define __ASM_LULL_RESIDENCY_H

#include <linux/mm_types.h>

#ifdef CONFIG_LULL_RESIDENCY

void lull_init_mm(struct mm_struct *mm);

#else /* CONFIG_LULL_RESIDENCY */

static inline void lull_init_mm(struct mm_struct *mm) {}

#endif /* CONFIG_LULL_RESIDENCY */

#endif /* __ASM_LULL_RESIDENCY_H */
