/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: CPUs that load and leave address spaces (mm), and flushes that look for them, against a TLB that fetches
 * and keeps everything it may. The protocol is that of the feature residency: arch/arm64/mm/context.c.
 * README.md says what is modelled, and why that is enough; run.py has the configurations, and the variants (-DV_...).
 *
 * One step of a process is what no other CPU can see half done: one access to a shared variable, a TLBI with its DSB,
 * a write of TTBR0 and ASID with its ISB, a critical section of cpu_asid_lock.
 */

#ifndef NCPU
#define NCPU	2	/* CPUs */
#endif
#ifndef NMM
#define NMM	1	/* address spaces */
#endif
#ifndef NOBJ
#define NOBJ	2	/* pages of an mm; each has at most one flush at a time */
#endif
#ifndef NFLUSH
#define NFLUSH	NMM	/* address spaces whose page tables change; the others occupy CPUs and ASIDs */
#endif
#ifndef NNUM
#define NNUM	NMM	/* ASID numbers, from 1; 0 is the reserved one */
#endif
/*
 * Further options: ALLOC the ASID allocator; EXIT exit and fork; MERGE a store and its DSB ISHST are one step; PART=c
 * page 0 is changed by CPU 0 only, page 1 by CPU c; ONE mm 1 is loaded by CPU 1 only.
 */

/* Each mm */
byte clean[NMM];		/* mm_cpumask(): a bit for each CPU */
bit looks[NMM];			/* the lock bit: a flush looks */
bit walker[NMM];		/* a CPU has loaded the mm */

/* Each CPU: mm + 1, or 0 */
byte loaded[NCPU];
byte leaving[NCPU];
byte ttbr[NCPU];		/* TTBR0; 0 is the reserved one */
byte asid[NCPU];		/* the current ASID */
byte infl[NCPU];		/* walks begun before TTBR0 was written, for this mm ... */
byte inflasid[NCPU];		/* ... with this ASID; a DSB ends them */

/* PTEs: 0 at rest, 1 stored but in the store buffer, 2 visible, flush not returned. Mm m, page k: m * NOBJ + k */
byte pte[NMM * NOBJ];

/* TLBs: two bits for each page. NEW: an entry as the tables are; OLD: one as they were before the last store */
#define NEW(o)	(1 << (2 * (o)))
#define OLD(o)	(2 << (2 * (o)))
#define T(c, a)	tlb[(c) * (NNUM + 1) + (a)]
byte tlb[NCPU * (NNUM + 1)];

byte num[NMM];			/* the ASID number that an mm has; 0: none */
#ifdef ALLOC
bit current[NMM];		/* its number is of the current generation */
byte map;			/* numbers in use: bit number - 1 */
byte actm[NCPU];		/* active_asids: mm + 1 and its number; 0 after a roll-over */
byte actn[NCPU];
byte resm[NCPU];		/* reserved_asids */
byte resn[NCPU];
bit pending[NCPU];		/* tlb_flush_pending */
byte outdated[NCPU];		/* mm + 1 that this CPU is leaving, and that has a new number by now */
#endif
#define GONE	9		/* owner of a number whose mm is dead */
#ifdef EXIT
bit dead[NMM];
bit dying[NMM];
byte next[NCPU];		/* mm + 1 that the CPU is about to load */
#define NEXT(m1)	next[me] = m1
#else
#define NEXT(m1)	skip
#endif

#ifdef SHORTEST
byte i, j, b;			/* spin's breadth-first search has no hidden variables */
#else
hidden byte i, j, b;		/* only inside a step */
#endif

/* printf() prints only when a counterexample is printed (run.py --trace). */

/* The hardware: every walk that may happen does happen, at once. Then the invariants are asserted. */

inline fill(c, a, m)
{
	j = 0;
	do
	:: j < NOBJ ->
		T(c, a) = T(c, a) | (pte[(m) * NOBJ + j] == 1 -> OLD((m) * NOBJ + j) : NEW((m) * NOBJ + j));
		j++
	:: else -> break
	od;
	j = 0
}

/*
 * A race of Linux itself: check_and_switch_context() updates active_asids before it writes TTBR0 and the ASID. A
 * roll-over in between can give the mm that the CPU is leaving a new number, which flushes of the mm then name.
 */
#if defined(ALLOC) && !defined(V_STOCK_WINDOW)
#define OUTDATED(c, m)	((m) && outdated[c] == (m))
#else
#define OUTDATED(c, m)	false
#endif

/* Entries under the current ASID are used whatever TTBR0 is. Walks in flight use them, too. */
inline check_entries(c, set, m)
{
	j = 0;
	do
	:: j < NMM * NOBJ ->
		if
		:: ((set) & OLD(j)) && !OUTDATED(c, m) -> assert(pte[j] != 0)	/* flushed, and still used */
		:: else
		fi;
		if
		:: m != 0 && j / NOBJ != m - 1 -> assert(!((set) & (NEW(j) | OLD(j))))	/* an entry of another address space */
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

inline settle()
{
	i = 0;
	do
	:: i < NCPU ->
		if
		:: ttbr[i] ->
#ifdef EXIT
			assert(!dead[ttbr[i] - 1]);		/* the root table is freed */
#endif
			fill(i, asid[i], ttbr[i] - 1)
		:: else
		fi;
		if
		:: infl[i] ->
#ifdef EXIT
			assert(!dead[infl[i] - 1]);
#endif
			fill(i, inflasid[i], infl[i] - 1);
			check_entries(i, T(i, inflasid[i]), infl[i])
		:: else
		fi;
		if
		:: asid[i] -> check_entries(i, T(i, asid[i]), ttbr[i])
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* TLBIs, each with the DSB that completes it. */

inline local_asid(c, a)
{
	T(c, a) = 0;
	settle()
}

inline local_entry(c, a, o)
{
	T(c, a) = T(c, a) & ~(NEW(o) | OLD(o));
	settle()
}

inline broadcast_entry(a, o)
{
	i = 0;
	do
	:: i < NCPU -> T(i, a) = T(i, a) & ~(NEW(o) | OLD(o)); i++
	:: else -> break
	od;
	settle()
}

inline local_all(c)
{
	i = 1;
	do
	:: i <= NNUM -> T(c, i) = 0; i++
	:: else -> break
	od;
	settle()
}

/* Entries that were as the tables are become old. */
inline age(o)
{
	i = 0;
	do
	:: i < NCPU * (NNUM + 1) ->
		if
		:: tlb[i] & NEW(o) -> tlb[i] = (tlb[i] & ~NEW(o)) | OLD(o)
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* --- ASIDs --- */

#ifdef ALLOC
/* A new generation: running ASIDs are kept, and each CPU flushes before it loads anything again. */
inline roll_over()
{
	printf("        roll-over\n");
	map = 0;
	i = 0;
	do
	:: i < NMM -> current[i] = 0; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NCPU ->
		if
		:: actm[i] -> resm[i] = actm[i]; resn[i] = actn[i]; actm[i] = 0; actn[i] = 0
		:: else
		fi;
		if
		:: resn[i] -> map = map | (1 << (resn[i] - 1))
		:: else
		fi;
		pending[i] = 1;
		i++
	:: else -> break
	od;
	i = 0
}

/* new_context(): the number of m is of an older generation, or m has none. */
inline new_context(m)
{
	b = (num[m] == 0);
	if
	:: num[m] ->
		b = 1;
		i = 0;
		do
		:: i < NCPU ->
			if
			:: resm[i] == m + 1 && resn[i] == num[m] -> b = 0
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: b && !(map & (1 << (num[m] - 1))) ->
			map = map | (1 << (num[m] - 1));
			b = 0
		:: else
		fi
	:: else
	fi;
	if
	:: b ->
		if
		:: map == (1 << NNUM) - 1 -> roll_over()
		:: else
		fi;
		j = 1;
		do
		:: map & (1 << (j - 1)) -> j++
		:: else -> break
		od;
		assert(j <= NNUM);
		map = map | (1 << (j - 1));
		i = 0;
		do
		:: i < NCPU ->
			if
			:: ttbr[i] == m + 1 || infl[i] == m + 1 -> outdated[i] = m + 1
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		num[m] = j;
		j = 0
	:: else
	fi;
	current[m] = 1;
	b = 0
}

/* check_and_switch_context(): the part that chooses the ASID, and announces it. */
inline allocate(m)
{
	d_step {
		if
		:: actm[me] && current[m]
		:: else ->
			if
			:: !current[m] -> new_context(m)
			:: else
			fi;
			if
			:: pending[me] -> pending[me] = 0; local_all(me)
			:: else
			fi
		fi;
		actm[me] = m + 1; actn[me] = num[m];
		printf("CPU %d: active_asids has mm %d with ASID %d\n", me, m, num[m])
	}
}
#endif

/* --- Loading and leaving --- */

/* res_leave(): leaving, then loaded */
inline leave(m1)
{
#if defined(V_TWICE)
	leaving[me] = loaded[me];
	loaded[me] = m1
#elif defined(V_LEAVING_LATE)
	d_step { printf("CPU %d: loaded = mm %d\n", me, (m1) - 1); b = loaded[me]; loaded[me] = m1; leaving[me] = b << 4; b = 0 }
	leaving[me] = leaving[me] >> 4
#else
	if
	:: atomic { loaded[me] != 0 -> printf("CPU %d: leaving = mm %d\n", me, loaded[me] - 1); leaving[me] = loaded[me] }
	:: atomic { loaded[me] == 0 -> skip }
	fi;
	d_step { printf("CPU %d: loaded = mm %d (-1: none)\n", me, (m1) - 1); loaded[me] = m1 }
#endif
}

#define MINE(m)		(clean[m] & (1 << me))

inline set_bit(m)
{
	d_step { printf("CPU %d: sets its bit of mm %d\n", me, m); clean[m] = clean[m] | (1 << me) }
}

/* walker: the first load of all has nothing to forget. */
inline forget(m)
{
	if
#ifndef V_NO_TLBI
	:: d_step { walker[m] -> printf("CPU %d: local TLBI of ASID %d\n", me, num[m]); local_asid(me, num[m]) }
#else
	:: d_step { walker[m] -> skip }
#endif
	:: d_step { !walker[m] -> walker[m] = 1 }
	fi
}

inline make_clean(m)
{
#if defined(V_TLBI_FIRST)
	forget(m);
	set_bit(m)
#else
	set_bit(m);
	forget(m)
#endif
}

/* TTBR0 and the ASID are written, with an ISB. m + 1, or 0: parked. */
inline write_ttbr(m1)
{
	d_step {
		printf("CPU %d: TTBR0: mm %d -> %d (-1: none), written\n", me, ttbr[me] - 1, (m1) - 1);
		if
		:: ttbr[me] && !infl[me] -> infl[me] = ttbr[me]; inflasid[me] = asid[me]
		:: else
		fi;
		ttbr[me] = m1;
		if
		:: m1 -> asid[me] = num[m1 - 1]
#ifndef V_PARK_KEEPS_ASID
		:: else -> asid[me] = 0
#else
		:: else
#endif
		fi;
		settle()
	}
}

/* The DSB of __switch_to(), or an explicit one. */
inline dsb()
{
	d_step {
		printf("CPU %d: DSB\n", me);
		infl[me] = 0;
		inflasid[me] = 0;
#ifdef ALLOC
		outdated[me] = 0;
#endif
		NEXT(0)
	}
}

/* Then residency_left(). */
inline end_walks()
{
#ifdef V_LEFT_EARLY
	leaving[me] = 0;
	dsb();
#else
	dsb();
	d_step { printf("CPU %d: leaving = none\n", me); leaving[me] = 0 }
#endif
}

/* residency_load() and the write of TTBR0 */
inline load(m)
{
#ifdef V_NO_MB
	if
	:: atomic { MINE(m) -> skip }
	   leave(m + 1)
	:: atomic { !MINE(m) -> skip }
	   leave(m + 1);
	   make_clean(m)
	fi;
	write_ttbr(m + 1)
#else
	leave(m + 1);
	if
	:: atomic { MINE(m) -> printf("CPU %d: its bit of mm %d is set\n", me, m) }
	   write_ttbr(m + 1)
	:: atomic { !MINE(m) -> printf("CPU %d: its bit of mm %d is clear\n", me, m) }
#ifdef V_TTBR_FIRST
	   write_ttbr(m + 1);
	   make_clean(m)
#else
	   make_clean(m);
	   write_ttbr(m + 1)
#endif
	fi
#endif
}

/* --- Flushing --- */

#ifdef ALLOC
#define ID(m)		id
#else
#define ID(m)		num[m]
#endif
#if defined(ALLOC) && !defined(V_ID_EARLY)
#define READ_ID(m)	id = num[m]
#else
#define READ_ID(m)	skip
#endif

#define HERE(m)		(loaded[me] == m + 1)

/* reach: what a flush has decided */
#define NOWHERE		0
#define BROADCAST	1
#define ALONE		2

/* The flush returns. The flushed page is freed at once: a later moment would only hide errors. */
inline returns(m, k)
{
	printf("CPU %d: the flush of page %d of mm %d returns\n", me, k, m);
	pte[m * NOBJ + k] = 0;
	settle();
	reach = NOWHERE;
	other = 0;
#ifdef ALLOC
	id = 0;
#endif
#ifdef EXIT
	if
	:: !last -> m = 0; k = 0
	:: else
	fi
#else
	m = 0; k = 0
#endif
}

#ifdef V_LEAVING_FIRST
#define FIRST	leaving
#define SECOND	loaded
#else
#define FIRST	loaded
#define SECOND	leaving
#endif
#define FOUND_IT	printf("CPU %d: finds mm %d on CPU %d\n", me, m, other)
#ifdef V_BACK_ONE
#define FOUND	FOUND_IT; cleared = 1 << other
#else
#define FOUND	FOUND_IT
#endif

#define OWN(m)		(other == me && HERE(m))

/* atomic_long_andnot() */
inline clear_bits(m)
{
	do
	:: atomic { other < NCPU && !(cleared & (1 << other)) -> other++ }
	:: d_step { other < NCPU && (cleared & (1 << other)) ->
		printf("CPU %d: clears the bit of CPU %d\n", me, other);
		clean[m] = clean[m] & ~(1 << other);
		other++ }
	:: atomic { other == NCPU -> other = 0; break }
	od
}

/* res_is_loaded() of the CPUs whose bits were set */
inline read_loaded(m)
{
	do
	:: atomic { reach == NOWHERE && other < NCPU && (other == me || !(cleared & (1 << other))) -> other++ }
	:: atomic { reach == NOWHERE && other < NCPU && other != me && (cleared & (1 << other)) -> skip }
	   if
	   :: d_step { FIRST[other] == m + 1 -> reach = BROADCAST; FOUND }
	   :: d_step { FIRST[other] != m + 1 -> skip }
#ifndef V_NO_LEAVING
	      if
	      :: d_step { SECOND[other] == m + 1 -> reach = BROADCAST; FOUND }
	      :: d_step { SECOND[other] != m + 1 -> skip }
	      fi
#endif
	   fi;
	   d_step { other++ }
	:: atomic { reach != NOWHERE || other == NCPU -> other = 0; break }
	od
}

/* atomic_long_or() */
inline put_back(m)
{
	do
	:: atomic { other < NCPU && !(cleared & (1 << other)) -> other++ }
	:: d_step { other < NCPU && (cleared & (1 << other)) -> clean[m] = clean[m] | (1 << other); other++ }
	:: atomic { other == NCPU -> other = 0; break }
	od
}

#define unlock(m)	atomic { printf("CPU %d: the look ends\n", me); looks[m] = 0 }

/* res_look(): with the lock. The mask is read one bit at a time. */
inline look(m)
{
	do
#ifdef V_PASS_OWN
	:: atomic { other < NCPU ->
#else
	:: atomic { other < NCPU && OWN(m) -> other++ }
	:: atomic { other < NCPU && !OWN(m) ->
#endif
		cleared = cleared | (clean[m] & (1 << other)); other++ }
	:: atomic { other == NCPU -> other = 0; break }
	od;
#ifdef V_BIT_LATE
	read_loaded(m);
	if
	:: atomic { reach == NOWHERE -> skip } clear_bits(m)
	:: atomic { reach != NOWHERE -> cleared = 0 }
	fi;
#else
	clear_bits(m);
	read_loaded(m);
#endif
#ifdef V_UNLOCKED_BACK
	unlock(m);
#endif
	if
#ifdef V_NOT_BACK
	:: atomic { reach == BROADCAST -> skip }
#else
	:: atomic { reach == BROADCAST -> skip } put_back(m)
#endif
	:: atomic { reach == NOWHERE -> reach = ALONE }
	fi;
	cleared = 0;
#ifndef V_UNLOCKED_BACK
	unlock(m)
#endif
}

inline flush(m, k)
{
#if defined(V_ID_EARLY)
	id = num[m];
#endif
#if defined(V_NO_ISHST) || defined(MERGE)
	skip;
#else
	d_step { printf("CPU %d: dsb(ishst)\n", me); pte[m * NOBJ + k] = 2; settle() }
#endif
	/* The key is off, or the first reads have found the mm, or another flush looks: a broadcast, at any time. */
	if
	:: d_step { reach = BROADCAST }
#ifdef V_UNLOCKED
	:: d_step { printf("CPU %d: looks\n", me) }
#else
	:: d_step { !looks[m] -> looks[m] = 1; printf("CPU %d: looks\n", me) }
#endif
	   look(m)
	fi;
	if
	:: atomic { reach == ALONE && !HERE(m) -> d_step { printf("CPU %d: elides the TLBI\n", me); returns(m, k) } }
	:: atomic { reach == ALONE && HERE(m) -> READ_ID(m) }
	   d_step {
		printf("CPU %d: local TLBI, ASID %d\n", me, ID(m));
		local_entry(me, ID(m), m * NOBJ + k);
		returns(m, k)
	   }
	:: atomic { reach == BROADCAST -> READ_ID(m) }
	   d_step {
		printf("CPU %d: broadcast TLBI, ASID %d\n", me, ID(m));
		if
		:: ID(m) -> broadcast_entry(ID(m), m * NOBJ + k)
		:: else
		fi;
#ifdef V_NO_ISHST
		pte[m * NOBJ + k] = 2;
		settle();
#endif
		returns(m, k)
	   }
	fi
}

#ifdef EXIT
#define ALIVE(m)	(!dead[m] && !dying[m])

/*
 * Tables and root are freed: a CPU that uses what is left of them violates an invariant. The mm's number stays in use
 * until a roll-over.
 */
inline die(m)
{
	dying[m] = 0;
	dead[m] = 1;
	age(m * NOBJ);
	age(m * NOBJ + NOBJ - 1);
	i = 0;
	do
	:: i < NCPU ->
		if
		:: actm[i] == m + 1 -> actm[i] = GONE
		:: else
		fi;
		if
		:: resm[i] == m + 1 -> resm[i] = GONE
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0;
#ifdef V_NUMBER_FREED
	map = map & ~(1 << (num[m] - 1));
#endif
	clean[m] = 0; walker[m] = 0; num[m] = 0; current[m] = 0;
	settle()
}

/* fork() copies the mm; the mask and the rest are new. */
inline born(m)
{
	dead[m] = 0;
	b = 0
}

#define UNUSED(m)	(loaded[0] != m + 1 && leaving[0] != m + 1 && infl[0] != m + 1 && next[0] != m + 1 && \
			 loaded[1] != m + 1 && leaving[1] != m + 1 && infl[1] != m + 1 && next[1] != m + 1)
#else
#define ALIVE(m)	true
#endif

/* Large configurations: the store and dsb(ishst) are one step. README.md says why that is enough. */
#ifdef MERGE
#define STORED	2
#else
#define STORED	1
#endif

#define SWITCH(n)	atomic { ALIVE(n) && loaded[me] != (n) + 1 -> m = n; NEXT((n) + 1) } goto switch_in
#define STORE(o)	atomic { ALIVE((o) / NOBJ) && pte[o] == 0 -> \
				 d_step { m = (o) / NOBJ; k = (o) % NOBJ; pte[o] = STORED; age(o); settle(); \
					  printf("CPU %d: stores PTE %d of mm %d\n", me, k, m) } } goto change

proctype cpu(byte me)
{
	byte m;
	byte k;
	byte reach;
	byte other;
	byte cleared;
#ifdef EXIT
	bit last;
#endif
#ifdef ALLOC
	byte id;
#endif

again:	if
	/* The scheduler: another task's mm, or back from a kernel thread or idle. exec and kthread_use_mm() do the same. */
	:: SWITCH(0)
#if NMM > 1
#ifdef ONE
	:: me == 1 -> SWITCH(1)
#else
	:: SWITCH(1)
#endif
#endif
	/* A kernel thread, idle, exit_mm(), kthread_unuse_mm(), a CPU that goes offline. */
	:: loaded[me] -> goto park
	/* A task that changes a page table; it need not run the mm. */
#ifdef PART
	:: me == 0 -> STORE(0)
	:: me == PART -> STORE(1)
#else
	:: STORE(0)
#if NFLUSH * NOBJ > 1
	:: STORE(1)
#endif
#if NFLUSH * NOBJ > 2
	:: STORE(2)
	:: STORE(3)
#endif
#endif
#ifdef EXIT
	/* The last mmput(): no CPU runs the mm. The tables are flushed, and freed. */
	:: atomic { ALIVE(0) && UNUSED(0) && pte[0] == 0 && pte[NOBJ - 1] == 0 -> m = 0; k = 0; dying[0] = 1; last = 1 } goto exit
	/* fork */
	:: atomic { dead[0] -> born(0) } goto again
#endif
#ifdef ALLOC
	/* Other mms, which run on no CPU, use up the numbers, and may take the one that mm 0 had. */
	:: atomic { (actm[0] || actm[1]) -> roll_over() } goto again
	:: atomic { (actm[0] || actm[1]) && num[0] -> d_step { roll_over(); map = map | (1 << (num[0] - 1)) } } goto again
#endif
	fi;

switch_in:
#ifdef ALLOC
	/* A parked CPU that gets back to the same mm, too: switch_mm() */
	allocate(m);
	load(m);
#else
#ifdef V_UNPARK_BLIND
	if
	:: loaded[me] == 0 && walker[m] -> leave(m + 1); write_ttbr(m + 1)
	:: else -> load(m)
	fi;
#else
	load(m);
#endif
#endif
	m = 0;
#ifdef V_TWICE
	if
	:: end_walks()
	:: skip
	fi;
#else
	end_walks();
#endif
	goto again;

park:
	leave(0);
	write_ttbr(0);
	end_walks();
	goto again;

change:	flush(m, k);
#ifdef EXIT
	if
	:: last -> atomic { (pte[m * NOBJ] == 0 && pte[m * NOBJ + NOBJ - 1] == 0) -> die(m); last = 0; m = 0; k = 0 }
	:: else
	fi;
#endif
	goto again;

#ifdef EXIT
exit:	atomic { (pte[m * NOBJ] == 0); pte[m * NOBJ] = STORED; age(m * NOBJ); settle() }
	goto change;
#endif
}

init {
#ifndef ALLOC
	d_step {
		byte c = 0;
		do
		:: c < NMM -> num[c] = c + 1; c++
		:: else -> break
		od;
		c = 0
	}
#endif
	atomic {
		run cpu(0);
		run cpu(1);
#if NCPU > 2
		run cpu(2);
#endif
	}
}
