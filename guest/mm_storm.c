// SPDX-License-Identifier: GPL-2.0-only
/*
 * All reasons that a kernel has to flush TLBs, one case each, for the checker. Contents are verified. only=CASE runs
 * one case; otherwise all run in turn. Threads hop from CPU to CPU and use the memory while the case changes it.
 *
 * A case that unmaps memory does not use the same addresses again. The checker reports a kernel whose flush is broken,
 * and the case need not show it by corrupt memory.
 */
#include "storm_cases.h"

#include <linux/membarrier.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define THP	"/sys/kernel/mm/transparent_hugepage/"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

static const struct option_spec options[] = { STORM_OPTIONS, { } };

/* ---- the cases ---- */

/* Copy-on-write: the child writes while the parent's threads read; the parent writes what the child shares. */
static void case_cow(long round)
{
	size_t size = 32 * PAGE;
	char *memory = small(size, round);
	int ready[2], go[2];
	pid_t pid;

	must(pipe(ready));
	must(pipe(go));
	begin_use(memory, size);
	pid = fork_child();
	if (!pid) {
		check(memory, size, round, "what the child inherited");
		tell(ready[1]);
		hear(go[0]);
		check(memory, size, round, "what the child shares with a parent that has written");
		fill(memory, size, round + 100);
		check(memory, size, round + 100, "what the child wrote");
		_exit(0);
	}
	hear(ready[0]);
	fill(memory, size, round + 200);
	tell(go[1]);
	wait_child(pid);
	check(memory, size, round + 200, "what the parent wrote");
	end_use();
	must(munmap(memory, size));
	close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
}

/*
 * A process of one thread moves between CPUs and discards pages. When it returns to a CPU, that CPU must remove the
 * entries of pages that were discarded elsewhere. Then the process has threads, and all CPUs must.
 */
static void case_wander(long round)
{
	size_t size = 16 * PAGE;
	pid_t pid = fork_child();
	char *memory;
	long cpu;

	if (pid) {
		wait_child(pid);
		return;
	}
	pin(0);
	memory = small(size, round);
	for (cpu = 1; cpu <= 2 * sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		pin(cpu);
		check(memory, size, round + cpu - 1, "a page written on another CPU");
		must(madvise(memory, size / 2, MADV_DONTNEED));
		check_zero(memory, size / 2, "a page given back");
		fill(memory, size, round + cpu);
	}
	must(madvise(memory, size / 2, MADV_DONTNEED));
	begin_use(memory, size);
	check_zero(memory, size / 2, "a page given back before there were threads");
	end_use();
	_exit(0);
}

/*
 * Residency is switched off and on. TLBIs that were elided before must be made up for, and loads must be noted
 * meanwhile.
 */
static void case_off_on(long round)
{
	size_t size = 16 * PAGE;
	char policy[32];
	char *memory;
	pid_t pid;

	if (!chosen_word(POLICY, policy) || !strcmp(policy, "off")) {
		cannot("residency is off, or this kernel has none");
		return;
	}
	pid = fork_child();
	if (pid) {
		wait_child(pid);
		return;
	}
	pin(0);
	memory = small(size, round);
	pin(1);
	check(memory, size, round, "a page written on another CPU");
	pin(0);
	must(madvise(memory, size / 2, MADV_DONTNEED));
	/*
	 * CPU 1 runs another process, so that it loads this address space by a switch when residency is off, not by
	 * leaving the idle task.
	 */
	pid = fork_child();
	if (!pid) {
		pin(1);
		_exit(0);
	}
	wait_child(pid);
	verify(put_file(POLICY, "off"), "%s: cannot be switched off", POLICY);
	pin(1);
	check_zero(memory, size / 2, "a page given back before it was off");
	fill(memory, size, round + 1);
	begin_use(memory, size);
	usleep(5000);
	verify(put_file(POLICY, policy), "%s: cannot be switched on", POLICY);
	must(madvise(memory, size / 2, MADV_DONTNEED));
	check_zero(memory, size / 2, "a page given back when it was on again");
	end_use();
	_exit(0);
}

/* A thread that keeps its address space loaded on CPU 2 until the process ends. */
static void *stay_loaded(void *pipe_end)
{
	pin(2);
	tell(*(int *)pipe_end);
	for (;;)
		sched_yield();
	return NULL;
}

/*
 * CPU 1 walks a page table, and pages of it are discarded on CPU 0, with no TLBI for CPU 1. Then the table is freed while
 * the address space is loaded on CPU 2 and, in every other round, residency is off. It becomes a table of the parent,
 * and CPU 1 walks it again. A CPU without FEAT_nTLBPA must not find its old copies.
 */
static void case_passed(long round)
{
	const int regions = 64;
	char policy[32], *memory[regions];
	bool off = round % 2 && chosen_word(POLICY, policy);
	int freed[2], loaded[2], i;
	pthread_t thread;
	pid_t pid;

	must(pipe(freed));
	must(pipe(loaded));
	pin(0);
	pid = fork_child();
	if (!pid) {
		pin(1);
		memory[0] = map_at(fresh(HUGE), HUGE, MAP_PRIVATE, -1);
		use_small_pages(memory[0], HUGE);
		fill(memory[0], 4 * PAGE, round);
		fill(memory[0] + HUGE / 2, 256 * PAGE, round);
		pin(0);
		must(madvise(memory[0] + HUGE / 2, HUGE / 2, MADV_DONTNEED));
		verify(!pthread_create(&thread, NULL, stay_loaded, &loaded[1]), "no thread");
		hear(loaded[0]);
		verify(!off || put_file(POLICY, "off"), "%s: cannot be switched off", POLICY);
		must(munmap(memory[0], HUGE));
		/* Tables are freed after a grace period of RCU. */
		must(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
		tell(freed[1]);
		hear(loaded[0]);
		_exit(0);
	}
	hear(freed[0]);
	for (i = 0; i < regions; i++) {
		memory[i] = map_at(fresh(HUGE), HUGE, MAP_PRIVATE, -1);
		use_small_pages(memory[i], HUGE);
		fill(memory[i] + HUGE - PAGE, PAGE, round + i);
	}
	pin(1);
	for (i = 0; i < regions; i++)
		check(memory[i] + HUGE - PAGE, PAGE, round + i, "a page of a table that was another's");
	tell(loaded[1]);
	wait_child(pid);
	verify(!off || put_file(POLICY, policy), "%s: cannot be switched on", POLICY);
	for (i = 0; i < regions; i++)
		must(munmap(memory[i], HUGE));
	close(freed[0]), close(freed[1]), close(loaded[0]), close(loaded[1]);
}

/* The memory of case_at_once: a page table for each thread. */
static char *pieces;

static void *copy_zero_pages(void *argument)
{
	const size_t size = 16 * PAGE;
	long number = (long)argument, i;
	char *memory = pieces + number * HUGE;

	pin(number);
	for (i = 0; i < 40; i++) {
		check_zero(memory, size, "a page given back");
		fill(memory, size, i);
		check(memory, size, i, "a copy of the zero page");
		must(madvise(memory, size, MADV_DONTNEED));
	}
	return NULL;
}

/*
 * Three threads, each on its own CPU, write to pages that map the zero page, all at once. So three CPUs flush single
 * pages of the address space, while all three have it loaded.
 */
static void case_at_once(long round)
{
	pthread_t thread[3];
	long i;

	(void)round;
	pieces = map_at(fresh(3 * HUGE), 3 * HUGE, MAP_PRIVATE, -1);
	use_small_pages(pieces, 3 * HUGE);
	for (i = 0; i < 3; i++)
		verify(!pthread_create(&thread[i], NULL, copy_zero_pages, (void *)i), "no thread");
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	must(munmap(pieces, 3 * HUGE));
}

/*
 * Many CPUs have loaded the address space and hold entries. Then a single thread changes it again and again, without a
 * TLBI for the other CPUs, and moves to each of them.
 */
static void case_calm(long round)
{
	size_t size = 16 * PAGE;
	pid_t pid = fork_child();
	char *memory;
	long i, cpu;

	if (pid) {
		wait_child(pid);
		return;
	}
	memory = small(size, round);
	begin_use(memory, size);
	usleep(2000);
	end_use();
	pin(0);
	for (i = 0; i < 300; i++) {
		must(madvise(memory, PAGE, MADV_DONTNEED));
		check_zero(memory, PAGE, "a page given back again and again");
		fill(memory, PAGE, round);
	}
	must(madvise(memory, size, MADV_DONTNEED));
	for (cpu = 1; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		pin(cpu);
		check_zero(memory, size, "a page given back by the last thread");
	}
	_exit(0);
}

/* fork() while the parent continues to write: the write protection must reach every CPU. */
static void case_fork(long round)
{
	size_t size = 64 * PAGE;
	char *memory = small(size, round);
	pid_t pid[3];
	int i;

	for (i = 0; i < 3; i++) {
		pin(round + i);
		pid[i] = fork_child();
		if (!pid[i]) {
			usleep(2000);
			check(memory, size, round + i, "what the child inherited");
			_exit(0);
		}
		fill(memory, size, round + i + 1);
	}
	for (i = 0; i < 3; i++)
		wait_child(pid[i]);
	check(memory, size, round + 3, "what the parent wrote");
	must(munmap(memory, size));
}

/* exec, after which nothing of the old address space may be left. */
static void case_exec(long round)
{
	char word[32];
	pid_t pid = fork_child();

	if (!pid) {
		snprintf(word, sizeof(word), "%ld", round);
		execl("/proc/self/exe", "mm_storm", "--answer", word, NULL);
		die("exec");
	}
	wait_child(pid);
}

/* Unmap a few pages. Their tables stay, because neighbouring pages do. */
static void case_unmap(long round)
{
	size_t size = 64 * PAGE, at;
	char *memory = small(size, round);

	begin_use(memory + size / 2, size / 2);
	for (at = 0; at < size / 2; at += 8 * PAGE)
		must(munmap(memory + at, 7 * PAGE));
	for (at = 0; at < size / 2; at += 8 * PAGE)
		check(memory + at + 7 * PAGE, PAGE, round + (long)((at / PAGE + 7) * 0x9e3779b9UL), "a page that stays");
	end_use();
	must(munmap(memory, size));
}

/* The middle of the addresses that a process has: the largest power of two below the stack, which is at their end. */
static uintptr_t half_of_addresses(void)
{
	return 1UL << (63 - __builtin_clzl((uintptr_t)__builtin_frame_address(0)));
}

/* Unmap a few pages that are alone in their page table, or in the table above it: their tables are freed, too. */
static void case_unmap_tables(long round)
{
	uintptr_t half = half_of_addresses();
	uintptr_t place = 0x20000 * HUGE < half ? 0x20000 * HUGE : half;
	char *memory, *far;
	int i;

	for (i = 0; i < 8; i++) {
		memory = small(3 * PAGE, round + i);
		check(memory, 3 * PAGE, round + i, "a small mapping");
		must(munmap(memory, 3 * PAGE));
		far = (char *)(place + ((uintptr_t)(place < half ? round * 8 + i : i) << 31));
		map_at(far, 2 * PAGE, MAP_PRIVATE, -1);
		fill(far, 2 * PAGE, round);
		check(far, 2 * PAGE, round, "a mapping far from all others");
		must(munmap(far, 2 * PAGE));
	}
}

/* Two pages far from each other, discarded at once: mmu_gather flushes the hull. */
static void case_unmap_sparse(long round)
{
	size_t size = 64 * HUGE;
	char *memory = map_at(fresh(size), size, MAP_PRIVATE | MAP_NORESERVE, -1);
	size_t at;

	use_small_pages(memory, size);
	for (at = 0; at < size; at += 9 * HUGE + 5 * PAGE)
		fill(memory + at, PAGE, round);
	must(madvise(memory, size, MADV_DONTNEED));
	for (at = 0; at < size; at += 9 * HUGE + 5 * PAGE)
		check_zero(memory + at, PAGE, "a page discarded in a large hole");
	must(munmap(memory, size));
}

/* Pages are discarded while threads read them. */
static void case_dontneed(long round)
{
	size_t size = 96 * PAGE;
	char *memory = small(size, round);
	int i;

	begin_use(memory, size);
	for (i = 0; i < 8; i++) {
		must(madvise(memory, size, MADV_DONTNEED));
		check_zero(memory, size, "a page that was discarded");
		fill(memory, size, round + i);
		check(memory, size, round + i, "a page written after it was discarded");
	}
	end_use();
	must(munmap(memory, size));
}

/* Half of the memory is made read-only and writable again, while threads read all of it. */
static void case_mprotect(long round)
{
	size_t size = 64 * PAGE;
	char *memory = small(size, round);
	int i;

	begin_use(memory, size);
	for (i = 0; i < 16; i++) {
		must(mprotect(memory + (i % 4) * PAGE, size / 2, PROT_READ));
		check(memory, size, round + i, "a page made read-only");
		must(mprotect(memory, size, PROT_READ | PROT_WRITE));
		fill(memory, size, round + i + 1);
	}
	end_use();
	must(munmap(memory, size));
}

/* Move memory to another address, page by page and as whole tables. */
static void case_mremap(long round)
{
	size_t size = 24 * PAGE, large = 2 * HUGE, part = 512 * PAGE;
	char *memory = small(size, round), *to = fresh(size);

	to = must((char *)mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	check(to, size, round, "a page that was moved");
	fill(to, size, round + 1);
	check(to, size, round + 1, "a page written where it was moved");
	must(munmap(to, size));

	memory = map_at(fresh(large), large, MAP_PRIVATE, -1);
	use_small_pages(memory, large);
	fill(memory, part, round);
	fill(memory + HUGE, part, round);
	to = fresh(large);
	to = must((char *)mremap(memory, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	check(to, part, round, "a page whose table was moved");
	check(to + HUGE, part, round, "a page whose table was moved");
	must(munmap(to, large));
}

/* Split a huge page by a change to a part of it. */
static void case_thp_split(long round)
{
	char *memory;

	if (!room_for(1))
		return;
	memory = map_at(fresh(HUGE), HUGE, MAP_PRIVATE, -1);
	if (madvise(memory, HUGE, MADV_HUGEPAGE)) {
		cannot("this kernel has no huge pages");
		must(munmap(memory, HUGE));
		return;
	}
	fill(memory, HUGE, round);
	begin_use(memory, 16 * PAGE);
	must(mprotect(memory + 8 * PAGE, 8 * PAGE, PROT_READ));
	check(memory, HUGE, round, "a page of a split huge page");
	end_use();
	must(munmap(memory + HUGE / 2, HUGE / 4));
	check(memory, HUGE / 2, round, "a page of a split huge page");
	must(munmap(memory, HUGE));
}

/* Small pages collapse into a huge one while threads read them. */
static void case_thp_collapse(long round)
{
	char *memory;

	if (!room_for(1))
		return;
	memory = small(HUGE, round);
	if (madvise(memory, HUGE, MADV_HUGEPAGE)) {
		cannot("this kernel has no huge pages");
		must(munmap(memory, HUGE));
		return;
	}
	begin_use(memory, 32 * PAGE);
	if (madvise(memory, HUGE, MADV_COLLAPSE) && errno != EAGAIN && errno != ENOMEM && errno != EBUSY)
		die("MADV_COLLAPSE");
	check(memory, HUGE, round, "a page that collapsed");
	fill(memory, HUGE, round + 1);
	check(memory, HUGE, round + 1, "a page written after it collapsed");
	end_use();
	must(munmap(memory, HUGE));
}

/* What case_retract shares between a child, its thread, and the parent, who take turns. */
struct retract {
	char *memory;		/* a huge page of a file; NULL: this kernel has none */
	long round;
	volatile pid_t thread;
	volatile int turn;
};

static void wait_for_turn(const struct retract *r, int turn)
{
	while (r->turn < turn)
		sched_yield();
}

/* The parent traces the thread: it stops here, at the entry of madvise(), and before it returns to user space. */
static void *discard_traced(void *argument)
{
	struct retract *r = argument;

	pin(2);
	r->thread = (pid_t)syscall(SYS_gettid);
	must(ptrace(PTRACE_TRACEME, 0, 0, 0));
	r->turn = 1;
	wait_for_turn(r, 2);
	must(syscall(SYS_tgkill, getpid(), r->thread, SIGSTOP));
	check(r->memory, HUGE, r->round, "a page that is about to collapse");
	must(madvise(r->memory, HUGE, MADV_DONTNEED));
	for (;;)
		pause();
	return NULL;
}

/* Turns 2 to 4 of the child. */
static void collapse(struct retract *r)
{
	pthread_t thread;
	char *other;

	/* Pages of a mapping that was split are mapped one by one. */
	must(mprotect(r->memory, PAGE, PROT_READ));
	check(r->memory, HUGE, r->round, "a page of a huge page of a file");
	must(mprotect(r->memory, PAGE, PROT_READ | PROT_WRITE));

	verify(!pthread_create(&thread, NULL, discard_traced, r), "no thread");
	wait_for_turn(r, 1);
	/* Residency makes up for the TLBIs that it has elided until now. */
	other = small(PAGE, r->round);
	must(munmap(other, PAGE));
	r->turn = 2;
	wait_for_turn(r, 3);
	/* It may fail, if the other thread frees the table. */
	madvise(r->memory, HUGE, MADV_COLLAPSE);
	r->turn = 4;
	/* Tables are freed after a grace period of RCU. */
	must(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
}

/* Let the child collapse; its thread discards as soon as the last page has no entry any more, and sleeps then. */
static void discard_between(struct retract *r, pid_t child)
{
	off_t last = (uintptr_t)(r->memory + HUGE) / PAGE * 8 - 8;
	uint64_t entry = ~0UL;
	char path[32];
	int pagemap;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", child);
	pagemap = must(open(path, O_RDONLY | O_CLOEXEC));
	wait_for_turn(r, 2);
	must(waitpid(r->thread, NULL, __WALL));
	must(ptrace(PTRACE_SYSCALL, r->thread, 0, 0));
	must(waitpid(r->thread, NULL, __WALL));
	r->turn = 3;
	while (r->turn < 4 && entry >> 63)
		must(pread(pagemap, &entry, sizeof(entry), last));
	must(ptrace(PTRACE_SYSCALL, r->thread, 0, 0));
	must(waitpid(r->thread, NULL, __WALL));
	close(pagemap);
}

/*
 * A huge page of a file is mapped by single pages. CPU 1 collapses the mapping: it clears the entries, and removes the
 * table later. In between, CPU 2 discards the memory, by which it frees the table, and sleeps. Then the table becomes
 * one of the parent, and CPU 2 walks it again. A CPU without FEAT_nTLBPA must not find its old copies.
 */
static void case_retract(long round)
{
	const int regions = 64;
	int ready[2], freed[2], used[2], memfd, i;
	char *memory[regions];
	struct retract *r;
	pid_t pid;

	if (!room_for(4))
		return;
	must(pipe(ready));
	must(pipe(freed));
	must(pipe(used));
	r = must((struct retract *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	r->round = round;
	pin(3);
	pid = fork_child();
	if (!pid) {
		pin(1);
		memfd = must(memfd_create("retract", 0));
		must(ftruncate(memfd, HUGE));
		memory[0] = map_at(fresh(HUGE), HUGE, MAP_SHARED, memfd);
		fill(memory[0], HUGE, round);
		/* The kernel may have no huge pages, or not of files. */
		if (!madvise(memory[0], HUGE, MADV_COLLAPSE))
			r->memory = memory[0];
		tell(ready[1]);
		if (r->memory)
			collapse(r);
		tell(freed[1]);
		hear(used[0]);
		check(memory[0], HUGE, round, "a page of a file after its table was freed");
		_exit(0);
	}
	hear(ready[0]);
	if (r->memory)
		discard_between(r, pid);
	hear(freed[0]);
	pin(2);
	for (i = 0; i < regions; i++) {
		memory[i] = map_at(fresh(HUGE), HUGE, MAP_PRIVATE, -1);
		use_small_pages(memory[i], HUGE);
		fill(memory[i] + HUGE - PAGE, PAGE, round + i);
	}
	for (i = 0; i < regions; i++)
		check(memory[i] + HUGE - PAGE, PAGE, round + i, "a page of a table that was another's");
	if (r->memory)
		must(ptrace(PTRACE_DETACH, r->thread, 0, 0));
	tell(used[1]);
	wait_child(pid);
	for (i = 0; i < regions; i++)
		must(munmap(memory[i], HUGE));
	must(munmap(r, PAGE));
	close(ready[0]), close(ready[1]), close(freed[0]), close(freed[1]), close(used[0]), close(used[1]);
}

/* Map folios of the size of a contiguous block, and fill them. Returns NULL if this kernel has none. */
static char *map_contpte(size_t size, long round)
{
	char *memory, path[96];

	snprintf(path, sizeof(path), THP "hugepages-%lukB/enabled", CONT >> 10);
	if (!put_file(path, "always")) {
		cannot("this kernel has no folios for contiguous entries");
		return NULL;
	}
	memory = map_at(fresh(size), size, MAP_PRIVATE, -1);
	fill(memory, size, round);
	put_file(path, "never");
	return memory;
}

/* Folios that contiguous entries map; a change to one page splits the contiguous block. */
static void case_contpte(long round)
{
	size_t size = 8 * CONT, at;
	char *memory = map_contpte(size, round);

	if (!memory)
		return;
	begin_use(memory, size);
	for (at = 0; at < size; at += CONT)
		must(mprotect(memory + at + 5 * PAGE, 2 * PAGE, PROT_READ));
	check(memory, size, round, "a page of a folio taken apart");
	must(mprotect(memory, size, PROT_READ | PROT_WRITE));
	fill(memory, size, round + 1);
	check(memory, size, round + 1, "a page of a folio taken apart, written");
	/* All entries of a block change at once, so that it can be made contiguous again. */
	must(mprotect(memory, size, PROT_READ));
	check(memory, size, round + 1, "a page of a folio put together again");
	must(mprotect(memory, size, PROT_READ | PROT_WRITE));
	end_use();
	must(munmap(memory, size));
}

/*
 * After fork(), the first and the last page of each block are written, and are this process's alone again. The first
 * mprotect() puts the blocks together. The second makes only these two pages writable: it takes them apart.
 */
static void case_contpte_fork(long round)
{
	size_t size = 8 * CONT, at;
	char *memory = map_contpte(size, round);
	pid_t pid;

	if (!memory)
		return;
	begin_use(memory, size);
	pid = fork_child();
	if (!pid)
		_exit(0);
	wait_child(pid);
	for (at = 0; at < size; at += CONT) {
		*(volatile char *)(memory + at + PAGE - 1) = 1;
		*(volatile char *)(memory + at + CONT - 1) = 1;
	}
	must(mprotect(memory, size, PROT_READ));
	must(mprotect(memory, size, PROT_READ | PROT_WRITE));
	check(memory, size, round, "a page of a folio that fork() shared");
	end_use();
	must(munmap(memory, size));
}

/* The process pages its own memory out to zRAM, and in again. */
static void case_pageout(long round)
{
	size_t size = 64 * PAGE;
	char *memory = small(size, round);

	drain_lru();
	must(madvise(memory, size, MADV_PAGEOUT));
	check(memory, size, round, "a page that was paged out");
	fill(memory, size, round + 1);
	check(memory, size, round + 1, "a page written after it was paged in");
	must(munmap(memory, size));
}

/* Another process pages the memory out to zRAM, while this one reads it. */
static void case_process_madvise(long round)
{
	size_t size = 64 * PAGE;
	char *memory = small(size, round);
	pid_t parent = getpid(), pid;

	begin_use(memory, size);
	pid = fork_child();
	if (!pid) {
		struct iovec all = { memory, size };
		int i, fd = must(syscall(SYS_pidfd_open, parent, 0));

		must(munmap(memory, size));
		for (i = 0; i < 3; i++)
			must(syscall(SYS_process_madvise, fd, &all, 1, MADV_PAGEOUT, 0));
		_exit(0);
	}
	check(memory, size, round, "a page that another process pages out");
	wait_child(pid);
	check(memory, size, round, "a page that another process paged out");
	end_use();
	must(munmap(memory, size));
}

/* A debugger reads and writes: copy-on-write by another process. */
static void case_ptrace(long round)
{
	size_t size = 8 * PAGE;
	char *memory = small(size, round);
	int status;
	long word;
	size_t at;
	pid_t pid = fork_child();

	if (!pid) {
		must(ptrace(PTRACE_TRACEME, 0, 0, 0));
		check(memory, size, round, "what the child inherited");
		raise(SIGSTOP);
		check(memory, size, round + 7, "what the debugger wrote");
		_exit(0);
	}
	must(waitpid(pid, &status, 0));
	verify(WIFSTOPPED(status), "the child did not stop: wait status 0x%x", status);
	for (at = 0; at < size; at += PAGE) {
		errno = 0;
		word = ptrace(PTRACE_PEEKDATA, pid, memory + at, 0);
		verify(!errno && word == expected(at, round), "the debugger read 0x%lx", word);
		must(ptrace(PTRACE_POKEDATA, pid, memory + at, expected(at, round + 7)));
	}
	must(ptrace(PTRACE_CONT, pid, 0, 0));
	wait_child(pid);
	check(memory, size, round, "what the debugger did not write");
	must(munmap(memory, size));
}

/* Files: shared and private mappings, written, truncated. */
static void case_file(long round)
{
	size_t size = 32 * PAGE;
	int fd = must(open("/tmp/mm_storm.file", O_RDWR | O_CREAT | O_TRUNC, 0600));
	char *shared, *own;

	must(ftruncate(fd, size));
	shared = map_at(fresh(size), size, MAP_SHARED, fd);
	fill(shared, size, round);
	own = map_at(fresh(size), size, MAP_PRIVATE, fd);
	check(own, size, round, "a page of a file");
	begin_use(own, size / 2);
	fill(own, size, round + 1);
	check(own, size, round + 1, "a private page of a file, written");
	check(shared, size, round, "a page of a file whose private copy was written");
	must(msync(shared, size, MS_SYNC));
	must(ftruncate(fd, size / 2));
	check(shared, size / 2, round, "a page of a file that was cut");
	end_use();
	must(munmap(own, size));
	must(munmap(shared, size));
	close(fd);
	unlink("/tmp/mm_storm.file");
}

/* Shared memory between processes, holes punched into it. */
static void case_shmem(long round)
{
	size_t size = 32 * PAGE;
	int fd = must(memfd_create("mm_storm", 0));
	char *memory;
	pid_t pid;

	must(ftruncate(fd, size));
	memory = map_at(fresh(size), size, MAP_SHARED, fd);
	fill(memory, size, round);
	pid = fork_child();
	if (!pid) {
		check(memory, size, round, "a shared page");
		fill(memory, size, round + 1);
		_exit(0);
	}
	wait_child(pid);
	check(memory, size, round + 1, "a shared page that the child wrote");
	begin_use(memory, size);
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8 * PAGE, 8 * PAGE));
	check(memory, 8 * PAGE, round + 1, "a shared page before a hole");
	check_zero(memory + 8 * PAGE, 8 * PAGE, "a hole");
	end_use();
	must(munmap(memory, size));
	close(fd);
}

static void give_up(int number)
{
	(void)number;
	_exit(0);
}

/* HugeTLB pages: used, copied on write, moved to another address, given back. */
static void case_hugetlb(long round)
{
	char *memory;
	pid_t pid;

	if (!room_for(4))
		return;
	if (!put_file("/proc/sys/vm/nr_hugepages", "4")) {
		cannot("this kernel has no HugeTLB");
		return;
	}
	memory = mmap(fresh(HUGE), HUGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED_NOREPLACE, -1, 0);
	if (memory == MAP_FAILED) {
		/* Memory may be too fragmented for huge pages. That is not a failure of this case. */
		put_file("/proc/sys/vm/nr_hugepages", "0");
		return;
	}
	fill(memory, HUGE, round);
	pid = fork_child();
	if (!pid) {
		check(memory, HUGE, round, "an inherited huge page");
		fill(memory, 4 * PAGE, round + 1);
		check(memory, 4 * PAGE, round + 1, "a huge page, copied");
		_exit(0);
	}
	wait_child(pid);
	check(memory, HUGE, round, "a huge page that the child copied");
	memory = must((char *)mremap(memory, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(HUGE)));
	check(memory, HUGE, round, "a huge page that has moved");
	must(munmap(memory, HUGE));
	put_file("/proc/sys/vm/nr_hugepages", "0");
}

/*
 * CPU 1 walks a table of HugeTLB entries. On CPU 0 one of its entries is cleared, or in odd rounds names another page, because
 * the kernel moves the contents of this one. Then a child shares the table, and walks it on CPU 1. A CPU without FEAT_nTLBPA
 * must not find its old copy of the entry.
 */
static void case_table_shared(long round)
{
	const size_t size = PAGE / 8 * HUGE;	/* what the table maps: 1 GiB with pages of 4 KiB */
	char *memory;
	int memfd;
	pid_t pid;

	if (!room_for(4))
		return;
	if (8 * size > half_of_addresses()) {
		cannot("there are too few addresses");
		return;
	}
	if (!put_file("/proc/sys/vm/nr_hugepages", "4")) {
		cannot("this kernel has no HugeTLB");
		return;
	}
	memory = fresh(2 * size);
	memory = (char *)(((uintptr_t)memory + size - 1) & ~(size - 1));
	memfd = must(memfd_create("table", MFD_HUGETLB));
	must(ftruncate(memfd, size));
	pid = fork_child();
	if (!pid) {
		pin(1);
		if (mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			 memfd, 0) == MAP_FAILED)
			_exit(0);
		/* There may be no huge pages, because memory is too fragmented. */
		signal(SIGBUS, give_up);
		fill(memory, PAGE, round);
		fill(memory + HUGE, PAGE, round + 1);
		pin(0);
		if (round % 2)
			madvise(memory, HUGE, MADV_SOFT_OFFLINE);
		else
			must(fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE));
		pid = fork_child();
		if (!pid) {
			pin(1);
			check(memory + HUGE, PAGE, round + 1, "a page whose table is shared");
			if (round % 2)
				check(memory, PAGE, round, "a page that has moved");
			else
				check_zero(memory, PAGE, "a hole in a table that is shared");
			_exit(0);
		}
		wait_child(pid);
		_exit(0);
	}
	wait_child(pid);
	close(memfd);
	put_file("/proc/sys/vm/nr_hugepages", "0");
}

/* Make holes in memory, and have the kernel compact it. */
static void case_compaction(long round)
{
	size_t size = 256 * PAGE, at;
	char *memory = small(size, round);

	for (at = 0; at < size; at += 2 * PAGE)
		must(madvise(memory + at, PAGE, MADV_DONTNEED));
	begin_use(memory, size);
	put_file("/proc/sys/vm/compact_memory", "1");
	end_use();
	for (at = PAGE; at < size; at += 2 * PAGE)
		verify(*(long *)(memory + at) == expected(at, round), "a page that migrated is wrong");
	must(munmap(memory, size));
}

/* One thread after the other, each on another CPU, uses what a thread before it has written. */
static void case_migrate(long round)
{
	size_t size = 16 * PAGE;
	char *memory = small(size, round);
	long cpu;

	begin_use(memory, size);
	for (cpu = 0; cpu < 2 * sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		pin(cpu);
		check(memory, size, round + cpu, "a page written on another CPU");
		must(mprotect(memory, size, PROT_READ));
		must(mprotect(memory, size, PROT_READ | PROT_WRITE));
		fill(memory, size, round + cpu + 1);
	}
	end_use();
	must(munmap(memory, size));
}

/*
 * Mappings of the kernel itself: tables of file descriptors that are too large for the slab allocator, and stacks of
 * threads.
 */
static void case_vmalloc(long round)
{
	const struct rlimit many = { 1 << 20, 1 << 20 };
	int i;

	(void)round;
	for (i = 0; i < 8; i++) {
		pid_t pid = fork_child();

		if (!pid) {
			int pipes[2];

			must(setrlimit(RLIMIT_NOFILE, &many));
			verify(must(dup2(0, 1000000)) == 1000000, "not the descriptor that was asked for");
			must(pipe(pipes));
			must(fcntl(pipes[1], F_SETPIPE_SZ, 1 << 20));
			tell(pipes[1]);
			hear(pipes[0]);
			_exit(0);
		}
		wait_child(pid);
	}
}

/* Many short processes: with 8-bit ASIDs each number is used again. */
static void case_asids(long round)
{
	const int each = 6;
	size_t size = 4 * PAGE;
	char *memory = small(size, round);
	pid_t pid[each];
	int i, j;

	for (j = 0; j < 16; j++) {
		for (i = 0; i < each; i++) {
			pid[i] = fork_child();
			if (!pid[i]) {
				pin(i);
				check(memory, size, round, "what the child inherited");
				fill(memory, size, i);
				sched_yield();
				check(memory, size, i, "what the child wrote");
				_exit(0);
			}
		}
		for (i = 0; i < each; i++)
			wait_child(pid[i]);
	}
	check(memory, size, round, "what the children copied");
	must(munmap(memory, size));
}

static const struct storm_case cases[] = {
	{ "cow", case_cow }, { "wander", case_wander }, { "fork", case_fork }, { "exec", case_exec },
	{ "calm", case_calm }, { "off_on", case_off_on }, { "passed", case_passed }, { "at_once", case_at_once },
	{ "unmap", case_unmap }, { "unmap_tables", case_unmap_tables },
	{ "unmap_sparse", case_unmap_sparse }, { "dontneed", case_dontneed },
	{ "mprotect", case_mprotect }, { "mremap", case_mremap }, { "thp_split", case_thp_split },
	{ "thp_collapse", case_thp_collapse }, { "retract", case_retract }, { "contpte", case_contpte },
	{ "contpte_fork", case_contpte_fork }, { "pageout", case_pageout },
	{ "process_madvise", case_process_madvise }, { "ptrace", case_ptrace }, { "file", case_file },
	{ "shmem", case_shmem }, { "hugetlb", case_hugetlb }, { "table_shared", case_table_shared },
	{ "compaction", case_compaction },
	{ "migrate", case_migrate }, { "vmalloc", case_vmalloc }, { "asids", case_asids },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--answer")) {
		char *memory = small(16 * PAGE, atol(argv[2]));

		check(memory, 16 * PAGE, atol(argv[2]), "what a new program wrote");
		return 0;
	}
	parse_options(argc, argv, "everything that makes a kernel flush TLBs", options);
	run_cases(cases, sizeof(cases) / sizeof(*cases));
	return 0;
}
