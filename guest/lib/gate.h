/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gate: processes that begin at the same time, and one that sleeps until all of them are done. It uses words in
 * memory that they share, and futex(2). Pipes would not do: each process would be woken by a system call of its own,
 * the first one woken might take the CPU of the process that wakes the others, and all that come back at once would
 * wait for the lock of the pipe.
 */
#ifndef GATE_H
#define GATE_H

#include "lull.h"

/*
 * For processes that wait for the start: SCHED_BATCH keeps them from preempting the process that wakes them, before it
 * has woken all of them.
 */
void be_modest(void);

/* Sleep until @word has the value @value. */
void await(int *word, int value);

/* Set @word to @value, and wake all processes that wait for it. */
void announce(int *word, int value);

/* Count one more of @all processes in @word. The last one wakes the process that waits for them. */
void arrive(int *word, int all);

#endif
