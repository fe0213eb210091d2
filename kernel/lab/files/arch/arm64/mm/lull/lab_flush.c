// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab kernel's flushes that are wrong on purpose.
 *
 * Each function is asked by the flush of its name in asm/tlbflush.h. It does
 * what the active mutant does in its place and returns true, or returns false:
 * the mutant is another one's, and the flush is as it was. Devices are told as
 * always: the bugs are about CPUs.
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/page_ref.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <asm/barrier.h>
#include <asm/lull_lab.h>
#include <asm/lull_residency.h>
#include <asm/mmu.h>
#include <asm/pgalloc.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#ifndef __flush_s1_tlb_range_op
/* As newer versions of Linux have it. */
#define __flush_s1_tlb_range_op(op, start, pages, stride, asid, level)	\
	__flush_tlb_range_op(op, start, pages, stride, asid, level, true, lpa2_is_enabled())
#endif

static void page_broadcast(struct mm_struct *mm, unsigned long uaddr)
{
	unsigned long addr = __TLBI_VADDR(uaddr, ASID(mm));

	__tlbi(vale1is, addr);
	__tlbi_user(vale1is, addr);
}

static void page_local(struct mm_struct *mm, unsigned long uaddr)
{
	unsigned long addr = __TLBI_VADDR(uaddr, ASID(mm));

	__tlbi(vale1, addr);
	__tlbi_user(vale1, addr);
}

/**
 * __lull_lab_flush_page() - __flush_tlb_page_nosync() with a bug
 * @mm: whose page
 * @uaddr: its address
 */
bool __lull_lab_flush_page(struct mm_struct *mm, unsigned long uaddr)
{
	switch (lull_mutant) {
	case LULL_PAGE_NONE:
		dsb(ishst);
		break;
	case LULL_PAGE_LOCAL:
		dsb(ishst);
		page_local(mm, uaddr);
		break;
	case LULL_PAGE_ASID:
		dsb(ishst);
		page_broadcast(current->active_mm, uaddr);
		break;
	case LULL_PAGE_KPTI:
		dsb(ishst);
		__tlbi(vale1is, __TLBI_VADDR(uaddr, ASID(mm)));
		break;
	case LULL_NO_ISHST:
		page_broadcast(mm, uaddr);
		break;
	default:
		return false;
	}
	uaddr &= PAGE_MASK;
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, uaddr,
						    uaddr + PAGE_SIZE);
	return true;
}

/**
 * __lull_lab_sync_page() - the end of flush_tlb_page() with a bug
 */
bool __lull_lab_sync_page(void)
{
	switch (lull_mutant) {
	case LULL_PAGE_NO_DSB:
		return true;
	case LULL_PAGE_DSB_NSH:
		dsb(nsh);
		return true;
	case LULL_PAGE_DSB_ISHST:
		dsb(ishst);
		return true;
	default:
		return false;
	}
}

static void range_broadcast(unsigned long asid, unsigned long start,
			    unsigned long pages, unsigned long stride,
			    bool last_level, int tlb_level)
{
	if (last_level)
		__flush_s1_tlb_range_op(vale1is, start, pages, stride, asid, tlb_level);
	else
		__flush_s1_tlb_range_op(vae1is, start, pages, stride, asid, tlb_level);
}

static void range_local(unsigned long asid, unsigned long start,
			unsigned long pages, unsigned long stride,
			bool last_level, int tlb_level)
{
	if (last_level)
		__flush_s1_tlb_range_op(vale1, start, pages, stride, asid, tlb_level);
	else
		__flush_s1_tlb_range_op(vae1, start, pages, stride, asid, tlb_level);
}

/**
 * __lull_lab_flush_range() - __flush_tlb_range_nosync() with a bug
 * @mm: whose memory
 * @start: its first address, a multiple of @stride
 * @end: the address after it, a multiple of @stride
 * @stride: the memory an entry maps
 * @last_level: only entries of the last level need to go
 * @tlb_level: which level that is
 */
bool __lull_lab_flush_range(struct mm_struct *mm, unsigned long start,
			    unsigned long end, unsigned long stride,
			    bool last_level, int tlb_level)
{
	unsigned long asid = ASID(mm), flushed = end;
	bool local = false, ordered = true;

	switch (lull_mutant) {
	case LULL_RANGE_LOCAL:
		local = true;
		break;
	case LULL_RANGE_SHORT:
		if (end - start <= stride)
			return false;
		flushed -= stride;
		break;
	case LULL_WRONG_TTL:
		if (tlb_level < 1 || tlb_level > 3)
			return false;
		tlb_level = tlb_level == 3 ? 2 : 3;
		break;
	case LULL_TABLES_LAST_LEVEL:
		if (last_level)
			return false;
		last_level = true;
		break;
	case LULL_NO_ISHST:
		ordered = false;
		break;
	default:
		return false;
	}

	if (ordered)
		dsb(ishst);
	if (local)
		range_local(asid, start, (flushed - start) >> PAGE_SHIFT,
			    stride, last_level, tlb_level);
	else
		range_broadcast(asid, start, (flushed - start) >> PAGE_SHIFT,
				stride, last_level, tlb_level);
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
	return true;
}

/**
 * __lull_lab_flush_mm() - flush_tlb_mm() with a bug
 * @mm: whose memory
 */
bool __lull_lab_flush_mm(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	switch (lull_mutant) {
	case LULL_MM_NONE:
		dsb(ishst);
		break;
	case LULL_MM_LOCAL:
		dsb(ishst);
		__tlbi(aside1, asid);
		__tlbi_user(aside1, asid);
		dsb(nsh);
		break;
	case LULL_MM_NO_DSB:
		dsb(ishst);
		__tlbi(aside1is, asid);
		__tlbi_user(aside1is, asid);
		break;
	default:
		return false;
	}
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
	return true;
}

static void exit_here(void *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID((struct mm_struct *)mm));

	if (current->active_mm != mm)
		return;
	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
	isb();
}

/**
 * __lull_lab_flush_exit() - the flush before exit frees page tables, with a bug
 * @tlb: the mmu_gather of the whole mm
 *
 * exit-loaded: each CPU that has the mm loaded now, also lazily, is flushed by an IPI;
 * those that have left it keep what they hold. That is enough for a TLB, whose entries
 * have the ASID, and not for a walk cache that is indexed by physical addresses.
 * exit-unshared: tables that were shared are not flushed, as on stock 7.3.
 */
bool __lull_lab_flush_exit(struct mmu_gather *tlb)
{
	if (lull_mutant == LULL_EXIT_UNSHARED)
		return !tlb->freed_tables;
	if (lull_mutant != LULL_EXIT_LOADED)
		return false;
	dsb(ishst);
	on_each_cpu(exit_here, tlb->mm, 1);
	return true;
}

/**
 * __lull_lab_flush_kernel() - flush_tlb_kernel_range() with a bug
 * @start: the first address
 *
 * What vmalloc() gives out, once the kernel has put its own mappings right: with
 * those broken it does not reach user space.
 */
bool __lull_lab_flush_kernel(unsigned long start)
{
	return lull_mutant == LULL_KERNEL_NONE &&
	       system_state >= SYSTEM_RUNNING &&
	       is_vmalloc_addr((void *)start);
}

/**
 * __lull_lab_protected() - the flush of set_memory_ro() and its kind, with a bug
 * @start: the first address whose permissions have changed
 * @end: the address after the last
 */
bool __lull_lab_protected(unsigned long start, unsigned long end)
{
	switch (lull_mutant) {
	case LULL_PROTECT_NONE:
		return true;
	case LULL_PROTECT_NO_DSB:
		dsb(ishst);
		for (; start < end; start += PAGE_SIZE)
			__tlbi(vaale1is, __TLBI_VADDR(start, 0));
		return true;
	default:
		return false;
	}
}

/**
 * __lull_lab_loaded() - forget what is stale when it has been loaded already
 * @mm: the address space
 */
void __lull_lab_loaded(struct mm_struct *mm)
{
	unsigned long asid = __TLBI_VADDR(0, ASID(mm));

	__tlbi(aside1, asid);
	__tlbi_user(aside1, asid);
	dsb(nsh);
}

/**
 * lull_lab_differ() - make a page of struct pages differ by one byte from others
 * @frame: the page. It is written by its address in the linear map
 *
 * The byte belongs to memcg_data of the last struct page, which nobody reads in a tail
 * page.
 */
void lull_lab_differ(struct page *frame)
{
	u8 *byte = (u8 *)page_to_virt(frame) + PAGE_SIZE - 1;

	*byte ^= 1;
}

/**
 * lull_lab_ref_slowly() - take references, with no RCU section around it
 * @page: the page
 * @nr: how many
 *
 * Between the read of the count and the compare-and-swap, where the task may be
 * preempted, it sleeps now and then. Meanwhile the page may become a tail page
 * that HVO has made read-only.
 *
 * Return: false if there was no reference before.
 */
bool lull_lab_ref_slowly(struct page *page, int nr)
{
	int count = page_ref_count(page);

	while (count) {
		if (preemptible() && !rcu_preempt_depth() &&
		    !get_random_u32_below(256))
			schedule_timeout_uninterruptible(HZ / 5);
		if (atomic_try_cmpxchg(&page->_refcount, &count, count + nr))
			return true;
	}
	return false;
}

/**
 * lull_lab_contpte_short() - take a contiguous block apart, but for its last page
 * @mm: whose memory
 * @addr: the first address of the block
 * @ptep: its first entry; all are invalid, and flushed
 * @pte: what the first is to be, without the contiguous bit
 * @nr: how many entries the block has
 *
 * The last entry keeps the contiguous bit, which its neighbours have lost.
 */
void lull_lab_contpte_short(struct mm_struct *mm, unsigned long addr,
			    pte_t *ptep, pte_t pte, unsigned int nr)
{
	pte_t last = pfn_pte(pte_pfn(pte) + nr - 1, pte_pgprot(pte));

	__set_ptes(mm, addr, ptep, pte, nr - 1);
	__set_ptes(mm, addr + (nr - 1) * PAGE_SIZE, ptep + nr - 1,
		   pte_mkcont(last), 1);
}
