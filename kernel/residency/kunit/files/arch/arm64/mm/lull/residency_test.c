// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for residency: which CPUs a flush reaches, and what loads and flushes
 * note.
 *
 * The comment above a case names the mistake that the case catches. A case runs on
 * CPU 0. Part of context.c, of which it uses static functions.
 */
#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/completion.h>
#include <linux/hugetlb.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include <asm/tlb.h>

enum { HERE, OTHER, THIRD, CPUS };

#define H	BIT(HERE)
#define O	BIT(OTHER)
#define T	BIT(THIRD)

/* What flush() returns: which CPUs the TLBI reached. MISCOUNTED: not all were traced. */
enum { RES_NOWHERE, RES_HERE, RES_EVERYWHERE, MISCOUNTED };

/* Flushes that this CPU has traced, by their reach; [RES_EVERYWHERE]: TLBIs of loads */
static DEFINE_PER_CPU(int [3], counts);

static void count(void *unused, int reason, unsigned long pages)
{
	this_cpu_inc(counts[reason == TLB_FLUSH_ON_TASK_SWITCH ? RES_EVERYWHERE : !!pages]);
}

enum flush { LEAVES, TABLES, FUNCTIONS, HUGETLB, HUGE_ENTRY };

/**
 * flush() - flush an address space from this CPU
 * @mm: the address space
 * @what: LEAVES, TABLES: a page, without lull_found. FUNCTIONS: call four functions of
 *	tlbflush.h. HUGETLB, HUGE_ENTRY: flush a leaf of HugeTLB pages, by an
 *	mmu_gather or not
 *
 * Return: RES_NOWHERE, or what follows it.
 */
static int flush(struct mm_struct *mm, enum flush what)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);
	pte_t entry = pte_mkcont(pfn_pte(0, PAGE_KERNEL));
	static pte_t table[CONT_PTES];
	struct mmu_gather tlb;
	int local, elided, n = 1;

	preempt_disable();
	local = __this_cpu_read(counts[RES_HERE]);
	elided = __this_cpu_read(counts[RES_NOWHERE]);
	if (what == FUNCTIONS) {
		n = 4;
		flush_tlb_page(&vma, PAGE_SIZE);
		flush_tlb_range(&vma, 0, 2 * PAGE_SIZE);
		flush_tlb_range(&vma, 0, TASK_SIZE_64);
		flush_tlb_mm(mm);
	} else if (what == HUGETLB) {
		tlb_gather_mmu(&tlb, mm);
		tlb.vma_huge = true;
		tlb_flush_pmd_range(&tlb, 0, PMD_SIZE);
		tlb_finish_mmu(&tlb);
	} else if (what == HUGE_ENTRY) {
		/* It flushes the entry that it replaces. */
		table[0] = entry;
		set_huge_pte_at(mm, 0, table, entry, CONT_PTE_SIZE);
	} else {
		dsb(ishst);
		__lull_flush(mm, 0, PAGE_SIZE, PAGE_SIZE, true, 3, what == TABLES);
	}
	local = __this_cpu_read(counts[RES_HERE]) - local;
	elided = __this_cpu_read(counts[RES_NOWHERE]) - elided;
	preempt_enable();

	if (!local && !elided)
		return RES_EVERYWHERE;
	/* The two flushes of a range may free tables, and are local. */
	if (local + elided != n || (local % n && local != 2))
		return MISCOUNTED;
	return elided ? RES_NOWHERE : RES_HERE;
}

/* Where an access of @task to user memory begins; an NMI may try at any time. */
static phys_addr_t tables_of(struct task_struct *task)
{
	u64 ttbr0 = read_sysreg(ttbr0_el1);

#ifdef CONFIG_ARM64_SW_TTBR0_PAN
	if (system_uses_ttbr0_pan())
		ttbr0 = READ_ONCE(task_thread_info(task)->ttbr0);
#endif
	/* CnP, were it set, would stay. */
	return ttbr0 & ~TTBRx_EL1_ASID_MASK;
}

/* Does this CPU walk the tables of @mm, or none if it is NULL? Preemption is off. */
static bool is_walked(struct mm_struct *mm)
{
	u64 asid = FIELD_GET(TTBRx_EL1_ASID_MASK, read_sysreg(ttbr1_el1));
	phys_addr_t pgd = mm ? virt_to_phys(mm->pgd) :
			       __pa_symbol(reserved_pg_dir);

	return __this_cpu_read(lull_cpu.loaded) == mm &&
	       !__this_cpu_read(lull_cpu.leaving) &&
	       tables_of(current) == phys_to_ttbr(pgd) &&
	       (system_uses_ttbr0_pan() || asid == (mm ? ASID(mm) : 0));
}

/* Load @mm on this CPU. Return the number of TLBIs; -1 if it is not loaded then. */
static int load(struct mm_struct *mm)
{
	int stale;

	preempt_disable();
	stale = __this_cpu_read(counts[RES_EVERYWHERE]);
	kthread_use_mm(mm);
	stale = is_walked(mm) ? __this_cpu_read(counts[RES_EVERYWHERE]) - stale : -1;
	preempt_enable();
	return stale;
}

/* Park. Return -1 if @mm is still loaded then. */
static int leave(struct mm_struct *mm)
{
	int error;

	preempt_disable();
	kthread_unuse_mm(mm);
	error = is_walked(NULL) ? 0 : -1;
	preempt_enable();
	return error;
}

/**
 * struct user - OTHER uses an address space until it is let go
 * @how: HOLDS: has it loaded all the time. GOES: has not executed the DSB that ends
 *	its walks. SLEEPS: the task is switched out
 * @stale: number of TLBIs of the load
 */
struct user {
	struct work_struct work;
	struct mm_struct *mm;
	enum { HOLDS, GOES, SLEEPS } how;
	struct task_struct *task;
	int stale;
	struct completion uses, let_go;
};

static void use(struct work_struct *work)
{
	struct user *user = container_of(work, struct user, work);

	user->task = current;
	user->stale = load(user->mm);
	if (user->how == SLEEPS) {
		complete(&user->uses);
		wait_for_completion(&user->let_go);
	} else {
		preempt_disable();
		if (user->how == GOES) {
			this_cpu_write(lull_cpu.leaving, user->mm);
			this_cpu_write(lull_cpu.loaded, NULL);
		}
		complete(&user->uses);
		while (!completion_done(&user->let_go))
			cpu_relax();
		this_cpu_write(lull_cpu.loaded, user->mm);
		this_cpu_write(lull_cpu.leaving, NULL);
		preempt_enable();
	}
	kthread_unuse_mm(user->mm);
}

/* let_go() must follow. Return the number of TLBIs. */
static int use_elsewhere(struct user *user, struct mm_struct *mm, int how)
{
	user->mm = mm;
	user->how = how;
	init_completion(&user->uses);
	init_completion(&user->let_go);
	INIT_WORK_ONSTACK(&user->work, use);
	schedule_work_on(OTHER, &user->work);
	wait_for_completion(&user->uses);
	return user->stale;
}

static int let_go(struct user *user)
{
	complete(&user->let_go);
	flush_work(&user->work);
	destroy_work_on_stack(&user->work);
	return 0;
}

static bool is_shared(struct mm_struct *mm)
{
	bool shared;

	preempt_disable();
	shared = __lull_is_shared(mm, false);
	preempt_enable();
	return shared;
}

/*
 * A hint that is wrong. An idle CPU that keeps the address space, and an NMI that could
 * use its tables.
 */
static void switched_out_is_left(struct kunit *test)
{
	struct mm_struct *mm = test->priv;
	struct user user;

	use_elsewhere(&user, mm, HOLDS);
	KUNIT_EXPECT_TRUE(test, is_shared(mm));
	let_go(&user);

	use_elsewhere(&user, mm, SLEEPS);
	while (!wait_task_inactive(user.task, TASK_UNINTERRUPTIBLE))
		cond_resched();
	KUNIT_EXPECT_FALSE(test, is_shared(mm));
	KUNIT_EXPECT_EQ(test, flush(mm, LEAVES), RES_NOWHERE);
	if (system_uses_ttbr0_pan())
		KUNIT_EXPECT_EQ(test, tables_of(user.task),
				phys_to_ttbr(__pa_symbol(reserved_pg_dir)));
	let_go(&user);
}

static int residency_suite_init(struct kunit_suite *suite)
{
	return register_trace_tlb_flush(count, NULL);
}

static void residency_suite_exit(struct kunit_suite *suite)
{
	unregister_trace_tlb_flush(count, NULL);
	tracepoint_synchronize_unregister();
}

static int residency_init(struct kunit *test)
{
	if (!lull_is_on())
		kunit_skip(test, "lull_residency=off");
	if ((cpumask_bits(cpu_online_mask)[0] & (BIT(CPUS) - 1)) != BIT(CPUS) - 1)
		kunit_skip(test, "needs CPUs 0 to %d", CPUS - 1);
	test->priv = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return set_cpus_allowed_ptr(current, cpumask_of(HERE));
}

static void residency_exit(struct kunit *test)
{
	if (test->priv)
		mmput(test->priv);
}

static struct kunit_case residency_cases[] = {
	KUNIT_CASE(switched_out_is_left),
	{}
};

static struct kunit_suite residency_suite = {
	.name = "lull_residency",
	.suite_init = residency_suite_init,
	.suite_exit = residency_suite_exit,
	.init = residency_init,
	.exit = residency_exit,
	.test_cases = residency_cases,
};

/* At boot only: no CPU goes, and nobody else depends on what the cases change. */
kunit_test_init_section_suite(residency_suite);
