// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for statistics that are told for many folios at once: each sum
 * must be what it is when they are told one by one.
 */
#include <kunit/test.h>
#include <linux/file.h>
#include <linux/lull_stat.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mman.h>
#include <linux/shmem_fs.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>

#include "teardown.h"

/* More than memcg leaves unflushed on 8 CPUs. */
#define STAT_PAGES	1024L
#define STAT_SIZE	(STAT_PAGES * PAGE_SIZE)

struct stat_case {
	const char *name;
	const char *policy;
	bool file;
};

static const struct stat_case stat_cases[] = {
	{ "anon off", "off", false }, { "anon on", "on", false },
	{ "file off", "off", true }, { "file on", "on", true },
};

KUNIT_ARRAY_PARAM_DESC(stat, stat_cases, name);

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

struct stat_counts {
	long mapped;
	long memcg_mapped;
	long lru;
	long memcg_lru;
	long zone_lru;
	long told;
};

static struct stat_counts read_counts(bool file)
{
	enum node_stat_item mapped = file ? NR_FILE_MAPPED : NR_ANON_MAPPED;
	unsigned long events[NR_VM_EVENT_ITEMS];
	struct stat_counts out;

	lru_add_drain_all();
	all_vm_events(events);
	/* Pages of tmpfs are on the lists of anonymous ones. */
	out = (struct stat_counts) {
		.mapped = node_sum(mapped),
		.memcg_mapped = memcg_sum(mapped),
		.lru = node_sum(NR_INACTIVE_ANON) + node_sum(NR_ACTIVE_ANON),
		.memcg_lru = memcg_sum(NR_INACTIVE_ANON) +
			     memcg_sum(NR_ACTIVE_ANON),
		.zone_lru = zone_sum(NR_ZONE_INACTIVE_ANON) +
			    zone_sum(NR_ZONE_ACTIVE_ANON),
		.told = events[TEARDOWN_STATS],
	};
	return out;
}

/* Unmap pages; for a file, they stay in it. */
static void stat_test_unmap(struct kunit *test)
{
	const struct stat_case *param = test->param_value;
	long left = param->file ? 0 : STAT_PAGES;
	struct file *file = NULL;
	struct stat_counts before, after;
	unsigned long addr, at;

	KUNIT_ASSERT_EQ(test, 0, lull_switch_set(&lull_teardown_switch,
						 param->policy));
	if (param->file) {
		file = shmem_kernel_file_setup("lull_stat", STAT_SIZE, 0);
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

	before = read_counts(param->file);
	if (param->file)
		KUNIT_ASSERT_EQ(test, 0, do_madvise(current->mm, addr,
						    STAT_SIZE, MADV_DONTNEED));
	else
		KUNIT_ASSERT_EQ(test, 0, vm_munmap(addr, STAT_SIZE));
	after = read_counts(param->file);

	KUNIT_EXPECT_EQ(test, STAT_PAGES, before.mapped - after.mapped);
	KUNIT_EXPECT_EQ(test, STAT_PAGES,
			before.memcg_mapped - after.memcg_mapped);
	KUNIT_EXPECT_EQ(test, left, before.lru - after.lru);
	KUNIT_EXPECT_EQ(test, left, before.memcg_lru - after.memcg_lru);
	KUNIT_EXPECT_EQ(test, left, before.zone_lru - after.zone_lru);
	if (!strcmp(param->policy, "off")) {
		KUNIT_EXPECT_EQ(test, before.told, after.told);
	} else {
		KUNIT_EXPECT_GT(test, after.told, before.told);
		KUNIT_EXPECT_LT(test, after.told, before.told + STAT_PAGES / 8);
	}
	/* Its pages go now, and not while the next one counts. */
	if (file) {
		vm_munmap(addr, STAT_SIZE);
		__fput_sync(file);
	}
}

/* Nothing is told before it has to be; what does not add up is not mixed. */
static void stat_test_add(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);
	struct lull_stat stat = {};
	long anon, file;

	KUNIT_ASSERT_NOT_NULL(test, folio);
	preempt_disable();
	anon = node_sum(NR_ANON_MAPPED);
	file = node_sum(NR_FILE_MAPPED);
	lull_stat_add(&stat, folio, NR_ANON_MAPPED, 5);
	lull_stat_add(&stat, folio, NR_ANON_MAPPED, 7);
	KUNIT_EXPECT_EQ(test, 0, node_sum(NR_ANON_MAPPED) - anon);
	lull_stat_add(&stat, folio, NR_FILE_MAPPED, 3);
	KUNIT_EXPECT_EQ(test, 12, node_sum(NR_ANON_MAPPED) - anon);
	KUNIT_EXPECT_EQ(test, 0, node_sum(NR_FILE_MAPPED) - file);
	lull_stat_flush(&stat);
	lull_stat_flush(&stat);
	KUNIT_EXPECT_EQ(test, 3, node_sum(NR_FILE_MAPPED) - file);
	lull_stat_add(&stat, folio, NR_FILE_MAPPED, -3);
	lull_stat_add(&stat, folio, NR_ANON_MAPPED, -12);
	lull_stat_flush(&stat);
	KUNIT_EXPECT_EQ(test, anon, node_sum(NR_ANON_MAPPED));
	KUNIT_EXPECT_EQ(test, file, node_sum(NR_FILE_MAPPED));
	preempt_enable();
	folio_put(folio);
}

static int stat_test_init(struct kunit *test)
{
	test->priv = (void *)lull_teardown_switch.policies[lull_teardown_switch.policy];
	return 0;
}

static void stat_test_exit(struct kunit *test)
{
	lull_switch_set(&lull_teardown_switch, test->priv);
}

static struct kunit_case stat_test_cases[] = {
	KUNIT_CASE(stat_test_add),
	KUNIT_CASE_PARAM(stat_test_unmap, stat_gen_params),
	{}
};

static struct kunit_suite stat_test_suite = {
	.name = "lull_teardown_stats",
	.init = stat_test_init,
	.exit = stat_test_exit,
	.test_cases = stat_test_cases,
};

kunit_test_suite(stat_test_suite);
