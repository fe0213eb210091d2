// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stress test of HVO: HugeTLB pages give back and regain their struct pages while every reader of struct pages runs.
 * The actors below run at once. Actors that use pages verify the contents of the pages, and what the kernel reports for
 * each page frame.
 *
 *	walk		one process on each CPU reads /proc/kpageflags, kpagecount, kpagecgroup and page_idle, which
 *			takes references; compacts memory
 *	pools		grows, shrinks and demotes the pools of all sizes up to 1 GiB
 *	hold		maps HugeTLB pages; writes, moves, discards, pins, forks, migrates, poisons and verifies them
 *	churn		uses small and huge pages of the page allocator, which become HugeTLB pages and back
 *	blocks		takes memory blocks offline and online
 *	hotplug		takes CPUs offline and online; only with hotplug=1
 *	plug		takes memory away, with its struct pages, and plugs it again; only with plug=1
 *	sweep		switches vm.hugetlb_optimize_vmemmap on and off; only with sweep=1
 *	take, peek	allocate and free one HugeTLB page; read its page frames; only if actors= names them
 *	recycle, hog	small pages are freed and become a HugeTLB page, for peek, which gets no time meanwhile; only if
 *			actors= names them
 *
 * The program checks this:
 *	- page_idle and compaction take references to any page frame that they come upon. The kernel must never write
 *	  such a reference to a struct page that HVO has made read-only: the write would oops.
 *	- When a pool gives a page back, the page's struct pages must be as they were before.
 *	- When the storm ends and the pools are emptied, the kernel must use as much memory for struct pages as before.
 */
#include "hvo.h"
#include "storm_actors.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/uio.h>

#define BLOCKS		"/sys/devices/system/memory/"
#define IDLE		"/sys/kernel/mm/page_idle/bitmap"
#define PLUG		"/sys/kernel/mm/lull/lab_memory"
#define UNPOISON	"/sys/kernel/debug/hwpoison/unpoison-pfn"

/* Documentation/admin-guide/mm/pagemap.rst */
#define KPF_HEAD	(1UL << 15)
#define KPF_TAIL	(1UL << 16)
#define KPF_HUGE	(1UL << 17)
#define KPF_HWPOISON	(1UL << 19)
#define PAGEMAP_PRESENT	(1UL << 63)
#define PAGEMAP_PFN	((1UL << 55) - 1)

/* HugeTLB pages are mapped below it, and moved to it. Addresses may have 39 bits. */
#define PLACE		((char *)(256UL << 30))

static long sweep, unplug, optimize = 1, poison = 4;

static const struct option_spec options[] = {
	STORM_OPTIONS,
	{ "sweep", &sweep, NULL, "1: vm.hugetlb_optimize_vmemmap changes meanwhile" },
	{ "plug", &unplug, NULL, "1: memory is taken away and plugged meanwhile: the lab kernel with lull_plug=SIZE" },
	{ "optimize", &optimize, NULL, "vm.hugetlb_optimize_vmemmap, where the kernel has it" },
	{ "poison", &poison, NULL, "pages that may be lost for good; what debugfs can heal does not count" },
	{ }
};

static const char *const rows[] = { NULL };

enum {
	WALKED = OFFLINED + 1, HUGE_SEEN, COMPACTED, GROWN, SHRUNK, DEMOTED, HELD, REFUSED, UNBACKED, LOOKED_AT, PINNED,
	FORKED, DISCARDED, MOVED, MIGRATED, POISONED, LOST, CHURNED, BLOCKS_OFF, BLOCKS_KEPT, UNPLUGGED, SWITCHED,
	GAVE_BACK, TALLIES
};

static const char *const tallies[] = {
	"offlined",
	"walked", "huge_seen", "compacted", "grown", "shrunk", "demoted", "held", "refused", "unbacked", "looked_at", "pinned",
	"forked", "discarded", "moved", "migrated", "poisoned", "lost", "churned", "blocks_off", "blocks_kept",
	"unplugged", "switched", "gave_back"
};

static void count_many(int what, long n)
{
	__atomic_fetch_add(&shared->tally[what], n, __ATOMIC_RELAXED);
}

/* ---- the pools ---- */

/*
 * The sizes of HugeTLB pages, the smallest first, as the kernel lists them. Larger pages than 1 GiB would take too long
 * to clear, and are left alone. Kernels with pages of
 *
 *	4 KiB		have HugeTLB pages of 64 KiB, 2 MiB (HUGE), 32 MiB and 1 GiB,
 *	16 KiB		of 2 MiB, 32 MiB (HUGE) and 1 GiB,
 *	64 KiB		of 2 MiB, 512 MiB (HUGE) and 16 GiB.
 */
static struct size {
	size_t bytes;
	int log;		/* log2 of it, for mmap() and memfd_create() */
	long few;		/* most pages of one mapping */
} sizes[8];

static int n_sizes, n_usual;	/* all; and those below 1 GiB, which are first */
static const struct size *huge;	/* the size HUGE */

static int by_size(const void *one, const void *other)
{
	return ((const struct size *)one)->log - ((const struct size *)other)->log;
}

static void find_sizes(void)
{
	DIR *folder = opendir(POOLS);
	struct dirent *entry;
	struct size *size;
	size_t kib;

	while (folder && (entry = readdir(folder))) {
		if (sscanf(entry->d_name, "hugepages-%zukB", &kib) != 1 || kib > GIB >> 10)
			continue;
		verify(n_sizes < (int)(sizeof(sizes) / sizeof(*sizes)), "there are more sizes of HugeTLB pages");
		size = &sizes[n_sizes++];
		size->bytes = kib << 10;
		size->log = __builtin_ctzl(size->bytes);
		size->few = kib <= 64 ? 32 : kib <= 2048 ? 8 : kib <= 32768 ? 2 : 1;
		n_usual += size->bytes < GIB;
	}
	if (folder)
		closedir(folder);
	qsort(sizes, n_sizes, sizeof(*sizes), by_size);
	for (size = sizes; size < sizes + n_sizes; size++)
		if (size->bytes == HUGE)
			huge = size;
}

static long pool_get(const struct size *size, const char *file)
{
	long value = number_in(pool(size->bytes, file));

	verify(value >= 0, "%s: no number", pool(size->bytes, file));
	return value;
}

static bool pool_put(const struct size *size, const char *file, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	return put_file(pool(size->bytes, file), text);
}

/*
 * Return the number of pages by which a pool may grow: three eighths of the memory stay free, and it does not take
 * long.
 */
static long room(const struct size *size)
{
	struct sysinfo memory;
	long spare, pages;

	must(sysinfo(&memory));
	spare = (long)memory.freeram - (long)memory.totalram / 8 * 3;
	pages = spare > 0 ? spare / (long)size->bytes : 0;
	return pages < 32 * size->few ? pages : 32 * size->few;
}

static long memmap_before;	/* pages of vmemmap when the pools were empty */

static void resize(const struct size *size, long pages)
{
	long before = pool_get(size, "nr_hugepages"), after;

	step(pages > before ? "a pool grows" : "a pool shrinks");
	pool_put(size, "nr_hugepages", pages);
	after = pool_get(size, "nr_hugepages");
	count_many(after > before ? GROWN : SHRUNK, labs(after - before));
	if (memmap() < memmap_before)
		count(GAVE_BACK);
}

/* Demote the largest free pages to any smaller size. Linux demotes to HUGE or more. */
static void demote(uint64_t *random)
{
	const struct size *from = &sizes[n_sizes - 1], *to;
	char text[24];
	long pages;

	while (from > huge && !pool_get(from, "free_hugepages"))
		from--;
	if (from == huge)
		return;
	step("a pool is demoted");
	to = huge + any(random, from - huge);
	snprintf(text, sizeof(text), "%zukB", to->bytes >> 10);
	if (!put_file(pool(from->bytes, "demote_size"), text))
		die("pages of %zu KiB cannot become pages of %s", from->bytes >> 10, text);
	pages = pool_get(from, "nr_hugepages");
	/* The kernel may refuse, if it has no memory for struct pages. */
	pool_put(from, "demote", 1 + any(random, 2 * from->few));
	pages -= pool_get(from, "nr_hugepages");
	if (pages > 0)
		count_many(DEMOTED, pages);
}

/* The largest pages need memory in which no other pool has a page. */
static void make_room(void)
{
	const struct size *size, *largest = &sizes[n_sizes - 1];

	for (size = sizes; size <= largest; size++)
		resize(size, 0);
	resize(largest, room(largest));
}

static void pools(uint64_t random)
{
	const struct size *size;
	long pages, more;

	make_room();
	while (!stopped()) {
		hop(&random, 0);
		size = &sizes[any(&random, n_sizes)];
		pages = pool_get(size, "nr_hugepages");
		switch (any(&random, 16)) {
		case 0:
			make_room();
			break;
		case 1:
			step("another limit of surplus pages");
			pool_put(size, "nr_overcommit_hugepages", any(&random, 2) ? size->few : 0);
			break;
		case 2: case 3: case 4: case 5: case 6:
			demote(&random);
			break;
		case 7: case 8: case 9: case 10:
			resize(size, pages ? any(&random, pages) : 0);
			break;
		default:
			more = room(size);
			resize(size, pages + (more ? 1 + any(&random, more) : 0));
		}
		nap(&random, 10000);
	}
}

/* ---- page frames ---- */

static unsigned long first_pfn = -1UL, end_pfn;

/* Find the first and the last page frame of memory. */
static void find_memory(void)
{
	FILE *in = fopen("/proc/iomem", "r");
	unsigned long from, to;
	char line[128];

	while (in && fgets(line, sizeof(line), in))
		if (strstr(line, "System RAM") && sscanf(line, "%lx-%lx", &from, &to) == 2 && to) {
			first_pfn = from / PAGE < first_pfn ? from / PAGE : first_pfn;
			end_pfn = (to + 1) / PAGE > end_pfn ? (to + 1) / PAGE : end_pfn;
		}
	if (in)
		fclose(in);
	if (!end_pfn)
		skip("/proc/iomem names no memory");
}

#define CHUNK	8192UL		/* page frames that are read in one go */

/* Read the words of @n page frames from a file that has one for each. Returns how many it could read. */
static long read_frames(const char *path, unsigned long pfn, uint64_t *words, long n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return 0;
	got = pread(fd, words, n * 8, pfn * 8);
	close(fd);
	return got < 0 ? 0 : got / 8;
}

/*
 * Set the idle flag of the page frames, and read it. For both, the kernel takes a reference to each user page, and
 * drops it.
 */
static void walk_idle(unsigned long pfn, uint64_t *words, size_t frames)
{
	int fd = open(IDLE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	memset(words, 0xff, frames / 8);
	if (pwrite(fd, words, frames / 8, pfn / 8) < 0 && errno != ENXIO)
		die("%s: write", IDLE);
	must(pread(fd, words, frames / 8, pfn / 8));
	close(fd);
}

/* Pin to a CPU, if it is online. */
static void stay(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	verify(!sched_setaffinity(0, sizeof(set), &set) || errno == EINVAL, "CPU %ld: errno %d", cpu, errno);
}

static void walk(uint64_t random)
{
	static const char *const files[] = { "/proc/kpagecount", "/proc/kpagecgroup" };
	static uint64_t words[CHUNK];
	unsigned long pfn, pages = end_pfn - first_pfn;
	long i, n, huge;

	stay(mine - shared->progress);
	for (pfn = any(&random, pages); !stopped(); pfn = (pfn + CHUNK) % pages) {
		/*
		 * Do not always continue here: a second walker that closely follows a first one sees little that the
		 * first one did not.
		 */
		if (one_in(&random, 16)) {
			stay(mine - shared->progress);
			pfn = any(&random, pages);
		}
		pfn -= pfn % 64;
		step("page frames");
		read_frames(files[any(&random, 2)], first_pfn + pfn, words, CHUNK);
		n = read_frames("/proc/kpageflags", first_pfn + pfn, words, CHUNK);
		for (huge = 0, i = 0; i < n; i++)
			huge += !!(words[i] & KPF_HUGE);
		step("idle pages");
		walk_idle(first_pfn + pfn, words, CHUNK);
		count_many(WALKED, n);
		count_many(HUGE_SEEN, huge);
		if (one_in(&random, 256)) {
			step("compaction");
			if (put_file("/proc/sys/vm/compact_memory", "1"))
				count(COMPACTED);
		}
	}
}

/* Return the page frame of an address that was used, or 0 if there is none at the moment. */
static unsigned long frame_of(const char *at)
{
	uint64_t entry;

	if (read_frames("/proc/self/pagemap", (uintptr_t)at / PAGE, &entry, 1) != 1 || !(entry & PAGEMAP_PRESENT))
		return 0;
	return entry & PAGEMAP_PFN;
}

/* ---- pages that are lost ---- */

static bool may_lose(void)
{
	return !access(UNPOISON, W_OK) || __atomic_load_n(&shared->tally[LOST], __ATOMIC_RELAXED) < poison;
}

/* A poisoned page frame cannot be part of a HugeTLB page again, unless it is healed. */
static void heal(unsigned long pfn)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", pfn);
	if (!put_file(UNPOISON, text))
		count(LOST);
}

/* Offline a page softly: its contents migrate to another page. */
static void migrate(char *at)
{
	unsigned long pfn = frame_of(at);

	if (!pfn || !may_lose())
		return;
	step("a page is offlined softly");
	if (madvise(at, PAGE, MADV_SOFT_OFFLINE))
		return;		/* no other page is free, or the page has another reference */
	count(MIGRATED);
	heal(pfn);
}

/* ---- users of HugeTLB pages ---- */

struct holding {
	const struct size *size;
	char *memory;
	size_t length, page, stride;	/* distance between two words that are written, in bytes */
	int fd;				/* of a file, or -1 */
	long holds;
};

static void hold_fill(struct holding *h, size_t from, size_t length)
{
	size_t at;

	for (at = from; at < from + length; at += h->stride)
		*(volatile long *)(h->memory + at) = expected(at, h->holds);
}

/*
 * Touch each page for the first time. Returns false if a page is missing although it was reserved. Linux breaks the
 * reservation when a pool is demoted (demote_pool_huge_page() takes as many pages as it was asked for, reserved ones,
 * too), and when pages are poisoned.
 */
static bool populate(const struct holding *h)
{
	size_t page;

	for (page = 0; page < h->length; page += h->page) {
		struct access access = { .at = h->memory + page, .write = true };

		attempt(&access);
		if (access.faulted) {
			count(UNBACKED);
			return false;
		}
	}
	return true;
}

static void hold_check(const struct holding *h, const char *what)
{
	size_t at;

	for (at = 0; at < h->length; at += h->stride) {
		long found = *(volatile long *)(h->memory + at);

		verify(found == expected(at, h->holds), "%s of %lu KiB, at %p, page frame 0x%lx, holds 0x%lx, not 0x%lx",
		       what, h->page >> 10, h->memory + at, frame_of(h->memory + at), found, expected(at, h->holds));
	}
}

/*
 * Verify that all struct pages of a page have the right flags, and are mapped once; also the struct pages that share
 * one page of memory.
 */
static void look_at(const struct holding *h, size_t page, uint64_t *random)
{
	long frames = h->page / PAGE, most = HUGE / PAGE, n = frames < most ? frames : most, first, i;
	unsigned long pfn = frame_of(h->memory + page);
	uint64_t flags[n], counts[n];

	/*
	 * Read the first struct pages, or any others: beyond the first ones, all pages of struct pages are the same
	 * page.
	 */
	first = frames > n && one_in(random, 2) ? any(random, frames / n) * n : 0;
	if (!pfn || read_frames("/proc/kpageflags", pfn + first, flags, n) != n ||
	    read_frames("/proc/kpagecount", pfn + first, counts, n) != n)
		return;
	/* The page may have migrated while its struct pages were read. */
	if (frame_of(h->memory + page) != pfn)
		return;
	for (i = 0; i < n; i++) {
		uint64_t due = KPF_HUGE | (first + i ? KPF_TAIL : KPF_HEAD);

		verify((flags[i] & (KPF_HUGE | KPF_HEAD | KPF_TAIL)) == due,
		       "page frame 0x%lx, number %ld of a page of %lu KiB, has flags 0x%lx", pfn + first + i, first + i,
		       h->page >> 10, flags[i]);
		verify(counts[i] == 1, "page frame 0x%lx, number %ld of a page of %lu KiB, is mapped %lu times",
		       pfn + first + i, first + i, h->page >> 10, counts[i]);
	}
	count(LOOKED_AT);
}

/* Take a reference to a page in the middle, by a pipe, and verify what the pipe reads from it. */
static void pin_page(const struct holding *h, size_t at)
{
	struct iovec from = { h->memory + at, PAGE };
	char copy[PAGE];
	int pipes[2];

	must(pipe(pipes));
	verify(vmsplice(pipes[1], &from, 1, SPLICE_F_NONBLOCK) == (ssize_t)PAGE, "a HugeTLB page cannot be pinned");
	usleep(200);
	verify(read(pipes[0], copy, PAGE) == (ssize_t)PAGE && *(long *)copy == expected(at, h->holds),
	       "a pinned page of %lu KiB holds 0x%lx, not 0x%lx", h->page >> 10, *(long *)copy, expected(at, h->holds));
	close(pipes[0]);
	close(pipes[1]);
	count(PINNED);
}

static void fork_page(const struct holding *h, uint64_t *random)
{
	pid_t pid = fork_plain();
	int status;

	if (!pid) {
		hop(random, 0);
		hold_check(h, "a HugeTLB page, seen by a child,");
		_exit(0);
	}
	must(waitpid(pid, &status, 0));
	verify(!status, "a child that reads HugeTLB pages ended with wait status 0x%x", status);
	count(FORKED);
}

/* Discard one page, and touch it again. Returns false if there is no page for it. */
static bool discard(const struct holding *h, size_t page)
{
	struct access access = { .at = h->memory + page };

	if (h->fd < 0)
		must(madvise(h->memory + page, h->page, MADV_DONTNEED));
	else
		must(fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, h->page));
	attempt(&access);
	if (access.faulted)
		return false;
	verify(!access.value, "a HugeTLB page of %lu KiB that was discarded holds 0x%lx", h->page >> 10, access.value);
	count(DISCARDED);
	return true;
}

static void move(struct holding *h)
{
	char *other = h->memory < PLACE ? PLACE : PLACE - (8UL << 30);

	must(mremap(h->memory, h->length, h->length, MREMAP_MAYMOVE | MREMAP_FIXED, other));
	h->memory = other;
	count(MOVED);
}

/* Poison a page. The kernel may notify the process that maps it by a signal. */
__attribute__((noinline))
static bool poison_page(char *at)
{
	if (sigsetjmp(way_back, 0)) {
		dared = NULL;
		return true;
	}
	dared = at;
	if (madvise(at, PAGE, MADV_HWPOISON)) {
		dared = NULL;
		return false;
	}
	dared = NULL;
	return true;
}

/*
 * A poisoned page cannot be used any more, so this is the last thing that happens to a mapping. It does not happen to
 * a file's page, which would keep the whole HugeTLB page for good.
 */
static unsigned long break_page(const struct holding *h, size_t at)
{
	struct access access = { .at = h->memory + at };
	unsigned long pfn = frame_of(h->memory + at);

	if (!pfn || h->fd >= 0 || !may_lose())
		return 0;
	step("a page breaks");
	if (!poison_page(h->memory + at))
		return 0;
	attempt(&access);
	verify(access.faulted, "a broken page of %lu KiB can be read", h->page >> 10);
	count(POISONED);
	return pfn;
}

/* Do one random thing to the mapping. Returns false if the mapping cannot be used any more. */
static bool use(struct holding *h, uint64_t *random)
{
	size_t page = any(random, h->length / h->page) * h->page;
	size_t at = page + any(random, h->page / h->stride) * h->stride;

	step("a HugeTLB page is used");
	switch (any(random, 8)) {
	case 0:
		h->holds = stamp(random);
		hold_fill(h, 0, h->length);
		break;
	case 1:
		pin_page(h, at);
		break;
	case 2:
		/*
		 * Do not fork with private pages that are mapped by entries of a PTE or PUD table:
		 * copy_hugetlb_page_range() tests whether this table is a shared PMD table, by a field that is not set
		 * for such tables. If it looks shared, the child gets no pages (docs/findings.md).
		 */
		if (h->fd >= 0 || (h->page >= HUGE && h->page < HUGE / 8 * PAGE))
			fork_page(h, random);
		break;
	case 3:
		if (!discard(h, page))
			return false;
		hold_fill(h, page, h->page);
		break;
	case 4:
		move(h);
		break;
	case 5:
		if (h->size < &sizes[n_usual])
			migrate(h->memory + at);
		break;
	default:
		look_at(h, page, random);
	}
	return true;
}

/* Map pages that the pool has, or that it allocates as surplus. Returns false if there are none. */
static bool take(struct holding *h, uint64_t *random)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | h->size->log << MAP_HUGE_SHIFT;

	h->page = h->size->bytes;
	h->length = h->page * (1 + any(random, h->size->few));
	h->stride = h->page > HUGE ? h->page / 1024 : PAGE;
	h->fd = -1;
	if (one_in(random, 2)) {
		h->fd = must(memfd_create("hold", MFD_HUGETLB | (unsigned int)h->size->log << MAP_HUGE_SHIFT));
		must(ftruncate(h->fd, h->length));
		flags = MAP_SHARED;
	}
	h->memory = mmap(PLACE - (16UL << 30), h->length, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, h->fd, 0);
	if (h->memory != MAP_FAILED)
		return true;
	verify(errno == ENOMEM, "pages of %lu KiB cannot be mapped: errno %d", h->page >> 10, errno);
	if (h->fd >= 0)
		close(h->fd);
	return false;
}

static void hold(uint64_t random)
{
	struct holding h;
	unsigned long broken;
	int uses, tries;

	while (!stopped()) {
		hop(&random, 0);
		/* Pages of 1 GiB take long to clear, and other processes wait for that. */
		h.size = &sizes[one_in(&random, 64) ? n_sizes - 1 : any(&random, n_usual)];
		step("HugeTLB pages are mapped");
		for (tries = n_sizes; tries && !pool_get(h.size, "free_hugepages"); tries--)
			h.size = &sizes[any(&random, n_usual)];
		if (!take(&h, &random)) {
			count(REFUSED);
			nap(&random, 10000);
			continue;
		}
		count(HELD);
		h.holds = stamp(&random);
		step("HugeTLB pages are written");
		uses = populate(&h) ? any(&random, 8) : 0;
		broken = uses && one_in(&random, 16);
		if (uses)
			hold_fill(&h, 0, h.length);
		for (; uses && use(&h, &random); uses--) {
			nap(&random, 2000);
			hop(&random, 0);
			hold_check(&h, "a HugeTLB page");
		}
		broken = broken && !uses ? break_page(&h, 0) : 0;
		step("HugeTLB pages are unmapped");
		must(munmap(h.memory, h.length));
		if (h.fd >= 0)
			close(h.fd);
		if (broken)
			heal(broken);
	}
}

/* ---- users of other pages ---- */

/* Use pages of the page allocator, which were part of a HugeTLB page before and will be again. */
static void churn(uint64_t random)
{
	struct sysinfo memory;
	size_t size, unit, at;
	long holds;
	char *pages;

	while (!stopped()) {
		hop(&random, 0);
		must(sysinfo(&memory));
		size = memory.freeram / 16 < (64UL << 20) ? memory.freeram / 16 : 64UL << 20;
		/* Clearing one of 512 MiB takes long. */
		unit = HUGE > (64UL << 20) && !one_in(&random, 8) ? CONT : HUGE;
		size = unit * (1 + any(&random, size / unit + 1));
		holds = stamp(&random);
		step("pages are taken");
		pages = map_memory(size, MAP_PRIVATE);
		/* A kernel may have no huge pages. */
		madvise(pages, size, one_in(&random, 2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		fill(pages, size, holds);
		at = any(&random, size / PAGE) * PAGE;
		if (one_in(&random, 4))
			migrate(pages + at);
		if (one_in(&random, 4)) {
			step("pages are swapped out");
			madvise(pages, size / 8, MADV_PAGEOUT);
		}
		step("pages are verified");
		check(pages, size, holds, "a page beside HugeTLB pages");
		must(munmap(pages, size));
		count_many(CHURNED, size / PAGE);
	}
}

/* ---- one page, taken from the page allocator and given back, and looked at all the time ---- */

/*
 * The page frame of the page, for peek_at_it(). The page allocator returns the same page again as long as no other
 * process allocates one.
 */
static volatile unsigned long *chased;	/* shared by all processes; behind it two words of recycle() and hog() */

static void take_one(uint64_t random)
{
	char *page;

	(void)random;
	pool_put(huge, "nr_overcommit_hugepages", 1);
	while (!stopped()) {
		step("a HugeTLB page is taken");
		page = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		if (page == MAP_FAILED)
			die("a HugeTLB page");
		*(volatile char *)page = 1;
		__atomic_store_n(chased, frame_of(page), __ATOMIC_RELAXED);
		usleep(10000);
		must(munmap(page, HUGE));
		count(GROWN);
	}
}

static void peek_at_it(uint64_t random)
{
	uint64_t words[HUGE / PAGE / 64];
	unsigned long pfn;

	(void)random;
	stay(2);
	must(sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }));
	while (!stopped()) {
		step("page frames of a HugeTLB page");
		pfn = __atomic_load_n(chased, __ATOMIC_RELAXED);
		if (pfn)
			walk_idle(pfn, words, HUGE / PAGE);
		else
			usleep(1000);
	}
}

/* ---- what changes under all of them ---- */

/* Return the number of memory blocks. One of them is chosen at random if @random is not NULL. */
static long find_blocks(uint64_t *random, long *chosen)
{
	DIR *folder = opendir(BLOCKS);
	struct dirent *entry;
	long number, seen = 0;

	while (folder && (entry = readdir(folder)))
		if (sscanf(entry->d_name, "memory%ld", &number) == 1 && ++seen && random && one_in(random, seen))
			*chosen = number;
	if (folder)
		closedir(folder);
	return seen;
}

static bool set_block(long number, const char *state)
{
	char path[96];

	snprintf(path, sizeof(path), BLOCKS "memory%ld/state", number);
	return put_file(path, state);
}

/*
 * On arm64 memory that was present at boot stays online, but the kernel refuses late, after it has isolated the block.
 * With plug=1 a block that is offline may be taken away before it comes back.
 */
static void blocks(uint64_t random)
{
	long number;

	if (!find_blocks(NULL, NULL))
		skip("no memory block can go offline here");
	while (!stopped()) {
		find_blocks(&random, &number);
		step("a memory block goes");
		if (set_block(number, "offline")) {
			count(BLOCKS_OFF);
			nap(&random, 50000);
			step("a memory block comes back");
			verify(set_block(number, "online") || unplug, "memory block %ld does not come back", number);
		} else {
			count(BLOCKS_KEPT);
		}
		nap(&random, 200000);
	}
}

static void interrupted(int signal)
{
	(void)signal;
}

/* To take memory away, the kernel migrates its pages. It tries again until it is interrupted if pages cannot be migrated. */
static void plug_memory(uint64_t random)
{
	const struct sigaction action = { .sa_handler = interrupted };	/* without SA_RESTART */
	long all = find_blocks(NULL, NULL);

	must(sigaction(SIGALRM, &action, NULL));
	while (!stopped()) {
		nap(&random, 500000);
		step("memory is unplugged");
		alarm(20);
		put_file(PLUG, "out");
		alarm(0);
		if (find_blocks(NULL, NULL) < all)
			count(UNPLUGGED);
		nap(&random, 100000);
		step("memory is plugged");
		put_file(PLUG, "in");
		verify(find_blocks(NULL, NULL) == all, "memory that was taken away does not come back");
	}
}

static void put_number(const char *path, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	if (!put_file(path, text))
		die("%s refuses %ld", path, value);
}

static void sweep_optimize(uint64_t random)
{
	while (!stopped()) {
		step("another switch");
		put_number(OPTIMIZE, !one_in(&random, 3));
		count(SWITCHED);
		nap(&random, 200000);
	}
}

/* Return the first page frame that is reported as part of a HugeTLB page, and its flags; 0 if there is none. */
static unsigned long huge_frame(uint64_t *flags)
{
	static uint64_t words[CHUNK];
	unsigned long pfn;
	long i, n;

	for (pfn = first_pfn; pfn < end_pfn; pfn += CHUNK) {
		n = read_frames("/proc/kpageflags", pfn, words, CHUNK);
		for (i = 0; i < n; i++)
			if (words[i] & KPF_HUGE && !(words[i] & KPF_HWPOISON)) {
				*flags = words[i];
				return pfn + i;
			}
	}
	return 0;
}

/*
 * Memory is used as small pages and as a HugeTLB page in turn. The HugeTLB page is so large that the kernel does not take
 * it from a list of free pages: it takes the first place that it can free, each time the same. peek_at_it() looks there.
 */
static void recycle(uint64_t random)
{
	const struct size *big = huge + 1;
	const size_t size = 2 * big->bytes;
	char *pages = map_memory(size, MAP_PRIVATE);
	uint64_t flags;

	madvise(pages, size, MADV_NOHUGEPAGE);
	while (!stopped()) {
		step("a HugeTLB page is made");
		resize(big, 1);
		chased[1] = 0;
		if (!*chased)
			*chased = huge_frame(&flags) + big->bytes / PAGE / 2;
		usleep(100000);
		resize(big, 0);
		step("small pages are used");
		fill(pages, size, stamp(&random));
		usleep(10000);
		chased[1] = 1;
		while (!chased[2] && !stopped())
			usleep(100);
		must(madvise(pages, size, MADV_DONTNEED));
	}
	must(munmap(pages, size));
}

/* While recycle() makes a HugeTLB page, leave CPU 2 to nobody of the policy SCHED_IDLE; but not for long. */
static void hog(uint64_t random)
{
	struct timespec began;

	(void)random;
	stay(2);
	while (!stopped()) {
		step("CPU 2 is busy");
		must(clock_gettime(CLOCK_MONOTONIC, &began));
		while (chased[1] && !since(&began))
			chased[2] = 1;
		chased[2] = 0;
		usleep(1000);
	}
}

/* ---- who is who ---- */

static const struct actor actors[] = {
	{ "walk", walk, 0, NULL },	/* must be the first: each walker has the CPU of its number */
	{ "pools", pools, 2, NULL },
	{ "hold", hold, 3, NULL },
	{ "churn", churn, 1, NULL },
	{ "blocks", blocks, 1, NULL },
	{ "hotplug", plug, 1, &hotplug },
	{ "plug", plug_memory, 1, &unplug },
	{ "sweep", sweep_optimize, 1, &sweep },
	{ "take", take_one, 1, NULL },
	{ "peek", peek_at_it, 1, NULL },
	{ "recycle", recycle, 1, NULL },
	{ "hog", hog, 1, NULL },
};

static const struct storm hammer = {
	actors, sizeof(actors) / sizeof(*actors), rows, tallies, TALLIES
};

/*
 * Verify that the pools give all pages back. A page that was freed while its pool was shrunk may remain as surplus,
 * and is only freed after it belongs to the pool again.
 */
static void empty_pools(void)
{
	unsigned long pfn;
	uint64_t flags;
	int i, tries;
	long left;

	for (i = 0; i < n_sizes; i++) {
		for (tries = 0; tries < 10; tries++) {
			pool_put(&sizes[i], "nr_overcommit_hugepages", 0);
			pool_put(&sizes[i], "nr_hugepages", pool_get(&sizes[i], "nr_hugepages"));
			pool_put(&sizes[i], "nr_hugepages", 0);
			left = pool_get(&sizes[i], "nr_hugepages");
			if (!left)
				break;
			usleep(100000);
		}
		verify(!left, "of %ld pages of %lu KiB that do not go %ld are free, %ld surplus", left, sizes[i].bytes >> 10,
		       pool_get(&sizes[i], "free_hugepages"), pool_get(&sizes[i], "surplus_hugepages"));
	}
	pfn = huge_frame(&flags);
	verify(!pfn, "page frame 0x%lx has flags 0x%lx, and there are no HugeTLB pages", pfn, flags);
}

static long old_optimize = -1;	/* vm.hugetlb_optimize_vmemmap before; -1: the kernel does not have it */

static void put_back(void)
{
	if (old_optimize >= 0)
		put_number(OPTIMIZE, old_optimize);
}

/*
 * With HVO, verify that a HugeTLB page gives struct pages back: otherwise the storm would test nothing. The struct pages
 * of a page of the size HUGE take eight pages of memory, those of smaller ones less than one. Returns false if there is no
 * memory for such a HugeTLB page.
 */
static bool try_hvo(void)
{
	pool_put(huge, "nr_hugepages", 1);
	if (!pool_get(huge, "nr_hugepages"))
		return false;
	verify(memmap() < memmap_before, "HVO is on, and a HugeTLB page of %lu KiB gives no struct pages back", HUGE >> 10);
	empty_pools();
	return true;
}

int main(int argc, char **argv)
{
	bool hvo = false;

	actors_wanted = "walk,pools,hold,churn,blocks";
	patience = 120;
	parse_options(argc, argv, "HugeTLB pages come and go while all who look at struct pages do", options);
	check_wishes(&hammer);
	need_pool(HUGE);
	find_sizes();
	if (sweep && access(OPTIMIZE, W_OK))
		skip("sweep=1: this kernel has no " OPTIMIZE);
	if (unplug && access(PLUG, W_OK))
		skip("plug=1: no memory can be plugged here");
	memmap();		/* skips a kernel that does not count the vmemmap's pages, before anything changes */
	find_memory();
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);	/* may be there, or not exist */
	chased = (unsigned long *)map_memory(PAGE, MAP_SHARED);
	if (!access(OPTIMIZE, W_OK)) {
		old_optimize = number_in(OPTIMIZE);
		put_number(OPTIMIZE, optimize);
		hvo = optimize && booted_with_hvo();
	}
	empty_pools();
	memmap_before = memmap();
	if (hvo && !try_hvo()) {
		put_back();
		skip("HVO is on, and there is no memory for a HugeTLB page that gives struct pages back");
	}
	run_storm(&hammer);
	empty_pools();
	verify(memmap() == memmap_before, "struct pages take %ld pages of memory, and took %ld before the storm", memmap(),
	       memmap_before);
	put_back();
	if (hvo && named(actors_wanted, "pools") && !shared->tally[GAVE_BACK])
		skip("HVO is on, and no pool gave struct pages back");
	return 0;
}
