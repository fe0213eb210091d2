// SPDX-License-Identifier: GPL-2.0-only
/*
 * Count the accessed bits that reclaim clears, to compare them with the TLBIs that it issues (system E,
 * docs/glossary.md).
 *
 * A child in a cgroup of its own touches all its pages, which sets their accessed bits, and then sleeps. The parent
 * reclaims a few of them through memory.reclaim. New anonymous pages are on the inactive list. The scan finds each of
 * them referenced, clears its accessed bit through ptep_clear_flush_young(), and keeps the page
 * (folio_check_references() in mm/vmscan.c). On its second visit to a page the scan unmaps the page. It stops when at
 * least as many pages are unmapped as the parent asked for. So with the classic LRU and swap that is complete at once
 * (zram), on stock and on Lull:
 *
 *	accessed bits cleared = pgscan_anon - pswpout	(the metric "cleared"; it is verified to be at least the option pages)
 *	TLBIs to user ASIDs   = accessed bits cleared with a TLBI (stock: all) + pages unmapped (pswpout)
 *
 * The lab counts the TLBIs; this program does not. A kernel with residency issues no TLBI for an address space that no
 * CPU has loaded. It counts those that it elided (tlbi_elided), and the whole-ASID TLBIs that it issued when such an
 * address space was loaded again (tlbi_stale). "cleared" exceeds pages by a few, which are the child's own stack and
 * data. A kernel with the counters young_sync, young_nosync and young_none counts there how each bit was cleared; their
 * sum must be "cleared".
 */
#include "cgroup.h"

static long pages = 2048, reclaim = 32;

static const struct option_spec options[] = {
	{ "pages", &pages, NULL, "pages whose accessed bit is set" },
	{ "reclaim", &reclaim, NULL, "pages to reclaim, at least" },
	{ }
};

static const char *const rows[] = {
	"young_sync", "young_nosync", "young_none", "pswpout", "pgsteal_anon", "pgscan_anon",
	"tlbi_elided", "tlbi_stale", NULL
};

/* The child: touch every page, report that, and verify the contents when asked to. */
static void child(int told, int say)
{
	long *memory, i;

	pin(1);
	cgroup_enter();
	memory = (long *)map_memory(pages * PAGE, MAP_PRIVATE);
	use_small_pages(memory, pages * PAGE);
	for (i = 0; i < pages; i++)
		memory[i * PAGE / sizeof(long)] = i ^ 0x5a5a;
	drain_lru();
	tell(say);
	hear(told);
	for (i = 0; i < pages; i++)
		verify(memory[i * PAGE / sizeof(long)] == (i ^ 0x5a5a), "page %ld lost its contents", i);
	exit(0);
}

int main(int argc, char **argv)
{
	int down[2], up[2], fd, status;
	char amount[32];
	long cleared, counted;
	pid_t pid;

	parse_options(argc, argv, "accessed bits cleared by proactive reclaim", options);
	cgroup_make("young");
	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid)
		child(down[0], up[1]);
	pin(0);
	hear(up[0]);
	wait_asleep(pid);

	fd = open(cgroup_file("memory.reclaim"), O_WRONLY);
	if (fd < 0)
		skip("this kernel has no memory.reclaim");
	snprintf(amount, sizeof(amount), "%ld", reclaim * PAGE);
	complete_vmstat();
	begin_vmstat(rows);
	open_window();
	status = write(fd, amount, strlen(amount));
	close_window();
	complete_vmstat();
	end_vmstat(rows);
	if (status < 0)
		die("memory.reclaim: %s", amount);

	tell(down[1]);
	wait_child(pid);
	cgroup_remove();
	verify(metric("pswpout") >= reclaim, "%ld pages were to go, %ld went", reclaim, metric("pswpout"));
	cleared = metric("pgscan_anon") - metric("pswpout");
	verify(cleared >= pages, "only %ld accessed bits of %ld pages were cleared", cleared, pages);
	counted = metric("young_sync") + metric("young_nosync") + metric("young_none");
	verify(vmstat("young_none") < 0 || counted == cleared, "the kernel counted %ld decisions, not %ld", counted, cleared);
	add_metric("cleared", cleared);
	report("", pages, "page", "");
	return 0;
}
