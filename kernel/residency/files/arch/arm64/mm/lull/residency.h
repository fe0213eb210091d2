/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The residency word and its transitions: pure, so that KUnit can try them all.
 * What they mean stands in residency.c.
 *
 *	63          32 31        16 15     12 11  10  9   8 7        0
 *	+-------------+------------+---------+---+---+---+---+--------+
 *	|      0      | home: CPU+1|    0    | W | R | S | M |  count |
 *	+-------------+------------+---------+---+---+---+---+--------+
 *
 * count	CPUs that have it loaded and are counted
 * M MANY	more than the limit: nobody counts any more, every flush is a
 *		broadcast. It is not left again
 * S STALE	any CPU may hold entries that are no longer true
 * R RSTALE	any CPU but home may
 * W WANDERED	it has been loaded elsewhere than home since the ASID was fresh
 * home		the CPU that loaded it last, or flushed it locally
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/types.h>

#define RES_COUNT	GENMASK_ULL(7, 0)
#define RES_MANY	BIT_ULL(8)
#define RES_STALE	BIT_ULL(9)
#define RES_RSTALE	BIT_ULL(10)
#define RES_WANDERED	BIT_ULL(11)
#define RES_HOME	GENMASK_ULL(31, 16)
#define RES_OLD		(RES_STALE | RES_RSTALE)	/* somebody may hold old entries */

struct lull_switch;

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_residency_switch;
#endif

#define RES_MAX_LIMIT	255

/**
 * enum res_load - what a CPU must do before it points TTBR0_EL1 to the tables
 * @RES_LOAD_CLEAN: nothing
 * @RES_LOAD_LOCAL: forget the ASID: it may hold old entries
 * @RES_LOAD_BROADCAST: make everybody forget the ASID. MANY CPUs may load it,
 *	and none of them looks any more
 */
enum res_load { RES_LOAD_CLEAN, RES_LOAD_LOCAL, RES_LOAD_BROADCAST };

/**
 * enum res_reach - who must be told of a flush
 * @RES_NOWHERE: nobody; the word remembers it
 * @RES_HERE: this CPU
 * @RES_EVERYWHERE: all
 */
enum res_reach { RES_NOWHERE, RES_HERE, RES_EVERYWHERE };

static inline unsigned int res_count(u64 w)
{
	return FIELD_GET(RES_COUNT, w);
}

static inline bool res_is_home(u64 w, unsigned int cpu)
{
	return FIELD_GET(RES_HOME, w) == cpu + 1;
}

static inline u64 res_set_home(u64 w, unsigned int cpu)
{
	return (w & ~RES_HOME) | FIELD_PREP(RES_HOME, cpu + 1);
}

/**
 * res_load() - a CPU is about to load the address space
 * @w: the word; not MANY
 * @cpu: the CPU; it has not loaded it
 * @limit: the most CPUs that are counted, 1 to RES_MAX_LIMIT
 * @sticky: MANY as soon as a second CPU loads it
 * @todo: what it must do before, once the new word is in place
 *
 * Return: the new word.
 */
static inline u64 res_load(u64 w, unsigned int cpu, unsigned int limit,
			   bool sticky, enum res_load *todo)
{
	bool elsewhere = (w & RES_HOME) && !res_is_home(w, cpu);
	bool old = (w & RES_STALE) || ((w & RES_RSTALE) && elsewhere);

	if (res_count(w) >= limit || (sticky && elsewhere)) {
		*todo = w & RES_OLD ? RES_LOAD_BROADCAST : RES_LOAD_CLEAN;
		return w | RES_MANY | (w & RES_OLD ? RES_STALE : 0);
	}

	*todo = old ? RES_LOAD_LOCAL : RES_LOAD_CLEAN;
	if (old)
		w = (w & ~RES_STALE) | RES_RSTALE;
	if (elsewhere)
		w |= RES_WANDERED;
	return res_set_home(w + 1, cpu);
}

/**
 * res_flush() - entries of the address space have changed
 * @w: the word
 * @cpu: this CPU
 * @here: has this CPU loaded it?
 * @reach: who must be told
 *
 * Return: the new word, which must be put in place with an atomic
 * read-modify-write before anything is left out.
 */
static inline u64 res_flush(u64 w, unsigned int cpu, bool here,
			    enum res_reach *reach)
{
	*reach = RES_EVERYWHERE;
	if (w & RES_MANY)
		return w;
	if (!res_count(w)) {
		*reach = RES_NOWHERE;
		return w | RES_STALE;
	}
	if (res_count(w) == 1 && here) {
		*reach = RES_HERE;
		if (w & RES_WANDERED)
			w |= RES_RSTALE;
		return res_set_home(w, cpu);
	}
	return w;
}

/**
 * res_worth_renaming() - would a fresh ASID save the TLBI that is due?
 * @w: the word
 * @cpu: the CPU that is about to load the address space
 */
static inline bool res_worth_renaming(u64 w, unsigned int cpu)
{
	if (w & RES_MANY || res_count(w))
		return false;
	return w & RES_STALE || (w & RES_RSTALE && !res_is_home(w, cpu));
}

/**
 * res_fresh() - the address space has an ASID that no TLB knows
 * @w: the word
 *
 * Return: the new word; the same while a CPU has it loaded, under the old number.
 */
static inline u64 res_fresh(u64 w)
{
	if (res_count(w) || w & RES_MANY)
		return w;
	return w & ~(RES_OLD | RES_WANDERED | RES_HOME);
}

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
