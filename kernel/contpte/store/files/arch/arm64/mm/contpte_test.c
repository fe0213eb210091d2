// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for entries that are cleared without regard to how their pages
 * have been used.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/slab.h>

/* As many as the longest contiguous block has, that of 16 KiB pages. */
#define NR_ENTRIES	128

/* Entries in memory that no CPU walks; @prot of each, dirty every fifth. */
static pte_t *make_entries(struct kunit *test, pgprot_t prot)
{
	pte_t *entries = kunit_kzalloc(test, NR_ENTRIES * sizeof(pte_t),
				       GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, entries);
	for (i = 0; i < NR_ENTRIES; i++) {
		entries[i] = pfn_pte(0x1000 + i, prot);
		if (i % 5 == 2)
			entries[i] = pte_mkdirty(entries[i]);
	}
	return entries;
}

static void check_clear(struct kunit *test, int first, int nr)
{
	pte_t *entries = make_entries(test, PAGE_KERNEL);
	int i;

	__clear_full_ptes(&init_mm, 0, entries + first, nr, 1);
	for (i = 0; i < NR_ENTRIES; i++)
		KUNIT_EXPECT_EQ_MSG(test, pte_none(entries[i]),
				    i >= first && i < first + nr,
				    "entry %d, %d cleared from %d", i, nr,
				    first);
}

/* As many as are asked for go, and no other. */
static void contpte_test_clear(struct kunit *test)
{
	static const int first[] = { 0, 7, 16, 32 };
	static const int nr[] = { 1, 3, 16, 32 };
	int f, n;

	for (f = 0; f < ARRAY_SIZE(first); f++)
		for (n = 0; n < ARRAY_SIZE(nr); n++)
			check_clear(test, first[f], nr[n]);
}

static struct kunit_case contpte_test_cases[] = {
	KUNIT_CASE(contpte_test_clear),
	{}
};

static struct kunit_suite contpte_test_suite = {
	.name = "lull_contpte",
	.test_cases = contpte_test_cases,
};

kunit_test_suite(contpte_test_suite);
