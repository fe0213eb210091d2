// SPDX-License-Identifier: GPL-2.0-only
/*
 * System A's program: 1 MiB of shared anonymous memory is filled with 0x88. In each round one byte of every page is
 * read, which swaps the page in, and then madvise(MADV_PAGEOUT) sends all pages to swap. It was published with 10 000
 * rounds and zRAM.
 *
 * share=N: threads keep the address space loaded on N CPUs.
 *
 * procs=N: N processes map the memory and read all of it in each round. Each runs all the time, on a CPU of its own.
 * MADV_PAGEOUT skips pages that are mapped more than once, so the limit of a memory cgroup is lowered to reclaim them.
 * Reclaim keeps pages that several processes have used, so the program first clears their accessed bits by
 * /proc/PID/clear_refs. That issues no TLBI, so TLBs keep their entries.
 */
#include "cgroup.h"

#define MAX_SHARE	16

static long mib = 1, rounds = 10, share = 1, procs = 1;

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory, MiB (published: 1)" },
	{ "rounds", &rounds, NULL, "times everything is swapped in and out (published: 10000)" },
	{ "share", &share, NULL, "CPUs that run this address space, each in a thread (published: 1)" },
	{ "procs", &procs, NULL, "processes that map the memory, each running on its CPU (published: 1)" },
	{ }
};

static const char *const rows[] = {
	"pgfault", "pswpin", "pswpout", "nr_tlb_remote_flush_received", NULL
};

static unsigned char *memory;
static long pages;
static bool stop;
static long running;		/* companions that are on their CPUs */

/* A thread that runs and does nothing, so that one more CPU has the address space loaded. */
static void *companion(void *cpu)
{
	pin((long)cpu);
	__atomic_add_fetch(&running, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

static void read_all(void)
{
	volatile unsigned char *at = memory;
	long page;

	for (page = 0; page < pages; page++, at += PAGE)
		verify(*at == 0x88, "page %ld reads 0x%x", page, *at);
}

/* Shared state of the processes of procs=N, outside the memory that goes to swap. */
static struct shared {
	long go;			/* the round to read for; -1: end */
	long done[MAX_SHARE];		/* the round each has read for */
} *shared;

static pid_t partners[MAX_SHARE];

static void tell_round(long *what, long number)
{
	__atomic_store_n(what, number, __ATOMIC_RELEASE);
}

/* A process of procs=N: reads everything when asked to, and otherwise runs and waits. */
static void partner(long cpu)
{
	long number = 0;

	pin(cpu);
	tell_round(&shared->done[cpu], 0);
	for (;;) {
		long next = seen(&shared->go);

		if (next < 0)
			exit(0);
		if (next == number)
			continue;
		read_all();
		number = next;
		tell_round(&shared->done[cpu], number);
	}
}

/*
 * Let the other processes read everything, all at once. Then clear the accessed bits, so that no use of a page is on
 * record.
 */
static void read_by_partners(long number)
{
	char path[64];
	long i;

	tell_round(&shared->go, number);
	for (i = 1; i < procs; i++)
		while (seen(&shared->done[i]) != number)
			;
	for (i = 0; i < procs; i++) {
		snprintf(path, sizeof(path), "/proc/%d/clear_refs", i ? partners[i] : getpid());
		if (!put_file(path, "1"))
			die("%s", path);
	}
}

static void page_out(long number)
{
	if (procs == 1) {
		must(madvise(memory, mib << 20, MADV_PAGEOUT));
		return;
	}
	read_by_partners(number);
	cgroup_lower_limit();
}

/* Make memory that is charged to a cgroup with nothing else in it. This process leaves the cgroup again. */
static void fill_in_cgroup(void)
{
	if (access("/proc/self/clear_refs", W_OK))
		skip("this kernel has no /proc/PID/clear_refs");
	cgroup_make("swap");
	cgroup_enter();
	memset(memory, 0x88, mib << 20);
	if (!put_file("/sys/fs/cgroup/cgroup.procs", "0"))
		die("cannot leave the cgroup");
}

static void start_partners(void)
{
	long i;

	shared = (struct shared *)map_memory(PAGE, MAP_SHARED);
	for (i = 1; i < procs; i++) {
		shared->done[i] = -1;
		partners[i] = fork_child();
		if (!partners[i])
			partner(i);
		while (seen(&shared->done[i]))
			;
	}
}

static void end_partners(void)
{
	long i;

	tell_round(&shared->go, -1);
	for (i = 1; i < procs; i++)
		wait_child(partners[i]);
	cgroup_remove();
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	pthread_t companions[MAX_SHARE];
	char scale[64];

	parse_options(argc, argv, "swap memory in and out, page by page", options);
	if (share < 1 || share > MAX_SHARE || procs < 1 || procs > MAX_SHARE || rounds < 1 || mib < 1)
		finish(USAGE, "share and procs are 1 to %d, rounds and mib at least 1", MAX_SHARE);
	if (share > 1 && procs > 1)
		finish(USAGE, "share and procs do not go together");
	if (share * procs > cpus)
		skip("%ld CPUs are needed, there are %ld", share * procs, cpus);
	/* Stay on one CPU: new pages wait in a list of that CPU, which only reclaim on the same CPU drains. */
	pin(0);
	pages = (mib << 20) / PAGE;
	memory = (unsigned char *)map_memory(mib << 20, MAP_SHARED);
	if (procs > 1) {
		fill_in_cgroup();
		start_partners();
	} else {
		memset(memory, 0x88, mib << 20);
	}
	page_out(1);
	for (i = 1; i < share; i++)
		verify(!pthread_create(&companions[i], NULL, companion, (void *)i), "pthread_create");
	while (seen(&running) < share - 1)
		sched_yield();

	begin_vmstat(rows);
	open_window();
	for (i = 0; i < rounds; i++) {
		read_all();
		page_out(i + 2);
	}
	close_window();
	end_vmstat(rows);

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 1; i < share; i++)
		pthread_join(companions[i], NULL);
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	for (i = 0; i < mib << 20; i++)
		verify(memory[i] == 0x88, "byte %ld reads 0x%x", i, memory[i]);
	if (procs > 1)
		end_partners();
	verify(metric("pswpout") >= rounds * pages, "only %ld of %ld pages went to swap",
	       metric("pswpout"), rounds * pages);
	verify(metric("pswpin") >= rounds * pages, "only %ld of %ld pages came from swap",
	       metric("pswpin"), rounds * pages);
	snprintf(scale, sizeof(scale), "%ld of 10000 rounds", rounds);
	report("", rounds * pages, "page", procs == 1 && mib == 1 ? scale : "");
	return 0;
}
