// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab kernel: a user access in __switch_to(), after this CPU has said that
 * the address space of the previous task is not loaded.
 *
 * Until the change of stacks, current is the previous task. An NMI there may
 * read user memory (perf records the user stack so). With SW PAN such a read
 * writes TTBR0_EL1 and the ASID, from what the task has saved for it.
 *
 *	lull_switch_access=1	read a word of the user stack there, at each
 *				switch, as that NMI would. It is no bug: what
 *				comes of it is the kernel's own doing. Only with
 *				SW PAN: other kernels write no TTBR0_EL1 for it.
 *	lull_mutant=switch-access	the same on every CPU, with the tables of the
 *				previous task, whatever it has saved.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/mm_types.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

#include <asm/cpufeature.h>
#include <asm/lull_lab.h>
#include <asm/mmu_context.h>
#include <asm/sysreg.h>

bool lull_lab_switch_access __ro_after_init;

static int __init switch_access_boot(char *value)
{
	return value ? kstrtobool(value, &lull_lab_switch_access) : -EINVAL;
}
early_param("lull_switch_access", switch_access_boot);

/* A fault does no harm: it is handled as that of an NMI would be. */
static void read_stack(void)
{
	unsigned long __user *sp;
	unsigned long word;

	sp = (unsigned long __user *)user_stack_pointer(task_pt_regs(current));
	if (copy_from_user_nofault(&word, sp, sizeof(word)))
		word = 0;
}

/**
 * __lull_lab_in_switch() - a user access where an NMI could make one
 *
 * Context: interrupts are off; current is the previous task.
 */
void __lull_lab_in_switch(void)
{
	struct mm_struct *mm = current->mm;
	u64 ttbr0, ttbr1;

	if (!mm)
		return;
	if (lull_mutant_is(LULL_SWITCH_ACCESS)) {
		ttbr0 = read_sysreg(ttbr0_el1);
		ttbr1 = read_sysreg(ttbr1_el1);
		cpu_do_switch_mm(virt_to_phys(mm->pgd), mm);
		read_stack();
		cpu_set_reserved_ttbr0();
		write_sysreg(ttbr1, ttbr1_el1);
		isb();
		write_sysreg(ttbr0, ttbr0_el1);
		isb();
	} else if (system_uses_ttbr0_pan()) {
		read_stack();
	}
}
