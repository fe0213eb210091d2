// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: know which CPUs have an address space loaded, and invalidate only there.
 *
 * State
 * =====
 *
 * Per address space (mm), in mm_cpumask() and mm_context_t:
 *
 *	mm_cpumask()	the *clean* CPUs: the TLB of such a CPU has no entry of the mm
 *			that is out of date. Any other CPU must invalidate the ASID
 *			locally before it walks the tables.
 *	walker		Which CPUs may have walked the tables since the last broadcast
 *			of the whole ASID for freed tables? 0: none. RES_WALKERS:
 *			several. Otherwise one: walker - 1.
 *
 * Per CPU, in lull_cpu: what it has loaded, and what it is leaving (loaded.c).
 *
 * Load
 * ====
 *
 * lull_load(): loaded = mm; full barrier; test the own bit. Set: nothing else, no
 * atomic, no write to a shared line. Clear (res_make_clean()): set the bit and walker,
 * DSB ISH, TLBI of the ASID, DSB; no TLBI if no CPU has loaded the mm before. Then
 * TTBR0_EL1. So a CPU that has loaded the mm has its bit set.
 *
 * A flush may ignore a CPU whose bit is clear, because the CPU has to set the bit
 * before its first walk:
 *
 *	flush				load
 *	-----				----
 *	store to the table		set the bit (and walker)
 *	DSB ISHST			DSB ISH
 *	read the bit: clear		TLBI, DSB NSH, TTBR0_EL1, ISB, walk
 *
 * If the flush reads the bit as clear, the walk sees the store (models/litmus, READ).
 * The TLBI has removed older entries.
 *
 * ASIDs
 * =====
 *
 * An mm that a CPU runs, or has parked, keeps its number over a roll-over. So the
 * number that a flush reads after its decision is the one that this CPU runs under.
 * After a roll-over each CPU invalidates its whole TLB before it uses a number of the
 * new generation. This removes entries under the old numbers.
 *
 * CnP is never set in TTBR0_EL1: CPUs that share entries would share what only one of
 * them invalidates. TTBR1_EL1 may have it, because no flush of the kernel's entries is
 * local.
 *
 * The static key does not change what loads keep here, so it may change at any time.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/vmstat.h>

#include <asm/barrier.h>
#include <asm/lull_residency.h>
#include <asm/mmu.h>
#include <asm/tlbflush.h>

#include "residency.h"

/**
 * lull_init_mm() - a new address space, loaded nowhere, and without an ASID
 * @mm: the address space; mm_init() has cleared its cpumask
 */
void lull_init_mm(struct mm_struct *mm)
{
	memset(&mm->context.residency, 0, sizeof(mm->context.residency));
}

static void res_forget_here(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
}

/*
 * Entries of @mm in the TLB of this CPU may be out of date. Set the bit and walker, then
 * invalidate the ASID. No CPU has entries if none has ever loaded @mm.
 */
noinline void res_make_clean(struct mm_struct *mm)
{
	unsigned int cpu = smp_processor_id();
	unsigned int *walker = &mm->context.residency.walker;
	unsigned int old;

	cpumask_set_cpu(cpu, mm_cpumask(mm));
	/* The bit before walker is read: who sets walker, then reads the bit, sees it. */
	smp_mb();
	old = cmpxchg(walker, 0, cpu + 1);
	if (old && old != cpu + 1)
		WRITE_ONCE(*walker, RES_WALKERS);
	/* Both before the first walk: pairs with the DSB ISHST of a flush */
	dsb(ish);
	if (!old)
		return;
	__count_vm_event(TLBI_STALE);
	res_forget_here(mm);
}
