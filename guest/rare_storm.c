// SPDX-License-Identifier: GPL-2.0-only
/*
 * States of page tables that are rare: rights to execute that are taken away, pages given back lazily, parts of contiguous
 * blocks, HugeTLB pages of contiguous entries or with a shared table, huge zero pages, userfaultfd, KSM, memory of a device,
 * guard pages that are moved, forks that fail, wide ranges. In each case another CPU uses an entry all the time, up to
 * the moment in which it is changed. The metric reached_CASE counts how often that was so, and the entry was the one that
 * the case is about. A case that never reached its state says so.
 */
#include "storm_cases.h"

#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define HUGETLB	"/sys/kernel/mm/hugepages/"
#define FRAME	((1UL << 55) - 1)	/* in an entry of /proc/self/pagemap */
#define KPF_THP	(1UL << 22)		/* in one of /proc/kpageflags */
#define KPF_KSM	(1UL << 21)
#define KPF_ZERO_PAGE	(1UL << 24)
#define KSM	"/sys/kernel/mm/ksm/"
#define TURNS	8			/* changes in each round of a case */
#define BIG	(512UL << 20)		/* too much for a fork that may have half of it */

#ifdef __aarch64__
#define RETURN	0xd65f03c0u
#else
#define RETURN	0xc3u
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#endif
#ifndef PROT_BTI
#define PROT_BTI	0x10
#endif
#ifndef HWCAP2_BTI
#define HWCAP2_BTI	(1 << 17)
#endif

static long patience = 60;

static const struct option_spec options[] = {
	STORM_OPTIONS,
	{ "patience", &patience, NULL, "seconds until the other CPU must have noticed a change" },
	{ }
};

/* ---- the other CPU ---- */

static struct {
	pthread_t thread;
	long (*use)(char *page);
	char *page;
	volatile bool stop, hold;	/* hold: after a fault, wait until this is false */
	volatile long uses, faults, seen;
} other;

static __thread sigjmp_buf before_fault;

static long load(char *page)
{
	return *(volatile long *)page;
}

static long store(char *page)
{
	return ++*(volatile long *)page;
}

static long call(char *page)
{
	((void (*)(void))page)();
	return 0;
}

static void faulted(int number)
{
	(void)number;
	siglongjmp(before_fault, 1);
}

static void *use_page(void *unused)
{
	(void)unused;
	pin(1);
	if (sigsetjmp(before_fault, 1)) {
		other.faults++;
		while (other.hold && !other.stop)
			sched_yield();
	}
	while (!other.stop) {
		other.seen = other.use(other.page);
		other.uses++;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* counted before the next use: see used() */
	}
	return NULL;
}

#define wait_for(fact, what) do {						\
	double from = clock_seconds();						\
										\
	while (!(fact)) {							\
		sched_yield();							\
		verify(clock_seconds() - from < patience, "%s: %s", playing, what); \
	}									\
} while (0)

/*
 * Return when the other CPU has used the page twice more: once at least after this was called, and after what this CPU
 * has stored is seen.
 */
static void used(const char *what)
{
	long uses;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	uses = other.uses;
	wait_for(other.uses > uses + 1, what);
}

/* Let the other CPU use a page in this way, and wait until it has. */
static void begin(long (*use)(char *), char *page)
{
	struct sigaction action = { .sa_handler = faulted };

	must(sigaction(SIGSEGV, &action, NULL));
	must(sigaction(SIGILL, &action, NULL));
	other.use = use;
	other.page = page;
	other.stop = other.hold = false;
	other.faults = 0;
	pin(0);
	verify(!pthread_create(&other.thread, NULL, use_page, NULL), "no thread");
	used("the other CPU does not begin");
}

static void end(void)
{
	other.stop = true;
	pthread_join(other.thread, NULL);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGILL, SIG_DFL);
}

/* What the other CPU does is forbidden now: it may have begun one use before, and must fault at the next. */
static void must_fault(long uses, long faults)
{
	wait_for(other.faults > faults, "the other CPU still uses an entry that was taken away");
	verify(other.uses <= uses + 1, "%s: the other CPU used an entry %ld times after it was taken away", playing,
	       other.uses - uses);
}

/* ---- what was reached ---- */

static void reached(long times)
{
	char *name;
	int i;

	verify(asprintf(&name, "reached_%s", playing) > 0, "no memory");
	for (i = 0; i < window.metrics && strcmp(window.name[i], name); i++)
		;
	if (i == window.metrics)
		add_metric(name, 0);
	window.value[i] += times;
	if (!times)
		cannot("it did not reach its state");
}

static uint64_t entry_of(const char *file, uint64_t number)
{
	uint64_t entry;
	int fd = must(open(file, O_RDONLY));

	verify(pread(fd, &entry, sizeof(entry), number * sizeof(entry)) == sizeof(entry), "%s", file);
	close(fd);
	return entry;
}

static uint64_t frame_of(const char *page)
{
	return entry_of("/proc/self/pagemap", (uintptr_t)page / PAGE) & FRAME;
}

/* True if a block of entries may be contiguous: its frames are, and the first is aligned. */
static bool is_block(const char *memory, size_t size)
{
	uint64_t first = frame_of(memory);
	size_t n;

	for (n = 1; n < size / PAGE; n++)
		if (frame_of(memory + n * PAGE) != first + n)
			return false;
	return first && first % (size / PAGE) == 0;
}

static bool has_flags(const char *page, uint64_t flags)
{
	uint64_t frame = frame_of(page);

	return frame && (entry_of("/proc/kpageflags", frame) & flags) == flags;
}

/* ---- the cases ---- */

/* Rights are taken away from code that the other CPU executes, and given back. */
static void change_rights(int with, int without)
{
	char *page = map_at(fresh(PAGE), PAGE, MAP_PRIVATE, -1);
	int i;

	*(uint32_t *)page = RETURN;
	__builtin___clear_cache(page, page + 4);
	must(mprotect(page, PAGE, with));
	begin(call, page);
	for (i = 0; i < TURNS; i++) {
		long uses, faults = other.faults;

		used("the other CPU does not execute what it may");
		verify(other.faults == faults, "%s: the other CPU faults at what it may do", playing);
		other.hold = true;
		must(mprotect(page, PAGE, without));
		uses = other.uses;
		must_fault(uses, faults);
		must(mprotect(page, PAGE, with));
		other.hold = false;
	}
	end();
	must(munmap(page, PAGE));
	reached(TURNS);
}

static void case_exec(long round)
{
	(void)round;
	change_rights(PROT_READ | PROT_EXEC, PROT_READ);
}

/* With PROT_BTI, an indirect branch to an instruction that is no BTI faults. */
static void case_bti(long round)
{
	(void)round;
#ifdef __aarch64__
	if (getauxval(AT_HWCAP2) & HWCAP2_BTI) {
		change_rights(PROT_READ | PROT_EXEC, PROT_READ | PROT_EXEC | PROT_BTI);
		return;
	}
#endif
	cannot("this CPU or this kernel has no BTI");
}

/* Map a huge page, not used yet. Returns NULL if there is none. */
static char *map_huge(void)
{
	char *memory;

	if (!room_for(4))
		return NULL;
	memory = map_at(fresh(HUGE), HUGE, MAP_PRIVATE, -1);
	if (!madvise(memory, HUGE, MADV_HUGEPAGE))
		return memory;
	cannot("this kernel has no huge pages");
	must(munmap(memory, HUGE));
	return NULL;
}

/* A huge page becomes read-only as a whole while the other CPU writes to it. */
static void case_thp_mprotect(long round)
{
	char *memory = map_huge();
	long n = 0;
	int i;

	if (!memory)
		return;
	fill(memory, HUGE, round);
	begin(store, memory + 7 * PAGE);
	for (i = 0; i < TURNS; i++) {
		long uses, faults = other.faults;
		bool huge = has_flags(memory, KPF_THP) && is_block(memory, HUGE);

		used("the other CPU does not write what it may");
		other.hold = true;
		must(mprotect(memory, HUGE, PROT_READ));
		uses = other.uses;
		must_fault(uses, faults);
		n += huge;
		must(mprotect(memory, HUGE, PROT_READ | PROT_WRITE));
		other.hold = false;
	}
	end();
	must(munmap(memory, HUGE));
	reached(n);
}

/* The huge zero page is split while the other CPU reads it; then it must see what is written to its page. */
static void case_zero_split(long round)
{
	long n = 0;
	int i;

	for (i = 0; i < TURNS; i++) {
		char *memory = map_huge();
		bool huge;

		if (!memory)
			return;
		begin(load, memory + 5 * PAGE);
		huge = has_flags(memory, KPF_THP | KPF_ZERO_PAGE);
		must(madvise(memory + HUGE / 2, PAGE, MADV_DONTNEED));
		used("the other CPU does not read what it may");
		verify(!other.seen, "a split huge zero page holds %ld", other.seen);
		*(volatile long *)(memory + 5 * PAGE) = round + 1;
		used("the other CPU does not read what it may");
		verify(other.seen == round + 1, "the other CPU reads %ld from the huge zero page", other.seen);
		n += huge && !has_flags(memory + HUGE / 2 + PAGE, KPF_THP);
		end();
		must(munmap(memory, HUGE));
	}
	reached(n);
}

/* Pages are given back by MADV_FREE while the other CPU writes to the first: what it writes later must not be lost. */
static void case_lazyfree(long round)
{
	size_t size = 16 * PAGE;
	long n = 0, last;
	int i;

	for (i = 0; i < TURNS; i++) {
		char *memory = small(size, round);

		begin(store, memory);
		must(madvise(memory, size, MADV_FREE));
		used("the other CPU does not write what it may");
		last = *(volatile long *)memory;
		must(madvise(memory, size, MADV_PAGEOUT));
		used("the other CPU does not write what it may");
		verify(*(volatile long *)memory > last, "a page written after MADV_FREE is lost");
		n += *(volatile long *)(memory + size - PAGE) == 0;	/* not written: reclaim has dropped it */
		end();
		must(munmap(memory, size));
	}
	reached(n);
}

/* Two pages within a block of contiguous entries are unmapped while the other CPU reads one of them. */
static void case_part(long round)
{
	char path[96], *memory;
	long n = 0;
	int i;

	snprintf(path, sizeof(path), THP "hugepages-%lukB/enabled", CONT >> 10);
	for (i = 0; i < TURNS; i++) {
		bool block;
		long uses;

		if (!put_file(path, "always")) {
			cannot("this kernel has no folios for contiguous entries");
			return;
		}
		memory = map_at(fresh(CONT), CONT, MAP_PRIVATE, -1);
		fill(memory, CONT, round);
		put_file(path, "never");
		begin(load, memory + 6 * PAGE);
		block = is_block(memory, CONT);
		other.hold = true;
		must(munmap(memory + 5 * PAGE, 2 * PAGE));
		uses = other.uses;
		must_fault(uses, 0);
		end();
		check(memory, 5 * PAGE, round, "before the part");
		verify(load(memory + 7 * PAGE) == expected(7 * PAGE, round), "a page behind the part has changed");
		n += block;
		must(munmap(memory, CONT));
	}
	reached(n);
}

/* A HugeTLB page of contiguous entries is inherited while the other CPU writes: the child must not see what comes later. */
static void case_hugetlb_cow(long round)
{
	struct {
		volatile bool begun, go;
		volatile long first, last;
	} *shared = (void *)map_memory(PAGE, MAP_SHARED);
	char path[96], *memory;
	long n = 0, at_fork;
	int i;

	(void)round;
	snprintf(path, sizeof(path), HUGETLB "hugepages-%lukB/nr_hugepages", CONT >> 10);
	if (!put_file(path, "4")) {
		cannot("this kernel has no HugeTLB pages of contiguous entries");
		return;
	}
	for (i = 0; i < TURNS; i++) {
		pid_t pid;

		memory = mmap(fresh(CONT), CONT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
			      MAP_FIXED_NOREPLACE | __builtin_ctzl(CONT) << MAP_HUGE_SHIFT, -1, 0);
		if (memory == MAP_FAILED)
			break;
		shared->begun = shared->go = false;
		begin(store, memory + 3 * PAGE);
		pid = fork_child();
		if (!pid) {
			shared->first = load(memory + 3 * PAGE);
			shared->begun = true;
			while (!shared->go)
				sched_yield();
			shared->last = load(memory + 3 * PAGE);
			_exit(0);
		}
		at_fork = other.uses;
		wait_for(shared->begun, "the child does not begin");
		used("the other CPU does not write what it may");
		shared->go = true;
		wait_child(pid);
		end();
		verify(shared->first == shared->last, "the child sees what its parent wrote later");
		/* Linux 6.12 may inherit nothing (docs/findings.md). */
		n += shared->first && other.uses > at_fork;
		must(munmap(memory, CONT));
	}
	put_file(path, "0");
	must(munmap(shared, PAGE));
	reached(n);
}

/* HugeTLB pages are unmapped, with a table that another process shares, while the other CPU reads the last of them. */
static void case_hugetlb_shared(long round)
{
	const char *pages = HUGETLB "hugepages-2048kB/nr_hugepages";
	const size_t size = 1UL << 30;	/* of a table */
	volatile bool *mapped = (void *)map_memory(PAGE, MAP_SHARED);
	char *place = (char *)(((uintptr_t)fresh(2 * size) + size - 1) & ~(size - 1)), *memory;
	int file = memfd_create("shared", MFD_HUGETLB | MFD_CLOEXEC), i;
	long n = 0;

	if (file < 0 || HUGE != 2UL << 20 || !room_for(8) || ftruncate(file, size) ||
	    !put_file(pages, "4") || number_in(pages) < 2) {
		cannot("this kernel has no HugeTLB pages of 2 MiB");
		return;
	}
	for (i = 0; i < TURNS; i++) {
		pid_t pid;
		long uses;

		memory = mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
		if (memory == MAP_FAILED)
			break;
		*(volatile long *)memory = *(volatile long *)(memory + 3 * HUGE) = round;
		*mapped = false;
		pid = fork_child();
		if (!pid) {
			load(memory);
			*mapped = true;
			while (*mapped)
				sched_yield();
			_exit(0);
		}
		begin(load, memory + 3 * HUGE);
		wait_for(*mapped, "the child does not begin");
		used("the other CPU does not read what it may");
		other.hold = true;
		must(munmap(memory, size));
		uses = other.uses;
		must_fault(uses, 0);
		end();
		*mapped = false;
		wait_child(pid);
		n++;
	}
	close(file);
	put_file(pages, "0");
	must(munmap((void *)mapped, PAGE));
	reached(n);
}

/* A page that the other CPU writes to is moved, and a guard page behind it, which is the last that is moved. */
static void case_move_guard(long round)
{
	long n = 0;
	int i;

	for (i = 0; i < TURNS; i++) {
		char *memory = small(2 * PAGE, round), *place = fresh(2 * PAGE);
		long start = load(memory) - other.uses, uses;

		if (madvise(memory + PAGE, PAGE, MADV_GUARD_INSTALL)) {
			cannot("this kernel has no guard pages");
			return;
		}
		begin(store, memory);
		other.hold = true;
		verify(mremap(memory, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place, "mremap");
		uses = other.uses;
		must_fault(uses, 0);
		end();
		verify(load(place) == start + other.uses, "a write to a page that was moved is lost");
		must(munmap(place, 2 * PAGE));
		n++;
	}
	reached(n);
}

/*
 * As much is given back as one range TLBI can name, and a page less or more, when the other CPU has just read the last page.
 * It does not read it again: QEMU 10.0 computes the length of such ranges in 32 bits, and keeps what lies behind 4 GiB.
 */
static void case_wide(long round)
{
	char *elsewhere = small(PAGE, round);
	long n = 0;
	int i;

	for (i = 0; i < TURNS; i++) {
		size_t size = PAGE * ((1UL << 21) - 1 + i % 3), at;
		char *memory = mmap(fresh(size), size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

		verify(memory != MAP_FAILED, "no memory");
		for (at = 0; at < size; at += PAGE << 15)	/* more places than an mmu_gather has runs */
			store(memory + at);
		store(memory + size - PAGE);
		begin(load, memory + size - PAGE);
		n += other.seen > 0;
		other.page = elsewhere;
		used("the other CPU does not read elsewhere");
		must(madvise(memory, size, MADV_DONTNEED));
		end();
		must(munmap(memory, size));
	}
	must(munmap(elsewhere, PAGE));
	reached(n);
}

/* What all processes could write to, less what can be swapped, in KiB. */
static long committed(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	long swap = 0, all = 0;
	char line[128];

	verify(file, "/proc/meminfo");
	while (fgets(line, sizeof(line), file))
		if (!sscanf(line, "SwapTotal: %ld", &swap))
			sscanf(line, "Committed_AS: %ld", &all);
	fclose(file);
	return all - swap;
}

/* A fork fails when it has made the other CPU's page read-only; mprotect() has nothing to change then, and must flush. */
static void case_fork_fails(long round)
{
	const char *setting = "/proc/sys/vm/overcommit_memory";
	char *memory = small(PAGE, round), *big;
	char limit[24];
	long n = 0;
	int i;

	big = mmap(fresh(BIG), BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	verify(big != MAP_FAILED, "no memory");
	for (i = 0; i < TURNS; i++) {
		pid_t pid;
		long uses;

		begin(store, memory);
		snprintf(limit, sizeof(limit), "%ld", committed() + (BIG / 2 >> 10));
		put_file("/proc/sys/vm/overcommit_kbytes", limit);
		put_file(setting, "2");
		pid = fork();
		put_file(setting, "0");
		if (!pid)
			_exit(0);
		if (pid > 0)
			wait_child(pid);
		other.hold = true;
		must(mprotect(memory, PAGE, PROT_READ));
		uses = other.uses;
		must_fault(uses, 0);
		must(mprotect(memory, PAGE, PROT_READ | PROT_WRITE));
		end();
		n += pid < 0;
	}
	must(munmap(memory, PAGE));
	must(munmap(big, BIG));
	reached(n);
}

/* Open a userfaultfd with a feature for this memory. Returns -1 if this kernel has none. */
static int open_uffd(char *memory, size_t size, unsigned long mode, unsigned long feature)
{
	struct uffdio_api api = { .api = UFFD_API, .features = feature };
	struct uffdio_register range = { .range = { (unsigned long)memory, size }, .mode = mode };
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &range))
		return uffd;
	if (uffd >= 0)
		close(uffd);
	cannot("this kernel has no such userfaultfd");
	return -1;
}

/* A page is write-protected by userfaultfd while the other CPU writes to it. */
static void case_uffd_wp(long round)
{
	char *memory = small(PAGE, round);
	int uffd = open_uffd(memory, PAGE, UFFDIO_REGISTER_MODE_WP, UFFD_FEATURE_PAGEFAULT_FLAG_WP), i;

	if (uffd < 0)
		return;
	begin(store, memory);
	for (i = 0; i < TURNS; i++) {
		struct uffdio_writeprotect protect = { { (unsigned long)memory, PAGE }, UFFDIO_WRITEPROTECT_MODE_WP };
		struct uffd_msg said;
		long held;

		used("the other CPU does not write what it may");
		must(ioctl(uffd, UFFDIO_WRITEPROTECT, &protect));
		held = load(memory);
		wait_for(read(uffd, &said, sizeof(said)) == sizeof(said), "the other CPU still writes");
		verify(load(memory) == held, "a write-protected page was written");
		protect.mode = 0;
		must(ioctl(uffd, UFFDIO_WRITEPROTECT, &protect));
	}
	end();
	close(uffd);
	must(munmap(memory, PAGE));
	reached(TURNS);
}

#ifndef UFFDIO_MOVE
#define UFFD_FEATURE_MOVE	(1 << 16)
#define UFFDIO_MOVE		_IOWR(UFFDIO, 0x05, struct uffdio_move)
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};
#endif

/* A page is moved elsewhere by userfaultfd while the other CPU reads it, which must find an empty page then. */
static void case_uffd_move(long round)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		char *from = small(PAGE, round), *to = map_at(fresh(PAGE), PAGE, MAP_PRIVATE, -1);
		int uffd = open_uffd(to, PAGE, UFFDIO_REGISTER_MODE_MISSING, UFFD_FEATURE_MOVE);
		struct uffdio_move move = { .dst = (unsigned long)to, .src = (unsigned long)from, .len = PAGE };

		if (uffd < 0)
			return;
		begin(load, from);
		verify(other.seen == expected(0, round), "a page holds %ld before it is moved", other.seen);
		must(ioctl(uffd, UFFDIO_MOVE, &move));
		used("the other CPU does not read what it may");
		verify(!other.seen, "the other CPU reads %ld from a page that was moved", other.seen);
		check(to, PAGE, round, "a page that was moved");
		end();
		close(uffd);
		must(munmap(from, PAGE));
		must(munmap(to, PAGE));
	}
	reached(TURNS);
}

/* A page is given back while the other CPU reads it, and filled by userfaultfd: the other CPU must see what is new. */
static void refill(long round, bool minor)
{
	int fd = minor ? must(memfd_create("rare_storm", MFD_CLOEXEC)) : -1, uffd, i;
	char *source = map_at(fresh(PAGE), PAGE, minor ? MAP_SHARED : MAP_PRIVATE, fd);
	char *memory = map_at(fresh(PAGE), PAGE, minor ? MAP_SHARED : MAP_PRIVATE, fd);
	struct uffdio_continue map = { .range = { (unsigned long)memory, PAGE } };
	struct uffdio_copy copy = { .dst = (unsigned long)memory, .src = (unsigned long)source, .len = PAGE };
	struct uffd_msg said;

	if (minor)
		must(ftruncate(fd, PAGE));
	uffd = open_uffd(memory, PAGE, minor ? UFFDIO_REGISTER_MODE_MINOR : UFFDIO_REGISTER_MODE_MISSING,
			 minor ? UFFD_FEATURE_MINOR_SHMEM : 0);
	for (i = 0; uffd >= 0 && i <= TURNS; i++) {
		fill(source, PAGE, round + i);
		must(minor ? ioctl(uffd, UFFDIO_CONTINUE, &map) : ioctl(uffd, UFFDIO_COPY, &copy));
		if (!i)
			begin(load, memory);
		used("the other CPU does not read what it may");
		verify(other.seen == expected(0, round + i), "the other CPU reads %ld from a page that was filled", other.seen);
		if (i == TURNS)
			break;
		must(madvise(memory, PAGE, MADV_DONTNEED));
		wait_for(read(uffd, &said, sizeof(said)) == sizeof(said), "the other CPU still reads");
	}
	if (uffd >= 0) {
		end();
		close(uffd);
		reached(TURNS);
	}
	must(munmap(memory, PAGE));
	must(munmap(source, PAGE));
	if (minor)
		close(fd);
}

static void case_uffd_copy(long round)
{
	refill(round, false);
}

static void case_uffd_continue(long round)
{
	refill(round, true);
}

static long store_the_same(char *page)
{
	return *(volatile long *)page = *(volatile long *)page;
}

/* Two pages are merged while the other CPU writes to one of them what it holds. Then each has what was written to it. */
static void case_ksm(long round)
{
	char *memory = small(2 * PAGE, round), *twin = memory + PAGE;
	long first = expected(0, round), n = 0;
	int i;

	if (madvise(memory, 2 * PAGE, MADV_MERGEABLE) || !put_file(KSM "sleep_millisecs", "0")) {
		cannot("this kernel merges no pages");
		must(munmap(memory, 2 * PAGE));
		return;
	}
	put_file(KSM "pages_to_scan", "1000");
	put_file(KSM "smart_scan", "0");	/* looks at a page in one of nine scans, at the twin perhaps in another */
	*(volatile long *)twin = first;
	put_file(KSM "run", "1");
	begin(store_the_same, memory);
	for (i = 0; i < TURNS; i++) {
		*(volatile long *)twin = first;
		wait_for(has_flags(twin, KPF_KSM), "the pages are not merged");
		other.use = store;
		used("the other CPU does not write what it may");
		verify(load(twin) == first, "what was written to one page is in its twin");
		n += load(memory) > first;
		other.use = store_the_same;
		used("the other CPU does not write what it may");
		*(volatile long *)twin = first = load(memory);
	}
	end();
	put_file(KSM "run", "0");
	must(munmap(memory, 2 * PAGE));
	reached(n);
}

/* lib/test_hmm_uapi.h: a device that takes pages of a process, which come back when a CPU needs them */
struct hmm_dmirror_cmd {
	__u64 addr, ptr, npages, cpages, faults;
};
#define HMM_DMIRROR_MIGRATE_TO_DEV	_IOWR('H', 2, struct hmm_dmirror_cmd)
#define HMM_DMIRROR_EXCLUSIVE		_IOWR('H', 5, struct hmm_dmirror_cmd)

static long drop_and_store(char *page)
{
	must(madvise(page, 4 * PAGE, MADV_DONTNEED));
	return store(page) + store(page + 2 * PAGE) - 1;
}

/*
 * Pages go to the device, or stay but are the device's alone, while the other CPU uses them: it writes, which brings them
 * back, or discards them first.
 */
static void to_device(long round, unsigned long request, long (*use)(char *))
{
	char *memory = small(4 * PAGE, round), *buffer = small(4 * PAGE, round);
	struct hmm_dmirror_cmd move = { .addr = (unsigned long)memory, .ptr = (unsigned long)buffer, .npages = 4 };
	long start = load(memory) - other.uses, n = 0;
	int device = open("/dev/hmm_dmirror0", O_RDWR | O_CLOEXEC), i;

	if (device < 0) {
		cannot("this kernel has no test device for HMM");
	} else {
		begin(use, memory);
		for (i = 0; i < 32 * TURNS && n < TURNS; i++) {
			uint64_t frame = frame_of(memory);
			long uses = other.uses;
			bool away = !ioctl(device, request, &move);

			/* ENOENT: a page did not go, or has come back by now. */
			verify(away || errno == ENOENT, "the device takes no pages: %s", strerror(errno));
			away &= other.uses > uses;
			used("the other CPU does not write what it may");
			n += use == store && request == HMM_DMIRROR_MIGRATE_TO_DEV ? frame_of(memory) != frame : away;
			verify(use == store || other.seen == 1, "a page that was discarded holds %ld", other.seen);
		}
		end();
		verify(use != store || load(memory) == start + other.uses, "a write to a page is lost");
		close(device);
		reached(n);
	}
	must(munmap(memory, 4 * PAGE));
	must(munmap(buffer, 4 * PAGE));
}

static void case_device(long round)
{
	to_device(round, HMM_DMIRROR_MIGRATE_TO_DEV, store);
}

static void case_device_alone(long round)
{
	to_device(round, HMM_DMIRROR_EXCLUSIVE, store);
}

static void case_device_drop(long round)
{
	to_device(round, HMM_DMIRROR_MIGRATE_TO_DEV, drop_and_store);
}

static const struct storm_case cases[] = {
	{ "exec", case_exec }, { "bti", case_bti }, { "thp_mprotect", case_thp_mprotect },
	{ "zero_split", case_zero_split }, { "lazyfree", case_lazyfree }, { "part", case_part },
	{ "hugetlb_cow", case_hugetlb_cow }, { "uffd_wp", case_uffd_wp }, { "uffd_move", case_uffd_move },
	{ "uffd_copy", case_uffd_copy }, { "uffd_continue", case_uffd_continue }, { "ksm", case_ksm },
	{ "device", case_device }, { "device_drop", case_device_drop }, { "device_alone", case_device_alone },
	{ "hugetlb_shared", case_hugetlb_shared }, { "move_guard", case_move_guard }, { "fork_fails", case_fork_fails },
	{ "wide", case_wide },
};

int main(int argc, char **argv)
{
	parse_options(argc, argv, "states of page tables that are rare", options);
	run_cases(cases, sizeof(cases) / sizeof(*cases));
	return 0;
}
