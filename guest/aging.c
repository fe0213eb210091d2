// SPDX-License-Identifier: GPL-2.0-only
/*
 * System E's experiment: six access patterns over more memory than the cgroup may hold, so that reclaim has to guess
 * which pages are in use.
 *
 *	seq	reads or writes page after page
 *	rand	reads or writes random pages
 *	hot	reads or writes one hot page and random pages in turn
 *
 * The limit of a memory cgroup makes reclaim run, reclaimed pages go to zRAM, and the classic LRU reads accessed bits.
 */
#include "cgroup.h"

static long region = 12, limit = 8, accesses = 4000, seed = 1;
static const char *wanted = "";

static const struct option_spec options[] = {
	{ "region", &region, NULL, "memory used, MiB" },
	{ "limit", &limit, NULL, "memory allowed, MiB" },
	{ "accesses", &accesses, NULL, "page accesses of each case" },
	{ "seed", &seed, NULL, "of the random pages" },
	{ "case", NULL, &wanted, "one of seq-read rand-read hot-read seq-write rand-write hot-write (default: all)" },
	{ }
};

static const char *const rows[] = {
	"pgfault", "pgmajfault", "pswpin", "pswpout", "pgscan_anon", "pgactivate", "young_sync",
	"young_nosync", "young_none", NULL
};

#define STEP	((long)(PAGE / sizeof(uint64_t)))

enum order { SEQUENTIAL, RANDOM, HOT };

static const struct program {
	const char *name;
	enum order order;
	bool write;
} programs[] = {
	{ "seq-read", SEQUENTIAL, false }, { "rand-read", RANDOM, false }, { "hot-read", HOT, false },
	{ "seq-write", SEQUENTIAL, true }, { "rand-write", RANDOM, true }, { "hot-write", HOT, true },
};

/* The page of access number @i; page 0 is the hot one. */
static long choose(enum order order, long i, long pages, uint64_t *state)
{
	if (order == SEQUENTIAL)
		return i % pages;
	if (order == HOT && i % 2)
		return 0;
	return next_random(state) % pages;
}

/* All accesses of one program. Each page holds its number, and from bit 32 on the number of writes to it. */
static void access_pages(const struct program *p, volatile uint64_t *memory, long pages)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15ULL | 1, value;
	long i, page;

	for (i = 0; i < accesses; i++) {
		page = choose(p->order, i, pages, &state);
		value = memory[page * STEP];
		verify((uint32_t)value == (uint32_t)page, "page %ld holds %llx", page, (unsigned long long)value);
		if (p->write)
			memory[page * STEP] = value + (1ULL << 32);
	}
}

/* Verify that every page holds its number, and that the writes add up. */
static void verify_pages(const struct program *p, const uint64_t *memory, long pages)
{
	uint64_t writes = 0;
	long page;

	for (page = 0; page < pages; page++) {
		verify((uint32_t)memory[page * STEP] == (uint32_t)page, "page %ld is lost", page);
		writes += memory[page * STEP] >> 32;
	}
	verify(writes == (p->write ? (uint64_t)accesses : 0), "%llu writes arrived", (unsigned long long)writes);
}

/* Run the program in the cgroup. It opens the window itself, so that the window holds nothing else. */
static void child(const struct program *p)
{
	long pages = (region << 20) / PAGE, page;
	uint64_t *memory;

	cgroup_enter();
	memory = (uint64_t *)map_memory(pages * PAGE, MAP_PRIVATE);
	use_small_pages(memory, pages * PAGE);
	for (page = 0; page < pages; page++)
		memory[page * STEP] = page;
	begin_vmstat(rows);
	open_window();
	access_pages(p, memory, pages);
	close_window();
	end_vmstat(rows);
	verify_pages(p, memory, pages);
	report(p->name, accesses, "page access", "");
	exit(0);
}

int main(int argc, char **argv)
{
	const long count = sizeof(programs) / sizeof(*programs);
	char amount[32];
	bool found = false;
	pid_t pid;
	long i;

	parse_options(argc, argv, "six access patterns over more memory than allowed", options);
	if (limit >= region || limit < 4)
		finish(USAGE, "limit is 4 MiB at least, and less than region");
	for (i = 0; i < count; i++) {
		window.number = i;	/* the child continues from here: one number per case */
		if (*wanted && strcmp(wanted, programs[i].name))
			continue;
		found = true;
		cgroup_make("aging");
		snprintf(amount, sizeof(amount), "%ldM", limit);
		cgroup_write("memory.max", amount);
		pid = fork_child();
		if (!pid)
			child(&programs[i]);
		wait_child(pid);
		cgroup_remove();
	}
	if (!found)
		finish(USAGE, "no case '%s'; '--help' lists them", wanted);
	return 0;
}
