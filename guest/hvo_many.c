// SPDX-License-Identifier: GPL-2.0-only
/*
 * HVO of many HugeTLB pages at once: 1, 4 and 16 processes each map, use and unmap a page again and again, pages that the
 * kernel allocates for the mapping (surplus pages), of the size that an entry of a PMD table maps: 2 MiB with pages of 4
 * KiB. So each round optimizes one page and restores one. They are processes, because the kernel allocates the pages with
 * the address space locked.
 *
 * Each number of processes has a window. It ends when all pages are restored, which Linux leaves to a kernel thread.
 *
 * With rt=CPU a real-time thread runs on this CPU, and the processes on those before it. The thread reads the counter in
 * a loop, to find the longest time for which it was interrupted. The program counts the interrupts that this CPU takes,
 * and fails if one of them is an IPI. The CPU must be isolated (isolcpus=): to any other CPU the scheduler sends IPIs,
 * which wake kernel threads there. The thread opens the window, so that insns_own has the instructions of this CPU.
 */
#include "hvo.h"

#include <stdatomic.h>
#include <sys/resource.h>

#define MAX_PROCESSES	16

static long rounds = 16, rt;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "pages that each process maps, one after the other" },
	{ "rt", &rt, NULL, "the CPU of a real-time thread, which must not receive an IPI; 0: no such thread" },
	{ }
};

static pthread_barrier_t *start;	/* shared by all processes */

/* Restore the pools, however the program ends. */
static void put_back(void)
{
	put_file(pool(HUGE, "nr_overcommit_hugepages"), "0");
	put_file(pool(HUGE, "nr_hugepages"), "0");
	put_file(OPTIMIZE, "0");
}

static long *map_page(void)
{
	return (long *)map_memory(HUGE, MAP_PRIVATE | MAP_HUGETLB | huge_flag(HUGE));
}

static void work(long number)
{
	long i;

	pin(number % (rt ? rt : sysconf(_SC_NPROCESSORS_ONLN)));
	pthread_barrier_wait(start);
	for (i = 0; i < rounds; i++) {
		volatile long *memory = map_page();

		verify(!*memory, "a new HugeTLB page is not empty");
		*memory = number + 1;
		verify(*memory == number + 1, "a HugeTLB page lost its contents");
		must(munmap((void *)memory, HUGE));
	}
}

/* Wait until the vmemmap has as many pages as before. */
static void wait_restored(long before)
{
	struct timespec moment = { .tv_nsec = 50 * 1000 * 1000 };	/* looking costs instructions */
	int i;

	for (i = 0; i < 600 && memmap() != before; i++)
		nanosleep(&moment, NULL);
	verify(memmap() == before, "%ld pages of vmemmap, and not %ld as before", memmap(), before);
}

/* ---- the real-time thread ---- */

/* Kinds of interrupts. A row of /proc/interrupts is of the first kind whose text it has. */
static const struct kind {
	const char *text, *metric;
} kinds[] = {
	{ "Rescheduling interrupts", "ipi_reschedule" },
	{ "Function call interrupts", "ipi_call" },
	{ "CPU stop", "ipi_stop" },
	{ "IPI", "ipi_other" },
	{ "arch_timer", "irq_timer" },
	{ "", "irq_other" },
};

enum { IPIS = 4, KINDS = sizeof(kinds) / sizeof(*kinds) };

static struct watch {
	pthread_t thread;
	atomic_bool runs, stop;
	uint64_t ticks, longest;	/* of the counter: in all, and between two readings at most */
	long preempted;
	long irqs[KINDS];
} watch;

static long ipis;	/* that the CPU received, in all windows */

static uint64_t counter(void)
{
#ifdef __aarch64__
	uint64_t now;

	asm volatile("mrs %0, cntvct_el0" : "=r" (now));
	return now;
#else
	return __builtin_ia32_rdtsc();
#endif
}

/* The real-time thread: keep the CPU number @rt busy until watch.stop is set. */
static void *watch_cpu(void *unused)
{
	struct sched_param priority = { .sched_priority = 50 };
	struct rusage before, after;
	uint64_t first, last, now;
	sigset_t all;

	(void)unused;
	/*
	 * A signal to this thread would be an IPI, and so would be the timer of the fair server (deadline.c), which starts
	 * when a thread that is not yet real-time comes to a CPU.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	must(sched_setscheduler(0, SCHED_FIFO, &priority));
	pin(rt);
	must(getrusage(RUSAGE_THREAD, &before));
	open_window();
	first = last = counter();
	watch.runs = true;
	while (!atomic_load_explicit(&watch.stop, memory_order_relaxed)) {
		now = counter();
		if (now - last > watch.longest)
			watch.longest = now - last;
		last = now;
	}
	close_window();
	must(getrusage(RUSAGE_THREAD, &after));
	watch.ticks = last - first;
	watch.preempted = after.ru_nivcsw - before.ru_nivcsw;
	return NULL;
}

/* Add the number of interrupts that the CPU number @rt has taken since boot, times @sign, to watch.irqs. */
static void add_interrupts(long sign)
{
	FILE *in = fopen("/proc/interrupts", "r");
	char row[4096], name[16], *at, *end;
	long column = 0, i, n = 0;

	snprintf(name, sizeof(name), "CPU%ld ", rt);
	end = in && fgets(row, sizeof(row), in) ? strstr(row, name) : NULL;
	verify(end, "/proc/interrupts has no %s", name);
	for (at = row; at < end; at++)
		column += *at == 'C';
	while (fgets(row, sizeof(row), in)) {
		at = strchr(row, ':') + 1;
		for (i = 0; i <= column; i++, at = end) {
			n = strtol(at, &end, 10);
			if (end == at)
				break;
		}
		if (i <= column)
			continue;	/* a row without numbers for each CPU */
		for (i = 0; !strstr(row, kinds[i].text); i++)
			;
		watch.irqs[i] += sign * n;
	}
	fclose(in);
}

static void start_watch(void)
{
	struct timespec moment = { .tv_nsec = 1000 * 1000 };

	memset(&watch, 0, sizeof(watch));
	verify(!pthread_create(&watch.thread, NULL, watch_cpu, NULL), "pthread_create");
	while (!watch.runs)
		nanosleep(&moment, NULL);
	add_interrupts(-1);
}

static void end_watch(void)
{
	long i;

	add_interrupts(1);
	watch.stop = true;
	verify(!pthread_join(watch.thread, NULL), "pthread_join");
	for (i = 0; i < KINDS; i++) {
		add_metric(kinds[i].metric, watch.irqs[i]);
		ipis += i < IPIS ? watch.irqs[i] : 0;
	}
	add_metric("preempted", watch.preempted);
	add_metric("longest_gap_ns", 1e9 * window.seconds * watch.longest / watch.ticks);
}

static void measure(long processes)
{
	pid_t all[MAX_PROCESSES];
	long i, before = memmap();
	pthread_barrierattr_t shared;
	char name[32];

	verify(!pthread_barrierattr_init(&shared), "pthread_barrierattr_init");
	verify(!pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), "pthread_barrierattr_setpshared");
	verify(!pthread_barrier_init(start, &shared, processes + 1), "pthread_barrier_init");
	for (i = 0; i < processes; i++) {
		all[i] = fork_child();
		if (!all[i]) {
			work(i);
			_exit(0);
		}
	}
	fresh_window();
	if (rt)
		start_watch();
	else
		open_window();
	pthread_barrier_wait(start);
	for (i = 0; i < processes; i++)
		wait_child(all[i]);
	wait_restored(before);
	if (rt)
		end_watch();
	else
		close_window();
	pthread_barrier_destroy(start);
	snprintf(name, sizeof(name), "processes-%ld", processes);
	report(name, processes * rounds, "page optimized and restored", "");
}

int main(int argc, char **argv)
{
	struct sysinfo memory;
	long processes;

	parse_options(argc, argv, "processes that map HugeTLB pages, which are optimized and restored", options);
	if (rounds < 1)
		finish(USAGE, "rounds is at least 1");
	need_pool(HUGE);
	if (rt && isolated() != rt)
		skip("the kernel was not booted with isolcpus=%ld", rt);
	if (access(OPTIMIZE, W_OK) || !booted_with_hvo())
		skip("this kernel has no HVO, or was not booted with hugetlb_free_vmemmap=on");
	must(atexit(put_back));
	verify(put_file(OPTIMIZE, "1"), "%s: cannot be set", OPTIMIZE);
	/*
	 * One page stays optimized, because Linux's own HVO patches the kernel's code at the first page and after the last.
	 * It is mapped, so that the processes get others.
	 */
	verify(put_file(pool(HUGE, "nr_hugepages"), "1"), "a HugeTLB page cannot be allocated");
	if (!number_in(pool(HUGE, "nr_hugepages")))
		skip("there is no memory for a HugeTLB page of %lu KiB", HUGE >> 10);
	verify(put_file(pool(HUGE, "nr_overcommit_hugepages"), "64"), "nr_overcommit_hugepages cannot be set");
	*map_page() = 1;
	start = (pthread_barrier_t *)map_memory(PAGE, MAP_SHARED);
	for (processes = 1; processes <= MAX_PROCESSES; processes *= 4) {
		must(sysinfo(&memory));
		if (processes * HUGE < memory.freeram / 2)
			measure(processes);
		else
			printf("hvo_many: there is no memory for %ld processes\n", processes);
	}
	verify(!ipis, "the CPU of the real-time thread received %ld IPIs", ipis);
	return 0;
}
