/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: page tables that are freed, on CPUs without FEAT_nTLBPA. Such a CPU may keep copies of the descriptors
 * that it has walked, by their physical address, until a TLBI that applies to them completes on that CPU. Neither
 * another ASID nor another TTBR0 removes these copies. Loads and flushes are those of residency.pml, for one mm.
 * README.md says what must hold; run.py has the variants (-DV_...).
 */

#ifndef NCPU
#define NCPU	2
#endif
#ifndef NOBJ
#define NOBJ	2		/* tables, each with leaves; one flush at a time for each (page-table lock) */
#endif
/*
 * Further options. ROLL: the mm gets new ASID numbers. PEND: the lock of a table is dropped before the flush of a leaf (one at a
 * time), and meanwhile a flush may free the table: PT_RECLAIM, where that flush is forced before tlb_finish_mmu(). LOCK: as in
 * residency.pml; passed is not used.
 */

byte clean;			/* mm_cpumask() */
bit odd;			/* looks */
byte same;			/* CPUs that have read looks, and it has not changed since */
byte walker;			/* CPU + 1; 0: none; WALKERS: several */
#define WALKERS	9
bit passed;

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
bit lock[NOBJ];
#ifdef PEND
bit pend;			/* a leaf has changed, and its flush has not returned */
bit going;			/* meanwhile the flush that frees the table has */
#endif

/* Copies that CPU c holds of the descriptors in table o, under the number that the mm has, and under older ones */
#define H(c, o)	held[(c) * NOBJ + (o)]
#define X(c, o)	older[(c) * NOBJ + (o)]
#define WALKED	1		/* descriptors as they are, or of the leaf that is being flushed */
#define GOING	2		/* ... a leaf whose flush has not returned */
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

/* TLBIs, with the DSB that completes them: for the whole ASID, or for the flushed part of one table. */
#if defined(V_SPAN)
#define ONE(o)	(leaf -> GOING : WALKED | GOING | MISSED)	/* of all that the table maps */
#elif defined(PEND)
#define ONE(o)	(leaf -> GOING : (pend -> WALKED : WALKED | GOING))
#else
#define ONE(o)	(leaf -> GOING : WALKED | GOING)
#endif

inline forget(c, all)
{
	j = 0;
	do
	:: j < NOBJ ->
		if
		:: all && id == num -> H(c, j) = 0
		:: all && id != num -> X(c, j) = 0
		:: !all && j == o && id == num -> H(c, j) = H(c, j) & ~ONE(o)
		:: !all && j == o && id != num -> X(c, j) = X(c, j) & ~ONE(o)
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

inline here(all)
{
	d_step {
		printf("CPU %d: local TLBI (1: of the ASID): %d\n", me, all);
		forget(me, all);
		settle()
	}
}

inline everywhere(all)
{
	d_step {
		printf("CPU %d: broadcast (1: of the ASID): %d\n", me, all);
		i = 0;
		do
		:: i < NCPU -> forget(i, all); i++
		:: else -> break
		od;
		settle()
	}
}

#ifdef ROLL
/* new_context(): no CPU has the mm loaded, or parked. Every CPU flushes all before it loads the mm. */
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
#endif

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

/* cmpxchg() or WRITE_ONCE() */
inline write_walker()
{
	if
	:: d_step { !old && !walker -> walker = me + 1; printf("CPU %d: walker = %d\n", me, walker) }
	:: d_step { !old && walker -> old = walker }
	:: atomic { old -> skip }
	fi;
	if
	:: d_step { old && old != me + 1 -> walker = WALKERS; printf("CPU %d: walker = several\n", me) }
	:: atomic { !old || old == me + 1 -> skip }
	fi
}

inline forget_here()
{
	if
#if defined(V_NO_TLBI_FREED)
	:: atomic { skip }
#elif defined(V_WALKER_SKIPS)
	:: d_step { old && old != me + 1 -> id = num; forget(me, true); settle(); id = 0 }
	:: atomic { !old || old == me + 1 -> skip }
#else
	:: d_step { old -> printf("CPU %d: local TLBI of the ASID\n", me); id = num; forget(me, true); settle(); id = 0 }
	:: atomic { !old -> skip }
#endif
	fi;
	old = 0
}

inline write_ttbr()
{
	atomic { ttbr[me] = 1; printf("CPU %d: TTBR0 written\n", me); settle() }
}

/* res_make_clean(), and the write of TTBR0 */
inline make_clean_and_load()
{
#ifdef V_WALKER_FIRST
	read_walker();
	set_bit();
#else
	set_bit();
	read_walker();
#endif
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
#define ASID_HERE	2
#define EVERYWHERE	3

/* res_decide_leaves(): the survey reads no other clean CPU, and looks is the same before and after it */
inline is_alone()
{
	if
	:: d_step { odd -> reach = EVERYWHERE }
	:: d_step { !odd -> same = same | (1 << me) }
	fi;
	do
	:: atomic { reach == NOWHERE && other < NCPU ->
		if
		:: !(other == me && loaded[me]) && (clean & (1 << other)) -> reach = EVERYWHERE
		:: else
		fi;
		other++ }
	:: atomic { !(reach == NOWHERE && other < NCPU) -> break }
	od;
	other = 0;
	d_step {
		alone = (reach == NOWHERE && (same & (1 << me)));
		same = same & ~(1 << me)
	}
}

inline pass_by()
{
	do
	:: atomic { reach == NOWHERE && other < NCPU && ((other == me && loaded[me]) || !(clean & (1 << other))) -> other++ }
	:: atomic { reach == NOWHERE && other < NCPU && !(other == me && loaded[me]) && (clean & (1 << other)) -> skip }
#ifdef V_PASSED_LATE
	   skip;
#else
	   passed = 1;
#endif
	   d_step { printf("CPU %d: clears the bit of CPU %d\n", me, other); clean = clean & ~(1 << other) }
	   if
	   :: d_step { loaded[other] -> reach = EVERYWHERE }
	   :: atomic { !loaded[other] -> skip }
	      if
	      :: d_step { leaving[other] -> reach = EVERYWHERE }
	      :: atomic { !leaving[other] -> skip }
	      fi
	   fi;
	   d_step {
		if
		:: reach == EVERYWHERE -> clean = clean | (1 << other); printf("CPU %d: finds the mm on CPU %d\n", me, other)
		:: else -> printf("CPU %d: passes CPU %d by\n", me, other)
		fi;
		other++
	   }
	:: atomic { reach != NOWHERE || other == NCPU -> break }
	od;
	other = 0;
	alone = (reach == NOWHERE)
}

/* With the lock: clear the bits of all other clean CPUs, full barrier, read what these CPUs have loaded. */
inline clear_and_look()
{
	do
	:: atomic { other < NCPU && ((other == me && loaded[me]) || !(clean & (1 << other))) -> other++ }
	:: atomic { other < NCPU && !(other == me && loaded[me]) && (clean & (1 << other)) ->
		printf("CPU %d: clears the bit of CPU %d\n", me, other);
		clean = clean & ~(1 << other); cleared = cleared | (1 << other); other++ }
	:: atomic { other == NCPU -> break }
	od;
	other = 0;
	do
	:: atomic { reach == NOWHERE && other < NCPU && !(cleared & (1 << other)) -> other++ }
	:: atomic { reach == NOWHERE && other < NCPU && (cleared & (1 << other)) -> skip }
	   if
	   :: d_step { loaded[other] -> reach = EVERYWHERE }
	   :: atomic { !loaded[other] -> skip }
	      if
	      :: d_step { leaving[other] -> reach = EVERYWHERE }
	      :: atomic { !leaving[other] -> skip }
	      fi
	   fi;
	   d_step { other++ }
	:: atomic { reach != NOWHERE || other == NCPU -> break }
	od;
	other = 0;
	if
	:: atomic { reach == EVERYWHERE -> clean = clean | cleared }
	:: atomic { reach == NOWHERE -> alone = 1 }
	fi;
	d_step { cleared = 0; odd = 0 }
}

#define look_begin()	!odd -> odd = 1; same = 0; printf("CPU %d: looks\n", me)

inline look_end()
{
	d_step { odd = 0; same = 0; printf("CPU %d: the look ends\n", me) }
}

inline decide_leaves()
{
	/* The key is off, or the survey has found the mm, or another flush looks. Each of them may be at any time. */
	if
	:: atomic { reach = EVERYWHERE }
#ifdef LOCK
	:: d_step { look_begin() }
	   clear_and_look();
	   reach = (alone -> (loaded[me] -> HERE : NOWHERE) : EVERYWHERE)
#else
	:: is_alone();
	   reach = (alone -> (loaded[me] -> HERE : NOWHERE) : EVERYWHERE)
	:: d_step { look_begin() }
	   pass_by();
#ifdef V_PASSED_LATE
	   look_end();
	   passed = 1;
#else
	   look_end();
#endif
	   reach = (alone -> (loaded[me] -> HERE : NOWHERE) : EVERYWHERE)
#endif
	fi;
	alone = 0
}

inline set_walker()
{
	d_step { walker = me + 1; printf("CPU %d: walker = %d\n", me, walker) }
}

inline clear_passed()
{
	d_step { passed = 0; printf("CPU %d: passed = 0\n", me) }
}

#ifdef V_LOCAL_WALKED
#define ONLY_HERE	(walker == me + 1 || (clean == (1 << me)) && loaded[me])
#else
#define ONLY_HERE	(walker == me + 1)
#endif

inline decide_tables()
{
	if
	/* The key is off, or ... */
	:: atomic { reach = EVERYWHERE;
#ifdef V_PASSED_OFF
		off = 1
#endif
		}
	:: atomic { !walker -> reach = NOWHERE }
	:: atomic { ONLY_HERE && loaded[me] -> reach = HERE }
	:: atomic { ONLY_HERE && !loaded[me] -> reach = ASID_HERE }
#ifdef LOCK
	:: atomic { walker && !ONLY_HERE -> reach = EVERYWHERE }
#else
	:: atomic { walker && !ONLY_HERE -> skip }
	   if
	   :: atomic { reach = EVERYWHERE }
	   :: d_step { look_begin() }
#ifdef V_WALKER_AFTER
	      pass_by();
	      set_walker();
#else
	      set_walker();
	      pass_by();
#endif
	      if
	      :: atomic { alone -> id = num }
#if defined(V_PASSED_EARLY)
		 clear_passed();
		 everywhere(true);
		 look_end();
#elif defined(V_RANGE)
		 everywhere(false);
		 clear_passed();
		 look_end();
#elif defined(V_LOOK_ENDS)
		 look_end();
		 everywhere(true);
		 clear_passed();
#else
		 everywhere(true);
		 clear_passed();
		 look_end();
#endif
	      :: atomic { !alone -> skip }
#ifndef V_NOT_WALKERS
		 d_step { walker = WALKERS; printf("CPU %d: walker = several\n", me) }
#endif
		 look_end()
	      fi
	   fi
#endif
	fi;
	alone = 0;
	if
#if defined(V_PASSED_IGNORED) || defined(LOCK)
	:: atomic { false -> skip }
#elif defined(V_PASSED_OFF)
	:: atomic { reach == EVERYWHERE && passed && !off -> skip }
#else
	:: atomic { reach == EVERYWHERE && passed -> skip }
#endif
	   if
	   :: atomic { id = num }; everywhere(true)	/* another flush looks */
#if defined(V_CLEAR_UNSEEN)
	   :: atomic { id = num }; everywhere(true); clear_passed()
#elif defined(V_CLEAR_EARLY)
	   :: d_step { look_begin() }; id = num; clear_passed(); everywhere(true); look_end()
#elif defined(V_CLEAR_NUMBER)
	   :: atomic { id = num }; d_step { look_begin() }; everywhere(true); clear_passed(); look_end()
#else
	   :: d_step { look_begin() }; id = num; everywhere(true); clear_passed(); look_end()
#endif
	   fi;
	   reach = NOWHERE
	:: else
	fi
}

/* As a flush returns: have all flushes of the leaf returned? Has the table been freed, and do no flushes remain? */
#ifdef PEND
#define RETURNED	leaf
#define FREED		(leaf && going || !leaf && !pend)
#else
#define RETURNED	true
#define FREED		(!leaf)
#endif

proctype cpu(byte me)
{
	byte o, reach, old, other;
	bit leaf, alone, id;
#ifdef LOCK
	byte cleared;
#endif
#ifdef V_PASSED_OFF
	bit off;
#endif

again:	if
	:: atomic { !loaded[me] -> skip }; goto load
	:: atomic { loaded[me] -> leaving[me] = 1 }; goto out
#ifdef PEND
	:: atomic { !lock[0] && !going -> lock[0] = 1; o = 0; leaf = 0 }; goto flush
	:: atomic { !lock[0] && !going && !pend && table[0] == LINKED -> lock[0] = 1; o = 0; leaf = 1 }; goto flush
#else
	:: atomic { lock[0] == 0 -> lock[0] = 1; o = 0; leaf = 0 }; goto flush
	:: atomic { lock[0] == 0 -> lock[0] = 1; o = 0; leaf = 1 }; goto flush
#endif
#if NOBJ > 1
	:: atomic { lock[1] == 0 -> lock[1] = 1; o = 1; leaf = 0 }; goto flush
	:: atomic { lock[1] == 0 -> lock[1] = 1; o = 1; leaf = 1 }; goto flush
#endif
#ifdef ROLL
	:: d_step { walker && !loaded[0] && !loaded[1] && !leaving[0] && !leaving[1] &&
		    !loaded[NCPU - 1] && !leaving[NCPU - 1] && !pending[me] ->
		new_number()
	   } goto again
#endif
	fi;

load:	atomic {
		loaded[me] = 1;		/* active_asids is announced before: the number stays from here on */
		printf("CPU %d: loaded = the mm\n", me);
#ifdef ROLL
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
#endif
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

	/* A leaf changes, or a table is unlinked; then DSB ISHST, the decision, the TLBIs, and the return. */
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
				if
				:: X(i, o) & WALKED -> X(i, o) = X(i, o) | GOING
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0
		:: else -> table[o] = BUFFERED
		fi
	}
	if
	:: d_step { !leaf -> printf("CPU %d: unlinks table %d\n", me, o); table[o] = UNLINKED }
#ifdef V_AS_LEAF
	   decide_leaves()
#else
	   decide_tables()
#endif
	:: atomic { leaf -> printf("CPU %d: changes a leaf of table %d\n", me, o);
#ifdef PEND
		pend = 1; lock[o] = 0
#endif
		}
#ifdef V_LEAF_EVERYWHERE
	   reach = EVERYWHERE
#else
	   decide_leaves()
#endif
	fi;
	id = num;
	if
	:: atomic { reach == NOWHERE -> skip }
	:: atomic { reach == HERE -> skip } here(false)
	:: atomic { reach == ASID_HERE ->
#ifdef V_ELIDE_WALKER
		skip }
#else
		skip } here(true)
#endif
	:: atomic { reach == EVERYWHERE -> skip } everywhere(false)
	fi;
	atomic {
		printf("CPU %d: the flush of table %d returns (1: of a leaf): %d\n", me, o, leaf);
		i = 0;
		do
		:: i < NCPU ->
			if
			:: RETURNED && (H(i, o) & GOING) -> H(i, o) = (H(i, o) & ~GOING) | MISSED
			:: else
			fi;
			if
			:: RETURNED && (X(i, o) & GOING) -> X(i, o) = (X(i, o) & ~GOING) | MISSED
			:: else
			fi;
			assert(!FREED || !(H(i, o) | X(i, o)));	/* the table is freed, and a CPU holds copies of what was in it */
			i++
		:: else -> break
		od;
		i = 0;
#ifdef PEND
		if
		:: FREED -> table[o] = LINKED; going = 0
		:: else -> going = !leaf
		fi;
		if
		:: leaf -> pend = 0
		:: else -> lock[o] = 0
		fi;
#else
		table[o] = LINKED;
		lock[o] = 0;
#endif
		o = 0; leaf = 0; reach = NOWHERE; id = 0;
#ifdef V_PASSED_OFF
		off = 0;
#endif
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
