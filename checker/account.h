/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * account - modelled time: what a guest's instructions, TLBIs and DSBs would
 * take on a machine with stated costs. docs/timing.md is the model.
 *
 * Each vCPU has a time. What it executes adds to it; a broadcast TLBI also
 * books the one resource that all CPUs share, the interconnect, and a DSB waits
 * for what its own CPU has booked. Nothing here knows the host's time.
 *
 * The interconnect serves one broadcast at a time, each from when it was
 * issued on and in whatever time is free, also in pieces. So it matters little
 * in which order vCPUs run here that would run at once on a machine: who comes
 * late on the host finds the gaps that others left.
 *
 * The front is the least time of the vCPUs that run. It never goes back: who
 * wakes up does so there, as whoever woke it is not behind. While all of them
 * sleep nothing passes, for the guest's timers are the host's.
 *
 * Locking: the caller's; all calls are serialised. Times are picoseconds.
 */
#ifndef LULL_ACCOUNT_H
#define LULL_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_PER_NS 1000

/* What each costs, in picoseconds. */
struct costs {
	uint64_t insn;		/* any instruction */
	uint64_t tlbi;		/* issuing a TLBI, besides being an instruction */
	uint64_t broadcast;	/* what one takes of the interconnect */
	uint64_t latency;	/* from there until a DSB knows of its completion */
	uint64_t dsb;		/* any DSB, besides the wait */
};

/* The interconnect: when it is busy, in order, with free time between any two. */
struct server {
	struct busy {
		uint64_t start, end;
	} *busy;
	size_t n, room;
};

/* Books length from a time on; the end of it. Aborts without memory. */
uint64_t server_book(struct server *s, uint64_t from, uint64_t length);

/* Nobody will book before this time any more. */
void server_forget(struct server *s, uint64_t before);

struct account {
	struct costs costs;
	unsigned int ncpus;
	struct account_cpu {
		uint64_t time;
		uint64_t insns;		/* that time has in it */
		uint64_t complete;	/* when all it has broadcast is */
		bool running;
	} *cpus;
	struct server server;
	uint64_t front;
};

bool account_init(struct account *a, unsigned int ncpus, const struct costs *costs);
void account_free(struct account *a);

/*
 * A vCPU executes again, or sleeps; again is no harm. Who is woken by another
 * one's interrupt runs from then on, however late it comes to execute.
 */
void account_run(struct account *a, unsigned int cpu);
void account_wake(struct account *a, unsigned int cpu, unsigned int by);
void account_sleep(struct account *a, unsigned int cpu);

/* It has executed so many instructions since the start. */
void account_insns(struct account *a, unsigned int cpu, uint64_t insns);

/* It executes one of these now. waits: the DSB is one that TLBIs are complete after. */
void account_tlbi(struct account *a, unsigned int cpu, bool broadcast);
void account_dsb(struct account *a, unsigned int cpu, bool waits);

/* All vCPUs are at one time, the latest of any: what was before does not matter. Returns it. */
uint64_t account_align(struct account *a);

#endif
