/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The residency word and its transitions: pure, so that KUnit can try them all.
 * What they mean stands in residency.c.
 *
 *	63          32 31        16 15 13 12  11  10  9   8 7        0
 *	+-------------+------------+-----+---+---+---+---+---+--------+
 *	|    epoch    | home: CPU+1|  0  | L | W | R | S | M |  count |
 *	+-------------+------------+-----+---+---+---+---+---+--------+
 *
 * count	CPUs that have it loaded and are counted
 * M MANY	more than the limit: nobody is counted any more, every flush is
 *		a broadcast
 * S STALE	any CPU may hold entries that are no longer true
 * R RSTALE	any CPU but home may
 * W WANDERED	it has been loaded elsewhere than home since the ASID was fresh;
 *		without FEAT_nTLBPA since the last broadcast of the whole ASID
 * L LOOKING	it is MANY, and somebody looks whether it still has to be
 * home		the CPU that loaded it last, or flushed it locally
 * epoch	when it was made: residency_policy.c
 */
#ifndef __ARM64_MM_LULL_RESIDENCY_H
#define __ARM64_MM_LULL_RESIDENCY_H

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/types.h>

#include <asm/alternative-macros.h>
#include <asm/cpucaps.h>
#include <asm/lull_residency.h>

#define RES_COUNT	GENMASK_ULL(7, 0)
#define RES_MANY	BIT_ULL(8)
#define RES_STALE	BIT_ULL(9)
#define RES_RSTALE	BIT_ULL(10)
#define RES_WANDERED	BIT_ULL(11)
#define RES_LOOKING	BIT_ULL(12)
#define RES_HOME	GENMASK_ULL(31, 16)
#define RES_EPOCH	GENMASK_ULL(63, 32)
#define RES_OLD		(RES_STALE | RES_RSTALE)	/* somebody may hold old entries */

#define RES_MAX_LIMIT	255

/**
 * enum res_load - what a CPU must do before it points TTBR0_EL1 to the tables
 * @RES_LOAD_CLEAN: nothing
 * @RES_LOAD_LOCAL: forget the ASID: it may hold old entries
 * @RES_LOAD_BROADCAST: make everybody forget the ASID. MANY CPUs may load it,
 *	and none of them looks any more
 */
enum res_load { RES_LOAD_CLEAN, RES_LOAD_LOCAL, RES_LOAD_BROADCAST };

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
 * @w: the word
 * @cpu: the CPU; it has not loaded it
 * @limit: the most CPUs that are counted, 1 to RES_MAX_LIMIT
 * @sticky: MANY as soon as a second CPU loads it
 * @todo: what it must do before, once the new word is in place
 *
 * Return: the new word; the same only for one that is MANY.
 */
static inline u64 res_load(u64 w, unsigned int cpu, unsigned int limit,
			   bool sticky, enum res_load *todo)
{
	bool elsewhere = (w & RES_HOME) && !res_is_home(w, cpu);
	bool old = (w & RES_STALE) || ((w & RES_RSTALE) && elsewhere);

	if (w & RES_MANY) {
		*todo = w & RES_STALE ? RES_LOAD_BROADCAST : RES_LOAD_CLEAN;
		return w & ~RES_LOOKING;
	}
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
 * res_load_counts() - is to count all there is to do for a load?
 * @w: the word
 * @cpu: the CPU
 * @limit: the most CPUs that are counted
 *
 * The usual case: it comes back to the CPU that it ran on before. What res_load()
 * says then is this, with fewer instructions.
 *
 * Return: whether the new word is @w + 1, and nothing must be done before.
 */
static inline bool res_load_counts(u64 w, unsigned int cpu, unsigned int limit)
{
	return !(w & (RES_MANY | RES_STALE)) && res_is_home(w, cpu) &&
	       res_count(w) < limit;
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
 * res_flush_tables() - the same, and tables are freed next, on a machine that is
 *	without FEAT_nTLBPA
 * @w: the word
 * @cpu: this CPU
 * @here: has this CPU loaded it?
 * @reach: who must be told
 *
 * Each CPU that has ever walked such a table may hold copies of what stood in it,
 * of leaves too whose flush was left out, until a TLBI for the ASID reaches that
 * CPU. If it can be home alone, home's own TLBI does; else all are told, once:
 * from then on this CPU is home.
 *
 * WANDERED goes before the broadcast. Who flushes on another CPU meanwhile is not
 * at home, and tells all; this CPU does nothing else until its broadcast is
 * complete. STALE and RSTALE stay: who loads it before that must still look.
 *
 * Return: as res_flush()
 */
static inline u64 res_flush_tables(u64 w, unsigned int cpu, bool here,
				   enum res_reach *reach)
{
	u64 next = res_flush(w, cpu, here, reach);

	switch (*reach) {
	case RES_NOWHERE:
		if (!(w & RES_HOME))
			return next;
		if (!(w & RES_WANDERED) && res_is_home(w, cpu)) {
			*reach = RES_ASID_HERE;
			return next;
		}
		break;
	case RES_HERE:
		if (!(w & RES_WANDERED))
			return next;
		break;
	default:
		/* What it has in the tables is told to all; what was left out is not. */
		if (w & RES_OLD)
			*reach = RES_ASID_EVERYWHERE;
		return next;
	}
	*reach = RES_ASID_EVERYWHERE;
	return res_set_home(next & ~RES_WANDERED, cpu);
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
 * @ntlbpa: all CPUs have FEAT_nTLBPA
 *
 * Return: the new word; the same while a CPU has it loaded, under the old number,
 * and without FEAT_nTLBPA once a CPU has walked its tables.
 */
static inline u64 res_fresh(u64 w, bool ntlbpa)
{
	if (res_count(w) || w & RES_MANY || (!ntlbpa && w & RES_HOME))
		return w;
	return w & ~(RES_OLD | RES_WANDERED | RES_HOME);
}

/**
 * res_worth_looking() - might a look find that it need not be MANY any more?
 * @w: the word
 *
 * Not while something is stale that somebody is about to make good; and not if
 * not all CPUs that have it loaded have said so (another epoch).
 */
static inline bool res_worth_looking(u64 w)
{
	return (w & (RES_MANY | RES_OLD)) == RES_MANY && w & RES_EPOCH;
}

/**
 * res_recount() - a look has found it loaded on no CPU but, maybe, this one
 * @w: the word; MANY, and nothing is stale
 * @cpu: this CPU
 * @here: has this CPU loaded it?
 *
 * Return: the new word. Whoever puts it in place makes all CPUs forget the ASID.
 */
static inline u64 res_recount(u64 w, unsigned int cpu, bool here)
{
	return res_set_home((w & RES_EPOCH) + here, cpu);
}

/* --- What residency's files share --- */

struct lull_switch;

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_residency_switch;
#endif

DECLARE_STATIC_KEY_FALSE(lull_residency_sticky);
DECLARE_STATIC_KEY_FALSE(lull_residency_rename);

extern unsigned int lull_residency_limit;
extern int lull_residency_ntlbpa;
extern u32 lull_residency_epoch;
extern bool lull_may_rename;

/* Do no CPUs keep descriptors by their physical address? */
static inline bool res_ntlbpa(void)
{
	int said = READ_ONCE(lull_residency_ntlbpa);

	return said < 0 ? alternative_has_cap_unlikely(ARM64_HAS_NTLBPA) : said;
}

static inline atomic64_t *res_word(struct mm_struct *mm)
{
	return &mm->context.residency;
}

/* The word of another epoch was not kept all the time: it says nothing. */
static inline u64 res_read(struct mm_struct *mm)
{
	u32 epoch = READ_ONCE(lull_residency_epoch);
	u64 w = atomic64_read(res_word(mm));

	return FIELD_GET(RES_EPOCH, w) == epoch ? w : RES_MANY;
}

void res_park_idle(unsigned int cpu);
void res_forget_here(struct mm_struct *mm);
void res_forget_everywhere(struct mm_struct *mm);

#endif /* __ARM64_MM_LULL_RESIDENCY_H */
