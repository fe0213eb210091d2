// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads of one process that wake each other in turn, as the threads of a server do. The one that has its turn reads
 * the memory that all share, and then sleeps. Once in a round, while all others sleep, the first thread calls
 * mprotect() on a page.
 *
 * A flush that knows that the other CPUs have left the address space may be local. What these CPUs hold is out of date
 * then, and each of them may have to invalidate, and to walk for the shared memory again, when its thread wakes up.
 */
#include "lull.h"

#include <semaphore.h>

#define MAX_THREADS	64
#define WARM		4		/* rounds before the window, in which pages are touched first */

enum { PINNED, FREE, MOVING };

static const char *const places[] = { "pinned", "free", "moving", NULL };

static long threads, pages = 64, rounds = 1000;
static const char *where = "pinned";

static const struct option_spec options[] = {
	{ "threads", &threads, NULL, "threads, 2 to 64 (0: 2, 4, 8 and 16, a case each)" },
	{ "pages", &pages, NULL, "pages that each thread reads in its turn" },
	{ "rounds", &rounds, NULL, "turns of each thread in the window" },
	{ "place", NULL, &where, "pinned: each to a CPU, free, or moving: to the next CPU before each turn" },
	{ }
};

static struct worker {
	long number;
	pid_t tid;
	sem_t turn;
	pthread_t thread;
} workers[MAX_THREADS];

static pthread_barrier_t ready, over;
static volatile long *memory, *changed;
static long cpus, place;

static void put(const struct worker *w, long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % cpus, &set);
	must(sched_setaffinity(w->tid, sizeof(set), &set));
}

/* Writes verify that each change takes effect. */
static void change(long round)
{
	if (round % 2) {
		must(mprotect((void *)changed, PAGE, PROT_READ | PROT_WRITE));
		*changed += 1;
	} else {
		must(mprotect((void *)changed, PAGE, PROT_READ));
		verify(*changed == round / 2, "the page reads %ld, not %ld", *changed, round / 2);
	}
}

static void read_all(void)
{
	const long step = PAGE / sizeof(long);
	long i;

	for (i = 0; i < pages; i++)
		verify(memory[i * step] == i + 1, "page %ld reads %ld", i, memory[i * step]);
}

static void await_turn(struct worker *w)
{
	while (sem_wait(&w->turn))
		verify(errno == EINTR, "sem_wait");
}

static void *work(void *argument)
{
	struct worker *w = argument, *next = &workers[(w->number + 1) % threads];
	long round;

	w->tid = syscall(SYS_gettid);
	if (place != FREE)
		put(w, w->number);
	pthread_barrier_wait(&ready);
	for (round = 0; round < WARM + rounds; round++) {
		if (w->number || round)
			await_turn(w);
		if (!w->number && round == WARM)
			open_window();
		if (!w->number)
			change(round);
		read_all();
		/* The next thread sleeps, and wakes up on its new CPU. */
		if (place == MOVING)
			put(next, next->number + round + !next->number);
		must(sem_post(&next->turn));
	}
	if (!w->number) {
		await_turn(w);
		close_window();
	}
	/* No thread ends, and gives its stack back, in the window. */
	pthread_barrier_wait(&over);
	return NULL;
}

/* One case, in a process of its own: a kernel may remember where an address space was loaded. */
static void play(void)
{
	char name[32];
	long i;

	memory = (long *)map_memory(pages * PAGE, MAP_PRIVATE);
	changed = (long *)map_memory(PAGE, MAP_PRIVATE);
	use_small_pages((void *)memory, pages * PAGE);
	for (i = 0; i < pages; i++)
		memory[i * (PAGE / sizeof(long))] = i + 1;
	*changed = 0;
	verify(!pthread_barrier_init(&ready, NULL, threads), "pthread_barrier_init");
	verify(!pthread_barrier_init(&over, NULL, threads), "pthread_barrier_init");
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		must(sem_init(&workers[i].turn, 0, 0));
	}
	for (i = 1; i < threads; i++)
		verify(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
	work(&workers[0]);
	for (i = 1; i < threads; i++)
		verify(!pthread_join(workers[i].thread, NULL), "pthread_join");
	verify(*changed == (WARM + rounds) / 2, "%ld writes arrived, not %ld", *changed, (WARM + rounds) / 2);
	snprintf(name, sizeof(name), "%ld", threads);
	report(name, rounds, "round", "");
	exit(0);
}

int main(int argc, char **argv)
{
	long first, last;
	pid_t child;

	parse_options(argc, argv, "threads that wake each other in turn, with an mprotect() in each round", options);
	while (places[place] && strcmp(places[place], where))
		place++;
	if (!places[place] || threads == 1 || threads > MAX_THREADS || pages < 1 || rounds < 1 || rounds % 2)
		finish(USAGE, "place is pinned, free or moving; 2 to %d threads; a page; an even number of rounds",
		       MAX_THREADS);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	first = threads ? threads : 2;
	last = threads ? threads : 16;
	for (threads = first; threads <= last; threads *= 2) {
		child = fork_child();
		if (!child)
			play();
		wait_child(child);
		window.number++;
	}
	return 0;
}
