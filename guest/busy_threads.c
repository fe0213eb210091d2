// SPDX-License-Identifier: GPL-2.0-only
/*
 * One process whose threads are busy all the time: it measures what an address space that many CPUs have loaded pays
 * for its flushes and context switches.
 *
 * The threads are pinned and spread evenly over the CPUs. Threads that share a CPU take turns, one round each. In each
 * round a thread computes. In each fourth round it also discards a page of its own and touches it again, which
 * flushes.
 *
 * The threads of the first CPU do a fixed number of rounds, in windows that are much shorter than the time between two
 * timer ticks (see README.md, insns_quiet). All other threads run until these are done.
 */
#include "lull.h"

#include <semaphore.h>

#define MAX_THREADS	64
#define REGION		HUGE		/* a page table of its own for the page of each thread, so that they share no lock */
#define FLUSH_EACH	4

static long threads = 8, windows = 63, rounds = 4, numbers = 1000;

static const struct option_spec options[] = {
	{ "threads", &threads, NULL, "threads, at most 64" },
	{ "windows", &windows, NULL, "times it is measured" },
	{ "rounds", &rounds, NULL, "rounds of each thread in a window, a multiple of 4" },
	{ "numbers", &numbers, NULL, "pseudo-random numbers that are added in a round" },
	{ }
};

static struct worker {
	long number, done;	/* done: rounds that the thread has finished */
	uint64_t state, sum;
	sem_t turn;
	volatile long *page;
	pthread_t thread;
} workers[MAX_THREADS];

static pthread_barrier_t ready;
static volatile bool stop;
static long cpus, running;

static uint64_t seed_of(const struct worker *w)
{
	return 0x9e3779b97f4a7c15 * (w->number + 1);
}

static void add_numbers(uint64_t *state, uint64_t *sum)
{
	long i;

	for (i = 0; i < numbers; i++)
		*sum += next_random(state);
}

static void one_round(struct worker *w)
{
	add_numbers(&w->state, &w->sum);
	if (w->done++ % FLUSH_EACH)
		return;
	verify(*w->page == w->number + 1, "the page of thread %ld reads %ld", w->number, *w->page);
	must(madvise((void *)w->page, PAGE, MADV_DONTNEED));
	verify(*w->page == 0, "the fresh page of thread %ld reads %ld", w->number, *w->page);
	*w->page = w->number + 1;
}

/* Give the turn to the next thread on this CPU, and wait for the turn to come back. */
static void pass(struct worker *w)
{
	long next = w->number + cpus < threads ? w->number + cpus : w->number % cpus;

	if (next == w->number)
		return;
	must(sem_post(&workers[next].turn));
	while (sem_wait(&w->turn))
		verify(errno == EINTR, "sem_wait");
}

static void settle(struct worker *w)
{
	pin(w->number);
	w->state = seed_of(w);
	*w->page = w->number + 1;
	pthread_barrier_wait(&ready);
	/*
	 * The first thread that leaves the barrier must not finish before the others have woken: wait until one thread
	 * of each CPU runs.
	 */
	if (w->number < cpus) {
		__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) < cpus)
			;
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;

	settle(w);
	/* The first thread of each CPU begins. */
	if (w->number >= cpus)
		while (sem_wait(&w->turn))
			verify(errno == EINTR, "sem_wait");
	while (!stop) {
		one_round(w);
		pass(w);
	}
	/* Wake the threads that wait for their turn, so that they see @stop, too. */
	for (long i = w->number % cpus; i < threads; i += cpus)
		must(sem_post(&workers[i].turn));
	return NULL;
}

static void lead(struct worker *w, struct window *closed)
{
	long i, j;

	settle(w);
	for (i = 0; i < windows; i++) {
		/* The scheduler's work after the pause stays outside the window. */
		for (j = 0; j < rounds; j++) {
			one_round(w);
			pass(w);
		}
		open_window();
		for (j = 0; j < rounds; j++) {
			one_round(w);
			pass(w);
		}
		close_window();
		closed[i] = window;
	}
	stop = true;
	for (i = 0; i < threads; i++)
		must(sem_post(&workers[i].turn));
}

/* Verify that no round was lost or done twice: the sum is that of the number of rounds. */
static void check(const struct worker *w)
{
	uint64_t state = seed_of(w), sum = 0;
	long i;

	for (i = 0; i < w->done; i++)
		add_numbers(&state, &sum);
	verify(sum == w->sum, "the sum of thread %ld is wrong", w->number);
	verify(w->number % cpus || w->done == 2 * windows * rounds, "thread %ld did %ld rounds", w->number, w->done);
}

int main(int argc, char **argv)
{
	struct window *closed;
	long i, here;
	char *memory;

	parse_options(argc, argv, "a process of busy threads, two or more a CPU", options);
	if (threads < 1 || threads > MAX_THREADS || windows < 1 || windows > 999 || rounds < 1 || rounds % FLUSH_EACH)
		finish(USAGE, "1 to %d threads, 1 to 999 windows, rounds a multiple of %d", MAX_THREADS, FLUSH_EACH);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > threads)
		cpus = threads;
	here = (threads + cpus - 1) / cpus;
	closed = calloc(windows, sizeof(*closed));
	verify(closed, "out of memory");
	memory = map_memory((threads + 1) * REGION, MAP_PRIVATE | MAP_NORESERVE);
	use_small_pages(memory, (threads + 1) * REGION);
	memory = (char *)(((uintptr_t)memory + REGION - 1) & ~(REGION - 1));
	verify(!pthread_barrier_init(&ready, NULL, threads), "pthread_barrier_init");
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		workers[i].page = (long *)(memory + i * REGION);
		must(sem_init(&workers[i].turn, 0, 0));
	}
	for (i = 1; i < threads; i++)
		verify(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
	lead(&workers[0], closed);
	for (i = 1; i < threads; i++)
		verify(!pthread_join(workers[i].thread, NULL), "pthread_join");
	for (i = 0; i < threads; i++)
		check(&workers[i]);
	report_windows(closed, windows, "", rounds * here, "round");
	return 0;
}
