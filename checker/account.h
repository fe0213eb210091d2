/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * account - modelled time: how long a guest's instructions, TLBIs and DSBs would take
 * on a machine with stated costs. docs/timing.md describes the model.
 *
 * Each vCPU has a time, and what the vCPU executes adds to it. A broadcast TLBI also
 * books the interconnect, the one resource that all CPUs share. A DSB waits for the
 * broadcasts of its own CPU. Nothing here knows the host's time.
 *
 * The interconnect serves one broadcast at a time, from its time of issue on, in
 * whatever time is free, also in pieces. So the order in which the host runs vCPUs
 * matters little: a vCPU that the host runs late still finds the free time that
 * earlier bookings of others left.
 *
 * The front is the least time of the vCPUs that run. It never goes back: a vCPU that
 * wakes up gets the front as its time, because the vCPU that woke it is not behind
 * the front. While all vCPUs sleep no time passes, since the guest's timers follow
 * the host.
 *
 * The caller serialises all calls. Times are picoseconds.
 */
#ifndef LULL_ACCOUNT_H
#define LULL_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_PER_NS 1000

/* Costs in picoseconds. */
struct costs {
	uint64_t insn;		/* any instruction */
	uint64_t tlbi;		/* issuing a TLBI, besides being an instruction */
	uint64_t broadcast;	/* how long one broadcast occupies the interconnect */
	uint64_t latency;	/* from the end of that until a DSB sees the broadcast complete */
	uint64_t dsb;		/* any DSB, besides the wait */
};

/* The interconnect: the intervals in which it is busy, in order, with free time between any two. */
struct server {
	struct busy {
		uint64_t start, end;
	} *busy;
	size_t n, room;
};

/* Book @length of free time, from @from on. Returns when the booking ends. Aborts without memory. */
uint64_t server_book(struct server *s, uint64_t from, uint64_t length);

/* No later booking begins before @before: drop the intervals that end by then. */
void server_forget(struct server *s, uint64_t before);

struct account {
	struct costs costs;
	unsigned int ncpus;
	struct account_cpu {
		uint64_t time;
		uint64_t insns;		/* instructions that @time includes */
		uint64_t complete;	/* when all of its broadcasts are complete */
		bool running;
	} *cpus;
	struct server server;
	uint64_t front;
};

bool account_init(struct account *a, unsigned int ncpus, const struct costs *costs);
void account_free(struct account *a);

/*
 * A vCPU executes again; is woken by an interrupt of vCPU @by; falls asleep. A call
 * that repeats the present state does nothing. A vCPU that is woken runs from the time
 * of @by on, however late the host lets it execute.
 */
void account_run(struct account *a, unsigned int cpu);
void account_wake(struct account *a, unsigned int cpu, unsigned int by);
void account_sleep(struct account *a, unsigned int cpu);

/* The vCPU has executed @insns instructions since the start. */
void account_insns(struct account *a, unsigned int cpu, uint64_t insns);

/* The vCPU executes a TLBI, or a DSB. @waits: the DSB is of a kind that completes TLBIs. */
void account_tlbi(struct account *a, unsigned int cpu, bool broadcast);
void account_dsb(struct account *a, unsigned int cpu, bool waits);

/* Set the time of all vCPUs to the latest of any, where a window begins. Returns that time. */
uint64_t account_align(struct account *a);

#endif
