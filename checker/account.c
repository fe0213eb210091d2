// SPDX-License-Identifier: GPL-2.0-only
/*
 * account - modelled time: the vCPUs' times, and the interconnect. See account.h.
 */
#include <stdlib.h>
#include <string.h>

#include "account.h"

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns the first interval that ends after @time, or n. */
static size_t find(const struct server *s, uint64_t time)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->busy[middle].end > time)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Put one interval in place of those from @first to before @next, of which there may be none. */
static void replace(struct server *s, size_t first, size_t next, struct busy by)
{
	if (first == next && s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->busy = realloc(s->busy, s->room * sizeof(*s->busy));
		if (!s->busy)
			abort();
	}
	memmove(&s->busy[first + 1], &s->busy[next], (s->n - next) * sizeof(*s->busy));
	s->n = s->n - (next - first) + 1;
	s->busy[first] = by;
}

/*
 * A booking fills all free time between its start and its end. After it there is no gap
 * between the two, so that the booking and the intervals between become one interval.
 */
uint64_t server_book(struct server *s, uint64_t from, uint64_t length)
{
	size_t first = find(s, from), next = first;
	struct busy by = { .start = from };
	uint64_t at = from, done;

	if (!length)
		return from;
	if (first < s->n && s->busy[first].start <= from) {
		by.start = s->busy[first].start;
		at = s->busy[next++].end;
	}
	for (; next < s->n && s->busy[next].start - at < length; next++) {
		length -= s->busy[next].start - at;
		at = s->busy[next].end;
	}
	done = by.end = at + length;
	if (next < s->n && s->busy[next].start == done)
		by.end = s->busy[next++].end;
	if (first && s->busy[first - 1].end == by.start)
		by.start = s->busy[--first].start;
	replace(s, first, next, by);
	return done;
}

void server_forget(struct server *s, uint64_t before)
{
	size_t gone = find(s, before);

	if (!gone)
		return;
	memmove(s->busy, &s->busy[gone], (s->n - gone) * sizeof(*s->busy));
	s->n -= gone;
}

bool account_init(struct account *a, unsigned int ncpus, const struct costs *costs)
{
	*a = (struct account){
		.costs = *costs, .ncpus = ncpus, .cpus = calloc(ncpus, sizeof(*a->cpus)),
	};
	return a->cpus;
}

void account_free(struct account *a)
{
	free(a->cpus);
	free(a->server.busy);
	*a = (struct account){ 0 };
}

/*
 * Move the front, after time has passed for a vCPU or it fell asleep. @last: the time of
 * that vCPU, which is the front if no vCPU runs.
 */
static void advance(struct account *a, uint64_t last)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int cpu = 0; cpu < a->ncpus; cpu++)
		if (a->cpus[cpu].running && a->cpus[cpu].time < least)
			least = a->cpus[cpu].time;
	a->front = max(a->front, least == UINT64_MAX ? last : least);
	server_forget(&a->server, a->front);
}

static void run_from(struct account *a, unsigned int cpu, uint64_t time)
{
	struct account_cpu *c = &a->cpus[cpu];

	if (c->running)
		return;
	c->running = true;
	c->time = max(c->time, time);
}

void account_run(struct account *a, unsigned int cpu)
{
	run_from(a, cpu, a->front);
}

void account_wake(struct account *a, unsigned int cpu, unsigned int by)
{
	run_from(a, cpu, a->cpus[by].time);
}

void account_sleep(struct account *a, unsigned int cpu)
{
	a->cpus[cpu].running = false;
	advance(a, a->cpus[cpu].time);
}

static void pass(struct account *a, unsigned int cpu, uint64_t time)
{
	a->cpus[cpu].time += time;
	advance(a, a->cpus[cpu].time);
}

void account_insns(struct account *a, unsigned int cpu, uint64_t insns)
{
	struct account_cpu *c = &a->cpus[cpu];
	uint64_t more = insns - c->insns;

	c->insns = insns;
	pass(a, cpu, more * a->costs.insn);
}

void account_tlbi(struct account *a, unsigned int cpu, bool broadcast)
{
	struct account_cpu *c = &a->cpus[cpu];

	pass(a, cpu, a->costs.tlbi);
	if (broadcast)
		c->complete = max(c->complete,
				  server_book(&a->server, c->time, a->costs.broadcast) + a->costs.latency);
}

void account_dsb(struct account *a, unsigned int cpu, bool waits)
{
	struct account_cpu *c = &a->cpus[cpu];
	uint64_t wait = waits && c->complete > c->time ? c->complete - c->time : 0;

	pass(a, cpu, wait + a->costs.dsb);
}

uint64_t account_align(struct account *a)
{
	uint64_t latest = a->front;

	for (unsigned int cpu = 0; cpu < a->ncpus; cpu++)
		latest = max(latest, a->cpus[cpu].time);
	for (unsigned int cpu = 0; cpu < a->ncpus; cpu++)
		a->cpus[cpu].time = latest;
	advance(a, latest);
	return latest;
}
