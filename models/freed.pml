/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: page tables that are freed, on CPUs without FEAT_nTLBPA. Such a CPU may keep copies of the descriptors
 * that it has walked, by their physical address, until a TLBI that applies to them completes on that CPU. Neither
 * another ASID nor another TTBR0 removes these copies. The word, loads and flushes are those of residency.pml, in
 * fewer steps, and without MANY. README.md says what must hold; run.py has the variants (-DV_...).
 */

#ifndef NCPU
#define NCPU	3
#endif
#ifndef NOBJ
#define NOBJ	2		/* tables, each with leaves; one flush at a time for each (page-table lock) */
#endif
/*
 * Further options: NTLBPA: all CPUs have FEAT_nTLBPA, and freed tables are flushed as leaves are; ROLL: ASIDs roll
 * over.
 */

#define STALE	1
#define RSTALE	2
#define WANDERED 4
byte cnt;
byte flags;
byte home;			/* CPU + 1 */

bit ttbr[NCPU];			/* TTBR0 points to the tables */
bit infl[NCPU];			/* walks begun before TTBR0 was written; a DSB ends them */
bit pending[NCPU];		/* ASIDs rolled over: the CPU flushes all before it loads anything */

#define LINKED	0
#define BUFFERED 1		/* unlinked, but the store is in the store buffer */
#define UNLINKED 2
byte table[NOBJ];
byte lock[NOBJ];		/* the CPU that flushes, + 1 */

/* Copies that CPU c holds of the descriptors in table o */
#define H(c, o)	held[(c) * NOBJ + (o)]
#define WALKED	1		/* descriptors as they are, or of the leaf that is being flushed */
#define GOING	2		/* ... a leaf whose flush has not returned */
#define MISSED	4		/* a leaf whose flush has returned */
byte held[NCPU * NOBJ];

hidden byte i, j;

inline settle()
{
	i = 0;
	do
	:: i < NCPU ->
		j = 0;
		do
		:: j < NOBJ ->
			if
			:: (ttbr[i] || infl[i]) && table[j] != UNLINKED -> H(i, j) = H(i, j) | WALKED
			:: else
			fi;
			assert(!((ttbr[i] || infl[i]) && (H(i, j) & MISSED)));	/* an old entry is used */
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0
}

/* TLBIs, with the DSB that completes them: for the whole ASID, or for the flushed part of one table. */
inline forget_asid(c)
{
	j = 0;
	do
	:: j < NOBJ -> H(c, j) = 0; j++
	:: else -> break
	od;
	j = 0
}

#define ONE(o)	(leaf -> GOING : WALKED | GOING)

inline here(all)
{
	d_step {
		if
		:: all -> forget_asid(me)
		:: else -> H(me, o) = H(me, o) & ~ONE(o)
		fi;
		settle()
	}
}

inline everywhere(all)
{
	d_step {
		i = 0;
		do
		:: i < NCPU ->
			if
			:: all -> forget_asid(i)
			:: else -> H(i, o) = H(i, o) & ~ONE(o)
			fi;
			i++
		:: else -> break
		od;
		settle()
	}
}

#define NOWHERE		0
#define HERE		1
#define EVERYWHERE	2
#define ASID_HERE	3
#define ASID_EVERYWHERE	4

#ifdef V_HOME_ONLY
#define MOVED	(home != me + 1)
#else
#define MOVED	((flags & WANDERED) || home != me + 1)
#endif

/* res_flush() and res_flush_tables(): read and change the word. */
inline decide()
{
	d_step {
		if
		:: cnt == 0 -> reach = NOWHERE
		:: cnt == 1 && ttbr[me] -> reach = HERE
		:: else -> reach = EVERYWHERE
		fi;
		alone = 0;
#if !defined(NTLBPA) && !defined(V_AS_LEAF)
		if
		:: leaf
		:: !leaf && reach == EVERYWHERE ->
			if
#ifndef V_RANGE
			:: flags & (STALE | RSTALE) -> reach = ASID_EVERYWHERE
#endif
			:: else
			fi;
#ifdef V_CLEAR_LOADED
			flags = flags & ~WANDERED; home = me + 1
#endif
		:: !leaf && reach == HERE && (flags & WANDERED) ->
#ifndef V_HERE_WANDERED
			alone = 1
#endif
		:: !leaf && reach == NOWHERE && home ->
			if
			:: MOVED -> alone = 1
#ifdef V_NOT_HERE
			:: else
#else
			:: else -> reach = ASID_HERE
#endif
			fi
		:: else
		fi;
#endif
		if
		:: cnt == 0 -> flags = flags | STALE
		:: cnt == 1 && ttbr[me] ->
			if
			:: flags & WANDERED -> flags = flags | RSTALE
			:: else
			fi;
			home = me + 1
		:: else
		fi;
		if
		:: alone ->
#ifdef V_ALONE_RANGE
			reach = EVERYWHERE;
#else
			reach = ASID_EVERYWHERE;
#endif
#ifndef V_NEVER_HOME
#ifdef V_OLD_CLEARED
			flags = 0;
#else
			flags = flags & ~WANDERED;
#endif
#ifndef V_HOME_STAYS
			home = me + 1;
#endif
#ifdef V_HOME_NONE
			home = (cnt -> home : 0);
#endif
#endif
		:: else
		fi;
		printf("CPU %d: %d of table %d: reach %d; count %d, flags %d, home %d\n", me, leaf, o, reach, cnt, flags, home - 1)
	}
}

proctype cpu(byte me)
{
	byte o, reach, todo;
	bit leaf, alone;

again:	if
	:: atomic { !ttbr[me] -> skip }; goto load
	:: atomic { ttbr[me] -> ttbr[me] = 0; infl[me] = 1; settle() }; goto out
	:: atomic { lock[0] == 0 -> lock[0] = me + 1; o = 0; leaf = 0 }; goto flush
	:: atomic { lock[0] == 0 -> lock[0] = me + 1; o = 0; leaf = 1 }; goto flush
#if NOBJ > 1
	:: atomic { lock[1] == 0 -> lock[1] = me + 1; o = 1; leaf = 0 }; goto flush
	:: atomic { lock[1] == 0 -> lock[1] = me + 1; o = 1; leaf = 1 }; goto flush
#endif
#ifdef ROLL
	:: atomic {
		(cnt == 0 && home && !pending[0]) ->	/* a new number; CPUs flush when they switch */
		i = 0;
		do
		:: i < NCPU -> pending[i] = 1; i++
		:: else -> break
		od;
		i = 0;
#ifdef V_FRESH_CLEARS
		flags = 0; home = 0
#endif
	   }; goto again
#endif
	fi;

load:	atomic {
		if
		:: pending[me] -> pending[me] = 0; forget_asid(me)
		:: else
		fi;
		todo = ((flags & STALE) || ((flags & RSTALE) && home != me + 1));
		cnt++;
#ifdef V_RENAMES
		if
		:: todo && cnt == 1 ->
			todo = 0; flags = 0; home = 0;
			/* the CPU has no entry under the new number */
			i = 0;
			do
			:: i < NCPU * NOBJ -> held[i] = held[i] & ~MISSED | (held[i] & MISSED -> WALKED : 0); i++
			:: else -> break
			od;
			i = 0
		:: else
		fi;
#endif
		if
		:: todo -> flags = (flags & ~STALE) | RSTALE
		:: else
		fi;
		if
#ifndef V_NO_WANDERED_FREED
		:: home && home != me + 1 -> flags = flags | WANDERED
#endif
		:: else
		fi;
		home = me + 1;
		printf("CPU %d: loads; to do %d; count %d, flags %d\n", me, todo, cnt, flags)
	}
	d_step {
		if
		:: todo -> forget_asid(me)
		:: else
		fi;
		todo = 0
	}
	atomic { ttbr[me] = 1; settle() }
	goto again;

out:	atomic { infl[me] = 0 }
	d_step { cnt-- }
	goto again;

	/* A leaf changes, or a table is unlinked; then DSB ISHST, the word, the TLBIs, and the return. */
flush:	atomic {
		if
		:: leaf ->
			i = 0;
			do
			:: i < NCPU ->
				if
				:: H(i, o) & WALKED -> H(i, o) = H(i, o) | GOING
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0
		:: else -> table[o] = BUFFERED
		fi
	}
	d_step {
		if
		:: !leaf -> table[o] = UNLINKED
		:: else
		fi
	}
	decide();
	if
	:: reach == NOWHERE
	:: reach == HERE -> here(false)
	:: reach == ASID_HERE -> here(true)
	:: reach == EVERYWHERE -> everywhere(false)
	:: reach == ASID_EVERYWHERE -> everywhere(true)
	fi;
	atomic {
		i = 0;
		do
		:: i < NCPU ->
			if
			:: H(i, o) & GOING -> H(i, o) = (H(i, o) & ~GOING) | MISSED
			:: else
			fi;
#ifndef NTLBPA
			assert(leaf || !H(i, o));	/* the table is freed, and a CPU still holds a copy of what was in it */
#endif
			i++
		:: else -> break
		od;
		i = 0;
		table[o] = LINKED;
		lock[o] = 0;
		o = 0; leaf = 0; reach = 0; alone = 0;
		settle()
	}
	goto again
}

init {
	atomic {
		run cpu(0);
		run cpu(1);
#if NCPU > 2
		run cpu(2);
#endif
	}
}
