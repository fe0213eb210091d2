// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for giving memory back: tail pages, statistics that are applied
 * once for many folios, and folios that leave the page cache of tmpfs in batches.
 * What is left behind, and what is counted, must be what it would be one by one.
 */
#include <kunit/test.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/initrd.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mman.h>
#include <linux/mmzone.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>

#include "internal.h"
#include "teardown_test.h"

/* More than memcg leaves unflushed on 8 CPUs. */
#define STAT_PAGES	1024L
#define STAT_SIZE	(STAT_PAGES * PAGE_SIZE)
#define FILE_PAGES	200

/* The exact number: what the CPUs have not told yet is counted, too. */
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

static long zone_sum(enum zone_stat_item item)
{
	struct zone *zone;
	long sum = 0;

	for_each_populated_zone(zone)
		sum += zone_page_state_snapshot(zone, item);
	return sum;
}

/* Of the root memcg, in which the tests run. */
static long memcg_sum(enum node_stat_item item)
{
	long sum = 0;
	int nid;

	if (mem_cgroup_disabled())
		return node_sum(item);
	mem_cgroup_flush_stats(root_mem_cgroup);
	for_each_online_node(nid)
		sum += lruvec_page_state(mem_cgroup_lruvec(root_mem_cgroup,
							   NODE_DATA(nid)),
					 item);
	return sum;
}

static const unsigned int tail_orders[] = { 1, 2, 3, 4, 9 };

static void tail_describe(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %u", *order);
}

KUNIT_ARRAY_PARAM(tail, tail_orders, tail_describe);

/*
 * Copies of a compound page's struct pages, one more than there are: what is
 * done to them harms nobody, and every byte of them can be compared.
 */
static void test_tails(struct kunit *test)
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
			*flags_of(&got[i]) |= 1UL << PG_anon_exclusive;
		got[i].private = i;
	}
	got[nr].mapping = TAIL_MAPPING;
	memcpy(want, got, size);
	for (i = 1; i < nr; i++) {
		*flags_of(&want[i]) &= ~PAGE_FLAGS_CHECK_AT_PREP;
		want[i].mapping = NULL;
		want[i].compound_info = 0;
	}

	clear_compound_tails(got, order);
	for (i = 0; i <= nr; i++)
		KUNIT_EXPECT_EQ_MSG(test, 0, memcmp(got + i, want + i,
						    sizeof(*got)),
				    "page %u of %u", i, nr);
}

struct stat_counts {
	long mapped;
	long memcg_mapped;
	long lru;
	long memcg_lru;
	long zone_lru;
};

static struct stat_counts read_counts(bool file)
{
	enum node_stat_item mapped = file ? NR_FILE_MAPPED : NR_ANON_MAPPED;

	lru_add_drain_all();
	/* Pages of tmpfs are on the lists of anonymous ones. */
	return (struct stat_counts) {
		.mapped = node_sum(mapped),
		.memcg_mapped = memcg_sum(mapped),
		.lru = node_sum(NR_INACTIVE_ANON) + node_sum(NR_ACTIVE_ANON),
		.memcg_lru = memcg_sum(NR_INACTIVE_ANON) +
			     memcg_sum(NR_ACTIVE_ANON),
		.zone_lru = zone_sum(NR_ZONE_INACTIVE_ANON) +
			    zone_sum(NR_ZONE_ACTIVE_ANON),
	};
}

/* Unmap pages; for a file, they stay in it. */
static void check_unmap(struct kunit *test, bool is_file)
{
	long left = is_file ? 0 : STAT_PAGES;
	struct file *file = NULL;
	struct stat_counts before, after;
	unsigned long addr, at;

	if (is_file) {
		file = shmem_kernel_file_setup("teardown", STAT_SIZE,
					       EMPTY_VMA_FLAGS);
		KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	}
	addr = kunit_vm_mmap(test, file, 0, STAT_SIZE, PROT_READ | PROT_WRITE,
			     file ? MAP_SHARED : MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !addr || IS_ERR_VALUE(addr));
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	KUNIT_ASSERT_EQ(test, 0, do_madvise(current->mm, addr, STAT_SIZE,
					    MADV_NOHUGEPAGE));
#endif
	for (at = addr; at < addr + STAT_SIZE; at += PAGE_SIZE)
		KUNIT_ASSERT_EQ(test, 0, put_user(1, (int __user *)at));

	before = read_counts(is_file);
	if (is_file)
		KUNIT_ASSERT_EQ(test, 0, do_madvise(current->mm, addr,
						    STAT_SIZE, MADV_DONTNEED));
	else
		KUNIT_ASSERT_EQ(test, 0, vm_munmap(addr, STAT_SIZE));
	after = read_counts(is_file);

	KUNIT_EXPECT_EQ(test, STAT_PAGES, before.mapped - after.mapped);
	KUNIT_EXPECT_EQ(test, STAT_PAGES,
			before.memcg_mapped - after.memcg_mapped);
	KUNIT_EXPECT_EQ(test, left, before.lru - after.lru);
	KUNIT_EXPECT_EQ(test, left, before.memcg_lru - after.memcg_lru);
	KUNIT_EXPECT_EQ(test, left, before.zone_lru - after.zone_lru);
	/* Its pages go now, and not while the next one counts. */
	if (file) {
		vm_munmap(addr, STAT_SIZE);
		__fput_sync(file);
	}
}

static void test_unmap_anon(struct kunit *test)
{
	check_unmap(test, false);
}

static void test_unmap_file(struct kunit *test)
{
	check_unmap(test, true);
}

/* Nothing is applied before it has to be; what does not add up is not mixed. */
static void test_sum(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);
	struct lruvec_stat_sum sum = {};
	long anon, file;

	KUNIT_ASSERT_NOT_NULL(test, folio);
	preempt_disable();
	anon = node_sum(NR_ANON_MAPPED);
	file = node_sum(NR_FILE_MAPPED);
	lruvec_stat_sum_add(&sum, folio, NR_ANON_MAPPED, 5);
	lruvec_stat_sum_add(&sum, folio, NR_ANON_MAPPED, 7);
	KUNIT_EXPECT_EQ(test, 0, node_sum(NR_ANON_MAPPED) - anon);
	lruvec_stat_sum_add(&sum, folio, NR_FILE_MAPPED, 3);
	KUNIT_EXPECT_EQ(test, 12, node_sum(NR_ANON_MAPPED) - anon);
	KUNIT_EXPECT_EQ(test, 0, node_sum(NR_FILE_MAPPED) - file);
	lruvec_stat_sum_apply(&sum);
	lruvec_stat_sum_apply(&sum);
	KUNIT_EXPECT_EQ(test, 3, node_sum(NR_FILE_MAPPED) - file);
	lruvec_stat_sum_add(&sum, folio, NR_FILE_MAPPED, -3);
	lruvec_stat_sum_add(&sum, folio, NR_ANON_MAPPED, -12);
	lruvec_stat_sum_apply(&sum);
	KUNIT_EXPECT_EQ(test, anon, node_sum(NR_ANON_MAPPED));
	KUNIT_EXPECT_EQ(test, file, node_sum(NR_FILE_MAPPED));
	lruvec_stat_sum_add(NULL, folio, NR_FILE_MAPPED, 2);
	KUNIT_EXPECT_EQ(test, 2, node_sum(NR_FILE_MAPPED) - file);
	lruvec_stat_sum_add(NULL, folio, NR_FILE_MAPPED, -2);
	preempt_enable();
	folio_put(folio);
}

static struct kunit_case teardown_test_cases[] = {
	KUNIT_CASE_PARAM(test_tails, tail_gen_params),
	KUNIT_CASE(test_sum),
	KUNIT_CASE(test_unmap_anon),
	KUNIT_CASE(test_unmap_file),
	{}
};

/* Files that are unpacked meanwhile would be counted. */
static int teardown_suite_init(struct kunit_suite *suite)
{
	wait_for_initramfs();
	return 0;
}

static struct kunit_suite teardown_test_suite = {
	.name = "lull_teardown",
	.suite_init = teardown_suite_init,
	.test_cases = teardown_test_cases,
};

kunit_test_suite(teardown_test_suite);
