// SPDX-License-Identifier: GPL-2.0-only
/*
 * A working set beside a scanner: what it costs that reclaim takes pages in use for idle ones.
 *
 * One process reads its working set again and again, and needs no other memory. Another process writes page after page
 * of more memory than their common cgroup may hold, so that reclaim needs pages all the time. Best is to take those of
 * the scanner only. Each page of the working set that reclaim takes is read back from swap: a refault, a major fault of
 * the first process. On a kernel that has the multi-generation LRU, it is switched on,
 * and stays on.
 */
#include "cgroup.h"

#include <sys/resource.h>

#define MGLRU	"/sys/kernel/mm/lru_gen/enabled"

static long limit = 8, scanned = 24, cpu = 1;

static const struct option_spec options[] = {
	{ "limit", &limit, NULL, "memory allowed, MiB" },
	{ "scan", &scanned, NULL, "memory written by the scanner, MiB" },
	{ "cpu", &cpu, NULL, "of the working set; the scanner has CPU 0" },
	{ }
};

static const char *const rows[] = {
	"pswpin", "pswpout", "pgscan_anon", "workingset_refault_anon", "young_sync", "young_nosync", "young_none", NULL
};

/* The sizes of the working set, MiB: a case each. */
static const long sets[] = { 1, 2, 4 };

struct shared {
	bool ready;		/* the working set is in memory */
	bool done;		/* the scanner has ended */
	long passes;		/* over the working set */
	long refaults;
};

#define STEP	((long)(PAGE / sizeof(uint64_t)))

static long major_faults(void)
{
	struct rusage usage;

	must(getrusage(RUSAGE_SELF, &usage));
	return usage.ru_majflt;
}

/* Read the working set until the scanner has ended, verify each page, and count those that were gone. */
static void use_working_set(volatile struct shared *shared, long set)
{
	long pages = (set << 20) / PAGE, page, before;
	volatile uint64_t *memory;

	pin(cpu);
	cgroup_enter();
	memory = (uint64_t *)map_memory(pages * PAGE, MAP_PRIVATE);
	use_small_pages((void *)memory, pages * PAGE);
	for (page = 0; page < pages; page++)
		memory[page * STEP] = page;
	drain_lru();
	before = major_faults();
	shared->ready = true;
	for (; !shared->done; shared->passes++)
		for (page = 0; page < pages; page++)
			verify(memory[page * STEP] == (uint64_t)page, "page %ld is lost", page);
	shared->refaults = major_faults() - before + 1;	/* 0: not known yet */
	exit(0);
}

/* Write more pages than the cgroup may hold. */
static void scan(volatile struct shared *shared, pid_t user, long set)
{
	long pages = (scanned << 20) / PAGE, page;
	uint64_t *memory;
	char name[16];

	pin(0);
	cgroup_enter();
	memory = (uint64_t *)map_memory(pages * PAGE, MAP_PRIVATE);
	use_small_pages(memory, pages * PAGE);
	begin_vmstat(rows);
	open_window();
	for (page = 0; page < pages; page++)
		memory[page * STEP] = page;
	close_window();
	end_vmstat(rows);
	add_metric("passes", shared->passes);
	shared->done = true;
	while (!kill(user, 0) && !shared->refaults)
		usleep(1000);
	add_metric("refaults", shared->refaults - 1);
	snprintf(name, sizeof(name), "%ldM", set);
	report(name, pages, "page scanned", "");
	exit(0);
}

int main(int argc, char **argv)
{
	volatile struct shared *shared;
	char text[32];
	pid_t user, scanner;
	size_t i;

	parse_options(argc, argv, "a working set beside a scanner", options);
	if (limit < 6 || scanned <= limit)
		finish(USAGE, "limit is 6 MiB at least, and less than scan");
	put_file(MGLRU, "7");
	shared = (struct shared *)map_memory(PAGE, MAP_SHARED);
	for (i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		window.number = i;	/* the scanner continues from here: one number per case */
		memset((void *)shared, 0, sizeof(*shared));
		cgroup_make("beside");
		snprintf(text, sizeof(text), "%ldM", limit);
		cgroup_write("memory.max", text);
		user = fork_child();
		if (!user)
			use_working_set(shared, sets[i]);
		while (!shared->ready)
			usleep(1000);
		scanner = fork_child();
		if (!scanner)
			scan(shared, user, sets[i]);
		wait_child(scanner);
		wait_child(user);
		cgroup_remove();
	}
	return 0;
}
