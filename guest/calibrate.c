// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures what TLB maintenance costs, for "lull calibrate". One process stays on its CPU and calls mprotect() on one
 * mapping, to read-only and back. One operation is one mprotect(). The program also runs by hand on real hardware, and
 * needs no root.
 *
 *	plain		the mapping was never touched: the system call, without a flush
 *	flush		one page, written each time it is writable again: one flush, and a wait for it
 *	batch-511	a mapping of 511 pages, of which only the first and the last are touched: one flush of the whole
 *			range, and one wait
 *	batch-512	as batch-511, with 512 pages
 *	dsb		DSB ISH at EL0 with nothing to wait for. One operation is one DSB
 *	lines		loads from cache lines, each of which says where the next one is. One operation is one load
 *	pages		as lines, as many lines, but each in a page of its own
 *	flush-N		flush, by a process on each of N CPUs at once: the first 2, 4, 8, ... CPUs that the program may
 *			use, and all of them
 *
 * batch-511 and batch-512 differ in their TLBIs alone. Without range TLBIs, Linux issues one TLBI for each of 511
 * pages, but from 512 pages on a single TLBI of the whole ASID. With range TLBIs it issues 3 for 511 pages (1 + 62 +
 * 448 pages), and 1 for 512.
 *
 * The timing model has these costs. Each follows from the times above:
 *	insn		plain, divided by the instructions it executes. perf counts them where that is permitted;
 *			elsewhere calibrate.toml gives them, as counted in the lab
 *	dsb		dsb. The time that a DSB waits for TLBIs is not part of this cost
 *	broadcast	flush-N, if N is so large that the N CPUs only wait for each other's broadcasts: then N CPUs
 *			take N times as long as one. With fewer CPUs, flush-N gives an upper bound. The batches then
 *			give the cost, if the cost of issuing a TLBI is known
 *	tlbi		the batches, if their TLBIs are local (a Lull kernel with residency on), or if issuing TLBIs
 *			takes longer than the interconnect takes to serve them. Otherwise only tlbi + latency is known,
 *			because each flush takes both
 *	latency		what remains of flush when the costs above are known
 *	walk		what a load of pages takes more than one of lines. There are more pages than a TLB has entries,
 *			so almost each load needs a page walk, which finds the page table in a cache. If the TLB holds
 *			a part of the pages, for example because it keeps neighbours in one entry, this is too low
 *
 * A round measures each case once, so that a CPU clock that changes speed affects all cases alike. The program reports
 * each round. The host uses the median of the rounds: the fastest round would depend on how the N processes happened to
 * overlap. Kernels before Linux 6.2 cannot be calibrated: their mprotect() does not give write permission back at once,
 * so each write faults, and the fault flushes, too. The program skips such a kernel.
 */
#include "lull.h"

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#define TABLE	512UL			/* pages of a page table, which is also Linux's limit for TLBIs one by one */
#define UNROLL	16
#define LINE	64UL			/* bytes */
#define CHAIN	8192UL			/* cache lines of a chain: 512 KiB */
#define CROWDS	10			/* 2, 4, 8, ... CPU_SETSIZE */

static long ms = 20, rounds = 15, fixed, most;

static const struct option_spec options[] = {
	{ "ms", &ms, NULL, "milliseconds that a window takes, about, whatever its CPUs" },
	{ "rounds", &rounds, NULL, "windows of each case" },
	{ "loops", &fixed, NULL, "loops in each window instead, by each process (0: by ms=)" },
	{ "cpus", &most, NULL, "CPUs to use (0: all that this process may)" },
	{ }
};

static int cpu_of[CPU_SETSIZE];		/* the CPUs that we may use */
static long n_cpus;

/* A mapping with a page table of its own: no neighbour with which it could be merged, no huge page. */
struct mapping {
	volatile long *start;
	size_t size;
};

static const char *const names[] = { "plain", "flush", "batch-511", "batch-512", "dsb", "lines", "pages" };
static const unsigned long pages_of[] = { 1, 1, TABLE - 1, TABLE };

enum { PLAIN, FLUSH, BATCH_511, BATCH_512, MAPPINGS, DSB = MAPPINGS, LINES, PAGES, CASES };

static struct mapping mappings[MAPPINGS];
static void **lines, **pages;		/* where the next load of the chain is */

/* The CPUs in our affinity mask, in order. */
static void find_cpus(void)
{
	cpu_set_t set;
	int cpu;

	must(sched_getaffinity(0, sizeof(set), &set));
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpu_of[n_cpus++] = cpu;
	if (most && most < n_cpus)
		n_cpus = most;
}

/* Pin to the CPU with this number among those that the process may use. */
static void stay(long number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu_of[number], &set);
	must(sched_setaffinity(0, sizeof(set), &set));
}

/*
 * Map pages at the start of a page table of their own, within reserved address space. Both ends are touched, or no
 * page.
 */
static struct mapping map_pages(unsigned long pages, bool touched)
{
	size_t table = TABLE * PAGE, size = pages * PAGE;
	char *room = must((char *)mmap(NULL, 3 * table, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	char *start = (char *)(((uintptr_t)room + table) / table * table);

	must(mmap(start, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	use_small_pages(start, size);
	if (touched)
		start[0] = start[size - PAGE] = 0;
	return (struct mapping){ (long *)start, size };
}

static void change(const struct mapping *m, bool touched, long loops)
{
	long i, before = touched ? *m->start : 0;

	/* After fork(), the last page is shared until it is written, and mprotect() does not make it writable. */
	if (touched)
		m->start[(m->size - PAGE) / sizeof(long)] += 0;
	for (i = 0; i < loops; i++) {
		must(mprotect((void *)m->start, m->size, PROT_READ));
		must(mprotect((void *)m->start, m->size, PROT_READ | PROT_WRITE));
		if (touched)
			*m->start += 1;
	}
	verify(!touched || *m->start == before + loops, "%ld writes arrived, not %ld", *m->start - before, loops);
}

static void wait_for_nothing(long loops)
{
	long i, j;

	for (i = 0; i < loops; i++) {
#ifdef __aarch64__
		/* Unrolled, so that the instructions of the loop itself are few in comparison. */
		#pragma GCC unroll 16
		for (j = 0; j < UNROLL; j++)
			asm volatile("dsb ish" : : : "memory");
#else
		for (j = 0; j < UNROLL; j++)
			asm volatile("" : : : "memory");
#endif
	}
}

/* Line @n. In pages of their own, lines have different offsets, so that they use all sets of the caches. */
static void **line_of(char *start, size_t apart, unsigned long n)
{
	return (void **)(start + n * apart + (apart == PAGE ? n % (PAGE / LINE) * LINE : 0));
}

/*
 * Make a chain of all lines, in an order that no prefetcher guesses. The lines are @apart bytes from each other. Pages
 * are touched in the order of the chain, so that neighbours are rarely neighbours in memory, too.
 */
static void **make_chain(size_t apart)
{
	size_t room = CHAIN * apart;
	static unsigned int order[CHAIN];
	char *start;
	unsigned long i;

	start = must((char *)mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	use_small_pages(start, room);
	/* A child would get a copy of the page table, and needs none. */
	must(madvise(start, room, MADV_DONTFORK));
	srandom(1);
	for (i = 0; i < CHAIN; i++) {
		unsigned long other = random() % (i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (i = 0; i < CHAIN; i++)
		*line_of(start, apart, order[i]) = line_of(start, apart, order[(i + 1) % CHAIN]);
	return line_of(start, apart, 0);
}

/* Return where the chain goes on. */
static void **follow(void **chain, long loops)
{
	long i, j;

	for (i = 0; i < loops; i++) {
		#pragma GCC unroll 16
		for (j = 0; j < UNROLL; j++)
			chain = *(void ***)chain;
	}
	return chain;
}

/* ---- how many loops take ms= ---- */

static void one_case(int number, long loops)
{
	if (number < MAPPINGS)
		change(&mappings[number], number != PLAIN, loops);
	else if (number == DSB)
		wait_for_nothing(loops);
	else if (number == LINES)
		lines = follow(lines, loops);
	else
		pages = follow(pages, loops);
}

/* Loops after which a case's memory is in the caches, and its pages are its own. */
static long loops_before(int number)
{
	return number == LINES || number == PAGES ? CHAIN / UNROLL : 1;
}

/* Return the seconds that @loops loops of a case take undisturbed: the smaller of two measurements. */
static double duration(int number, long loops)
{
	double least = 0;
	int i;

	for (i = 0; i < 2; i++) {
		double start = clock_seconds(), took;

		one_case(number, loops);
		took = clock_seconds() - start;
		if (!i || took < least)
			least = took;
	}
	return least;
}

/* Return the number of loops of a case that takes ms= milliseconds: double it until a run takes an eighth of that. */
static long loops_of(int number)
{
	double took = 0;
	long loops = 8;

	/* A plain emulator takes 16 times as long for the TLBIs of that one, at least. */
	if (fixed)
		return number == BATCH_511 ? fixed / 16 + 1 : fixed;
	while (took < ms / 8e3) {
		loops *= 2;
		took = duration(number, loops);
	}
	return loops * (ms / 1e3) / took + 1;
}

/* ---- one process ---- */

/*
 * Count the instructions of this process from here on, the kernel's included. Returns -1 if that is not permitted or
 * the machine cannot.
 */
static int count_instructions(void)
{
	struct perf_event_attr what = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(what), .config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_hv = 1, .disabled = 1,
	};

	return syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static long faults(void)
{
	struct rusage usage;

	must(getrusage(RUSAGE_SELF, &usage));
	return usage.ru_minflt;
}

static void measure(int number, long loops)
{
	long operations = (number < MAPPINGS ? 2 : UNROLL) * loops;
	const char *const units[CASES] = { [DSB] = "dsb", [LINES] = "load", [PAGES] = "load" };
	int counter = count_instructions();
	uint64_t count = 0;
	long before;

	/*
	 * A write to a page that a child has had copies the page, or makes it writable again. Do this before the
	 * window.
	 */
	one_case(number, loops_before(number));
	before = faults();
	fresh_window();
	if (counter >= 0)
		must(ioctl(counter, PERF_EVENT_IOC_ENABLE, 0));
	open_window();
	one_case(number, loops);
	close_window();
	if (counter >= 0) {
		verify(read(counter, &count, sizeof(count)) == sizeof(count), "perf: no count");
		close(counter);
	}
	if (faults() - before > loops / 2)
		skip("%s: its writes fault: this kernel does not give back permission to write at once (6.2 and later do)",
		     names[number]);
	/* On a machine with two kinds of CPU, the counter may be that of the other kind, and read 0. */
	if (count)
		add_metric("instructions", count);
	report(names[number], operations, units[number] ? units[number] : "mprotect", "");
}

/* ---- many processes ---- */

/*
 * Where the processes of flush-N wait for each other. They spin, each on a CPU of its own. Processes that sleep would
 * start one after the other as they are woken, and their last flushes would not overlap with those of the others.
 */
static struct meeting {
	atomic_long ready, done;
	atomic_bool begin, end;
} *meeting;

static void wait_for(atomic_long *count, long n)
{
	while (atomic_load(count) < n)
		;
}

static void wait_until(atomic_bool *fact)
{
	while (!atomic_load(fact))
		;
}

/* One of the other processes, until its end. An exit flushes, too, so no process exits before the window is closed. */
__attribute__((noreturn))
static void work(long number, long loops)
{
	struct mapping own = map_pages(1, true);

	stay(number);
	change(&own, true, 1);
	atomic_fetch_add(&meeting->ready, 1);
	wait_until(&meeting->begin);
	change(&own, true, loops);
	atomic_fetch_add(&meeting->done, 1);
	wait_until(&meeting->end);
	exit(0);
}

/* Return the seconds that n processes take together for @loops loops each. On return, that window is closed. */
static double together(long n, long loops)
{
	pid_t child[CPU_SETSIZE];
	long i;

	memset(meeting, 0, sizeof(*meeting));
	for (i = 1; i < n; i++) {
		child[i] = fork_child();
		if (!child[i])
			work(i, loops);
	}
	/* As in measure(). */
	change(&mappings[FLUSH], true, 1);
	fresh_window();
	wait_for(&meeting->ready, n - 1);
	open_window();
	atomic_store(&meeting->begin, true);
	change(&mappings[FLUSH], true, loops);
	wait_for(&meeting->done, n - 1);
	close_window();
	atomic_store(&meeting->end, true);
	for (i = 1; i < n; i++)
		wait_child(child[i]);
	return window.seconds;
}

/*
 * Return the number of loops for each of n processes that takes ms= milliseconds. If all processes wait for
 * broadcasts, a loop takes n times as long as on one CPU: a window with the loops of one CPU would take n times ms=,
 * and would slow down the whole machine with broadcasts. So the trial runs have few loops, and the result never
 * exceeds @alone. As in duration(), the smaller of two measurements counts.
 */
static long loops_together(long n, long alone)
{
	long few = alone / n + 1, loops;
	double took, again;

	if (fixed)
		return alone;
	took = together(n, few);
	again = together(n, few);
	loops = few * (ms / 1e3) / (took < again ? took : again) + 1;
	return loops < alone ? loops : alone;
}

static void measure_together(long n, long loops)
{
	char name[32];

	snprintf(name, sizeof(name), "flush-%ld", n);
	together(n, loops);
	report(name, 2 * n * loops, "mprotect", "");
}

int main(int argc, char **argv)
{
	long loops[CASES], crowd[CROWDS], crowd_loops[CROWDS], round, n;
	int i, crowds = 0;

	parse_options(argc, argv, "what TLB maintenance costs, for 'lull calibrate'", options);
	if (!ms || !rounds)
		finish(USAGE, "ms= and rounds= are 1 or more");
	if (PAGE != 4096)
		skip("pages of 4096 bytes are needed, and this kernel's have %lu", PAGE);
	find_cpus();
	stay(0);
	for (i = 0; i < MAPPINGS; i++)
		mappings[i] = map_pages(pages_of[i], i != PLAIN);
	meeting = must(mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	lines = make_chain(LINE);
	pages = make_chain(PAGE);
	for (i = 0; i < CASES; i++) {
		one_case(i, loops_before(i));
		loops[i] = loops_of(i);
	}
	for (n = 2; n / 2 < n_cpus; n *= 2) {
		crowd[crowds] = n < n_cpus ? n : n_cpus;
		crowd_loops[crowds] = loops_together(crowd[crowds], loops[FLUSH]);
		crowds++;
	}
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < CASES; i++)
			measure(i, loops[i]);
		for (i = 0; i < crowds; i++)
			measure_together(crowd[i], crowd_loops[i]);
	}
	return 0;
}
