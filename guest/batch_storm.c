// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of deferred flushes (reclaim) and of flushes of many runs (gather), for the checker. Contents are verified.
 *
 * In some cases pages are reclaimed while other CPUs change, discard, move and use the same memory. In others, memory
 * is unmapped or discarded of which only pieces of all sizes are present. only=CASE runs one case; otherwise all run
 * in turn.
 */
#include "cgroup.h"
#include "storm_cases.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/swap.h>

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define POOL	"/sys/kernel/mm/hugepages/hugepages-%lukB/nr_hugepages"

static long hotplug, refuse, starve, damon, discards;

static const struct option_spec options[] = {
	STORM_OPTIONS,
	{ "hotplug", &hotplug, NULL, "1: a CPU goes offline and comes back while memory is reclaimed" },
	{ "refuse", &refuse, NULL, "1: the swap device refuses writes in every second turn of reclaim" },
	{ "starve", &starve, NULL, "1: three in ten allocations of the task that reclaims fail" },
	{ "damon", &damon, NULL, "1: DAMON reclaims, from all tasks" },
	{ "discards", &discards, NULL, "1: the swap device is told which slots were freed" },
	{ }
};

/* Move to another CPU, if that one is online. */
static void hop(void)
{
	static __thread uint64_t state;
	cpu_set_t set;

	if (!state)
		state = (uint64_t)gettid() * 0x9e3779b97f4a7c15UL;
	CPU_ZERO(&set);
	CPU_SET(next_random(&state) % sysconf(_SC_NPROCESSORS_CONF), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Return true if a write beside the word that check() reads succeeds. */
static bool writable(char *page)
{
	struct access beside = { .at = page + sizeof(long), .write = true, .value = 1 };

	attempt(&beside);
	return !beside.faulted;
}

/* ---- one address space, reclaimed and changed at once ---- */

#define SLICE	(32 * PAGE)
#define PASSES	4

/* One mapping, with a slice for each thread that changes it, so that a batch of reclaim has pages of all slices. */
enum { PROTECTED, DISCARDED, REMAPPED, MOVED, READ, WRITTEN, SLICES };

static struct {
	char *memory, *elsewhere;
	volatile long sealed;	/* odd: the protected slice is read-only for all threads */
	volatile bool stop;
} place;

static char *slice(int number)
{
	return place.memory + number * SLICE;
}

static void protect(long seed)
{
	char *memory = slice(PROTECTED);
	size_t at;

	fill(memory, SLICE, seed);
	must(mprotect(memory, SLICE, PROT_READ));
	__atomic_add_fetch(&place.sealed, 1, __ATOMIC_SEQ_CST);
	for (at = 0; at < SLICE; at += 5 * PAGE)
		verify(!writable(memory + at), "a write to a page that was made read-only");
	check(memory, SLICE, seed, "a page made read-only");
	hop();
	check(memory, SLICE, seed, "a page made read-only on another CPU");
	__atomic_add_fetch(&place.sealed, 1, __ATOMIC_SEQ_CST);
	must(mprotect(memory, SLICE, PROT_READ | PROT_WRITE));
}

/* Write to the protected slice from another CPU, and verify that no write succeeds while the slice is sealed. */
static void push(long seed)
{
	size_t at;

	for (at = 0; at < SLICE; at += 3 * PAGE) {
		long before = place.sealed;

		if (before % 2 && writable(slice(PROTECTED) + at))
			verify(place.sealed != before, "another thread's write to a page that was made read-only");
	}
	usleep(100);
	if (seed % 4 == 0)
		hop();
}

static void discard(long seed)
{
	char *memory = slice(DISCARDED);

	fill(memory, SLICE, seed);
	check(memory, SLICE, seed, "a page written after it was discarded");
	must(madvise(memory, SLICE, MADV_DONTNEED));
	hop();
	check_zero(memory, SLICE, "a page that was discarded");
}

static void remap(long seed)
{
	char *memory = slice(REMAPPED);

	fill(memory, SLICE, seed);
	must(munmap(memory, SLICE));
	map_at(memory, SLICE, MAP_PRIVATE, -1);
	hop();
	check_zero(memory, SLICE, "a page mapped anew");
}

static void move(long seed)
{
	char *memory = slice(MOVED);

	fill(memory, SLICE, seed);
	must(mremap(memory, SLICE, SLICE, MREMAP_MAYMOVE | MREMAP_FIXED, place.elsewhere));
	check(place.elsewhere, SLICE, seed, "a page that was moved");
	fill(place.elsewhere, SLICE, seed + 1);
	hop();
	must(mremap(place.elsewhere, SLICE, SLICE, MREMAP_MAYMOVE | MREMAP_FIXED, memory));
	check(memory, SLICE, seed + 1, "a page that was moved back");
}

static void only_read(long seed)
{
	check(slice(READ), SLICE, 1, "a page that is only read");
	if (seed % 4 == 0)
		hop();
}

static void only_write(long seed)
{
	fill(slice(WRITTEN), SLICE, seed);
	check(slice(WRITTEN), SLICE, seed, "a page that is only written");
	usleep(100);
}

/*
 * Page all slices out. madvise() skips parts that are not mapped at the moment, and returns ENOMEM. The sleep lets
 * threads that want to map memory take the lock.
 */
static void page_out(long seed)
{
	(void)seed;
	if (madvise(place.memory, SLICES * SLICE, MADV_PAGEOUT) && errno != ENOMEM)
		die("MADV_PAGEOUT");
	usleep(10000);
}

static struct actor {
	void (*pass)(long seed);
	volatile long passes;
	pthread_t thread;
} actors[] = {
	{ .pass = protect }, { .pass = push }, { .pass = discard }, { .pass = remap }, { .pass = move },
	{ .pass = only_read }, { .pass = only_write }, { .pass = page_out },
};

#define ACTORS	(sizeof(actors) / sizeof(*actors))

static void *act(void *argument)
{
	struct actor *self = argument;

	while (!place.stop) {
		self->pass(self->passes);
		self->passes++;
	}
	return NULL;
}

/* Run all actors until each has made its passes. */
static void act_all(void)
{
	size_t i;

	expect_faults();
	place.elsewhere = fresh(SLICE);
	place.memory = map_at(fresh(SLICES * SLICE), SLICES * SLICE, MAP_PRIVATE, -1);
	fill(slice(READ), SLICE, 1);
	for (i = 0; i < ACTORS; i++)
		verify(!pthread_create(&actors[i].thread, NULL, act, &actors[i]), "no thread");
	for (i = 0; i < ACTORS; i++)
		while (actors[i].passes < PASSES)
			usleep(1000);
	place.stop = true;
	for (i = 0; i < ACTORS; i++)
		pthread_join(actors[i].thread, NULL);
}

/* ---- the same in a hurry: nothing is verified, so that calls meet what is reclaimed and not yet flushed ---- */

#define HURRIES	300
#define SMALL	(16 * PAGE)

enum { HURRY_DISCARD, HURRY_PROTECT, HURRY_MOVE, HURRY_REMAP, HURRIERS };

static void touch(char *memory, char value)
{
	size_t at;

	for (at = 0; at < SMALL; at += PAGE)
		((volatile char *)memory)[at] = value;
}

static void *hurry(void *argument)
{
	char *memory = argument, *elsewhere = fresh(SMALL);
	long what = (memory - place.memory) / (long)SMALL, i;
	size_t at;

	for (i = 0; i < HURRIES; i++) {
		touch(memory, i);
		switch (what) {
		/*
		 * Page by page: a flush for a neighbouring page would also cover pages whose flush reclaim has
		 * deferred.
		 */
		case HURRY_DISCARD:
			for (at = 0; at < SMALL; at += PAGE)
				must(madvise(memory + at, PAGE, MADV_DONTNEED));
			break;
		case HURRY_PROTECT:
			for (at = 0; at < SMALL; at += PAGE) {
				must(mprotect(memory + at, PAGE, PROT_READ));
				must(mprotect(memory + at, PAGE, PROT_READ | PROT_WRITE));
			}
			break;
		case HURRY_MOVE:
			must(mremap(memory, SMALL, SMALL, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere));
			must(mremap(elsewhere, SMALL, SMALL, MREMAP_MAYMOVE | MREMAP_FIXED, memory));
			break;
		case HURRY_REMAP:
			must(munmap(memory, SMALL));
			map_at(memory, SMALL, MAP_PRIVATE, -1);
			break;
		}
	}
	return NULL;
}

static void hurry_all(void)
{
	pthread_t thread[HURRIERS];
	int i;

	place.memory = map_at(fresh(HURRIERS * SMALL), HURRIERS * SMALL, MAP_PRIVATE, -1);
	for (i = 0; i < HURRIERS; i++)
		verify(!pthread_create(&thread[i], NULL, hurry, place.memory + i * SMALL), "no thread");
	for (i = 0; i < HURRIERS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- pages whose entries somebody fills who does not wait for reclaim ---- */

#define LAZY_PASSES	400

static void *free_lazily(void *argument)
{
	long i;

	for (i = 0; i < LAZY_PASSES; i++) {
		touch(place.memory, 1);
		must(madvise(place.memory, SMALL, MADV_FREE));
		usleep(500);
	}
	place.stop = true;
	return argument;
}

/* A page that its process need not keep is taken away, and a write puts an empty one there at once. */
static void lazy_all(void)
{
	pthread_t thread;
	size_t at;

	place.memory = map_at(fresh(SMALL), SMALL, MAP_PRIVATE, -1);
	verify(!pthread_create(&thread, NULL, free_lazily, NULL), "no thread");
	while (!place.stop)
		for (at = 0; at < SMALL; at += PAGE) {
			volatile char *page = place.memory + at;

			page[1] = 2;
			verify(page[1] == 2 || !page[1], "a page given up has another one's contents");
		}
	pthread_join(thread, NULL);
}

#define TRIES	6000

static volatile char copied[16];	/* for each page of SMALL: 1: UFFDIO_COPY has put another one there */

static void *see_copies(void *argument)
{
	const volatile char *memory = argument;
	size_t i;

	/* Pages that are read all the time are not reclaimed. */
	for (; !place.stop; usleep(2000))
		for (i = 0; i < SMALL / PAGE; i++) {
			bool before = copied[i];
			char seen = memory[i * PAGE];

			verify(seen == 1 || seen == 2, "a page has the contents of none that was there");
			verify(seen == 2 || !before || !copied[i], "the page of the file is seen after UFFDIO_COPY");
		}
	return argument;
}

/* Pages of a file are reclaimed, and userfaultfd puts other ones in their place: it needs no lock of the file's page. */
static void copy_all(void)
{
	int file = must(memfd_create("batch_storm", 0)), uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char *memory, *other = map_at(fresh(SMALL), SMALL, MAP_PRIVATE, -1);
	pthread_t thread;
	long try;

	must(ftruncate(file, SMALL));
	memory = map_at(fresh(SMALL), SMALL, MAP_SHARED, file);
	touch(memory, 1);
	must(munmap(memory, SMALL));
	touch(other, 2);
	memory = map_at(fresh(SMALL), SMALL, MAP_PRIVATE, file);
	must(uffd);
	must(ioctl(uffd, UFFDIO_API, &api));
	range.range = (struct uffdio_range){ (unsigned long)memory, SMALL };
	must(ioctl(uffd, UFFDIO_REGISTER, &range));
	verify(!pthread_create(&thread, NULL, see_copies, memory), "no thread");
	for (try = 0; try < TRIES; try++) {
		size_t at = try % (SMALL / PAGE) * PAGE;
		struct uffdio_copy copy = {
			.dst = (unsigned long)memory + at, .src = (unsigned long)other + at, .len = PAGE,
		};

		if (ioctl(uffd, UFFDIO_COPY, &copy)) {
			verify(errno == EEXIST || errno == EAGAIN, "UFFDIO_COPY: %s", strerror(errno));
			usleep(100);
			continue;
		}
		copied[at / PAGE] = 1;
		usleep(200);
		copied[at / PAGE] = 0;
		must(madvise(memory + at, PAGE, MADV_DONTNEED));
	}
	place.stop = true;
	pthread_join(thread, NULL);
	close(uffd);
}

/* ---- a page table that reclaim empties, and MADV_DONTNEED frees (PT_RECLAIM, Linux 7.x) ---- */

#define TABLES	40

static long step;	/* four for each table: discard it; its page is used; new memory is there; it was seen */

static void await(long due)
{
	while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) != due)
		;
}

static void next_step(void)
{
	__atomic_add_fetch(&step, 1, __ATOMIC_RELEASE);
}

static volatile char *page_of(long table)
{
	return place.memory + (table % (HUGE / PAGE - 1) + 1) * PAGE;
}

static bool present(int pagemap, const char *page)
{
	uint64_t entry;

	verify(pread(pagemap, &entry, sizeof(entry), (uintptr_t)page / PAGE * sizeof(entry)) == sizeof(entry), "pagemap");
	return entry >> 63;
}

static void *use_page(void *argument)
{
	int pagemap = must(open("/proc/self/pagemap", O_RDONLY));
	long i;

	for (i = 0; i < TABLES; i++) {
		await(4 * i + 1);
		while (present(pagemap, place.memory))
			;
		*page_of(i) = 1;
		/* Until this, reclaim does not find the page on its lists. */
		must(madvise(place.elsewhere, PAGE, MADV_COLD));
		next_step();
		await(4 * i + 3);
		verify(*page_of(i) == 2, "the page of a file is seen where other memory was mapped");
		next_step();
	}
	return argument;
}

static void table_all(void)
{
	int file = must(memfd_create("batch_storm", 0));
	pthread_t thread;
	long i;

	must(ftruncate(file, HUGE));
	place.memory = fresh(HUGE);
	verify(!pthread_create(&thread, NULL, use_page, NULL), "no thread");
	/* Reclaim comes to what is mapped from now on. */
	must(mlockall(MCL_CURRENT));
	place.elsewhere = map_at(fresh(PAGE), PAGE, MAP_PRIVATE, -1);
	for (i = 0; i < TABLES; i++) {
		map_at(place.memory, HUGE, MAP_SHARED, file);
		place.memory[0] = 1;
		next_step();
		must(madvise(place.memory, HUGE, MADV_DONTNEED));
		await(4 * i + 2);
		must(mmap(place.memory, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		use_small_pages(place.memory, HUGE);
		*page_of(i) = 2;
		next_step();
		await(4 * i + 4);
		must(munmap(place.memory, HUGE));
	}
	pthread_join(thread, NULL);
}

/* ---- many address spaces of one file ---- */

#define SHARERS	12

/* Map the shared file and change the mapping, never the contents. */
static void share(int file, size_t size, long number)
{
	char *memory = map_at(fresh(size), size, MAP_SHARED, file);
	int i;

	expect_faults();
	for (i = 0; i < PASSES; i++) {
		hop();
		check(memory, size, 1, "a page of a file that many map");
		switch (number % 4) {
		case 0:
			must(mprotect(memory, size, PROT_READ));
			verify(!writable(memory + i * PAGE), "a write to a file's page that was made read-only");
			must(mprotect(memory, size, PROT_READ | PROT_WRITE));
			break;
		case 1:
			must(madvise(memory, size, MADV_DONTNEED));
			break;
		case 2:
			must(munmap(memory, size));
			map_at(memory, size, MAP_SHARED, file);
			break;
		}
	}
	_exit(0);
}

static void share_all(void)
{
	size_t size = 128 * PAGE;
	int i, file = must(memfd_create("batch_storm", 0));
	pid_t pid[SHARERS];
	char *memory;

	must(ftruncate(file, size));
	memory = map_at(fresh(size), size, MAP_SHARED, file);
	fill(memory, size, 1);
	for (i = 0; i < SHARERS; i++) {
		pid[i] = fork_child();
		if (!pid[i])
			share(file, size, i);
	}
	for (i = 0; i < SHARERS; i++)
		wait_child(pid[i]);
	check(memory, size, 1, "a page of a file that many have mapped");
}

#define CROWD	20	/* more than arm64 would issue a TLBI each for */

/*
 * A forked process that reads memory which all of them share, while the memory is reclaimed. All processes exist all
 * the time; three of them run, the others sleep. They only read: from the second pass on no entry is dirty, so that
 * reclaim collects the entries of all of them.
 */
static void stand(const char *memory, size_t size, int number, int told, int say)
{
	char byte;
	int i;

	if (number < 3)
		must(fcntl(told, F_SETFL, O_NONBLOCK));
	for (i = 0; i < PASSES; i++) {
		check(memory, size, 1, "a page that a crowd maps");
		tell(say);
		if (number >= 3)
			hear(told);
		else
			while (read(told, &byte, 1) < 0)
				;
	}
	check(memory, size, 1, "a page that a crowd has mapped");
	_exit(0);
}

static void crowd(void)
{
	size_t size = 64 * PAGE;
	int i, pass, tries, down[CROWD][2], up[2];
	pid_t pid[CROWD];
	char *memory;
	long out;

	memory = map_at(fresh(size), size, MAP_PRIVATE, -1);
	fill(memory, size, 1);
	must(pipe(up));
	for (i = 0; i < CROWD; i++) {
		must(pipe(down[i]));
		pid[i] = fork_child();
		if (!pid[i])
			stand(memory, size, i, down[i][0], up[1]);
	}
	for (pass = 0; pass < PASSES; pass++) {
		out = vmstat("pswpout");
		for (i = 0; i < CROWD; i++)
			hear(up[0]);
		for (tries = 0; tries < 200 && vmstat("pswpout") < out + (long)(size / PAGE) / 2; tries++)
			usleep(5000);
		for (i = 0; i < CROWD; i++)
			tell(down[i][1]);
	}
	for (i = 0; i < CROWD; i++)
		wait_child(pid[i]);
}

/*
 * Pages that mprotect() has made unreadable cannot be read, even if reclaim on another CPU has cleared their entries
 * and deferred the flush. MADV_PAGEOUT cannot do this, because mprotect() waits until it has flushed. No thread
 * sleeps, and the reads are the kernel's, because QEMU's TLB forgets all entries when a CPU runs something else.
 */
static void forbid(void)
{
	const size_t size = 128 * PAGE;
	int pass, file = must(memfd_create("forbid", 0));
	uint64_t state = 1;
	char *memory;
	size_t at;
	long spin;

	memory = map_at(fresh(size), size, MAP_SHARED, -1);
	fill(memory, size, 1);
	for (pass = 0; pass < 400; pass++) {
		check(memory, size, 1, "a page that is reclaimed");
		for (spin = next_random(&state) % 4000000; spin; spin--)
			__asm__ volatile("");
		must(mprotect(memory, size, PROT_NONE));
		for (at = 0; at < size; at += PAGE)
			verify(pwrite(file, memory + at, 1, 0) < 0 && errno == EFAULT,
			       "a read of a page that nobody may read");
		must(mprotect(memory, size, PROT_READ | PROT_WRITE));
	}
}

/* ---- reclaim ---- */

static bool can_reclaim(void)
{
	struct sysinfo memory;

	must(sysinfo(&memory));
	return memory.totalswap && !access("/sys/fs/cgroup/memory.reclaim", W_OK);
}

/* Take a CPU offline, and online again in the next turn. */
static void plug(long turn)
{
	verify(set_online(sysconf(_SC_NPROCESSORS_CONF) - 1, turn % 2) || turn % 2 == 0, "a CPU does not come back");
}

#define SWAP	"/sys/block/zram0/"

/* Writes that the swap device has refused so far. */
static long refused(void)
{
	FILE *in = fopen(SWAP "io_stat", "r");
	long reads, writes = -1;

	if (!in)
		die(SWAP "io_stat");
	verify(fscanf(in, "%ld %ld", &reads, &writes) == 2, SWAP "io_stat cannot be read");
	fclose(in);
	return writes;
}

/* Let the swap device hold no more than a page of compressed memory, and any amount in the next turn. */
static void fill_swap(long turn)
{
	verify(put_file(SWAP "mem_limit", turn % 2 ? "0" : "1"), "the swap device has no limit");
}

/* Use the swap device with discards. The kernel says so by the letters at the end of its last line about it. */
static void swap_with_discards(void)
{
	static char log[1 << 18];
	char *line = log, *next;

	must(swapoff("/dev/zram0"));
	must(swapon("/dev/zram0", SWAP_FLAG_DISCARD));
	log[must(klogctl(3 /* read all */, log, sizeof(log) - 1))] = 0;
	while ((next = strstr(line + 1, "swap on /dev/zram0")))
		line = next;
	line[strcspn(line, "\n")] = 0;
	verify(strstr(line, "Dsc"), "the swap device discards nothing: %s", line);
}

/* Write words to files of a folder: names and words in turn, ended by NULL. */
static void put_words(const char *folder, const char *const *words)
{
	char path[128];

	for (; *words; words += 2) {
		snprintf(path, sizeof(path), "%s/%s", folder, words[0]);
		verify(put_file(path, words[1]), "%s does not take '%s'", path, words[1]);
	}
}

#define DEBUG		"/sys/kernel/debug"
#define FAIL_PAGES	DEBUG "/fail_page_alloc"
#define FAIL_SLAB	DEBUG "/failslab"
#define STARVE		"/proc/self/make-it-fail"
#define FAILURES	"1000000"	/* the most that each may have */

/* Let three in ten allocations fail of each task that asks for it. */
static void let_allocations_fail(void)
{
	static const char *const rules[] = { "ignore-gfp-wait", "N", "task-filter", "Y", "verbose", "0",
					     "times", FAILURES, "probability", "30", NULL };

	mount("debugfs", DEBUG, "debugfs", 0, NULL);	/* may be there, or not exist */
	if (access(FAIL_SLAB, F_OK))
		skip("starve=1: this kernel has no fault injection");
	put_words(FAIL_SLAB, rules);
	put_words(FAIL_PAGES, rules);
	verify(put_file(FAIL_PAGES "/min-order", "0"), FAIL_PAGES "/min-order");
}

#define DAMON	"/sys/kernel/mm/damon/admin/kdamonds"
#define RAM	(1UL << 30)	/* where it begins on QEMU's virt */

/* Let DAMON page out, ten times a second, each page that nobody has used since it last looked. */
static void let_damon_reclaim(void)
{
	static const char *const parts[] = {
		"nr_kdamonds", "1", "0/contexts/nr_contexts", "1", "0/contexts/0/operations", "paddr",
		"0/contexts/0/targets/nr_targets", "1", "0/contexts/0/targets/0/regions/nr_regions", "1",
		"0/contexts/0/schemes/nr_schemes", "1", NULL,
	}, *const scheme[] = {
		"action", "pageout", "access_pattern/sz/max", "1099511627776", "access_pattern/nr_accesses/max", "1000000",
		"access_pattern/age/max", "1000000", NULL,
	};
	char first[32], last[32];
	const char *const region[] = { "start", first, "end", last, NULL };

	if (access(DAMON, F_OK))
		skip("damon=1: this kernel has no DAMON");
	snprintf(first, sizeof(first), "%lu", RAM);
	snprintf(last, sizeof(last), "%lu", RAM + sysconf(_SC_PHYS_PAGES) * PAGE);
	put_words(DAMON, parts);
	put_words(DAMON "/0/contexts/0/targets/0/regions/0", region);
	put_words(DAMON "/0/contexts/0/schemes/0", scheme);
	verify(put_file(DAMON "/0/state", "on"), "DAMON does not start");
}

static bool in_a_hurry;

/*
 * Run @work in a child in a cgroup of its own, and reclaim all memory of the cgroup again and again. With @limit, the
 * child also does direct reclaim.
 */
static void reclaim_from(void (*work)(void), const char *limit)
{
	long out = vmstat("pswpout"), before = refuse ? refused() : 0, turn;
	int status;
	pid_t pid;

	if (!can_reclaim()) {
		cannot("no swap, or no memory.reclaim");
		return;
	}
	if (discards)
		swap_with_discards();
	if (starve)
		let_allocations_fail();
	if (damon)
		let_damon_reclaim();
	cgroup_make("batch-storm");
	if (limit)
		cgroup_write("memory.max", limit);
	pid = fork_child();
	if (!pid) {
		cgroup_enter();
		work();
		_exit(0);
	}
	if (starve)
		verify(put_file(STARVE, "1"), STARVE);
	for (turn = 0; !must(waitpid(pid, &status, WNOHANG)); turn++) {
		if (refuse)
			fill_swap(turn);
		/* Reclaim keeps pages that were used meanwhile, and then fails the write. */
		if (!damon)
			put_file(cgroup_file("memory.reclaim"), "1M");
		if (!in_a_hurry)
			usleep(2000);
		if (hotplug)
			plug(turn);
	}
	if (starve) {
		while (!put_file(STARVE, "0"))
			;	/* an allocation for it failed */
		verify(number_in(FAIL_SLAB "/times") + number_in(FAIL_PAGES "/times") < 2 * atol(FAILURES),
		       "no allocation has failed");
	}
	if (damon)
		verify(put_file(DAMON "/0/state", "off"), "DAMON does not stop");
	if (hotplug)
		plug(1);
	if (refuse) {
		fill_swap(1);
		verify(refused() > before, "the swap device has refused no write");
	}
	verify(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with wait status 0x%x", status);
	verify(vmstat("pswpout") > out, "nothing was reclaimed");
	cgroup_remove();
}

/* Reclaim by another process. */
static void case_reclaim(long round)
{
	(void)round;
	reclaim_from(act_all, NULL);
}

static void reclaim_in_a_hurry(void (*work)(void))
{
	in_a_hurry = true;
	reclaim_from(work, NULL);
	in_a_hurry = false;
}

static void case_reclaim_hurry(long round)
{
	(void)round;
	reclaim_in_a_hurry(hurry_all);
}

/* Reclaim by another process, and by the threads themselves when they allocate memory. */
static void case_reclaim_direct(long round)
{
	char limit[32];

	(void)round;
	/* 2 MiB with pages of 4 KiB. Half of it does not grow with the pages: it is the kernel's. */
	snprintf(limit, sizeof(limit), "%lu", (1UL << 20) + 256 * PAGE);
	reclaim_from(act_all, limit);
}

/* Reclaim of folios of 64 KiB, which contiguous entries map. */
static void case_reclaim_mthp(long round)
{
	(void)round;
	if (!put_file(THP "hugepages-64kB/enabled", "always")) {
		cannot("this kernel has no 64 KiB folios");
		return;
	}
	reclaim_from(act_all, NULL);
	put_file(THP "hugepages-64kB/enabled", "never");
}

/* Reclaim of a file that more address spaces map than a batch is likely to have room for. */
static void case_reclaim_shared(long round)
{
	(void)round;
	reclaim_from(share_all, NULL);
}

/* Reclaim of pages that all address spaces map at the same time. */
static void case_reclaim_crowd(long round)
{
	(void)round;
	reclaim_from(crowd, NULL);
}

static void case_reclaim_lazy(long round)
{
	(void)round;
	reclaim_in_a_hurry(lazy_all);
}

static void case_reclaim_uffd(long round)
{
	(void)round;
	if (syscall(SYS_userfaultfd, -1) < 0 && errno == ENOSYS) {
		cannot("this kernel has no userfaultfd");
		return;
	}
	reclaim_in_a_hurry(copy_all);
}

static void case_reclaim_table(long round)
{
	(void)round;
	reclaim_in_a_hurry(table_all);
}

static void case_reclaim_forbidden(long round)
{
	(void)round;
	reclaim_from(forbid, NULL);
}

/* Reclaim by one of the threads that use the memory, and by no other process. */
static void case_pageout(long round)
{
	pid_t pid = fork_child();

	(void)round;
	if (!pid) {
		act_all();
		_exit(0);
	}
	wait_child(pid);
}

/* Run user code all the time. The other threads soon wait in the kernel for a page that migrates. */
static void *spin(void *argument)
{
	while (!place.stop)
		;
	return argument;
}

/* Pages migrate while they are changed. */
static void case_migrate(long round)
{
	pid_t pid = fork_child();
	pthread_t thread;
	int status;

	(void)round;
	if (!pid) {
		verify(!pthread_create(&thread, NULL, spin, NULL), "no thread");
		act_all();
		_exit(0);
	}
	while (!must(waitpid(pid, &status, WNOHANG)))
		put_file("/proc/sys/vm/compact_memory", "1");
	verify(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with wait status 0x%x", status);
}

/* ---- many pieces at once ---- */

struct pieces {
	size_t size, step, run;
};

static char *piece(char *memory, const struct pieces *p, size_t number)
{
	return memory + number / p->run * p->step + number % p->run * PAGE;
}

static size_t count_pieces(const struct pieces *p)
{
	return p->size / p->step * p->run;
}

static void fill_pieces(char *memory, const struct pieces *p, long seed)
{
	size_t i;

	for (i = 0; i < count_pieces(p); i++)
		fill(piece(memory, p, i), PAGE, seed + i);
}

/* Hop to another CPU than the one that discarded the pages, and verify that the pages are empty. */
static void check_discarded(char *memory, const struct pieces *p)
{
	size_t i;

	hop();
	for (i = 0; i < count_pieces(p); i++)
		check_zero(piece(memory, p, i), PAGE, "one of many pages discarded at once");
}

/* Pages are discarded, used again and unmapped, in one call each, while threads read the pages between them. */
static void case_pieces(long round)
{
	/*
	 * Every n-th page of the memory; or the first few pages of each GiB. The last four patterns are for a kernel
	 * that flushes each piece by itself if that takes fewer TLBIs:
	 *  - here it does where TLBIs take ranges,
	 *  - here where they do not,
	 *  - here nowhere: there are more pieces than it records (and less than a table maps, so that none is freed),
	 *  - here where TLBIs take ranges, also if tables are freed: from the first table to the last page, a flush
	 *    takes three TLBIs or more, wherever the memory begins.
	 */
	const struct pieces patterns[] = {
		{ 1024 * PAGE, 2 * PAGE, 1 }, { 1024 * PAGE, 7 * PAGE, 1 }, { 2048 * PAGE, 65 * PAGE, 3 },
		{ 16UL << 30, 1UL << 30, 3 }, { 256 * HUGE, 3 * HUGE + 5 * PAGE, 2 },
		{ 512 * HUGE, 150 * HUGE + 48 * PAGE, 2 }, { 128 * PAGE, 40 * PAGE, 2 }, { 504 * PAGE, 24 * PAGE, 1 },
		{ 266 * HUGE, 133 * HUGE, 1 },
	};
	size_t hot_size = 64 * PAGE, i;
	char *hot = small(hot_size, round);

	begin_use(hot, hot_size);
	for (i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		const struct pieces *p = &patterns[i];
		char *memory = map_at(fresh(p->size), p->size, MAP_PRIVATE | MAP_NORESERVE, -1);

		use_small_pages(memory, p->size);
		fill_pieces(memory, p, round);
		must(madvise(memory, p->size, MADV_DONTNEED));
		check_discarded(memory, p);
		fill_pieces(memory, p, round + 1);
		must(munmap(memory, p->size));
	}
	check(hot, hot_size, round, "a page beside those that were discarded");
	end_use();
	must(munmap(hot, hot_size));
}

/* The same with a file: the kernel must record a dirty page in the file before the page may be freed. */
static void case_file_pieces(long round)
{
	const struct pieces all = { 1024 * PAGE, 2 * PAGE, 1 }, *p = &all;
	int file = must(memfd_create("batch_storm", 0));
	char *view, *memory;
	size_t i;

	must(ftruncate(file, p->size));
	view = map_at(fresh(p->size), p->size, MAP_SHARED, file);
	memory = map_at(fresh(p->size), p->size, MAP_SHARED, file);
	begin_use(view, p->size / 4);
	fill_pieces(memory, p, round);
	must(madvise(memory, p->size, MADV_DONTNEED));
	for (i = 0; i < count_pieces(p); i++)
		check(piece(view, p, i), PAGE, round + i, "a page of a file, seen elsewhere");
	fill_pieces(memory, p, round + 1);
	must(munmap(memory, p->size));
	for (i = 0; i < count_pieces(p); i++)
		check(piece(view, p, i), PAGE, round + 1 + i, "a page of a file whose other mapping went");
	must(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p->size / 4, p->size / 2));
	hop();
	check_zero(view + p->size / 4, p->size / 2, "a page of a hole");
	end_use();
	must(munmap(view, p->size));
	close(file);
}

/* Huge pages, whole and in parts, and small ones between them. */
static void case_mixed(long round)
{
	const struct pieces small_pages = { 2 * HUGE, 3 * PAGE, 1 };
	size_t size = 6 * HUGE;
	char *memory;
	int i;

	if (!room_for(6))
		return;
	memory = map_at(fresh(size), size, MAP_PRIVATE, -1);
	use_small_pages(memory + 2 * HUGE, 2 * HUGE);
	if (madvise(memory, 2 * HUGE, MADV_HUGEPAGE) || madvise(memory + 4 * HUGE, 2 * HUGE, MADV_HUGEPAGE)) {
		cannot("this kernel has no huge pages");
		must(munmap(memory, size));
		return;
	}
	for (i = 0; i < 2; i++) {
		fill(memory, 2 * HUGE, round);
		fill_pieces(memory + 2 * HUGE, &small_pages, round);
		fill(memory + 4 * HUGE, 2 * HUGE, round);
		begin_use(memory, 16 * PAGE);
		must(mprotect(memory + 5 * HUGE, 8 * PAGE, PROT_READ));
		/* The range begins and ends inside huge pages. */
		must(madvise(memory + HUGE / 2, size - HUGE, MADV_DONTNEED));
		hop();
		check(memory, HUGE / 2, round, "the rest of a huge page");
		check_zero(memory + HUGE / 2, 3 * HUGE / 2, "a page of a huge page that was discarded");
		check_discarded(memory + 2 * HUGE, &small_pages);
		check(memory + size - HUGE / 2, PAGE, round + (long)(3 * HUGE / 2 / PAGE * 0x9e3779b9UL),
		      "the rest of the last huge page");
		must(mprotect(memory, size, PROT_READ | PROT_WRITE));
		end_use();
	}
	must(munmap(memory, size));
}

static void pool(size_t size, long pages)
{
	char path[96], text[24];

	snprintf(path, sizeof(path), POOL, size >> 10);
	snprintf(text, sizeof(text), "%ld", pages);
	put_file(path, text);
}

/* HugeTLB pages of contiguous entries and of blocks, and small pages behind them, all in one call. */
static void case_pools(long round)
{
	const struct { size_t at, size, page; } parts[] = {
		{ 0, HUGE / 2, CONT }, { HUGE / 2, HUGE / 2, 0 }, { HUGE, 2 * HUGE, HUGE }, { 3 * HUGE, HUGE, 0 },
	};
	size_t size = 4 * HUGE, i, hot_size = 16 * PAGE;
	char *hot, *memory;
	bool all = true;

	if (!room_for(4))
		return;
	hot = small(hot_size, round);
	memory = fresh(size);
	pool(CONT, HUGE / 2 / CONT);
	pool(HUGE, 2);
	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		int flags = parts[i].page ? MAP_HUGETLB | __builtin_ctzl(parts[i].page) << 26 : 0;

		all &= mmap(memory + parts[i].at, parts[i].size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | flags, -1, 0) != MAP_FAILED;
	}
	if (all) {
		begin_use(hot, hot_size);
		fill(memory, size, round);
		check(memory, size, round, "a page of a pool");
		must(madvise(memory, size, MADV_DONTNEED));
		hop();
		check_zero(memory, size, "a page of a pool that was discarded");
		fill(memory, size, round + 1);
		end_use();
	}
	must(munmap(memory, size));
	must(munmap(hot, hot_size));
	pool(CONT, 0);
	pool(HUGE, 0);
	/* Memory may be too fragmented for huge pages. That is not a failure of this case. */
	if (!all)
		cannot("no HugeTLB pages of the two sizes that contiguous entries and blocks map");
}

/* ---- the same memory discarded by several at once ---- */

#define DISCARDERS	3
#define TIMES	8

static struct {
	pthread_barrier_t together;
	char *memory;
	size_t size;
} nested;

static void *discard_too(void *argument)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		pin((long)argument + i);
		pthread_barrier_wait(&nested.together);
		must(madvise(nested.memory, nested.size, MADV_DONTNEED));
		/* Another thread may have discarded the page. It does not matter whose flush removed the entry. */
		check_zero(nested.memory, nested.size, "a page that several discard");
		pthread_barrier_wait(&nested.together);
		pthread_barrier_wait(&nested.together);
	}
	return NULL;
}

static void case_nested(long round)
{
	pthread_t thread[DISCARDERS];
	long i;

	nested.size = 96 * PAGE;
	nested.memory = small(nested.size, round);
	verify(!pthread_barrier_init(&nested.together, NULL, DISCARDERS + 1), "no barrier");
	for (i = 0; i < DISCARDERS; i++)
		verify(!pthread_create(&thread[i], NULL, discard_too, (void *)i), "no thread");
	for (i = 0; i < TIMES; i++) {
		pthread_barrier_wait(&nested.together);
		pthread_barrier_wait(&nested.together);
		fill(nested.memory, nested.size, round + i);
		pthread_barrier_wait(&nested.together);
	}
	for (i = 0; i < DISCARDERS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&nested.together);
	must(munmap(nested.memory, nested.size));
}

/* ---- tasks that are killed while they reclaim ---- */

#define KILLS	60

static void case_reclaim_killed(long round)
{
	char *memory = map_memory(SLICE, MAP_SHARED);
	uint64_t state = round + 1;
	int i, status;

	if (!can_reclaim()) {
		cannot("no swap");
		return;
	}
	fill(memory, SLICE, round);
	signal(SIGCHLD, SIG_DFL);
	for (i = 0; i < KILLS; i++) {
		pid_t pid;

		/* Pages that several processes map are not reclaimed. */
		must(madvise(memory, SLICE, MADV_DONTNEED));
		pid = fork_plain();
		for (; !pid; must(madvise(memory, SLICE, MADV_PAGEOUT)))
			check(memory, SLICE, round, "memory that this task reclaims");
		usleep(1000 + next_random(&state) % 8000);
		must(kill(pid, SIGKILL));
		must(waitpid(pid, &status, 0));
		verify(WIFSIGNALED(status), "the child ended with wait status 0x%x", status);
		check(memory, SLICE, round, "memory that a killed task has reclaimed");
	}
	must(munmap(memory, SLICE));
}

static const struct storm_case cases[] = {
	{ "reclaim", case_reclaim }, { "reclaim_direct", case_reclaim_direct }, { "reclaim_mthp", case_reclaim_mthp },
	{ "reclaim_shared", case_reclaim_shared }, { "reclaim_crowd", case_reclaim_crowd }, { "pageout", case_pageout },
	{ "reclaim_forbidden", case_reclaim_forbidden }, { "migrate", case_migrate }, { "pieces", case_pieces },
	{ "file_pieces", case_file_pieces }, { "mixed", case_mixed }, { "pools", case_pools }, { "nested", case_nested },
	{ "reclaim_hurry", case_reclaim_hurry }, { "reclaim_lazy", case_reclaim_lazy },
	{ "reclaim_uffd", case_reclaim_uffd }, { "reclaim_table", case_reclaim_table },
	{ "reclaim_killed", case_reclaim_killed },
};

int main(int argc, char **argv)
{
	parse_options(argc, argv, "flushes that are put off, and flushes of many pieces", options);
	run_cases(cases, sizeof(cases) / sizeof(*cases));
	return 0;
}
