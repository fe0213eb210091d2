// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab kernel: permissions of kernel memory, changed when a program asks.
 *
 * Kernels do so when they load modules, and for BPF, kprobes and ftrace, which
 * small kernels lack. /sys/kernel/mm/lull/lab_page changes a page that
 * vmalloc() gave out, and with rodata=full (the default) its linear alias:
 *
 *	rw, ro			set_memory_rw(), set_memory_ro(), by the writer
 *	kthread-rw, kthread-ro	by a kernel thread, which sleeps afterwards
 *	anew-ro			the entry is cleared, flushed, and made again
 *				read-only
 *
 * The page stays as it was made last.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/set_memory.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <asm/lull_lab.h>
#include <asm/tlbflush.h>

#include "lull.h"

enum { RW, RO, KTHREAD_RW, KTHREAD_RO, ANEW_RO };

static const char * const policies[] = {
	[RW]		= "rw",
	[RO]		= "ro",
	[KTHREAD_RW]	= "kthread-rw",
	[KTHREAD_RO]	= "kthread-ro",
	[ANEW_RO]	= "anew-ro",
	NULL
};

static void *page;
static bool thread_ro;

static void make(bool ro)
{
	unsigned long addr = (unsigned long)page;

	WARN_ON(ro ? set_memory_ro(addr, 1) : set_memory_rw(addr, 1));
}

static void by_thread(struct work_struct *work)
{
	make(thread_ro);
}

static DECLARE_WORK(work, by_thread);

/* Break and make, with fewer permissions than before. */
static int make_anew(pte_t *ptep, unsigned long addr, void *unused)
{
	pte_t pte = __ptep_get(ptep);

	__pte_clear(&init_mm, addr, ptep);
	if (!lull_mutant_is(LULL_PROTECT_ANEW_NONE))
		flush_tlb_kernel_range(addr, addr + PAGE_SIZE);
	__set_pte(ptep, set_pte_bit(clear_pte_bit(pte, __pgprot(PTE_WRITE)),
				    __pgprot(PTE_RDONLY)));
	return 0;
}

/* Nobody else uses the page. */
static void apply(int policy)
{
	if (!page) {
		page = vmalloc(PAGE_SIZE);
		if (!page)
			return;
	}
	switch (policy) {
	case RW:
	case RO:
		make(policy == RO);
		break;
	case KTHREAD_RW:
	case KTHREAD_RO:
		thread_ro = policy == KTHREAD_RO;
		schedule_work(&work);
		flush_work(&work);
		break;
	case ANEW_RO:
		WARN_ON(apply_to_page_range(&init_mm, (unsigned long)page,
					    PAGE_SIZE, make_anew, NULL));
		break;
	}
}

static struct lull_switch protect_switch =
	LULL_SWITCH(lab_page, policies, RW, apply);

static int __init protect_init(void)
{
	return lull_switch_register(&protect_switch);
}
late_initcall_sync(protect_init);
