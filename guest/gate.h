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

#include <limits.h>
#include <linux/futex.h>

/*
 * For processes that wait for the start: SCHED_BATCH keeps them from preempting the process that wakes them, before it
 * has woken all of them.
 */
__attribute__((unused))
static void be_modest(void)
{
	const struct sched_param none = { 0 };

	must(sched_setscheduler(0, SCHED_BATCH, &none));
}

/* Sleep until @word has the value @value. */
__attribute__((unused))
static void await(int *word, int value)
{
	int now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value)
		if (syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0) && errno != EAGAIN && errno != EINTR)
			die("futex");
}

/* Set @word to @value, and wake all processes that wait for it. */
__attribute__((unused))
static void announce(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

/* Count one more of @all processes in @word. The last one wakes the process that waits for them. */
__attribute__((unused))
static void arrive(int *word, int all)
{
	if (__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL) == all)
		must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

#endif
