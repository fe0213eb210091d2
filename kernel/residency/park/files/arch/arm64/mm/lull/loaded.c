// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: what each CPU has loaded.
 *
 * Leaving
 * =======
 *
 * A CPU that loads an address space (mm) sets leaving to the mm it had, then loaded
 * to the new one, and then changes TTBR0_EL1 and the ASID. MSR and ISB alone do not
 * end walks that are under way; a DSB waits for them. So leaving is cleared after an
 * ISB and a DSB. __switch_to() has the DSB. Where the task stays (exec, exit_mm(),
 * kthread_use_mm() and back, EFI, a CPU that goes offline) lull_switched() executes it.
 *
 * Parking
 * =======
 *
 * A CPU that is idle or runs a kernel thread would keep the last mm loaded (lazy
 * TLB), and a flush of that mm would have to reach it. It parks instead: reserved
 * tables and ASID 0. ASID 0, because a CPU may use entries of the current ASID, table
 * entries among them, whatever TTBR0_EL1 names. On the way back the scheduler sees the
 * same mm before and after, and switches nothing, so lull_unpark() loads the mm. No other
 * user code has run in between, so the branch predictors need no hardening.
 *
 * With software PAN, uaccess_enable() loads what current has saved. From where an mm
 * is left until the stack is switched, current is the old task, and an NMI may
 * access user memory. So res_leave() first saves the reserved tables in current; the
 * access faults, as if the page were not there.
 *
 * Here the static key decides about parking only: loaded and leaving are always right.
 */
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/lull_loaded.h>
#include <asm/mmu_context.h>

#include "loaded.h"
#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_residency_on);
DEFINE_PER_CPU(struct lull_cpu, lull_cpu);

/**
 * lull_unload() - load no address space: reserved tables and ASID 0
 *
 * With software PAN both are in place since the kernel was entered.
 *
 * Context: preemption is off. A DSB and lull_left() follow.
 */
void lull_unload(void)
{
	u64 ttbr1;

	res_leave(NULL);
	if (system_uses_ttbr0_pan())
		return;
	ttbr1 = read_sysreg(ttbr1_el1);
	/* With an ISB: no walk of the old tables makes entries of ASID 0. */
	cpu_set_reserved_ttbr0();
	write_sysreg(ttbr1 & ~TTBRx_EL1_ASID_MASK, ttbr1_el1);
	isb();
	post_ttbr_update_workaround();
}

/* The ASID is this CPU's still, in active_asids or, after a roll-over, reserved. */
void __lull_unpark(struct mm_struct *mm)
{
	lull_load(mm);
	if (!system_uses_ttbr0_pan())
		cpu_do_switch_mm(virt_to_phys(mm->pgd), mm);
}

LULL_KEY_SWITCH(residency, "on", lull_residency_on);
