/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: what its files share. See residency.c.
 *
 * These files are the same for Linux 6.12. Below are 6.12's names for what has another
 * name now.
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <linux/limits.h>
#include <linux/mm_types.h>

#include <asm/tlbflush.h>

#include "loaded.h"

/*
 * The clean CPUs. Linux's own mm_cpumask() holds the CPUs that execute user code of the
 * mm with SME, to which erratum 4193714 needs IPIs: sme_dvmsync(). So residency has a
 * mask of its own, and its files mean that one.
 */
#define mm_cpumask(mm)	(&(mm)->context.residency.clean)

/* residency.walker: several CPUs may have walked the tables. */
#define RES_WALKERS	UINT_MAX

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
