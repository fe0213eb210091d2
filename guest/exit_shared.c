// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes share the PMD table of HugeTLB pages, and one of them exits. It gives up the table first, and its other
 * memory after that. Meanwhile the other process unmaps the HugeTLB pages, and the kernel frees the table. Then this process
 * uses new memory, so that free pages become tables. By then the kernel must have invalidated what the CPU of the first
 * process holds of the freed table (docs/findings.md#exit-keeps-unshared).
 *
 * The metric in_time is 1 if the first process had not ended when that was done. If it is 0, nothing was tested. The
 * kernel invalidates at the latest when the process has given back its memory, which is before it ends, so 1 is no proof.
 */
#include "hvo.h"

#define TABLE		(HUGE * (PAGE / 8))	/* what a PMD table maps */
#define AT		((volatile char *)(4 * TABLE))
#define MINE		(1UL << 56)		/* in an entry of /proc/self/pagemap */
#define FRAME		((1UL << 55) - 1)

static long other = 256, used = 512;

static const struct option_spec options[] = {
	{ "other", &other, NULL, "MiB of other memory of the process that exits" },
	{ "used", &used, NULL, "new tables of the process that stays" },
	{ }
};

static int *ready;

/* The process that exits. */
static void share_and_wait(void)
{
	char *memory;

	pin(1);
	(void)*AT;
	/* Above the HugeTLB pages, because exit unmaps from below. */
	memory = must(mmap((char *)AT + 4 * TABLE, other << 20, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	use_small_pages(memory, other << 20);
	memset(memory, 1, other << 20);
	__atomic_store_n(ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* Return a number of a file that has one for each page. */
static uint64_t number_of(int file, uint64_t page)
{
	uint64_t number = 0;

	verify(pread(file, &number, sizeof(number), page * sizeof(number)) == sizeof(number), "no number of a page");
	return number;
}

/* True if no other process has the page. */
static bool is_mine(int pagemap)
{
	return number_of(pagemap, (uintptr_t)AT / PAGE) & MINE;
}

/* True if two processes have the page, and one table maps it for both. */
static bool is_shared(int pagemap)
{
	uint64_t frame = number_of(pagemap, (uintptr_t)AT / PAGE) & FRAME;
	int counts = must(open("/proc/kpagecount", O_RDONLY));
	uint64_t mapped = number_of(counts, frame);

	close(counts);
	return !is_mine(pagemap) && mapped == 1;
}

static bool has_ended(pid_t child)
{
	siginfo_t info = { 0 };

	must(waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT));
	return info.si_pid == child;
}

static void put_back(void)
{
	put_file(pool(HUGE, "nr_hugepages"), "0");
}

int main(int argc, char **argv)
{
	int pagemap, file;
	size_t size;
	char *memory;
	pid_t child;

	parse_options(argc, argv, "a process exits, and another one frees the page table that they shared", options);
	need_pool(HUGE);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("needs two CPUs");
	pin(0);
	atexit(put_back);
	if (!put_file(pool(HUGE, "nr_hugepages"), "1") || number_in(pool(HUGE, "nr_hugepages")) != 1)
		skip("no HugeTLB page of %lu KiB could be had", HUGE >> 10);
	ready = (int *)map_memory(PAGE, MAP_SHARED);
	pagemap = must(open("/proc/self/pagemap", O_RDONLY));
	file = must(memfd_create("shared", MFD_HUGETLB | huge_flag(HUGE)));
	must(ftruncate(file, TABLE));
	must(mmap((char *)AT, TABLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0));
	*AT = 1;
	child = fork_plain();
	if (!child)
		share_and_wait();
	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE))
		verify(!has_ended(child), "the other process failed");
	wait_asleep(child);
	if (!is_shared(pagemap))
		skip("this kernel shares no page tables of HugeTLB pages");
	open_window();
	must(kill(child, SIGKILL));
	while (!is_mine(pagemap))
		;
	must(munmap((char *)AT, TABLE));
	wait_for_rcu();
	/* Each of these pages needs a table of its own. */
	size = used * HUGE;
	memory = (char *)must(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	use_small_pages(memory, size);
	for (size_t offset = 0; offset < size; offset += HUGE)
		memory[offset] = 1;
	add_metric("in_time", !has_ended(child));
	close_window();
	must(waitpid(child, NULL, 0));
	report("", 1, "exit", "");
	return 0;
}
