/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For storms that consist of actors: processes that do their work all at once, for some seconds, each controlled by a
 * random sequence of its own. An actor that fails, or that has made no step for a long time, ends the storm and is
 * named.
 */
#ifndef STORM_ACTORS_H
#define STORM_ACTORS_H

#include "sme.h"
#include "storm.h"

extern long seconds, seed, hotplug, patience, sme;
extern const char *actors_wanted, *until;

#define STORM_OPTIONS							\
	{ "seconds", &seconds, NULL, "how long; the default is for the checker, alone it wants minutes" }, \
	{ "seed", &seed, NULL, "of every choice; 0: another each time, and it is printed" }, \
	{ "hotplug", &hotplug, NULL, "1: CPUs go offline and come back meanwhile" }, \
	{ "sme", &sme, NULL, "1: threads that move to another CPU use SME there" }, \
	{ "actors", NULL, &actors_wanted, "some of these" },		\
	{ "until", NULL, &until, "tallies, with commas between: go on until each is there, for eight times as long at most" }, \
	{ "patience", &patience, NULL, "seconds without a step before an actor counts as stuck" }

/* ---- who is who ---- */

struct actor {
	const char *name;
	void (*run)(uint64_t random);
	int processes;		/* 0: one for each CPU */
	long *wanted;		/* only when asked for */
};

struct storm {
	const struct actor *actors;
	int n;
	const char *const *rows;	/* of /proc/vmstat */
	const char *const *tallies;
	int n_tallies;
};

/* Check the options before anything is done. */
void check_wishes(const struct storm *storm);

/* Run the whole storm to its end, and report. */
void run_storm(const struct storm *storm);

/* Return true if @name is in a list with commas. */
bool named(const char *list, const char *name);

/* The actor of hotplug=1. */
void plug(uint64_t random);

/* ---- what all processes see ---- */

enum { OFFLINED };		/* tallies; those of a particular storm follow */

#define MAX_TALLIES	30
#define MAX_PROCESSES	64

extern struct shared {
	bool stop;
	long tally[MAX_TALLIES];
	struct progress {
		long steps;
		const char *doing;	/* what the last step did; the text has the same address in all processes */
	} progress[MAX_PROCESSES];
} *shared;

extern struct progress *mine;
extern long cpus;	/* CPUs of the machine, online or not */

static inline bool stopped(void)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

static inline void step(const char *doing)
{
	__atomic_store_n(&mine->doing, doing, __ATOMIC_RELAXED);
	__atomic_fetch_add(&mine->steps, 1, __ATOMIC_RELAXED);
}

static inline void count(int what)
{
	__atomic_fetch_add(&shared->tally[what], 1, __ATOMIC_RELAXED);
}

/* Return the seconds since a time. */
long since(const struct timespec *then);

/* ---- chance ---- */

/* Return a random number below @n. */
static inline long any(uint64_t *random, long n)
{
	return (long)(next_random(random) >> 16) % n;
}

static inline bool one_in(uint64_t *random, long n)
{
	return any(random, n) == 0;
}

/* Return a stamp to fill memory with, which was not used before. */
static inline long stamp(uint64_t *random)
{
	return (long)(next_random(random) >> 8);
}

static inline void nap(uint64_t *random, long most_us)
{
	usleep(any(random, most_us) + 1);
}

/* Return the start of a random sequence. */
uint64_t sequence(long of, long number);

/* Move to another CPU; if that one is offline at the moment, to yet another. */
void hop(uint64_t *random, pid_t who);

#endif
