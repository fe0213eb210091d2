// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run a program, and verify that the kernel's statistics of memory are right after it has ended.
 *
 *	accounts [slack=PAGES] [free=PAGES] -- COMMAND ARGS
 *
 * The command runs in a memory cgroup of its own. When all its processes have ended, the cgroup must have no anonymous
 * page and no mapped page, and its LRU lists must be as long as it has pages of files. On the node these numbers must be
 * what they were before, but for a few pages of other processes. The lists of a node must be as long as those of its
 * zones. As many pages must have been freed as were allocated, but for those that are free, or in use, only now.
 *
 * No later update makes good for one that is lost or made twice: the more the command does, the larger the difference.
 */
#include "cgroup.h"

#define TRIES	30	/* twice a second: Linux collects a cgroup's statistics from the CPUs every two seconds */
#define LISTS(prefix) \
	prefix "inactive_anon", prefix "active_anon", prefix "inactive_file", prefix "active_file", prefix "unevictable"

static long slack = 64, slack_free = 8192;

static const struct option_spec options[] = {
	{ "slack", &slack, NULL, "pages by which statistics of the node may differ: of other processes" },
	{ "free", &slack_free, NULL, "pages by which frees and allocations may differ: on the lists of CPUs" },
	{ }
};

/* A sum that must be 0: of rows, less the sum of other rows. */
struct sum {
	const char *what;
	const char *plus[8], *minus[8];
	const long *slack;	/* how far from 0 it may be, or from what it was before; NULL: it must be 0 */
};

static const struct sum of_cgroup[] = {
	{ .what = "anonymous pages of the cgroup", .plus = { "anon" } },
	{ .what = "mapped pages of the cgroup", .plus = { "file_mapped" } },
	{ .what = "huge pages of the cgroup", .plus = { "anon_thp" } },
	{ .what = "pages on lists of the cgroup, less those of files", .plus = { LISTS("") }, .minus = { "file" } },
	{ 0 }
}, of_node[] = {
	{ .what = "NR_ANON_MAPPED", .plus = { "nr_anon_pages" }, .slack = &slack },
	{ .what = "NR_FILE_MAPPED", .plus = { "nr_mapped" }, .slack = &slack },
	{ .what = "NR_ANON_THPS", .plus = { "nr_anon_transparent_hugepages" }, .slack = &slack },
	{ .what = "NR_SHMEM", .plus = { "nr_shmem" }, .slack = &slack },
	{ .what = "pages on lists, less those in use", .plus = { LISTS("nr_") },
	  .minus = { "nr_anon_pages", "nr_file_pages" }, .slack = &slack },
	{ .what = "pages on lists of zones, less the node's", .plus = { LISTS("nr_zone_") },
	  .minus = { LISTS("nr_") } },
	{ .what = "pages allocated and not freed, less those in use",
	  .plus = { "pgalloc_dma", "pgalloc_dma32", "pgalloc_normal", "pgalloc_movable", "nr_free_pages" },
	  .minus = { "pgfree" }, .slack = &slack_free },
	{ 0 }
};

#define SUMS	(sizeof(of_node) / sizeof(*of_node))

/* A row that this kernel does not have counts as 0. */
static long row(const char *path, const char *name)
{
	long value = row_in(path, name);

	return value < 0 ? 0 : value;
}

static long total(const char *path, const struct sum *sum)
{
	long value = 0;
	int i;

	for (i = 0; sum->plus[i]; i++)
		value += row(path, sum->plus[i]);
	for (i = 0; sum->minus[i]; i++)
		value -= row(path, sum->minus[i]);
	return value;
}

/* Empty the CPUs' lists of new pages, drop what is only cached, and add up what CPUs have counted. */
static void settle(void)
{
	verify(put_file("/proc/sys/vm/drop_caches", "3"), "no caches can be dropped");
	verify(put_file("/proc/sys/vm/stat_refresh", "1"), "a statistic is negative");
}

static void read_sums(long *node)
{
	int i;

	settle();
	for (i = 0; of_node[i].what; i++)
		node[i] = total("/proc/vmstat", &of_node[i]);
}

/* Return how many sums are wrong; with @say, print them. */
static int wrong(const char *path, const struct sum *sums, const long *before, bool say)
{
	int i, n = 0;

	for (i = 0; sums[i].what; i++) {
		bool kept = sums[i].slack;
		long value = total(path, &sums[i]) - (kept ? before[i] : 0);

		if (labs(value) <= (kept ? *sums[i].slack : 0))
			continue;
		n++;
		if (say)
			fprintf(stderr, "accounts: %s: %ld\n", sums[i].what, value);
	}
	return n;
}

int main(int argc, char **argv)
{
	struct timespec moment = { .tv_nsec = 500 * 1000 * 1000 };
	long before[SUMS];
	int own = 1, status, i, bad;
	pid_t pid;

	while (own < argc && strcmp(argv[own], "--"))
		own++;
	parse_options(own, argv, "statistics of memory after a command: accounts OPTIONS -- COMMAND ARGS", options);
	if (own + 1 >= argc)
		finish(USAGE, "no command: accounts OPTIONS -- COMMAND ARGS");
	cgroup_make("accounts");
	read_sums(before);
	read_sums(before);	/* the first has brought in what it needs itself */
	pid = fork_plain();
	if (!pid) {
		cgroup_enter();
		execvp(argv[own + 1], argv + own + 1);
		die("%s", argv[own + 1]);
	}
	must(waitpid(pid, &status, 0));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		finish(WIFEXITED(status) ? WEXITSTATUS(status) : FAILED, "%s failed", argv[own + 1]);
	for (i = 0; i < TRIES; i++) {
		nanosleep(&moment, NULL);
		settle();
		bad = wrong(cgroup_file("memory.stat"), of_cgroup, NULL, i == TRIES - 1) +
			wrong("/proc/vmstat", of_node, before, i == TRIES - 1);
		if (!bad)
			break;
	}
	printf("accounts: %ld pages were freed\n", row("/proc/vmstat", "pgfree"));
	verify(!bad, "%d statistics are wrong", bad);
	return 0;
}
