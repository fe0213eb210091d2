// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for HugeTLB pages that give their struct pages back.
 *
 * Real HugeTLB pages, the real vmemmap, real pauses: a page is optimized and
 * restored, and each of its struct pages and of the entries that map them is
 * looked at before, in between, and after.
 */
#include <kunit/static_stub.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "../../../../mm/hugetlb_vmemmap.h"
#include "../../../../mm/internal.h"
#include "vmemmap.h"
#include "vmemmap_test.h"

#define MANY	20	/* pages of a list: of more than one table, mostly */

struct huge {
	struct hstate *h;
	bool enabled;
};

static int vmemmap_test_init(struct kunit *test)
{
	struct huge *huge = kunit_kzalloc(test, sizeof(*huge), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, huge);
	huge->h = size_to_hstate(PMD_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, huge->h);
	huge->enabled = vmemmap_optimize_enabled;
	WRITE_ONCE(vmemmap_optimize_enabled, true);
	test->priv = huge;
	return 0;
}

static void vmemmap_test_exit(struct kunit *test)
{
	struct huge *huge = test->priv;

	WRITE_ONCE(vmemmap_optimize_enabled, huge->enabled);
}

static unsigned long event(enum vm_event_item item)
{
	unsigned long *all = kzalloc(sizeof(*all) * NR_VM_EVENT_ITEMS, GFP_KERNEL);
	unsigned long value = 0;

	if (all) {
		all_vm_events(all);
		value = all[item];
	}
	kfree(all);
	return value;
}

static unsigned long vmemmap_pages(struct hstate *h)
{
	return pages_per_huge_page(h) * sizeof(struct page) / PAGE_SIZE;
}

static void test_one(struct kunit *test)
{
	struct huge *huge = test->priv;
	unsigned long freed, pauses;
	struct folio *folio = make_huge(test, huge->h);

	expect_mapped(test, huge->h, folio, false);
	freed = event(VMEMMAP_FREED) - event(VMEMMAP_ALLOCATED);
	pauses = event(VMEMMAP_PAUSE);
	lull_vmemmap_optimize_folio(huge->h, folio);
	freed = event(VMEMMAP_FREED) - event(VMEMMAP_ALLOCATED) - freed;
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE) - pauses, 1);
	KUNIT_EXPECT_EQ(test, freed, vmemmap_pages(huge->h) - 1);
	expect_mapped(test, huge->h, folio, true);
	expect_huge(test, huge->h, folio);

	freed = event(VMEMMAP_FREED) - event(VMEMMAP_ALLOCATED);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	freed -= event(VMEMMAP_FREED) - event(VMEMMAP_ALLOCATED);
	KUNIT_EXPECT_EQ(test, freed, vmemmap_pages(huge->h) - 1);
	expect_mapped(test, huge->h, folio, false);
	expect_huge(test, huge->h, folio);
	free_huge(folio);
}

/* The second time, what is there is a table already, and no block. */
static void test_again(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);
	int i;

	for (i = 0; i < 3; i++) {
		lull_vmemmap_optimize_folio(huge->h, folio);
		expect_mapped(test, huge->h, folio, true);
		expect_huge(test, huge->h, folio);
		KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
		expect_mapped(test, huge->h, folio, false);
		expect_huge(test, huge->h, folio);
	}
	free_huge(folio);
}

static void make_many(struct kunit *test, struct hstate *h, struct list_head *list)
{
	int i;

	for (i = 0; i < MANY; i++)
		list_add(&make_huge(test, h)->lru, list);
}

static void free_many(struct list_head *list)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, list, lru) {
		list_del(&folio->lru);
		free_huge(folio);
	}
}

/* A list takes one pause there, and one back, and each page is where it was. */
static void test_many(struct kunit *test)
{
	struct huge *huge = test->priv;
	LIST_HEAD(list);
	LIST_HEAD(restored);
	unsigned long pauses;
	struct folio *folio;

	make_many(test, huge->h, &list);
	pauses = event(VMEMMAP_PAUSE);
	lull_vmemmap_optimize_folios(huge->h, &list);
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE) - pauses, 1);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&list), MANY);
	list_for_each_entry(folio, &list, lru) {
		expect_mapped(test, huge->h, folio, true);
		expect_huge(test, huge->h, folio);
	}

	pauses = event(VMEMMAP_PAUSE);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folios(huge->h, &list, &restored), MANY);
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE) - pauses, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&restored), MANY);
	list_for_each_entry(folio, &restored, lru) {
		expect_mapped(test, huge->h, folio, false);
		expect_huge(test, huge->h, folio);
	}
	free_many(&restored);
}

/* What has all its struct pages passes through, and costs no pause. */
static void test_nothing_to_do(struct kunit *test)
{
	struct huge *huge = test->priv;
	unsigned long pauses = event(VMEMMAP_PAUSE);
	struct folio *folio = make_huge(test, huge->h);
	LIST_HEAD(list);
	LIST_HEAD(restored);

	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	list_add(&folio->lru, &list);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folios(huge->h, &list, &restored), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	WRITE_ONCE(vmemmap_optimize_enabled, false);
	lull_vmemmap_optimize_folios(huge->h, &restored);
	WRITE_ONCE(vmemmap_optimize_enabled, true);
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_vmemmap_switch, "off"), 0);
	lull_vmemmap_optimize_folios(huge->h, &restored);
	lull_vmemmap_optimize_folio(huge->h, folio);
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_vmemmap_switch, "pause"), 0);
	expect_mapped(test, huge->h, folio, false);
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE), pauses);
	free_many(&restored);
}

/* Off means that nothing more is optimized, and what is can be restored. */
static void test_off(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);

	lull_vmemmap_optimize_folio(huge->h, folio);
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_vmemmap_switch, "off"), 0);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	KUNIT_EXPECT_EQ(test, lull_switch_set(&lull_vmemmap_switch, "pause"), 0);
	expect_mapped(test, huge->h, folio, false);
	expect_huge(test, huge->h, folio);
	free_huge(folio);
}

/* No pause comes about: all is as it was, and no page is lost. */
static void test_no_pause(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio, *plain;
	unsigned long pages, fails, retries;
	unsigned int wait_us;
	int err, again;

	if (num_online_cpus() == 1)
		kunit_skip(test, "one CPU waits for nobody");
	folio = make_huge(test, huge->h);
	plain = make_huge(test, huge->h);
	lull_vmemmap_optimize_folio(huge->h, folio);

	fails = event(VMEMMAP_PAUSE_FAIL);
	pages = event(VMEMMAP_ALLOCATED) - event(VMEMMAP_FREED);
	wait_us = lull_vmemmap_wait_us;
	lull_vmemmap_wait_us = 0;	/* nobody comes in no time */
	lull_vmemmap_optimize_folio(huge->h, plain);
	lull_vmemmap_rest = jiffies;
	err = lull_vmemmap_restore_folio(huge->h, folio);
	lull_vmemmap_wait_us = wait_us;

	/* Now all would come, but no CPU is asked again so soon. */
	retries = event(VMEMMAP_PAUSE_NS);
	lull_vmemmap_rest = jiffies + 100 * HZ;
	again = lull_vmemmap_restore_folio(huge->h, folio);
	retries = event(VMEMMAP_PAUSE_NS) - retries;
	lull_vmemmap_rest = jiffies;

	KUNIT_EXPECT_EQ(test, err, -EBUSY);
	KUNIT_EXPECT_EQ(test, again, -EBUSY);
	KUNIT_EXPECT_EQ(test, retries, 0);
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE_FAIL) - fails,
			1 + 2 * (1 + LULL_RESTORE_TRIES));
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_ALLOCATED) - event(VMEMMAP_FREED), pages);
	expect_mapped(test, huge->h, folio, true);
	expect_mapped(test, huge->h, plain, false);
	expect_huge(test, huge->h, folio);
	expect_huge(test, huge->h, plain);

	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	free_huge(folio);
	free_huge(plain);
}

static int left;	/* so many allocations succeed */

static unsigned int alloc_few(int nid, unsigned int nr, struct page **pages)
{
	unsigned int got;

	for (got = 0; got < nr && left > 0; got++, left--) {
		pages[got] = alloc_pages_node(nid, GFP_KERNEL, 0);
		if (!pages[got])
			break;
	}
	return got;
}

/*
 * No memory, for the first page that is needed, the second, and so on: all is as it
 * was, no page is lost, and no CPU waits for it.
 */
static void test_no_memory(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);
	unsigned long pages, pauses, needed = vmemmap_pages(huge->h);
	int nr;

	kunit_activate_static_stub(test, lull_vmemmap_alloc, alloc_few);
	pages = event(VMEMMAP_ALLOCATED) - event(VMEMMAP_FREED);
	pauses = event(VMEMMAP_PAUSE);
	for (nr = 0; nr < 2; nr++) {	/* a table, and the head */
		left = nr;
		lull_vmemmap_optimize_folio(huge->h, folio);
		expect_mapped(test, huge->h, folio, false);
	}
	left = nr;
	lull_vmemmap_optimize_folio(huge->h, folio);
	expect_mapped(test, huge->h, folio, true);
	for (nr = 0; nr < needed; nr++) {	/* a table, and all but the head */
		left = nr;
		KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), -ENOMEM);
		expect_mapped(test, huge->h, folio, true);
	}
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_PAUSE) - pauses, 1);
	left = nr;
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	kunit_deactivate_static_stub(test, lull_vmemmap_alloc);

	KUNIT_EXPECT_EQ(test, left, 0);
	KUNIT_EXPECT_EQ(test, event(VMEMMAP_ALLOCATED) - event(VMEMMAP_FREED), pages);
	expect_mapped(test, huge->h, folio, false);
	expect_huge(test, huge->h, folio);
	free_huge(folio);
}

static unsigned long taken;

/* As those do who find a page by its number. */
static int take_tails(void *data)
{
	struct folio *folio = data;
	unsigned long i, nr = folio_nr_pages(folio);

	while (!kthread_should_stop()) {
		for (i = HUGETLB_VMEMMAP_RESERVE_PAGES; i < nr;
		     i += HUGETLB_VMEMMAP_RESERVE_PAGES)
			if (page_ref_add_unless(&folio->page + i, 1, 0))
				taken++;
		cond_resched();
	}
	return 0;
}

/*
 * A tail page becomes an alias of the head page, which has references, while others
 * try to get one to it. Each interrupt of a pause comes in the middle of that.
 */
static void test_reference(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);
	struct task_struct *threads[4];
	int i, err = 0, cpus = 0, cpu;

	taken = 0;
	folio_ref_unfreeze(folio, 1);
	for_each_online_cpu(cpu) {
		if (cpus == ARRAY_SIZE(threads))
			break;
		threads[cpus] = kthread_create_on_cpu(take_tails, folio, cpu, "tail/%u");
		if (!IS_ERR(threads[cpus]))
			wake_up_process(threads[cpus++]);
	}
	for (i = 0; i < 60 && !err; i++) {
		lull_vmemmap_optimize_folio(huge->h, folio);
		err = lull_vmemmap_restore_folio(huge->h, folio);
	}
	while (cpus--)
		kthread_stop(threads[cpus]);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, taken, 0);
	KUNIT_EXPECT_TRUE(test, folio_ref_freeze(folio, 1));
	expect_huge(test, huge->h, folio);
	free_huge(folio);
}

static int optimize_one(void *data)
{
	struct folio *folio = data;

	lull_vmemmap_optimize_folio(folio_hstate(folio), folio);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 100);
	return 0;
}

/* A reader of struct pages keeps a grace period waiting, and nobody but who began it. */
static void test_grace_period(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);
	struct task_struct *thread;
	unsigned long end;
	bool held = false;
	bool optimized;

	thread = kthread_create(optimize_one, folio, "optimize");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	rcu_read_lock();
	wake_up_process(thread);
	for (end = jiffies + HZ / 5; time_before(jiffies, end);) {
		if (mutex_is_locked(&lull_vmemmap_lock))
			held = true;
		cpu_relax();
	}
	optimized = folio_test_hugetlb_vmemmap_optimized(folio);
	rcu_read_unlock();
	kthread_stop(thread);

	KUNIT_EXPECT_FALSE(test, held);
	KUNIT_EXPECT_FALSE(test, optimized);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(huge->h, folio), 0);
	free_huge(folio);
}

/* One entry a pause: a list takes more of them, and comes to the same. */
static void test_limit(struct kunit *test)
{
	struct huge *huge = test->priv;
	unsigned int limit = lull_vmemmap_entries;
	unsigned long pauses;
	struct folio *folio;
	LIST_HEAD(list);
	LIST_HEAD(restored);

	make_many(test, huge->h, &list);
	lull_vmemmap_entries = 1;
	pauses = event(VMEMMAP_PAUSE);
	lull_vmemmap_optimize_folios(huge->h, &list);
	KUNIT_EXPECT_GE(test, event(VMEMMAP_PAUSE) - pauses, 1);
	list_for_each_entry(folio, &list, lru)
		expect_mapped(test, huge->h, folio, true);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folios(huge->h, &list, &restored), MANY);
	lull_vmemmap_entries = limit;
	list_for_each_entry(folio, &restored, lru)
		expect_mapped(test, huge->h, folio, false);
	free_many(&restored);
}

#ifdef CONFIG_MEMORY_HOTPLUG
static DECLARE_COMPLETION(plugged);

/* It is there already: nothing changes, but all entries are looked at. */
static int plug(void *folio)
{
	unsigned long pfn = ALIGN_DOWN(folio_pfn(folio), PAGES_PER_SECTION);
	struct page *first = pfn_to_page(pfn);
	int err;

	err = vmemmap_populate((unsigned long)first,
			       (unsigned long)(first + PAGES_PER_SECTION),
			       folio_nid(folio), NULL);
	complete(&plugged);
	return err;
}

/*
 * Memory that is plugged in may have its entries in a table that a batch has
 * copied and will replace: it waits for the batch.
 */
static void test_hotplug_waits(struct kunit *test)
{
	struct huge *huge = test->priv;
	struct folio *folio = make_huge(test, huge->h);
	const struct lull_work none = {};
	struct task_struct *thread;
	struct lull_remap *batch;
	bool waits;

	reinit_completion(&plugged);
	batch = lull_remap_begin(&none, huge->h);
	thread = kthread_run(plug, folio, "plug");
	waits = !IS_ERR(thread) &&
		!wait_for_completion_timeout(&plugged, HZ / 5);
	lull_remap_end(batch);

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	KUNIT_EXPECT_TRUE(test, waits);
	if (waits)
		wait_for_completion(&plugged);
	expect_mapped(test, huge->h, folio, false);
	free_huge(folio);
}
#endif

static struct kunit_case vmemmap_cases[] = {
	KUNIT_CASE(test_one),
	KUNIT_CASE(test_again),
	KUNIT_CASE(test_many),
	KUNIT_CASE(test_nothing_to_do),
	KUNIT_CASE(test_off),
	KUNIT_CASE(test_no_pause),
	KUNIT_CASE(test_no_memory),
	KUNIT_CASE_SLOW(test_reference),
	KUNIT_CASE(test_grace_period),
	KUNIT_CASE(test_limit),
#ifdef CONFIG_MEMORY_HOTPLUG
	KUNIT_CASE(test_hotplug_waits),
#endif
	{}
};

static struct kunit_suite vmemmap_suite = {
	.name = "lull_vmemmap",
	.init = vmemmap_test_init,
	.exit = vmemmap_test_exit,
	.test_cases = vmemmap_cases,
};

kunit_test_suite(vmemmap_suite);
