// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab kernel's boot parameters: which mutant, and how many ASIDs.
 *
 * A mutant becomes active when the kernel has booted, just before init starts:
 * what is wrong then is wrong for programs to see. /sys/kernel/mm/lull/mutant
 * shows which it is, so that a test knows that it tests what it means to.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/cache.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/panic.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/lull_lab.h>

#include "lull.h"

static const char * const mutants[] = {
	[LULL_MUTANT_NONE]		= "none",
	[LULL_PAGE_NONE]		= "page-none",
	[LULL_PAGE_LOCAL]		= "page-local",
	[LULL_PAGE_NO_DSB]		= "page-no-dsb",
	[LULL_PAGE_DSB_NSH]		= "page-dsb-nsh",
	[LULL_PAGE_DSB_ISHST]		= "page-dsb-ishst",
	[LULL_PAGE_FIRST]		= "page-first",
	[LULL_PAGE_ASID]		= "page-asid",
	[LULL_PAGE_KPTI]		= "page-kpti",
	[LULL_RANGE_LOCAL]		= "range-local",
	[LULL_RANGE_NO_DSB]		= "range-no-dsb",
	[LULL_RANGE_SHORT]		= "range-short",
	[LULL_WRONG_TTL]		= "wrong-ttl",
	[LULL_NO_ISHST]			= "no-ishst",
	[LULL_LEAF_NONE]		= "leaf-none",
	[LULL_TABLES_LAST_LEVEL]	= "tables-last-level",
	[LULL_FREE_EARLY]		= "free-early",
	[LULL_ROOT_EARLY]		= "root-early",
	[LULL_MM_NONE]			= "mm-none",
	[LULL_MM_LOCAL]			= "mm-local",
	[LULL_MM_NO_DSB]		= "mm-no-dsb",
	[LULL_BATCH_NO_DSB]		= "batch-no-dsb",
	[LULL_BATCH_PENDING_NONE]	= "batch-pending-none",
	[LULL_BATCH_UNLOCK_EARLY]	= "batch-unlock-early",
	[LULL_COLLECT_LAZYFREE]		= "collect-lazyfree",
	[LULL_COLLECT_UFFD]		= "collect-uffd",
	[LULL_COLLECT_TABLE]		= "collect-table",
	[LULL_COLLECT_SHORT]		= "collect-short",
	[LULL_COLLECT_ALL_NONE]		= "collect-all-none",
	[LULL_COLLECT_NO_ISHST]		= "collect-no-ishst",
	[LULL_ROLLOVER_NO_FLUSH]	= "rollover-no-flush",
	[LULL_ROLLOVER_NO_RESERVE]	= "rollover-no-reserve",
	[LULL_COW_IN_PLACE]		= "cow-in-place",
	[LULL_COW_NO_FLUSH]		= "cow-no-flush",
	[LULL_MREMAP_NONE]		= "mremap-none",
	[LULL_SPLIT_NONE]		= "split-none",
	[LULL_COLLAPSE_NONE]		= "collapse-none",
	[LULL_CONTPTE_NONE]		= "contpte-none",
	[LULL_KERNEL_NONE]		= "kernel-none",
	[LULL_STALE_NONE]		= "stale-none",
	[LULL_RSTALE_NONE]		= "rstale-none",
	[LULL_HERE_ELSEWHERE]		= "here-elsewhere",
	[LULL_HERE_NO_DSB]		= "here-no-dsb",
	[LULL_MASK_NO_ISHST]		= "mask-no-ishst",
	[LULL_LOAD_LATE]		= "load-late",
	[LULL_PUT_BACK_NONE]		= "put-back-none",
	[LULL_PARK_ASID]		= "park-asid",
	[LULL_LOOK_BLIND]		= "look-blind",
	[LULL_WALKER_KEEPS]		= "walker-keeps",
	[LULL_LAZY_UNCOUNTED]		= "lazy-uncounted",
	[LULL_LOOK_UNSEEN]		= "look-unseen",
	[LULL_RUNS_SHORT]		= "runs-short",
	[LULL_RUNS_DROP]		= "runs-drop",
	[LULL_RUNS_NO_DSB]		= "runs-no-dsb",
	[LULL_RUNS_NO_TABLE]		= "runs-no-table",
	[LULL_RUNS_TABLES_LAST_LEVEL]	= "runs-tables-last-level",
	[LULL_HVO_WRITABLE]		= "hvo-writable",
	[LULL_HVO_NO_TLBI]		= "hvo-no-tlbi",
	[LULL_HVO_DIFFERS]		= "hvo-differs",
	[LULL_HVO_FREE_EARLY]		= "hvo-free-early",
	[LULL_HVO_RESTORE_NO_TLBI]	= "hvo-restore-no-tlbi",
	[LULL_TAIL_WRITE]		= "tail-write",
	[LULL_DIRTY_NONE]		= "flush-dirty-none",
	[LULL_MKCLEAN_NONE]		= "mkclean-none",
	[LULL_MIGRATE_LATE]		= "migrate-late",
	[LULL_RMAP_EARLY]		= "rmap-early",
	[LULL_CONTPTE_SHORT]		= "contpte-short",
	[LULL_ZAP_PENDING_NONE]		= "zap-pending-none",
	[LULL_PROTECT_PENDING_NONE]	= "protect-pending-none",
	[LULL_MREMAP_PENDING_NONE]	= "mremap-pending-none",
	[LULL_NESTED_NONE]		= "nested-none",
	[LULL_MREMAP_LATE]		= "mremap-late",
	[LULL_UNLOAD_NO_ISB]		= "unload-no-isb",
	[LULL_UNLOAD_NO_DSB]		= "unload-no-dsb",
	[LULL_UNLOAD_EARLY]		= "unload-early",
	[LULL_SWITCH_NO_DSB]		= "switch-no-dsb",
	[LULL_SWITCH_ACCESS]		= "switch-access",
	[LULL_PROTECT_NONE]		= "protect-none",
	[LULL_PROTECT_NO_DSB]		= "protect-no-dsb",
	[LULL_PROTECT_ANEW_NONE]	= "protect-anew-none",
	[LULL_FREED_ELIDED]		= "freed-elided",
	[LULL_SPAN_HULL]		= "span-hull",
	[LULL_HUGETLB_LEAF]		= "hugetlb-leaf",
	[LULL_HUGETLB_ENTRY]		= "hugetlb-entry",
	[LULL_PAN_LEFT]			= "pan-left",
	[LULL_EXIT_LOADED]		= "exit-loaded",
	[LULL_EXIT_UNSHARED]		= "exit-unshared",
	[LULL_IDMAP_NO_FLUSH]		= "idmap-no-flush",
	[LULL_TAIL_NO_RCU]		= "tail-no-rcu",
	NULL
};

enum lull_mutant lull_mutant __ro_after_init;
EXPORT_SYMBOL_GPL(lull_mutant);

static enum lull_mutant chosen __initdata;
static char unknown[32] __initdata;
static u32 asid_bits __ro_after_init = 16;

static int __init mutant_boot(char *name)
{
	int found = name ? __sysfs_match_string(mutants, -1, name) : -EINVAL;

	if (found >= 0)
		chosen = found;
	else
		strscpy(unknown, name && *name ? name : "(nothing)");
	return 0;
}
early_param("lull_mutant", mutant_boot);

/* What is active is decided by the parameter alone: there is no way to write. */
static void __init mutant_apply(int policy)
{
	lull_mutant = policy;
	if (policy)
		pr_info("mutant %s: TLB maintenance is broken on purpose\n",
			mutants[policy]);
}

static struct lull_switch mutant_switch = {
	.attr = __ATTR(mutant, 0444, lull_switch_show, NULL),
	.policies = mutants,
};

/*
 * A test that asks for a mutant there is not must not go on without one: it
 * would find that nothing is found. Late, where a console is sure to be there.
 */
static int __init mutant_init(void)
{
	int i;

	if (*unknown) {
		pr_err("lull_mutant=%s: no such mutant; known:\n", unknown);
		for (i = 0; mutants[i]; i++)
			pr_err("  %s\n", mutants[i]);
		panic("lull_mutant=%s: no such mutant", unknown);
	}
	mutant_switch.policy = chosen;
	mutant_switch.apply = mutant_apply;
	return lull_switch_register(&mutant_switch);
}
late_initcall_sync(mutant_init);

static int __init asid_bits_boot(char *value)
{
	u32 bits;

	if (!value || kstrtou32(value, 0, &bits) || (bits != 8 && bits != 16)) {
		pr_err("lull_asid_bits=%s: 8 or 16, please\n", value ?: "");
		return -EINVAL;
	}
	asid_bits = bits;
	return 0;
}
early_param("lull_asid_bits", asid_bits_boot);

/**
 * lull_lab_asid_bits() - how many bits of an ASID to use
 * @bits: as many as this CPU has
 *
 * For every CPU in the same way. The hardware goes on comparing as many as it
 * has; the others are zero.
 */
u32 lull_lab_asid_bits(u32 bits)
{
	return min(bits, asid_bits);
}

static unsigned int batch_wait __ro_after_init;

static int __init batch_wait_boot(char *value)
{
	if (!value || kstrtouint(value, 0, &batch_wait) || batch_wait > 100) {
		pr_err("lull_batch_wait=%s: 0 to 100 ms, please\n", value ?: "");
		batch_wait = 0;
		return -EINVAL;
	}
	return 0;
}
early_param("lull_batch_wait", batch_wait_boot);

/**
 * lull_lab_batch_waits() - wait before a batch of deferred TLBIs is issued
 *
 * For as many ms as the boot parameter lull_batch_wait= says; 0 by default. Other
 * tasks meet entries whose flush is deferred then, again and again and not by
 * luck. The kernel must be right for any time that a batch takes. Busy: to sleep
 * would complete the TLBIs of this CPU, by the DSB in __switch_to().
 */
void lull_lab_batch_waits(void)
{
	if (batch_wait && system_state == SYSTEM_RUNNING)
		mdelay(batch_wait);
}
