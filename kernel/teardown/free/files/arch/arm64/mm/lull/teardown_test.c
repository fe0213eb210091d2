// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the teardown switch, and for the tail pages of what is freed.
 */
#include <kunit/test.h>
#include <linux/gfp.h>
#include <linux/lull_teardown.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmstat.h>

#include "teardown.h"

static const unsigned int teardown_orders[] = { 1, 2, 3, 4, 9 };

static void teardown_describe(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %u", *order);
}

KUNIT_ARRAY_PARAM(teardown, teardown_orders, teardown_describe);

static void set_policy(struct kunit *test, const char *name)
{
	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_teardown_switch, name));
}

static unsigned long count_of(enum vm_event_item event)
{
	unsigned long all[NR_VM_EVENT_ITEMS];

	all_vm_events(all);
	return all[event];
}

/*
 * Copies of a compound page's struct pages, one more than there are: what is
 * done to them harms nobody, and every byte of them can be compared.
 */
static void teardown_test_tails(struct kunit *test)
{
	unsigned int order = *(const unsigned int *)test->param_value;
	unsigned int nr = 1 << order, i;
	size_t size = (nr + 1) * sizeof(struct page);
	struct page *got = kunit_kzalloc(test, size, GFP_KERNEL);
	struct page *want = kunit_kzalloc(test, size, GFP_KERNEL);
	struct page *page;

	KUNIT_ASSERT_NOT_NULL(test, got);
	KUNIT_ASSERT_NOT_NULL(test, want);
	page = alloc_pages(GFP_KERNEL | __GFP_COMP, order);
	KUNIT_ASSERT_NOT_NULL(test, page);
	memcpy(got, page, nr * sizeof(*page));
	__free_pages(page, order);

	/* As a folio in use may leave them; and a neighbour. */
	for (i = 1; i <= nr; i++) {
		if (i % 3)
			got[i].flags |= 1UL << PG_anon_exclusive;
		got[i].private = i;
	}
	got[nr].mapping = TAIL_MAPPING;
	memcpy(want, got, size);
	for (i = 1; i < nr; i++) {
		want[i].flags &= ~PAGE_FLAGS_CHECK_AT_PREP;
		want[i].mapping = NULL;
		want[i].compound_head = 0;
	}

	lull_free_tails(got, nr);
	for (i = 0; i <= nr; i++)
		KUNIT_EXPECT_EQ_MSG(test, 0, memcmp(got + i, want + i,
						    sizeof(*got)),
				    "page %u of %u", i, nr);
}

/* Compound pages that are freed go this way, when it is on, and only then. */
static void teardown_test_freed(struct kunit *test)
{
	unsigned int order = *(const unsigned int *)test->param_value;
	static const char * const policies[] = { "off", "on" };
	unsigned long before;
	struct page *page;
	int i;

	if (IS_ENABLED(CONFIG_DEBUG_VM))
		kunit_skip(test, "pages are checked one by one");
	for (i = 0; i < 2; i++) {
		set_policy(test, policies[i]);
		page = alloc_pages(GFP_KERNEL | __GFP_COMP, order);
		KUNIT_ASSERT_NOT_NULL(test, page);
		before = count_of(TEARDOWN_TAILS);
		__free_pages(page, order);
		if (i)
			KUNIT_EXPECT_GT(test, count_of(TEARDOWN_TAILS), before);
		else
			KUNIT_EXPECT_EQ(test, count_of(TEARDOWN_TAILS), before);
	}
}

static void teardown_test_switch(struct kunit *test)
{
	set_policy(test, "off");
	KUNIT_EXPECT_FALSE(test, lull_teardown());
	set_policy(test, "on\n");
	KUNIT_EXPECT_TRUE(test, lull_teardown());
	KUNIT_EXPECT_EQ(test, -EINVAL,
			lull_switch_set(&lull_teardown_switch, "perhaps"));
	KUNIT_EXPECT_TRUE(test, lull_teardown());
}

/* The policy that was chosen before a test is chosen again after it. */
static int teardown_test_init(struct kunit *test)
{
	test->priv = (void *)lull_teardown_switch.policies[lull_teardown_switch.policy];
	return 0;
}

static void teardown_test_exit(struct kunit *test)
{
	lull_switch_set(&lull_teardown_switch, test->priv);
}

static struct kunit_case teardown_test_cases[] = {
	KUNIT_CASE(teardown_test_switch),
	KUNIT_CASE_PARAM(teardown_test_tails, teardown_gen_params),
	KUNIT_CASE_PARAM(teardown_test_freed, teardown_gen_params),
	{}
};

static struct kunit_suite teardown_test_suite = {
	.name = "lull_teardown",
	.init = teardown_test_init,
	.exit = teardown_test_exit,
	.test_cases = teardown_test_cases,
};

kunit_test_suite(teardown_test_suite);
