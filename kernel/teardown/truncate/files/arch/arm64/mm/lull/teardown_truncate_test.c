// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for what a file of tmpfs loses in batches: the pages that were
 * asked for, and no other, and each of them once.
 */
#include <kunit/test.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/vmstat.h>

#include "teardown.h"

#define FILE_PAGES	200

struct truncate_case {
	const char *name;
	const char *policy;
	int first;
	int end;
};

static const struct truncate_case truncate_cases[] = {
	{ "off: a hole", "off", 5, 150 },
	{ "one page", "on", 7, 8 },
	{ "a batch", "on", 0, 31 },
	{ "a batch and a page", "on", 3, 35 },
	{ "a hole", "on", 5, 150 },
	{ "all", "on", 0, FILE_PAGES },
};

KUNIT_ARRAY_PARAM_DESC(truncate, truncate_cases, name);

static long node_sum(enum node_stat_item item)
{
	long sum = 0;
	int nid, cpu;

	for_each_online_node(nid) {
		pg_data_t *pgdat = NODE_DATA(nid);

		sum += atomic_long_read(&pgdat->vm_stat[item]);
		for_each_online_cpu(cpu)
			sum += per_cpu_ptr(pgdat->per_cpu_nodestats,
					   cpu)->vm_node_stat_diff[item];
	}
	return sum;
}

static unsigned long batches(void)
{
	unsigned long all[NR_VM_EVENT_ITEMS];

	all_vm_events(all);
	return all[TEARDOWN_TRUNCATE];
}

/* Some pages are never there: a batch has gaps. */
static bool present(int i)
{
	return i % 7 != 4;
}

static void fill(struct kunit *test, struct address_space *mapping)
{
	struct page *page;
	int i;

	for (i = 0; i < FILE_PAGES; i++) {
		if (!present(i))
			continue;
		page = shmem_read_mapping_page(mapping, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(page));
		*(int *)page_address(page) = i + 1;
		set_page_dirty(page);
		put_page(page);
	}
}

static void truncate_test_hole(struct kunit *test)
{
	const struct truncate_case *param = test->param_value;
	struct address_space *mapping;
	unsigned long before;
	long pages, shmem, gone = 0;
	struct file *file;
	struct folio *folio;
	int i;

	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_teardown_switch,
						 param->policy));
	file = shmem_kernel_file_setup("lull_truncate", FILE_PAGES * PAGE_SIZE,
				       0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	mapping = file->f_mapping;
	fill(test, mapping);
	pages = node_sum(NR_FILE_PAGES);
	shmem = node_sum(NR_SHMEM);
	before = batches();

	KUNIT_EXPECT_EQ(test, 0,
			vfs_fallocate(file,
				      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				      (loff_t)param->first * PAGE_SIZE,
				      (loff_t)(param->end - param->first) *
				      PAGE_SIZE));

	for (i = 0; i < FILE_PAGES; i++) {
		bool in = i >= param->first && i < param->end;

		folio = filemap_get_folio(mapping, i);
		KUNIT_EXPECT_EQ_MSG(test, !IS_ERR(folio), present(i) && !in,
				    "page %d", i);
		gone += in && present(i);
		if (IS_ERR(folio))
			continue;
		KUNIT_EXPECT_EQ(test, i + 1, *(int *)folio_address(folio));
		folio_put(folio);
	}
	KUNIT_EXPECT_EQ(test, gone, pages - node_sum(NR_FILE_PAGES));
	KUNIT_EXPECT_EQ(test, gone, shmem - node_sum(NR_SHMEM));
	/* 31 folios are a batch. */
	KUNIT_EXPECT_EQ(test, batches() - before, !strcmp(param->policy, "off") ?
			0 : DIV_ROUND_UP(gone, PAGEVEC_SIZE));
	/* Now, and not while the next one counts. */
	__fput_sync(file);
}

static int truncate_test_init(struct kunit *test)
{
	test->priv = (void *)lull_teardown_switch.policies[lull_teardown_switch.policy];
	return 0;
}

static void truncate_test_exit(struct kunit *test)
{
	lull_switch_set(&lull_teardown_switch, test->priv);
}

static struct kunit_case truncate_test_cases[] = {
	KUNIT_CASE_PARAM(truncate_test_hole, truncate_gen_params),
	{}
};

static struct kunit_suite truncate_test_suite = {
	.name = "lull_teardown_truncate",
	.init = truncate_test_init,
	.exit = truncate_test_exit,
	.test_cases = truncate_test_cases,
};

kunit_test_suite(truncate_test_suite);
