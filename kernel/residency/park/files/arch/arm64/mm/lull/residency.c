// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * The assumption
 * ==============
 *
 * A CPU begins walks for an ASID, and uses TLB entries of it, only while one of its
 * TTBRs holds this ASID, and until a DSB after that. The architecture does not say so in
 * one place. All below depends on it. A hypervisor that moves a vCPU must see to it that
 * its local TLBIs hold where it was, as KVM does (HCR_EL2.FB).
 *
 * State
 * =====
 *
 * Per CPU, in lull_cpu, written by this CPU only:
 *
 *	loaded		the address space (mm) that TTBR0_EL1 and the ASID name
 *	leaving		the mm before it, until a DSB has ended the walks of it; MSR and
 *			ISB do not end them
 *
 * What makes it true
 * ==================
 *
 * Idle CPUs and kernel threads *park*: reserved tables and ASID 0. Between its writes of
 * the ASID and of TTBR0_EL1, cpu_do_switch_mm() has no ISB; like stock, this relies on
 * CPUs that do not walk the new tables for the old ASID then. The scheduler switches
 * nothing if they return to the same mm, so lull_unpark() loads it. The branch predictors
 * need no hardening then: no other user code has run.
 *
 * With software PAN, uaccess_enable() loads what current has saved. From where an mm is
 * left until the stack is switched, current is the old task, and an NMI may access user
 * memory. So res_leave() first saves the reserved tables in current.
 *
 * The static key changes at boot only, before any user mm exists.
 */
#include <linux/init.h>
#include <linux/kstrtox.h>

#include <asm/cpufeature.h>

#include "residency.h"

DEFINE_STATIC_KEY_TRUE(lull_residency_on);
DEFINE_PER_CPU_SHARED_ALIGNED(struct lull_cpu, lull_cpu);

/*
 * Reserved tables and ASID 0. ASID 0, because a CPU may use entries of the current ASID
 * whatever TTBR0_EL1 names. With software PAN both are in place since the kernel was
 * entered.
 */
static void res_load_none(void)
{
	u64 ttbr1;

	if (system_uses_ttbr0_pan())
		return;
	ttbr1 = read_sysreg(ttbr1_el1);
	/* With an ISB: no walk of the old tables makes entries of ASID 0. */
	cpu_set_reserved_ttbr0();
	write_sysreg(ttbr1 & ~TTBRx_EL1_ASID_MASK, ttbr1_el1);
	isb();
	post_ttbr_update_workaround();
}

/**
 * lull_unload() - load no address space
 *
 * Context: preemption is off. A DSB and lull_left() follow.
 */
void lull_unload(void)
{
	if (!lull_is_on())
		return;
	res_leave(NULL);
	res_load_none();
}

/* The ASID is this CPU's still, in active_asids or, after a roll-over, reserved. */
void __lull_unpark(struct mm_struct *mm)
{
	lull_load(mm);
	if (!system_uses_ttbr0_pan())
		cpu_do_switch_mm(virt_to_phys(mm->pgd), mm);
}

static int __init res_parse(char *arg)
{
	bool on;
	int error = kstrtobool(arg, &on);

	if (error)
		return error;
	if (on)
		static_branch_enable(&lull_residency_on);
	else
		static_branch_disable(&lull_residency_on);
	return 0;
}
early_param("lull_residency", res_parse);
