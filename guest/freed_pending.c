// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page table is freed while a flush of some of its leaves is pending (PT_RECLAIM, Linux 7.x):
 *
 *   1. Thread A, on CPU 0, discards the upper half of the table and much more by one call, which flushes at its end.
 *   2. Thread B, on CPU 1, finds these entries gone, discards all that the table maps, and sleeps: the table is freed.
 *   3. The call of A flushes, and ends. CPU 1 does not have the address space loaded.
 *
 * Then a process on CPU 1 uses new memory, so that free pages become tables of its own. By then the kernel must have
 * invalidated what CPU 1 holds of the upper half: by the flush of B, because tlb_finish_mmu() sees that of A pending.
 *
 * The metric in_time counts the rounds in which step 2 ended before step 3.
 */
#include "lull.h"

#include "storm.h"

#define GUARD_INSTALL	102	/* MADV_GUARD_INSTALL of Linux 6.13 */

static long rounds = 4, pending, used = 128;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "processes, each of which does it once" },
	{ "pending", &pending, NULL, "tables of which A discards the entries (default: those of 98304 pages)" },
	{ "used", &used, NULL, "tables that are used after that" },
	{ }
};

/* What the processes of a round share. */
static struct {
	int ready;		/* B has used the table */
	int ended;		/* the call of B has ended */
	int flushed;		/* the call of A has ended */
	int in_time;
} *now;

static char *memory;

#define SET(field)	__atomic_store_n(&now->field, 1, __ATOMIC_RELEASE)
#define GET(field)	__atomic_load_n(&now->field, __ATOMIC_ACQUIRE)

static void *frees_table(void *unused)
{
	char *last = memory + HUGE - PAGE;
	unsigned char here;

	(void)unused;
	pin(1);
	for (unsigned long at = 0; at < HUGE; at += PAGE)
		(void)*(volatile char *)(memory + at);
	SET(ready);
	do
		must(mincore(last, PAGE, &here));
	while (here & 1);
	must(madvise(memory, HUGE, MADV_DONTNEED));
	SET(ended);
	for (;;)
		pause();
	return NULL;
}

/*
 * Pages of zeros, because the kernel gathers no pages then, and flushes at the end only. A guard page, which stays, keeps each
 * table but the first from being freed.
 */
static void map_zeros(void)
{
	size_t size = pending * HUGE;

	memory = must((char *)mmap(fresh(size), size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	use_small_pages(memory, size);
	for (long i = 1; i < pending; i++)
		must(madvise(memory + i * HUGE, PAGE, GUARD_INSTALL));
	for (size_t at = HUGE / 2; at < size; at += PAGE)
		if (at % HUGE)
			(void)*(volatile char *)(memory + at);
}

static void discards(void)
{
	pthread_t thread;

	map_zeros();
	verify(!pthread_create(&thread, NULL, frees_table, NULL), "no second thread");
	while (!GET(ready))
		;
	must(madvise(memory + HUGE / 2, pending * HUGE - HUGE / 2, MADV_DONTNEED));
	now->in_time = GET(ended);
	SET(flushed);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	long in_time = 0;

	parse_options(argc, argv, "a page table is freed while a flush of some of its leaves is pending", options);
	if (!pending)
		pending = 98304 / (HUGE / PAGE);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("needs two CPUs");
	if (madvise(map_memory(PAGE, MAP_PRIVATE), PAGE, GUARD_INSTALL))
		skip("this kernel has no guard pages");
	now = (void *)map_memory(PAGE, MAP_SHARED);
	open_window();
	for (long round = 0; round < rounds; round++) {
		pid_t process;
		char *tables;

		memset(now, 0, sizeof(*now));
		pin(0);		/* where the process begins: no flush may pass CPU 1 by before that of A */
		process = fork_child();
		if (!process)
			discards();
		pin(1);
		while (!GET(flushed) || !GET(ended))
			usleep(10000);
		in_time += now->in_time;
		wait_for_rcu();
		/* Each of these pages needs a table of its own. */
		tables = must((char *)mmap(NULL, used * HUGE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
		use_small_pages(tables, used * HUGE);
		for (long i = 0; i < used; i++)
			tables[i * HUGE] = 1;
		must(munmap(tables, used * HUGE));
		signal(SIGCHLD, SIG_DFL);
		must(kill(process, SIGKILL));
		must(waitpid(process, NULL, 0));
	}
	close_window();
	add_metric("in_time", in_time);
	report("", rounds, "round", "");
	return 0;
}
