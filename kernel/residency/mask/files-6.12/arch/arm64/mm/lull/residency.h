/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: what its files share. See residency.c.
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <linux/limits.h>

struct mm_struct;

/* residency.walker: several CPUs may have walked the tables. */
#define RES_WALKERS	UINT_MAX

void res_make_clean(struct mm_struct *mm);

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
