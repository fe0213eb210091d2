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

/* For who awaits the start: it must not take the CPU of the one that wakes all before that has woken the others. */
__attribute__((unused))
static void be_modest(void)
{
	const struct sched_param none = { 0 };

	must(sched_setscheduler(0, SCHED_BATCH, &none));
}

/* Sleep until a word has a value. */
__attribute__((unused))
static void await(int *word, int value)
{
	int now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value)
		if (syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0) && errno != EAGAIN && errno != EINTR)
			die("futex");
}

/* Give it that value, and wake all who wait for it. */
__attribute__((unused))
static void announce(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

/* One of @all has come so far: the last one wakes whoever awaits them. */
__attribute__((unused))
static void arrive(int *word, int all)
{
	if (__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL) == all)
		must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

#endif
