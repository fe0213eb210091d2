// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the ways to clear the access flag.
 *
 * Each mapping test makes a real user mapping young by using it, clears the
 * flag as reclaim does, under every policy, and looks at all that may have
 * changed. What a use finds in the TLB afterwards is the CPU's business, except
 * under "sync": then it must miss, and be seen.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>

#include "young.h"

struct young_case {
	const char *policy;
	enum lull_young_policy decision;
};

static const struct young_case young_cases[] = {
	{ "sync", LULL_YOUNG_SYNC },
	{ "nosync", LULL_YOUNG_NOSYNC },
	{ "none", LULL_YOUNG_NONE },
};

KUNIT_ARRAY_PARAM_DESC(young, young_cases, policy);

/* A counter for each decision, in the order of enum lull_young_policy. */
static const enum vm_event_item young_events[] = {
	YOUNG_SYNC, YOUNG_NOSYNC, YOUNG_NONE,
};

struct young_counts {
	unsigned long n[ARRAY_SIZE(young_events)];
};

static noinline_for_stack struct young_counts read_counts(void)
{
	unsigned long all[NR_VM_EVENT_ITEMS];
	struct young_counts out;
	int i;

	all_vm_events(all);
	for (i = 0; i < ARRAY_SIZE(young_events); i++)
		out.n[i] = all[young_events[i]];
	return out;
}

/* Expect that the counter of @decision has moved by @by, and no other. */
static void expect_counted(struct kunit *test, struct young_counts before,
			   enum lull_young_policy decision, unsigned long by)
{
	struct young_counts after = read_counts();
	int i;

	for (i = 0; i < ARRAY_SIZE(young_events); i++)
		KUNIT_EXPECT_EQ_MSG(test, after.n[i] - before.n[i],
				    i == decision ? by : 0,
				    "counter of decision %d", i);
}

static void set_policy(struct kunit *test, const char *name)
{
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_young_switch, name));
}

/* A device that shares the address space: what its TLB is told. */
struct device_tlb {
	struct mmu_notifier mn;
	unsigned int told;
	unsigned long start;
	unsigned long end;
};

static void device_invalidate(struct mmu_notifier *mn, struct mm_struct *mm,
			      unsigned long start, unsigned long end)
{
	struct device_tlb *device = container_of(mn, struct device_tlb, mn);

	device->told++;
	device->start = start;
	device->end = end;
}

static const struct mmu_notifier_ops device_ops = {
	.arch_invalidate_secondary_tlbs = device_invalidate,
};

/* Map @size bytes aligned to @size, as one folio where that is possible. */
static unsigned long map_user(struct kunit *test, unsigned long size)
{
	unsigned long len = size == PAGE_SIZE ? size : 2 * size;
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, len, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !addr || IS_ERR_VALUE(addr));
	if (size > PAGE_SIZE)
		KUNIT_ASSERT_EQ(test, 0, do_madvise(current->mm, addr, len,
						    MADV_HUGEPAGE));
	return ALIGN(addr, size);
}

/* Use the page at @addr. */
static void touch(struct kunit *test, unsigned long addr)
{
	KUNIT_ASSERT_EQ(test, 0, put_user(1, (int __user *)addr));
}

/* Use it again, and see what was written. */
static void look(struct kunit *test, unsigned long addr)
{
	int value;

	KUNIT_ASSERT_EQ(test, 0, get_user(value, (int __user *)addr));
	KUNIT_EXPECT_EQ(test, 1, value);
}

/* What clearing found, and what it left. */
struct cleared {
	bool mapped;
	bool was_young;
	bool found_young;
	bool is_young;
};

/* As reclaim clears it: Linux 7.3 calls a function for several entries. */
static bool clear_flush(struct vm_area_struct *vma, unsigned long addr,
			pte_t *ptep, unsigned int nr)
{
#ifdef clear_flush_young_ptes
	return clear_flush_young_ptes(vma, addr, ptep, nr);
#else
	return ptep_clear_flush_young(vma, addr, ptep);
#endif
}

/* Clear @nr entries; @cont: they are of contpte blocks. */
static struct cleared make_ptes_old(unsigned long addr, unsigned int nr, bool cont)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct cleared out = {};
	spinlock_t *ptl;	/* the page table's */
	pte_t *ptep;
	unsigned int i;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	ptep = vma ? get_locked_pte(mm, addr, &ptl) : NULL;
	if (ptep) {
		out.mapped = true;
		out.was_young = true;
		for (i = 0; i < nr; i++) {
			out.mapped &= pte_valid(__ptep_get(ptep + i)) &&
				      !!pte_cont(__ptep_get(ptep + i)) == cont;
			out.was_young &= pte_young(ptep_get(ptep + i));
		}
		out.found_young = clear_flush(vma, addr, ptep, nr);
		for (i = 0; i < nr; i++)
			out.is_young |= pte_young(ptep_get(ptep + i));
		pte_unmap_unlock(ptep, ptl);
	}
	mmap_read_unlock(mm);
	return out;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static struct cleared clear_pmd(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct cleared out = {};
	spinlock_t *ptl;	/* the page table's */
	pmd_t *pmdp;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	pmdp = pmd_off(mm, addr);
	ptl = pmd_lock(mm, pmdp);
	out.mapped = vma && pmd_trans_huge(*pmdp);
	if (out.mapped) {
		out.was_young = pmd_young(*pmdp);
		out.found_young = pmdp_clear_flush_young(vma, addr, pmdp);
		out.is_young = pmd_young(*pmdp);
	}
	spin_unlock(ptl);
	mmap_read_unlock(mm);
	return out;
}
#endif

static struct cleared clear_young(unsigned long addr, unsigned long size)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	if (size == PMD_SIZE)
		return clear_pmd(addr);
#endif
	return make_ptes_old(addr, 1, size != PAGE_SIZE);
}

/* Clear a mapping of @size bytes under the policy of this parameter. */
static void check_mapping(struct kunit *test, unsigned long size)
{
	const struct young_case *param = test->param_value;
	unsigned long addr = map_user(test, size);
	struct young_counts before;
	enum lull_young_policy decision = param->decision;
	struct cleared out;

	/* Stock waits for huge pages, and "nosync" is what stock does. */
	if (size == PMD_SIZE && decision == LULL_YOUNG_NOSYNC)
		decision = LULL_YOUNG_SYNC;
	set_policy(test, param->policy);
	touch(test, addr);

	/* It is young: it is made old, once, and counted once. */
	before = read_counts();
	out = clear_young(addr, size);
	KUNIT_ASSERT_TRUE_MSG(test, out.mapped, "not mapped as wanted");
	KUNIT_ASSERT_TRUE(test, out.was_young);
	KUNIT_EXPECT_TRUE(test, out.found_young);
	KUNIT_EXPECT_FALSE(test, out.is_young);
	expect_counted(test, before, decision, 1);

	/* A use that follows a flush that waits cannot be missed. */
	if (decision == LULL_YOUNG_SYNC) {
		look(test, addr);
		out = clear_young(addr, size);
		KUNIT_EXPECT_TRUE_MSG(test, out.found_young,
				      "a use after the flush was not seen");
	}

	/* It is old, and nobody uses it: nothing to do, nothing to count. */
	before = read_counts();
	out = clear_young(addr, size);
	KUNIT_EXPECT_FALSE(test, out.was_young);
	KUNIT_EXPECT_FALSE(test, out.found_young);
	KUNIT_EXPECT_FALSE(test, out.is_young);
	expect_counted(test, before, decision, 0);
}

/*
 * A device hears of each mapping whose TLB entry is invalidated; once of @nr pages that
 * are made old in one call. Under "none" it hears as little as CPUs do.
 */
static void check_device(struct kunit *test, unsigned long size, unsigned int nr)
{
	const struct young_case *param = test->param_value;
	unsigned long addr = map_user(test, nr * size), page;
	struct device_tlb device = { .mn.ops = &device_ops };
	struct mm_struct *mm = current->mm;
	struct cleared out;

	set_policy(test, param->policy);
	for (page = 0; page < nr; page++)
		touch(test, addr + page * size);
	KUNIT_ASSERT_EQ(test, 0, mmu_notifier_register(&device.mn, mm));
	out = nr == 1 ? clear_young(addr, size) : make_ptes_old(addr, nr, false);
	mmu_notifier_unregister(&device.mn, mm);

	KUNIT_EXPECT_TRUE(test, out.mapped && out.found_young);
	KUNIT_EXPECT_EQ(test, param->decision != LULL_YOUNG_NONE, device.told);
	if (!device.told)
		return;
	KUNIT_EXPECT_EQ(test, addr, device.start);
	KUNIT_EXPECT_EQ(test, addr + nr * size, device.end);
}

static void young_test_device(struct kunit *test)
{
	check_device(test, PAGE_SIZE, 1);
#ifdef clear_flush_young_ptes
	check_device(test, PAGE_SIZE, 2);
#endif
#if defined(CONFIG_ARM64_CONTPTE) && defined(CONFIG_TRANSPARENT_HUGEPAGE)
	check_device(test, CONT_PTE_SIZE, 1);
#endif
	if (IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		check_device(test, PMD_SIZE, 1);
}

static void young_test_page(struct kunit *test)
{
	check_mapping(test, PAGE_SIZE);
}

#ifdef clear_flush_young_ptes
/* Several entries in one call: these and no others, counted once. */
static void young_test_batch(struct kunit *test)
{
	const struct young_case *param = test->param_value;
	unsigned long addr = map_user(test, 4 * PAGE_SIZE), page;
	struct young_counts before;
	struct cleared out;

	set_policy(test, param->policy);
	for (page = 0; page < 4; page++)
		touch(test, addr + page * PAGE_SIZE);
	before = read_counts();
	out = make_ptes_old(addr + PAGE_SIZE, 2, false);
	KUNIT_ASSERT_TRUE_MSG(test, out.mapped, "not mapped as wanted");
	KUNIT_ASSERT_TRUE(test, out.was_young);
	KUNIT_EXPECT_TRUE(test, out.found_young);
	KUNIT_EXPECT_FALSE(test, out.is_young);
	expect_counted(test, before, param->decision, 1);

	KUNIT_EXPECT_TRUE(test, make_ptes_old(addr, 1, false).was_young);
	KUNIT_EXPECT_TRUE(test, make_ptes_old(addr + 3 * PAGE_SIZE, 1, false).was_young);
}
#endif

static void young_test_contpte(struct kunit *test)
{
#if defined(CONFIG_ARM64_CONTPTE) && defined(CONFIG_TRANSPARENT_HUGEPAGE)
	check_mapping(test, CONT_PTE_SIZE);
#else
	kunit_skip(test, "needs CONFIG_ARM64_CONTPTE and huge pages");
#endif
}

static void young_test_huge(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		kunit_skip(test, "needs CONFIG_TRANSPARENT_HUGEPAGE");
	check_mapping(test, PMD_SIZE);
}

/* What is no policy is refused, and changes nothing. */
static void young_test_unknown(struct kunit *test)
{
	static const char * const names[] = {
		"", "\n", "SYNC", "syn", "syncs", "sync nosync", "[sync]", "0",
	};
	struct kobj_attribute *attr = &lull_young_switch.attr;
	int i;

	set_policy(test, "none");
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL,
				    attr->store(NULL, attr, names[i],
						strlen(names[i])),
				    "'%s'", names[i]);
		KUNIT_EXPECT_EQ(test, LULL_YOUNG_NONE,
				lull_young_switch.policy);
	}
}

/* Reading the file shows all, and brackets what was written to it. */
static void young_test_show(struct kunit *test)
{
	static const char * const shown[] = {
		"[sync] nosync none\n", "sync [nosync] none\n", "sync nosync [none]\n",
	};
	struct kobj_attribute *attr = &lull_young_switch.attr;
	char *page = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_TRUE(test, PAGE_ALIGNED(page));
	for (i = 0; i < ARRAY_SIZE(young_cases); i++) {
		const char *name = young_cases[i].policy;

		KUNIT_EXPECT_EQ(test, strlen(name),
				attr->store(NULL, attr, name, strlen(name)));
		KUNIT_EXPECT_EQ(test, strlen(shown[i]),
				attr->show(NULL, attr, page));
		KUNIT_EXPECT_STREQ(test, shown[i], page);
	}
}

/* The boot parameter takes the same names, and keeps its default else. */
static void young_test_boot(struct kunit *test)
{
	struct lull_switch sw = lull_young_switch;

	KUNIT_EXPECT_EQ(test, 0, lull_switch_boot(&sw, "none"));
	KUNIT_EXPECT_EQ(test, LULL_YOUNG_NONE, sw.policy);
	KUNIT_EXPECT_EQ(test, -EINVAL, lull_switch_boot(&sw, "sometimes"));
	KUNIT_EXPECT_EQ(test, -EINVAL, lull_switch_boot(&sw, NULL));
	KUNIT_EXPECT_EQ(test, LULL_YOUNG_NONE, sw.policy);
}

static unsigned long orders_before __maybe_unused;

/* What was chosen before a test is chosen again after it. */
static int young_test_init(struct kunit *test)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	orders_before = READ_ONCE(huge_anon_orders_madvise);
	WRITE_ONCE(huge_anon_orders_madvise, orders_before | BIT(CONT_PTE_SHIFT - PAGE_SHIFT));
#endif
	test->priv = (void *)lull_young_switch.policies[lull_young_switch.policy];
	return 0;
}

static void young_test_exit(struct kunit *test)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	WRITE_ONCE(huge_anon_orders_madvise, orders_before);
#endif
	lull_switch_set(&lull_young_switch, test->priv);
}

static struct kunit_case young_test_cases[] = {
	KUNIT_CASE(young_test_unknown),
	KUNIT_CASE(young_test_show),
	KUNIT_CASE(young_test_boot),
	KUNIT_CASE_PARAM(young_test_page, young_gen_params),
#ifdef clear_flush_young_ptes
	KUNIT_CASE_PARAM(young_test_batch, young_gen_params),
#endif
	KUNIT_CASE_PARAM(young_test_contpte, young_gen_params),
	KUNIT_CASE_PARAM(young_test_huge, young_gen_params),
	KUNIT_CASE_PARAM(young_test_device, young_gen_params),
	{}
};

static struct kunit_suite young_test_suite = {
	.name = "lull_young",
	.init = young_test_init,
	.exit = young_test_exit,
	.test_cases = young_test_cases,
};

kunit_test_suite(young_test_suite);
