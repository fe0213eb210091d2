// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: its policies, and how they change while everything runs.
 *
 * counted, rename and sticky keep the same words, and each may follow the other at
 * any time: what was left out under one stays noted, and whoever loads it looks.
 * Only to take numbers away is more than that: all loads must heed it, and words
 * must be true. So it begins last of all, and ends first; see lull_rename().
 *
 * Off, nothing is kept, and what runs is stock's code. Static keys change at
 * different moments on different CPUs, but have changed on all when
 * static_branch_enable() or static_branch_disable() returns (models/switch.pml
 * tries the moments). So there are two:
 *
 *	lull_residency_track	loads and leaves are kept track of
 *	lull_residency_on	flushes leave something out, CPUs park, and new
 *				address spaces are counted
 *
 * On: first "track"; then each CPU says what it has loaded; then "on". An address
 * space that was made before "on" was seen is MANY: there may be CPUs on which it
 * was loaded and not counted.
 *
 * Off: first "on", and an RCU grace period: whoever saw it has decided, and nothing
 * is left out, or parked, from then on. Then each CPU loads again what it has
 * parked, which the scheduler believes to be loaded, and forgets its whole TLB:
 * what was left out before that is made good. Then "track", and the words are not
 * kept any more. When it is switched on again they are of another epoch, and
 * count as MANY.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <kunit/visibility.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <asm/lull_residency.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "lull.h"
#include "residency.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "lull."

enum { OFF, COUNTED, RENAME, STICKY };

static const char * const residency_policies[] = {
	[OFF]		= "off",
	[COUNTED]	= "counted",
	[RENAME]	= "rename",
	[STICKY]	= "sticky",
	NULL
};

DEFINE_STATIC_KEY_FALSE(lull_residency_track);
DEFINE_STATIC_KEY_FALSE(lull_residency_on);
DEFINE_STATIC_KEY_FALSE(lull_residency_sticky);
DEFINE_STATIC_KEY_FALSE(lull_residency_rename);

/*
 * Numbers are taken away: not before all CPUs load as lull_rename() needs it, and
 * not after the first does not.
 */
bool lull_may_rename __read_mostly;

/* 0 is that of what was made while it was off. */
u32 lull_residency_epoch __read_mostly;

unsigned int lull_residency_limit __read_mostly = 4;

/* -1: what the ID registers say. 1: whoever boots it vouches for all CPUs. */
int lull_residency_ntlbpa __read_mostly = -1;
module_param_named(residency_ntlbpa, lull_residency_ntlbpa, int, 0444);
MODULE_PARM_DESC(residency_ntlbpa, "do all CPUs have FEAT_nTLBPA: 1, 0, or -1 to ask them");

static int set_limit(const char *value, const struct kernel_param *kp)
{
	return param_set_uint_minmax(value, kp, 1, RES_MAX_LIMIT);
}

static const struct kernel_param_ops limit_ops = {
	.set = set_limit,
	.get = param_get_uint,
};

module_param_cb(residency_limit, &limit_ops, &lull_residency_limit, 0644);
MODULE_PARM_DESC(residency_limit, "the most CPUs an address space is counted on");

/**
 * lull_init_mm() - a new address space, loaded nowhere, and without an ASID
 * @mm: the address space
 */
void lull_init_mm(struct mm_struct *mm)
{
	/* Read first: it may be off and on again before the key is. */
	u64 w = FIELD_PREP(RES_EPOCH, READ_ONCE(lull_residency_epoch));

	barrier();
	if (!static_branch_likely(&lull_residency_on))
		w = RES_MANY;
	atomic64_set(res_word(mm), w);
}

/* On each CPU, with interrupts off: what it has loaded before that was kept. */
static void adopt(void *unused)
{
	struct mm_struct *mm = current->active_mm;

	*this_cpu_ptr(&lull_cpu) = (struct lull_cpu){
		.loaded = mm == &init_mm ? NULL : mm,
	};
}

static void switch_on(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&lull_cpu, cpu), 0, sizeof(lull_cpu));
	WRITE_ONCE(lull_residency_epoch, lull_residency_epoch + 1 ?: 1);
	static_branch_enable(&lull_residency_track);
	on_each_cpu(adopt, NULL, true);
	static_branch_enable(&lull_residency_on);
}

/* On each CPU, with interrupts off: as if it had never been switched on. */
static void settle(void *unused)
{
	if (lull_is_parked())
		check_and_switch_context(current->active_mm);
	local_flush_tlb_all();
}

static void switch_off(void)
{
	static_branch_disable(&lull_residency_on);
	synchronize_rcu();
	on_each_cpu(settle, NULL, true);
	static_branch_disable(&lull_residency_track);
}

static void residency_apply(int policy)
{
	bool was_on = static_key_enabled(&lull_residency_on);

	/* Who takes one away, or loads one, has interrupts off. */
	if (policy != RENAME && lull_may_rename) {
		WRITE_ONCE(lull_may_rename, false);
		synchronize_rcu();
	}
	lull_set_key(&lull_residency_rename, policy == RENAME);
	lull_set_key(&lull_residency_sticky, policy == STICKY);
	if (policy != OFF && !was_on)
		switch_on();
	if (policy == RENAME && !lull_may_rename) {
		synchronize_rcu();
		WRITE_ONCE(lull_may_rename, true);
	}
	if (policy == OFF && was_on)
		switch_off();
}

VISIBLE_IF_KUNIT struct lull_switch lull_residency_switch =
	LULL_SWITCH(residency, residency_policies, COUNTED, residency_apply);

static int __init residency_boot(char *name)
{
	return lull_switch_boot(&lull_residency_switch, name);
}
early_param("lull_residency", residency_boot);

static int __init residency_init(void)
{
	return lull_switch_register(&lull_residency_switch);
}
subsys_initcall(residency_init);
