/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs of memory management as bytes, for "./lull search": what a call is, and how a program is run. Any bytes are a
 * program, so that a search may change them as it likes.
 *
 * A program runs in processes of its own. Actors 0 to 2 are threads of one process; actors 3 and 4 are processes, which an
 * actor forks. Each begins on a CPU of its own. The sequencer, a process that shares no memory with them but a page of
 * orders, gives the calls to the actors one after the other, and waits for the end of each unless it is marked "at once".
 * Calls may fail, and touches of memory may fault: nothing is verified here, the checker judges.
 */
#ifndef LULL_CALLS_H
#define LULL_CALLS_H

#include "lull.h"

/* lull search reads these names: a program that fails is written down by them. It draws the first two most. */
enum op {
	MAP, WRITE, READ, MAP_FILE_SHARED, MAP_FILE_PRIVATE, MAP_HUGE, UNMAP, PROTECT, ADVISE, MOVE, EXECUTE, FORK, EXIT,
	START, GO_TO_CPU, POKE, RECLAIM, FAULTS, LOCK, CUT, CLEAR_REFS, COMPACT, PAUSE,
	OPS
};

struct call {
	uint8_t op;		/* enum op, modulo OPS */
	uint8_t actor;		/* modulo ACTORS; AT_ONCE: the next call does not wait for this one */
	uint8_t place;		/* bits 1:0: the slot; bits 5:2: the page in it, an index of pages_at[] */
	uint8_t how;		/* bits 7:4: the size, an index of pages_at[], at least a page; bits 3:0: the variant */
};

enum { ACTORS = 5, THREADS = 3, AT_ONCE = 0x80, SLOTS = 4 };

/* Once, before the first program: a cgroup to reclaim from, pools of HugeTLB pages, folios of several sizes. */
void set_up(void);

/* Run a program in processes of its own, and return when they have ended. */
void run_calls(const struct call *calls, unsigned int n);

/* The main() of a program that was found. */
int repeat_calls(int argc, char **argv, const struct call *calls, unsigned int n);

#endif
