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

static struct kunit_case vmemmap_cases[] = {
	KUNIT_CASE(test_one),
	KUNIT_CASE(test_again),
	KUNIT_CASE(test_many),
	KUNIT_CASE(test_off),
	{}
};

static struct kunit_suite vmemmap_suite = {
	.name = "lull_vmemmap",
	.init = vmemmap_test_init,
	.exit = vmemmap_test_exit,
	.test_cases = vmemmap_cases,
};

kunit_test_suite(vmemmap_suite);
