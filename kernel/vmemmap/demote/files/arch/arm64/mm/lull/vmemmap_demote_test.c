// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for optimized HugeTLB pages that are split to optimized ones.
 */
#include <linux/list.h>
#include <linux/sizes.h>

#include "../../../../mm/internal.h"
#include "vmemmap.h"
#include "vmemmap_test.h"

struct split {
	unsigned long from;
	unsigned long to;
	const char *name;
};

static const struct split splits[] = {
	{ CONT_PMD_SIZE, PMD_SIZE, "contiguous blocks to blocks" },
	{ PUD_SIZE, PMD_SIZE, "the largest to blocks" },
	{ PUD_SIZE, CONT_PMD_SIZE, "the largest to contiguous blocks" },
};

KUNIT_ARRAY_PARAM_DESC(split, splits, name);

/* A pool page is on a list, and its memory goes back piece by piece. */
static void test_split(struct kunit *test)
{
	const struct split *split = test->param_value;
	struct hstate *src = size_to_hstate(split->from);
	struct hstate *dst = size_to_hstate(split->to);
	bool enabled = vmemmap_optimize_enabled;
	struct folio *folio, *next;
	LIST_HEAD(list);
	LIST_HEAD(small);
	LIST_HEAD(restored);

	if (!src || !dst)
		kunit_skip(test, "no such size here");
	folio = make_huge(test, src);
	list_add(&folio->lru, &list);

	WRITE_ONCE(vmemmap_optimize_enabled, true);
	lull_vmemmap_optimize_folios(src, &list);
	expect_mapped(test, src, folio, true);
	lull_vmemmap_demote_folios(src, dst, &list, &small);
	WRITE_ONCE(vmemmap_optimize_enabled, enabled);

	KUNIT_EXPECT_TRUE(test, list_empty(&list));
	KUNIT_EXPECT_EQ(test, list_count_nodes(&small), split->from / split->to);
	list_for_each_entry(folio, &small, lru) {
		expect_mapped(test, dst, folio, true);
		expect_huge(test, dst, folio);
	}
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folios(dst, &small, &restored),
			split->from / split->to);
	list_for_each_entry_safe(folio, next, &restored, lru) {
		list_del(&folio->lru);
		expect_mapped(test, dst, folio, false);
		expect_huge(test, dst, folio);
		free_huge(folio);
	}
}

/* What cannot be done so stays where it is, for Linux's own way. */
static void test_left_alone(struct kunit *test)
{
	struct hstate *src = size_to_hstate(PMD_SIZE);
	struct hstate *dst = size_to_hstate(CONT_PTE_SIZE);
	bool enabled = vmemmap_optimize_enabled;
	struct folio *folio;
	LIST_HEAD(list);
	LIST_HEAD(small);

	if (!src || !dst)
		kunit_skip(test, "no such size here");
	folio = make_huge(test, src);
	list_add(&folio->lru, &list);
	WRITE_ONCE(vmemmap_optimize_enabled, true);
	lull_vmemmap_demote_folios(src, dst, &list, &small);	/* it is not optimized */
	KUNIT_EXPECT_TRUE(test, list_empty(&small));
	lull_vmemmap_optimize_folios(src, &list);
	lull_vmemmap_demote_folios(src, dst, &list, &small);	/* those cannot be */
	KUNIT_EXPECT_TRUE(test, list_empty(&small));
	WRITE_ONCE(vmemmap_optimize_enabled, false);
	lull_vmemmap_demote_folios(src, src, &list, &small);	/* not wanted */
	KUNIT_EXPECT_TRUE(test, list_empty(&small));
	WRITE_ONCE(vmemmap_optimize_enabled, enabled);

	expect_mapped(test, src, folio, true);
	KUNIT_EXPECT_EQ(test, lull_vmemmap_restore_folio(src, folio), 0);
	expect_huge(test, src, folio);
	free_huge(folio);
}

static struct kunit_case demote_cases[] = {
	KUNIT_CASE_PARAM(test_split, split_gen_params),
	KUNIT_CASE(test_left_alone),
	{}
};

static struct kunit_suite demote_suite = {
	.name = "lull_vmemmap_demote",
	.test_cases = demote_cases,
};

kunit_test_suite(demote_suite);
