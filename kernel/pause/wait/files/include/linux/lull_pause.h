/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Make all other CPUs wait, for a moment, wherever they are.
 *
 *	err = lull_pause_begin(&pause, budget);
 *	if (err)
 *		return err;	nothing has happened
 *	...			what no other CPU may see half done
 *	lull_pause_end(&pause);
 */
#ifndef _LINUX_LULL_PAUSE_H
#define _LINUX_LULL_PAUSE_H

#include <linux/cpumask.h>
#include <linux/types.h>

/**
 * struct lull_pause - one pause
 * @flags: what was masked on this CPU before it
 * @daif: what was masked while it waited for the others
 * @asked: when the others were asked to wait, in ns of sched_clock()
 * @held: when the last of them had come
 * @ended: when they were let go
 * @waited: for how long others waited at most, those that had come in tries that
 *	failed as well, in ns
 * @longest: the longest time of these in one go
 * @tries: how often they were asked
 */
struct lull_pause {
	unsigned long flags;
	unsigned long daif;
	u64 asked;
	u64 held;
	u64 ended;
	u64 waited;
	u64 longest;
	unsigned int tries;
};

#ifdef CONFIG_LULL_PAUSE

extern struct cpumask lull_pause_all;

int lull_pause_begin(struct lull_pause *pause, u64 budget);
void lull_pause_end(struct lull_pause *pause);
u64 lull_pause_age(const struct lull_pause *pause);
void lull_pause_join(void);

/**
 * lull_pause_to_all() - is this interrupt for all other CPUs that there are?
 * @mask: whom it is for
 *
 * For the interrupt controller, which may be able to send one to all.
 */
static inline bool lull_pause_to_all(const struct cpumask *mask)
{
	return mask == &lull_pause_all;
}

#else /* CONFIG_LULL_PAUSE */

static inline void lull_pause_join(void)
{
}

static inline bool lull_pause_to_all(const struct cpumask *mask)
{
	return false;
}

#endif /* CONFIG_LULL_PAUSE */

#endif /* _LINUX_LULL_PAUSE_H */
