/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lab kernel: what tells the checker of Lull more than it could see by
 * itself, and bugs that it must find.
 *
 * Markers are instructions that do nothing on any CPU. The checker, a plugin of
 * QEMU, sees them and reads x0 and x1:
 *
 *	hint #114	x0 = PFN, x1 = order: this page or folio is free now
 *	hint #115	x0 = physical address of a PGD that is given back
 *	hint #116	x0 = virtual address of a kernel entry just written
 *	hint #120	x0 = physical address of a PGD, x1 = virtual address: the
 *			flush of the entry just cleared there is put off
 *	hint #119	x0 = physical address of a PGD, x1 = 0 or 1: this CPU
 *			tells the others that it has it not loaded, or loaded
 *
 * A mutant is a bug, chosen by lull_mutant=NAME when the kernel boots. There is
 * one or none. mm/lull/lab.c has their names, kernel/lab/NOTE.md of Lull why
 * each is a bug.
 *
 * With CONFIG_LULL_LAB=n nothing of this is compiled.
 */
#ifndef __ASM_LULL_LAB_H
#define __ASM_LULL_LAB_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/pgtable-types.h>
#include <asm/pgtable-hwdef.h>

struct mm_struct;
struct mmu_gather;
struct page;

enum lull_mutant {
	LULL_MUTANT_NONE,
	/* One page: ptep_clear_flush() and others */
	LULL_PAGE_NONE,
	LULL_PAGE_LOCAL,
	LULL_PAGE_NO_DSB,
	LULL_PAGE_DSB_NSH,
	LULL_PAGE_DSB_ISHST,
	LULL_PAGE_FIRST,
	LULL_PAGE_ASID,
	LULL_PAGE_KPTI,
	/* A range: munmap(), mprotect() and others */
	LULL_RANGE_LOCAL,
	LULL_RANGE_NO_DSB,
	LULL_RANGE_SHORT,
	LULL_WRONG_TTL,
	LULL_NO_ISHST,
	LULL_LEAF_NONE,
	LULL_TABLES_LAST_LEVEL,
	LULL_FREE_EARLY,
	LULL_ROOT_EARLY,
	/* An address space: fork() and others */
	LULL_MM_NONE,
	LULL_MM_LOCAL,
	LULL_MM_NO_DSB,
	/* Reclaim */
	LULL_BATCH_NO_DSB,
	LULL_BATCH_PENDING_NONE,
	LULL_BATCH_UNLOCK_EARLY,
	LULL_COLLECT_LAZYFREE,
	LULL_COLLECT_UFFD,
	LULL_COLLECT_TABLE,
	LULL_COLLECT_SHORT,
	LULL_COLLECT_ALL_NONE,
	LULL_COLLECT_NO_ISHST,
	/* ASIDs */
	LULL_ROLLOVER_NO_FLUSH,
	LULL_ROLLOVER_NO_RESERVE,
	/* Entries replaced by others */
	LULL_COW_IN_PLACE,
	LULL_COW_NO_FLUSH,
	LULL_MREMAP_NONE,
	LULL_SPLIT_NONE,
	LULL_COLLAPSE_NONE,
	LULL_CONTPTE_NONE,
	/* The kernel's own memory */
	LULL_KERNEL_NONE,
	/* Residency */
	LULL_STALE_NONE,
	LULL_RSTALE_NONE,
	LULL_HERE_ELSEWHERE,
	LULL_HERE_NO_DSB,
	LULL_MASK_NO_ISHST,
	LULL_LOAD_LATE,
	LULL_PUT_BACK_NONE,
	LULL_PARK_ASID,
	LULL_LOOK_BLIND,
	LULL_WALKER_KEEPS,
	LULL_LAZY_UNCOUNTED,
	LULL_LOOK_UNSEEN,
	/* mmu_gather's runs */
	LULL_RUNS_SHORT,
	LULL_RUNS_DROP,
	LULL_RUNS_NO_DSB,
	LULL_RUNS_NO_TABLE,
	LULL_RUNS_TABLES_LAST_LEVEL,
	/* HugeTLB's vmemmap */
	LULL_HVO_WRITABLE,
	LULL_HVO_NO_TLBI,
	LULL_HVO_DIFFERS,
	LULL_HVO_FREE_EARLY,
	LULL_HVO_RESTORE_NO_TLBI,
	LULL_TAIL_WRITE,
	/* Pages that are cleaned, written out or copied */
	LULL_DIRTY_NONE,
	LULL_MKCLEAN_NONE,
	LULL_MIGRATE_LATE,
	LULL_RMAP_EARLY,
	/* Contiguous entries */
	LULL_CONTPTE_SHORT,
	/* Flushes that others rely on */
	LULL_ZAP_PENDING_NONE,
	LULL_PROTECT_PENDING_NONE,
	LULL_MREMAP_PENDING_NONE,
	LULL_NESTED_NONE,
	LULL_MREMAP_LATE,
	/* What a CPU says about what it has loaded */
	LULL_UNLOAD_NO_ISB,
	LULL_UNLOAD_NO_DSB,
	LULL_UNLOAD_EARLY,
	LULL_SWITCH_NO_DSB,
	LULL_SWITCH_ACCESS,
	/* Permissions of the kernel's own memory */
	LULL_PROTECT_NONE,
	LULL_PROTECT_NO_DSB,
	LULL_PROTECT_ANEW_NONE,
	/* Residency, where tables are freed, and software PAN */
	LULL_FREED_ELIDED,
	LULL_SPAN_HULL,
	LULL_HUGETLB_LEAF,
	LULL_HUGETLB_ENTRY,
	LULL_PAN_LEFT,
	/* Walk caches, and the identity map */
	LULL_EXIT_LOADED,
	LULL_EXIT_UNSHARED,
	LULL_IDMAP_NO_FLUSH,
	/* Corrections that reviewers asked for */
	LULL_TAIL_NO_RCU,
};

#ifdef CONFIG_LULL_LAB

extern enum lull_mutant lull_mutant;

bool __lull_lab_flush_page(struct mm_struct *mm, unsigned long uaddr);
bool __lull_lab_flush_range(struct mm_struct *mm, unsigned long start,
			    unsigned long end, unsigned long stride,
			    bool last_level, int tlb_level);
bool __lull_lab_flush_mm(struct mm_struct *mm);
bool __lull_lab_flush_exit(struct mmu_gather *tlb);
bool __lull_lab_flush_kernel(unsigned long start);
bool __lull_lab_sync_page(void);
bool __lull_lab_protected(unsigned long start, unsigned long end);
void __lull_lab_loaded(struct mm_struct *mm);
void lull_lab_differ(struct page *frame);
bool lull_lab_ref_slowly(struct page *page, int nr);
void lull_lab_contpte_short(struct mm_struct *mm, unsigned long addr,
			    pte_t *ptep, pte_t pte, unsigned int nr);
void __lull_lab_in_switch(void);
u32 lull_lab_asid_bits(u32 bits);
void lull_lab_batch_waits(void);

/**
 * lull_mutant_is() - is the kernel broken in this way?
 * @mutant: the way
 */
static __always_inline bool lull_mutant_is(enum lull_mutant mutant)
{
	return unlikely(lull_mutant == mutant);
}

/**
 * lull_lab_page_freed() - mark that a page or folio is free
 * @pfn: its first page
 * @order: its order
 */
static __always_inline void lull_lab_page_freed(unsigned long pfn,
						unsigned long order)
{
	register unsigned long x0 asm("x0") = pfn;
	register unsigned long x1 asm("x1") = order;

	asm volatile("hint #114" : : "r" (x0), "r" (x1) : "memory");
}

/**
 * lull_lab_pgd_freed() - mark that a PGD is given back
 * @phys: its physical address
 */
static __always_inline void lull_lab_pgd_freed(unsigned long phys)
{
	register unsigned long x0 asm("x0") = phys;

	asm volatile("hint #115" : : "r" (x0) : "memory");
}

/**
 * lull_lab_collected() - mark that the flush of an entry is put off
 * @pgd: physical address of the PGD
 * @addr: the entry's address; this task has just cleared it
 *
 * Whoever makes a valid entry there must find a TLBI issued.
 */
static __always_inline void lull_lab_collected(unsigned long pgd,
					       unsigned long addr)
{
	register unsigned long x0 asm("x0") = pgd;
	register unsigned long x1 asm("x1") = addr;

	asm volatile("hint #120" : : "r" (x0), "r" (x1) : "memory");
}

/**
 * lull_lab_published() - mark what this CPU tells others about an address space
 * @pgd: physical address of the PGD
 * @loaded: false: before others can see that this CPU has it not loaded; true:
 *	others can see that this CPU has it loaded, and it may walk from now on
 */
static __always_inline void lull_lab_published(unsigned long pgd, bool loaded)
{
	register unsigned long x0 asm("x0") = pgd;
	register unsigned long x1 asm("x1") = loaded;

	asm volatile("hint #119" : : "r" (x0), "r" (x1) : "memory");
}

/**
 * lull_lab_kernel_entry() - mark that a valid kernel entry has been written
 * @entry: where it is
 * @kernel: is it one? Nothing happens if not.
 */
static __always_inline void lull_lab_kernel_entry(const void *entry,
						  bool kernel)
{
	register unsigned long x0 asm("x0") = (unsigned long)entry;

	if (kernel)
		asm volatile("hint #116" : : "r" (x0) : "memory");
}

/**
 * lull_lab_kernel_table() - the same above the last level
 * @entry: where it is
 * @val: what it is now: a table, a block, or nothing
 */
static __always_inline void lull_lab_kernel_table(const void *entry, u64 val)
{
	bool table = (val & PMD_TYPE_MASK) == PMD_TYPE_TABLE;

	lull_lab_kernel_entry(entry, (val & PTE_VALID) &&
			      (table ? !!(val & PMD_TABLE_UXN) :
				       !(val & PTE_USER)));
}

/* Each does the flush in the mutant's way and returns true, or nothing. */

static __always_inline bool lull_lab_flush_page(struct mm_struct *mm,
						unsigned long uaddr)
{
	return unlikely(lull_mutant) && __lull_lab_flush_page(mm, uaddr);
}

static __always_inline bool
lull_lab_flush_range(struct mm_struct *mm, unsigned long start,
		     unsigned long end, unsigned long stride, bool last_level,
		     int tlb_level)
{
	return unlikely(lull_mutant) &&
	       __lull_lab_flush_range(mm, start, end, stride, last_level,
				      tlb_level);
}

static __always_inline bool lull_lab_flush_mm(struct mm_struct *mm)
{
	return unlikely(lull_mutant) && __lull_lab_flush_mm(mm);
}

static __always_inline bool lull_lab_flush_exit(struct mmu_gather *tlb)
{
	return unlikely(lull_mutant) && __lull_lab_flush_exit(tlb);
}

static __always_inline bool lull_lab_flush_kernel(unsigned long start)
{
	return unlikely(lull_mutant) && __lull_lab_flush_kernel(start);
}

static __always_inline bool lull_lab_sync_page(void)
{
	return unlikely(lull_mutant) && __lull_lab_sync_page();
}

static __always_inline bool lull_lab_protected(unsigned long start,
					       unsigned long end)
{
	return unlikely(lull_mutant) && __lull_lab_protected(start, end);
}

extern bool lull_lab_switch_access;

/*
 * In __switch_to(), between "not loaded" and the change of stacks: what an NMI
 * could do there.
 */
static __always_inline void lull_lab_in_switch(void)
{
	if (unlikely(lull_lab_switch_access) ||
	    lull_mutant_is(LULL_SWITCH_ACCESS))
		__lull_lab_in_switch();
}

/* TTBR0_EL1 is set. */
static __always_inline void lull_lab_loaded(struct mm_struct *mm)
{
	if (lull_mutant_is(LULL_LOAD_LATE))
		__lull_lab_loaded(mm);
}

#else /* CONFIG_LULL_LAB */

static __always_inline bool lull_mutant_is(enum lull_mutant mutant)
{
	return false;
}

static inline void lull_lab_page_freed(unsigned long pfn, unsigned long order)
{
}

static inline void lull_lab_pgd_freed(unsigned long phys)
{
}

static inline void lull_lab_collected(unsigned long pgd, unsigned long addr)
{
}

static inline void lull_lab_published(unsigned long pgd, bool loaded) {}

static inline void lull_lab_in_switch(void) {}

static inline void lull_lab_kernel_entry(const void *entry, bool kernel)
{
}

static inline void lull_lab_kernel_table(const void *entry, u64 val)
{
}

static inline bool lull_lab_flush_page(struct mm_struct *mm,
				       unsigned long uaddr)
{
	return false;
}

static inline bool lull_lab_flush_range(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					unsigned long stride, bool last_level,
					int tlb_level)
{
	return false;
}

static inline bool lull_lab_flush_mm(struct mm_struct *mm)
{
	return false;
}

static inline bool lull_lab_flush_exit(struct mmu_gather *tlb)
{
	return false;
}

static inline bool lull_lab_flush_kernel(unsigned long start)
{
	return false;
}

static inline bool lull_lab_sync_page(void)
{
	return false;
}

static inline bool lull_lab_protected(unsigned long start, unsigned long end)
{
	return false;
}

static inline void lull_lab_loaded(struct mm_struct *mm) {}

static inline u32 lull_lab_asid_bits(u32 bits)
{
	return bits;
}

static inline void lull_lab_batch_waits(void) {}

static inline void lull_lab_differ(struct page *frame) {}

static inline bool lull_lab_ref_slowly(struct page *page, int nr)
{
	return false;
}

static inline void lull_lab_contpte_short(struct mm_struct *mm,
					  unsigned long addr, pte_t *ptep,
					  pte_t pte, unsigned int nr)
{
}

#endif /* CONFIG_LULL_LAB */

#endif /* __ASM_LULL_LAB_H */
