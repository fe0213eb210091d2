// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it costs to take pages from a process that runs: TLBIs, barriers and instructions per page. One process (the
 * holder) has the memory and runs user code on CPU 1 all the time, so each TLBI for its pages must reach that CPU.
 * Another process, on CPU 0, has the pages taken away.
 *
 *	order		anonymous memory, written in the order of its addresses
 *	random		the same, written in random order
 *	clean		anonymous memory that came back from swap and was only read, in the order of its addresses
 *	clean_random	the same, read in random order
 *	crowd		a file (ext4, or ext2) that a hundred processes map and read; one of them runs
 *	folios		anonymous memory in folios of 64 KiB, which contiguous entries map
 *	kswapd		no limit: a process allocates until kswapd has freed as much as in the other cases
 *	move		anonymous memory with holes, which compaction moves. It moves pages from one end of memory to the
 *			other, so HugeTLB pages hold the other end while the memory is filled
 *	move_file	the same with a file that was only read
 *
 * In the first six cases a limit is lowered to zero and raised again. Accessed bits are cleared before, by
 * /proc/PID/clear_refs, which issues no TLBI: reclaim then finds each page unused, and takes it at its first look.
 */
#include "cgroup.h"
#include "disk.h"
#include "gate.h"

#define CROWD		100
#define MOST_ROUNDS	16
#define FOLIOS		"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"

static long mib = 4, rounds = 4;
static const char *only = "";

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory that is taken away in a window, MiB" },
	{ "rounds", &rounds, NULL, "windows of each case; compaction has one" },
	{ "only", NULL, &only, "one case only; 'list' names them" },
	{ }
};

static const char *const rows[] = {
	"pgsteal_kswapd", "pswpout", "pgmigrate_success", NULL
};

/* ---- the holder, and those that map its file ---- */

/* What the processes tell each other: the turn that the holders are in, and how many have finished it. */
static struct turns {
	int now;
	int done;
	bool end;
	long wanted;		/* kswapd: the value of pgsteal_kswapd at which the holder stops allocating */
} *turns;

static pid_t holders[CROWD];
static char *memory;
static long pages;
static long *order;		/* the order in which pages are used */

static void shuffle(void)
{
	uint64_t state = 0x9e3779b97f4a7c15UL;
	long i;

	for (i = pages - 1; i > 0; i--) {
		long other = next_random(&state) % (i + 1), page = order[i];

		order[i] = order[other];
		order[other] = page;
	}
}

static void in_order(void)
{
	long i;

	for (i = 0; i < pages; i++)
		order[i] = i;
}

static void write_pages(void)
{
	long i;

	for (i = 0; i < pages; i++)
		*(volatile long *)(memory + order[i] * PAGE) = order[i] + 1;
}

static void read_pages(void)
{
	long i;

	for (i = 0; i < pages; i++) {
		long word = *(volatile long *)(memory + order[i] * PAGE);

		verify(word == order[i] + 1, "page %ld reads %ld", order[i], word);
	}
}

/* A case: what a holder does once, what it does in each turn, and what takes its pages away. */
struct reclaim_case {
	const char *name;
	void (*order)(void);
	void (*begin)(void);		/* in each holder, before the first turn */
	void (*use)(void);		/* in each holder, in each turn */
	void (*take)(void);		/* in the window */
	const char *counted;		/* the row of /proc/vmstat that counts what was taken; NULL: memory.stat */
	long holders;
	bool file, folios;
	long free;			/* MiB that are free while the holder allocates; 0: all */
};

static const struct reclaim_case *now;

static void map_anonymous(void)
{
	memory = map_memory(pages * PAGE, MAP_PRIVATE);
	write_pages();
}

static char file_path[96];

static void map_file(void)
{
	int fd = must(open(file_path, O_RDONLY));

	memory = must((char *)mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0));
	must(madvise(memory, pages * PAGE, MADV_RANDOM));
	close(fd);
}

static void write_file(void)
{
	int fd = must(open(file_path, O_RDWR | O_CREAT | O_TRUNC, 0600));
	char page[PAGE];
	long i;

	memset(page, 0, PAGE);
	for (i = 0; i < pages; i++) {
		*(long *)page = i + 1;
		verify(write(fd, page, PAGE) == (ssize_t)PAGE, "the file cannot be written");
	}
	must(fsync(fd));
	must(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	close(fd);
}

/*
 * Take turns until the end. The first holder runs while it waits, so that CPU 1 has its address space loaded; the
 * others sleep.
 */
static void hold(long number)
{
	int turn;

	pin(1);
	cgroup_enter();
	now->begin();
	drain_lru();
	arrive(&turns->done, now->holders);
	for (turn = 1;; turn++) {
		if (number)
			await(&turns->now, turn);
		while (__atomic_load_n(&turns->now, __ATOMIC_ACQUIRE) != turn)
			;
		if (turns->end)
			_exit(0);
		now->use();
		drain_lru();
		arrive(&turns->done, now->holders);
	}
}

static void await_holders(void)
{
	await(&turns->done, now->holders);
	__atomic_store_n(&turns->done, 0, __ATOMIC_RELEASE);
}

static void next_turn(void)
{
	announce(&turns->now, turns->now + 1);
	await_holders();
}

static void clear_accessed(void)
{
	char path[64];
	long i;

	for (i = 0; i < now->holders; i++) {
		snprintf(path, sizeof(path), "/proc/%d/clear_refs", holders[i]);
		if (!put_file(path, "1"))
			die("%s", path);
	}
}

/* ---- what takes pages away ---- */

#define POOL	"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"	/* with pages of any size */

/* Let HugeTLB pages take all free memory but so much; -1: give it back. Nothing fills them, so this is fast. */
static void leave_free(long most)
{
	struct sysinfo about;
	char text[24] = "0";
	long much;

	must(sysinfo(&about));
	much = ((long)(about.freeram * about.mem_unit) - most) >> 21;
	if (most >= 0 && much > 0)
		snprintf(text, sizeof(text), "%ld", much);
	if (!put_file(POOL, text))
		skip("this kernel has no HugeTLB pages of 2 MiB");
}

static void compact(void)
{
	if (!put_file("/proc/sys/vm/compact_memory", "1"))
		die("the kernel does not compact");
}

/* The holder allocates in this turn until kswapd has freed enough. */
static void press(void)
{
	turns->wanted = vmstat("pgsteal_kswapd") + pages;
	next_turn();
}

static void allocate(void)
{
	while (vmstat("pgsteal_kswapd") < turns->wanted) {
		char *more = map_memory(1 << 20, MAP_PRIVATE);
		long at;

		for (at = 0; at < 1 << 20; at += PAGE)
			*(volatile long *)(more + at) = at + 1;
	}
}

static void nothing(void)
{
}

/* Make holes for compaction: a random half of the pages goes. What it moves is the other half, once. */
static void make_holes(void)
{
	long i;

	map_anonymous();
	for (i = 0; i < pages / 2; i++)
		must(madvise(memory + order[i] * PAGE, PAGE, MADV_DONTNEED));
}

static void make_file_holes(void)
{
	int fd = must(open(file_path, O_RDONLY));
	long i;

	map_file();
	read_pages();
	for (i = 0; i < pages / 2; i++) {
		must(madvise(memory + order[i] * PAGE, PAGE, MADV_DONTNEED));
		must(posix_fadvise(fd, order[i] * PAGE, PAGE, POSIX_FADV_DONTNEED));
	}
	close(fd);
}

#define ANONYMOUS(case, pages_in, uses)						\
	.name = case, .order = pages_in, .begin = map_anonymous, .use = uses,	\
	.take = cgroup_lower_limit, .holders = 1

static const struct reclaim_case cases[] = {
	{ ANONYMOUS("order", in_order, write_pages) },
	{ ANONYMOUS("random", shuffle, write_pages) },
	{ ANONYMOUS("clean", in_order, read_pages) },
	{ ANONYMOUS("clean_random", shuffle, read_pages) },
	{ .name = "crowd", .order = in_order, .begin = map_file, .use = read_pages, .take = cgroup_lower_limit,
	  .holders = CROWD, .file = true },
	{ ANONYMOUS("folios", in_order, write_pages), .folios = true },
	{ .name = "kswapd", .order = in_order, .begin = nothing, .use = allocate, .take = press,
	  .counted = "pgsteal_kswapd", .holders = 1, .free = 128 },
	{ .name = "move", .order = shuffle, .begin = nothing, .use = make_holes, .take = compact,
	  .counted = "pgmigrate_success", .holders = 1, .free = 512 },
	{ .name = "move_file", .order = shuffle, .begin = nothing, .use = make_file_holes, .take = compact,
	  .counted = "pgmigrate_success", .holders = 1, .file = true, .free = 512 },
};

/* ---- a case ---- */

/* Pages that reclaim has taken from the cgroup so far. /proc/vmstat counts a limit's reclaim only from 7.3 on. */
static long stolen(void)
{
	long found = row_in(cgroup_file("memory.stat"), "pgsteal");

	verify(found >= 0, "%s has no row pgsteal", cgroup_file("memory.stat"));
	return found;
}

static long taken_so_far(void)
{
	return now->counted ? vmstat(now->counted) : stolen();
}

static void start_holders(void)
{
	long i;

	turns = (struct turns *)map_memory(PAGE, MAP_SHARED);
	for (i = 0; i < now->holders; i++) {
		holders[i] = fork_child();
		if (!holders[i])
			hold(i);
	}
	await_holders();
}

static void end_holders(void)
{
	long i;

	turns->end = true;
	announce(&turns->now, turns->now + 1);
	for (i = 0; i < now->holders; i++)
		wait_child(holders[i]);
	must(munmap(turns, PAGE));
}

/*
 * One case: a window for each round, after one round that is not measured. Compaction has one round: what it has moved
 * leaves holes where it moves pages to.
 */
static void run_case(void)
{
	long round, before, windows = now->take == compact ? 1 : rounds;
	static struct window closed[MOST_ROUNDS];

	if (now->folios && !put_file(FOLIOS, "always")) {
		if (*only)
			skip("this kernel has no folios of 64 KiB");
		printf("reclaim: %s is left out: this kernel has no folios of 64 KiB\n", now->name);
		return;
	}
	cgroup_make(now->name);
	in_order();
	if (now->file) {
		snprintf(file_path, sizeof(file_path), "%s/%s", disk.place, now->name);
		write_file();
	}
	now->order();
	if (now->take == compact)
		leave_free(now->free << 20);
	start_holders();
	if (now->take == press)
		leave_free(now->free << 20);
	if (now->take != compact)
		now->take();
	for (round = 0; round < windows; round++) {
		if (now->take != press)
			next_turn();
		if (now->take == compact)
			leave_free(-1);
		clear_accessed();
		fresh_window();
		complete_vmstat();
		begin_vmstat(rows);
		before = taken_so_far();
		open_window();
		now->take();
		close_window();
		complete_vmstat();
		end_vmstat(rows);
		add_metric("taken", taken_so_far() - before);
		verify(metric("taken"), "%s: no page was taken", now->name);
		closed[round] = window;
	}
	end_holders();
	cgroup_remove();
	if (now->take == press)
		leave_free(-1);
	if (now->folios)
		put_file(FOLIOS, "never");
	if (now->file)
		must(unlink(file_path));
	report_windows(closed, windows, now->name, pages, "page");
}

int main(int argc, char **argv)
{
	size_t i, done = 0;

	parse_options(argc, argv, "have pages taken from a process that runs", options);
	if (!strcmp(only, "list")) {
		for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
			puts(cases[i].name);
		return 0;
	}
	if (mib < 1 || rounds < 1 || rounds > MOST_ROUNDS)
		finish(USAGE, "mib is at least 1, rounds 1 to %d", MOST_ROUNDS);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("two CPUs are needed");
	pin(0);
	pages = (mib << 20) / PAGE;
	order = calloc(pages, sizeof(*order));
	verify(order, "no memory");
	make_disk("ext4", 64);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (*only && strcmp(only, cases[i].name))
			continue;
		now = &cases[i];
		run_case();
		done++;
	}
	if (!done)
		finish(USAGE, "no case '%s'; only=list names them", only);
	return 0;
}
