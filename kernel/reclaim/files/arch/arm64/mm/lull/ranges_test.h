/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For the tests of who collects and flushes ranges: an address space, and a
 * device that shares it and remembers what its TLB was told.
 */
#ifndef __ARM64_MM_LULL_RANGES_TEST_H
#define __ARM64_MM_LULL_RANGES_TEST_H

#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#define TOLD_BASE	(4UL << PUD_SHIFT)
#define TOLD_PAGES	(4UL * PTRS_PER_PTE)

/**
 * struct told - an address space, and what its device was told
 * @mn: the device
 * @mm: the address space
 * @times: how often
 * @all: it was told of everything
 * @sum: bytes that it was told of, other than that
 * @pages: pages from TOLD_BASE on that it was told of
 */
struct told {
	struct mmu_notifier mn;
	struct mm_struct *mm;
	unsigned int times;
	bool all;
	unsigned long sum;
	DECLARE_BITMAP(pages, TOLD_PAGES);
};

static void told_invalidate(struct mmu_notifier *mn, struct mm_struct *mm,
			    unsigned long start, unsigned long end)
{
	struct told *told = container_of(mn, struct told, mn);
	unsigned long first = max(start, TOLD_BASE);
	unsigned long last = min(end, TOLD_BASE + TOLD_PAGES * PAGE_SIZE);

	told->times++;
	if (!start && end == -1UL) {
		told->all = true;
		return;
	}
	told->sum += end - start;
	if (first < last)
		bitmap_set(told->pages, (first - TOLD_BASE) >> PAGE_SHIFT,
			   (last - first) >> PAGE_SHIFT);
}

static const struct mmu_notifier_ops told_ops = {
	.arch_invalidate_secondary_tlbs = told_invalidate,
};

static inline struct told *told_new(struct kunit *test)
{
	struct told *told = kunit_kzalloc(test, sizeof(*told), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, told);
	told->mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, told->mm);
	told->mn.ops = &told_ops;
	KUNIT_ASSERT_EQ(test, 0, mmu_notifier_register(&told->mn, told->mm));
	return told;
}

static inline void told_forget(struct told *told)
{
	told->times = 0;
	told->all = false;
	told->sum = 0;
	bitmap_zero(told->pages, TOLD_PAGES);
}

static inline void told_end(struct told *told)
{
	mmu_notifier_unregister(&told->mn, told->mm);
	mmput(told->mm);
}

static noinline_for_stack unsigned long told_event(enum vm_event_item item)
{
	unsigned long all[NR_VM_EVENT_ITEMS];

	all_vm_events(all);
	return all[item];
}

#endif /* __ARM64_MM_LULL_RANGES_TEST_H */
