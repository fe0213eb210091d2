/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: page tables that are freed. A CPU without FEAT_nTLBPA may keep copies of the descriptors that it has
 * walked, by their physical address, until a TLBI that applies to them completes on that CPU. Neither another ASID nor
 * another TTBR0 removes these copies. Loads and flushes of leaves are those of residency.pml, for one mm. The lock of a
 * table is dropped before the flush of a leaf; meanwhile, another flush may free the table (PT_RECLAIM).
 * README.md says what must hold; run.py has the variants (-DV_...).
 */

#ifndef NCPU
#define NCPU	2
#endif
#ifndef NOBJ
#define NOBJ	2		/* tables; in each, one leaf at a time is being flushed */
#endif

byte clean;			/* mm_cpumask() */
bit looks;			/* the lock bit: a flush looks */
byte walker;			/* CPU + 1; 0: none; WALKERS: several */
#define WALKERS	9

bit loaded[NCPU];
bit leaving[NCPU];
bit ttbr[NCPU];			/* TTBR0 points to the tables */
bit infl[NCPU];			/* walks begun before TTBR0 was written; a DSB ends them */
bit pending[NCPU];		/* tlb_flush_pending: the CPU flushes all before it loads the mm */
bit num;			/* the ASID number: this one, or the one before */

#define LINKED	0
#define BUFFERED 1		/* unlinked, but the store is in the store buffer */
#define UNLINKED 2
byte table[NOBJ];
bit lock[NOBJ];			/* a flush frees the table */
bit pend[NOBJ];			/* a leaf has changed, and its flush has not returned */

/* Copies that CPU c holds of the descriptors in table o, under the number that the mm has, and under older ones */
#define H(c, o)	held[(c) * NOBJ + (o)]
#define X(c, o)	older[(c) * NOBJ + (o)]
#define WALKED	1		/* descriptors as they are, or the leaf that is being flushed */
#define GOING	2		/* the leaf that is being flushed */
#define MISSED	4		/* a leaf whose flush has returned */
byte held[NCPU * NOBJ];
byte older[NCPU * NOBJ];

#ifdef SHORTEST
byte i, j;			/* spin's breadth-first search has no hidden variables */
#else
hidden byte i, j;
#endif

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
			assert(!((ttbr[i] || infl[i]) && ((H(i, j) | X(i, j)) & MISSED)));	/* an old entry is used */
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0
}

/* TLBIs, each with the DSB that completes it: for a leaf, or, as a table is freed, for all of the table. */
#if defined(V_NO_SPAN_ELIDED)
#define PART	(leaf -> GOING : WALKED | GOING)
#elif defined(V_NO_SPAN_PENDING)
#define PART	(leaf -> GOING : WALKED | MISSED)
#else
#define PART	(leaf -> GOING : WALKED | GOING | MISSED)
#endif

inline forget_part(c)
{
	if
	:: id == num -> H(c, o) = H(c, o) & ~PART
	:: else -> X(c, o) = X(c, o) & ~PART
	fi
}

inline here()
{
	d_step {
		printf("CPU %d: local TLBI\n", me);
		forget_part(me);
		settle()
	}
}

inline everywhere()
{
	d_step {
		printf("CPU %d: broadcast\n", me);
		i = 0;
		do
		:: i < NCPU -> forget_part(i); i++
		:: else -> break
		od;
		settle()
	}
}

/*
 * new_context(): no CPU has the mm loaded, or parked. It broadcasts for the old number. Every CPU flushes
 * all before it loads the mm.
 */
inline new_number()
{
	printf("        the mm gets a new ASID number\n");
	i = 0;
	do
	:: i < NCPU ->
		pending[i] = 1;
		j = 0;
		do
		:: j < NOBJ ->
#ifdef V_NEW_KEEPS
			X(i, j) = X(i, j) | H(i, j);
#endif
			H(i, j) = 0;
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0;
	num = 1 - num
}

/* --- Loading and leaving --- */

#define MINE	(clean & (1 << me))

inline set_bit()
{
	d_step { printf("CPU %d: sets its bit\n", me); clean = clean | (1 << me) }
}

inline read_walker()
{
	d_step {
		old = walker;
		printf("CPU %d: walker is %d\n", me, old)
	}
}

/* cmpxchg(), and WRITE_ONCE() */
inline write_walker()
{
	if
#ifdef V_WALKER_STORE
	:: d_step { !old -> walker = me + 1; printf("CPU %d: walker = %d\n", me, walker) }
#else
	:: d_step { !old && !walker -> walker = me + 1; printf("CPU %d: walker = %d\n", me, walker) }
	:: d_step { !old && walker -> old = walker }
#endif
	:: atomic { old -> skip }
	fi;
	if
#ifdef V_WALKER_KEEPS
	:: atomic { true -> skip }
#else
	:: d_step { old && old != me + 1 && old != WALKERS -> walker = WALKERS; printf("CPU %d: walker = several\n", me) }
	:: atomic { !old || old == me + 1 || old == WALKERS -> skip }
#endif
	fi
}

#if defined(V_NO_TLBI_FREED)
#define FORGETS	false
#elif defined(V_WALKER_SKIPS)
#define FORGETS	(old && old != me + 1)
#else
#define FORGETS	old
#endif

inline forget_here()
{
	d_step {
		if
		:: FORGETS ->
			printf("CPU %d: local TLBI of the ASID\n", me);
			j = 0;
			do
			:: j < NOBJ -> H(me, j) = 0; j++
			:: else -> break
			od;
			j = 0
		:: else
		fi;
		old = 0;
		settle()
	}
}

inline write_ttbr()
{
	atomic { ttbr[me] = 1; printf("CPU %d: TTBR0 written\n", me); settle() }
}

/* res_make_clean(), and the write of TTBR0 */
inline make_clean_and_load()
{
	set_bit();
	read_walker();
#ifdef V_WALKER_LATE
	forget_here();
	write_ttbr();
	read_walker();
	write_walker();
	old = 0
#else
	write_walker();
	forget_here();
	write_ttbr()
#endif
}

/* --- Flushing --- */

#define NOWHERE		0
#define HERE		1
#define EVERYWHERE	2

#define OWN		(other == me && loaded[me])

/* res_look(), as in residency.pml */
inline look()
{
	do
	:: atomic { other < NCPU && OWN -> other++ }
	:: atomic { other < NCPU && !OWN -> cleared = cleared | (clean & (1 << other)); other++ }
	:: atomic { other == NCPU -> other = 0; break }
	od;
	do
	:: atomic { other < NCPU && !(cleared & (1 << other)) -> other++ }
	:: atomic { other < NCPU && (cleared & (1 << other)) ->
		printf("CPU %d: clears the bit of CPU %d\n", me, other);
		clean = clean & ~(1 << other);
		other++ }
	:: atomic { other == NCPU -> other = 0; break }
	od;
	do
	:: atomic { reach == NOWHERE && other < NCPU && (other == me || !(cleared & (1 << other))) -> other++ }
	:: atomic { reach == NOWHERE && other < NCPU && other != me && (cleared & (1 << other)) -> skip }
	   if
	   :: atomic { loaded[other] -> reach = EVERYWHERE }
	   :: atomic { !loaded[other] -> skip }
	      if
	      :: atomic { leaving[other] -> reach = EVERYWHERE }
	      :: atomic { !leaving[other] -> skip }
	      fi
	   fi;
	   d_step { other++ }
	:: atomic { reach != NOWHERE || other == NCPU -> other = 0; break }
	od;
	if
	:: atomic { reach == NOWHERE -> reach = (loaded[me] -> HERE : NOWHERE) }
	:: atomic { reach != NOWHERE -> printf("CPU %d: finds the mm\n", me) }
	   do
	   :: atomic { other < NCPU && !(cleared & (1 << other)) -> other++ }
	   :: atomic { other < NCPU && (cleared & (1 << other)) -> clean = clean | (1 << other); other++ }
	   :: atomic { other == NCPU -> other = 0; break }
	   od
	fi;
	atomic { cleared = 0; looks = 0; printf("CPU %d: the look ends\n", me) }
}

inline decide_leaves()
{
	/* The key is off, or the first reads have found the mm, or another flush looks: a broadcast, at any time. */
	if
	:: atomic { reach = EVERYWHERE }
	:: d_step { !looks -> looks = 1; printf("CPU %d: looks\n", me) }
	   look()
	fi
}

#ifdef V_LOCAL_WALKED
#define ONLY_HERE	(!walker || walker == me + 1 || (clean == (1 << me)) && loaded[me])
#else
#define ONLY_HERE	(!walker || walker == me + 1)
#endif

inline decide_tables()
{
	if
	:: atomic { reach = EVERYWHERE }	/* the key is off */
#ifdef V_ELIDE_WALKER
	:: atomic { ONLY_HERE && !loaded[me] -> reach = NOWHERE }
#endif
	:: atomic { ONLY_HERE -> reach = HERE }
	:: atomic { !ONLY_HERE -> reach = EVERYWHERE }
	fi
}

inline change_leaf(n)
{
	printf("CPU %d: changes a leaf of table %d\n", me, n);
	pend[n] = 1;
	i = 0;
	do
	:: i < NCPU ->
		if
		:: H(i, n) & WALKED -> H(i, n) = H(i, n) | GOING
		:: else
		fi;
		if
		:: X(i, n) & WALKED -> X(i, n) = X(i, n) | GOING
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

#define CHANGE(n)	d_step { !lock[n] && !pend[n] -> o = n; leaf = 1; change_leaf(n) } goto flush
#define FREE(n)		d_step { !lock[n] -> o = n; lock[n] = 1; table[n] = BUFFERED } goto flush

proctype cpu(byte me)
{
	byte o, reach, old, other, cleared;
	bit leaf, id;

again:	if
	:: atomic { !loaded[me] -> skip }; goto load
	:: atomic { loaded[me] -> leaving[me] = 1 }; goto out
	:: FREE(0)
	:: CHANGE(0)
#if NOBJ > 1
	:: FREE(1)
	:: CHANGE(1)
#endif
	:: d_step { walker && !loaded[0] && !loaded[1] && !leaving[0] && !leaving[1] &&
		    !loaded[NCPU - 1] && !leaving[NCPU - 1] && !pending[me] ->
		new_number()
	   } goto again
	fi;

load:	atomic {
		loaded[me] = 1;		/* active_asids is announced before: the number stays from here on */
		printf("CPU %d: loaded = the mm\n", me);
		if
		:: pending[me] ->
			pending[me] = 0;
			j = 0;
			do
			:: j < NOBJ -> H(me, j) = 0; X(me, j) = 0; j++
			:: else -> break
			od;
			j = 0
		:: else
		fi
	}
	if
	:: atomic { MINE -> skip }
	   write_ttbr()
	:: atomic { !MINE -> printf("CPU %d: its bit is clear\n", me) }
	   make_clean_and_load()
	fi;
	goto again;

out:	loaded[me] = 0;
	atomic { ttbr[me] = 0; infl[me] = 1; settle() }
	d_step { infl[me] = 0; printf("CPU %d: DSB\n", me) }
	leaving[me] = 0;
	goto again;

	/* A leaf has changed, or a table is unlinked: DSB ISHST, the decision, the TLBIs, and the return. */
flush:	if
	:: d_step { !leaf -> printf("CPU %d: unlinks table %d\n", me, o); table[o] = UNLINKED }
#ifdef V_AS_LEAF
	   decide_leaves()
#else
	   decide_tables()
#endif
	:: atomic { leaf -> skip }
	   decide_leaves()
	fi;
	id = num;
	if
	:: atomic { reach == NOWHERE -> skip }
	:: atomic { reach == HERE -> skip } here()
	:: atomic { reach == EVERYWHERE -> skip } everywhere()
	fi;
	atomic {
		printf("CPU %d: the flush of table %d returns (1: of a leaf): %d\n", me, o, leaf);
		i = 0;
		do
		:: i < NCPU ->
			if
			:: leaf && (H(i, o) & GOING) -> H(i, o) = (H(i, o) & ~GOING) | MISSED
			:: else
			fi;
			if
			:: leaf && (X(i, o) & GOING) -> X(i, o) = (X(i, o) & ~GOING) | MISSED
			:: else
			fi;
			assert(leaf || !(H(i, o) | X(i, o)));	/* the table is freed, and a CPU holds copies of what was in it */
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: leaf -> pend[o] = 0
		:: else -> table[o] = LINKED; lock[o] = 0
		fi;
		o = 0; leaf = 0; reach = NOWHERE; id = 0;
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
