// SPDX-License-Identifier: GPL-2.0-only
#include "gate.h"

#include <limits.h>
#include <linux/futex.h>

void be_modest(void)
{
	const struct sched_param none = { 0 };

	must(sched_setscheduler(0, SCHED_BATCH, &none));
}

void await(int *word, int value)
{
	int now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value)
		if (syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0) && errno != EAGAIN && errno != EINTR)
			die("futex");
}

static void wake(int *word)
{
	must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

void announce(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	wake(word);
}

void arrive(int *word, int all)
{
	if (__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL) == all)
		wake(word);
}
