/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency: the word of an address space (mm), the CPUs that load and leave it, the flushes that read it, and the
 * ASID allocator, against a TLB that fetches and keeps everything it may. README.md says what is modelled, and why
 * that is enough; run.py has the configurations, and the variants (-DV_...) that must fail.
 *
 * One step of a process is what no other CPU can see half done: an instruction on the word (the read-modify-write that
 * succeeded; a cmpxchg that failed changed nothing), a TLBI with its DSB, a write of TTBR0 and ASID with its ISB, a
 * critical section of cpu_asid_lock.
 */

#ifndef NCPU
#define NCPU	3	/* CPUs */
#endif
#ifndef NMM
#define NMM	1	/* address spaces */
#endif
#ifndef NOBJ
#define NOBJ	1	/* objects of an mm that can be flushed: 0 a page, 1 a table; each has at most one flush at a time */
#endif
#ifndef NFLUSH
#define NFLUSH	NMM	/* address spaces whose page tables change; the others occupy CPUs and ASIDs */
#endif
#ifndef LIMIT
#define LIMIT	2	/* the most CPUs that are counted */
#endif
#ifndef NNUM
#define NNUM	NMM	/* ASID numbers, from 1; 0 is the reserved one */
#endif
/*
 * Further options: ALLOC the ASID allocator, RENAME the policy, EXIT exit and fork, IDMAP the identity map, PIN a
 * device that shares an mm, KPTI, LEAVE a flush may find that an mm need not be MANY any more.
 */
#ifdef PIN
#define NWALK	(NCPU + 1)	/* what walks: the CPUs, and a device behind an SMMU */
#else
#define NWALK	NCPU
#endif

#if defined(IDMAP) || defined(V_LAZY_SKIPS) || defined(V_LAZY_UNCOUNTED)
#define LAZY
#endif

#if defined(V_PLAIN_SAME) || defined(V_PLAIN_SET)
#define LAG	/* model what a plain read may see; without it no plain read decides to elide */
#endif

/* The word */
#define MANY	1
#define STALE	2
#define RSTALE	4
#define WANDERED 8
#define LEAVING	16	/* a CPU looks whether the mm may leave MANY */
byte cnt[NMM];
byte flags[NMM];
byte home[NMM];			/* CPU + 1 */

/* The state of each CPU (or device): mm + 1, or 0 */
byte ttbr[NWALK];		/* TTBR0; 0 is the reserved one */
byte asid[NWALK];		/* the current ASID */
byte loaded[NWALK];		/* the mm that the kernel has on record as loaded */
bit counted[NWALK];
byte infl[NWALK];		/* walks begun before TTBR0 was written, for this mm ... */
byte inflasid[NWALK];		/* ... with this ASID; a DSB ends them */
byte leaving[NWALK];		/* count is taken back after the next DSB */

/* Page tables: 0 at rest, 1 stored but in the store buffer, 2 visible, flush not returned. Mm m, object k: m * NOBJ + k */
byte pte[NMM * NOBJ];

/* TLBs: two bits for each mm and object. NEW: an entry as the tables are; OLD: one as they were before the last store */
#define NEW(o)	(1 << (2 * (o)))
#define OLD(o)	(2 << (2 * (o)))
#define T(c, a)	tlb[(c) * (NNUM + 1) + (a)]
byte tlb[NWALK * (NNUM + 1)];
#ifdef KPTI
#define U(c, a)	utlb[(c) * (NNUM + 1) + (a)]
byte utlb[NWALK * (NNUM + 1)];	/* the same for the other ASID of the pair */
#endif

/* ASIDs */
byte num[NMM];			/* the number that an mm has; 0: none */
#ifdef ALLOC
bit current[NMM];		/* its number is of the current generation */
byte map;			/* numbers in use: bit number - 1 */
byte actm[NCPU];		/* active_asids: mm + 1 and its number; 0 after a roll-over */
byte actn[NCPU];
byte resm[NCPU];		/* reserved_asids */
byte resn[NCPU];
bit pending[NCPU];		/* tlb_flush_pending */
bit pinned[NMM];
#ifdef ROLLS
byte rolls;			/* the number of roll-overs that other mms cause is bounded */
#define ROLLS_LEFT	(rolls < ROLLS)
#define ROLLED		rolls++
#else
#define ROLLS_LEFT	true
#define ROLLED		skip
#endif
byte outdated[NWALK];		/* mm + 1 that this CPU is leaving, and that has a new number by now */
#ifdef RENAME
byte lock;			/* cpu_asid_lock, where it is held over more than one step: CPU + 1 */
#define UNLOCKED	(lock == 0)
#else
#define UNLOCKED	true
#endif
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
#ifdef LEAVE
byte pub[NCPU];			/* cpu->loaded, as other CPUs see it */
byte out[NCPU];			/* cpu->leaving, as other CPUs see it; also an mm in state MANY, whose CPUs are not counted */
bit looking;			/* the lock: one look at a time */
#endif
#ifdef LAZY
byte lazy[NCPU];		/* active_mm: what was loaded last */
#endif
#ifdef LAG
byte lag[NMM];			/* CPU + 1 whose read-modify-write plain reads of other CPUs do not see yet */
byte lagcnt[NMM];
byte lagflags[NMM];
#endif

#ifdef SHORTEST
byte i, j, b;			/* spin's breadth-first search has no hidden variables */
#else
hidden byte i, j, b;		/* only inside a step */
#endif

/* printf() prints only when a counterexample is told (run.py --story). */

/* The hardware: every walk that may happen does happen, at once. Then the invariants are asserted. */

inline fill(c, a, m)
{
	j = 0;
	do
	:: j < NOBJ ->
		b = (pte[(m) * NOBJ + j] == 1 -> OLD((m) * NOBJ + j) : NEW((m) * NOBJ + j));
		T(c, a) = T(c, a) | b;
#ifdef KPTI
		U(c, a) = U(c, a) | b;
#endif
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
#define OUTDATED(c, a, m)	((m) && outdated[c] == (m))
#else
#define OUTDATED(c, a, m)	false
#endif

/*
 * Entries under the current ASID are used whatever TTBR0 is: those of a page to translate, those of a table to
 * continue a walk. Walks in flight use them, too.
 */
inline check_entries(c, a, set, m)
{
	j = 0;
	do
	:: j < NMM * NOBJ ->
		if
		:: (set & OLD(j)) && !OUTDATED(c, a, m) -> assert(pte[j] != 0)	/* invariants 1 and 2: flushed, and still used */
		:: else
		fi;
		if
		:: m != 0 && j / NOBJ != m - 1 ->
			assert(!(set & (NEW(j) | OLD(j))))		/* invariant 1: an entry of another address space */
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
	:: i < NWALK ->
		if
		:: ttbr[i] ->
#ifdef EXIT
			assert(!dead[ttbr[i] - 1]);			/* 2: root table freed */
#endif
#ifndef NO_INV3
			assert(counted[i] || (flags[ttbr[i] - 1] & MANY));	/* 3 */
#endif
			fill(i, asid[i], ttbr[i] - 1)
		:: else
		fi;
		if
		:: infl[i] ->
#ifdef EXIT
			assert(!dead[infl[i] - 1]);			/* 2: root table freed */
#endif
#ifndef NO_INV3
			assert(leaving[i] == infl[i] || (counted[i] && loaded[i] == infl[i]) ||
			       (flags[infl[i] - 1] & MANY));		/* 3 */
#endif
			fill(i, inflasid[i], infl[i] - 1);
			check_entries(i, inflasid[i], T(i, inflasid[i]), infl[i])
		:: else
		fi;
		if
		:: asid[i] ->
			check_entries(i, asid[i], T(i, asid[i]), ttbr[i]);
#ifdef KPTI
			check_entries(i, asid[i], U(i, asid[i]), ttbr[i]);
#endif
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0; b = 0
}

/* TLBIs, each with the DSB that completes it. */

inline local_asid(c, a)
{
	T(c, a) = 0;
#if defined(KPTI) && !defined(V_KPTI_HALF)
	U(c, a) = 0;
#endif
	settle()
}

inline broadcast_asid(a)
{
	i = 0;
	do
	:: i < NWALK ->
		T(i, a) = 0;
#ifdef KPTI
		U(i, a) = 0;
#endif
		i++
	:: else -> break
	od;
	settle()
}

#define BOTH(o)	(NEW(o) | OLD(o))

inline local_entry(c, a, o)
{
	T(c, a) = T(c, a) & ~BOTH(o);
#if defined(KPTI) && !defined(V_KPTI_HALF)
	U(c, a) = U(c, a) & ~BOTH(o);
#endif
	settle()
}

inline broadcast_entry(a, o)
{
	i = 0;
	do
	:: i < NWALK ->
		T(i, a) = T(i, a) & ~BOTH(o);
#ifdef KPTI
		U(i, a) = U(i, a) & ~BOTH(o);
#endif
		i++
	:: else -> break
	od;
	settle()
}

inline local_all(c)
{
	i = 1;
	do
	:: i <= NNUM ->
		T(c, i) = 0;
#ifdef KPTI
		U(c, i) = 0;
#endif
		i++
	:: else -> break
	od;
	settle()
}

/* Entries that were as the tables are become old. */
inline age(o)
{
	i = 0;
	do
	:: i < NWALK * (NNUM + 1) ->
		if
		:: tlb[i] & NEW(o) -> tlb[i] = (tlb[i] & ~NEW(o)) | OLD(o)
		:: else
		fi;
#ifdef KPTI
		if
		:: utlb[i] & NEW(o) -> utlb[i] = (utlb[i] & ~NEW(o)) | OLD(o)
		:: else
		fi;
#endif
		i++
	:: else -> break
	od;
	i = 0
}

#ifdef LAG
inline unlag(m)
{
	lag[m] = 0; lagcnt[m] = 0; lagflags[m] = 0
}
#define VISIBLE(m)	unlag(m)
#else
#define VISIBLE(m)	skip
#endif

/* A DSB ISH outside a flush: walks in flight have ended, and stores are visible. */
inline dsb(c)
{
#ifdef ALLOC
	outdated[c] = 0;
#endif
	infl[c] = 0;
	inflasid[c] = 0;
#ifdef LAG
	i = 0;
	do
	:: i < NMM ->
		if
		:: lag[i] == c + 1 -> unlag(i)
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
#endif
}

/* Once the mm is MANY, no code reads the rest of the word. */
#define TO_MANY(m, also)	flags[m] = MANY | (also); home[m] = 0

#ifdef ALLOC
/* A new generation: running ASIDs are kept, and each CPU flushes before it loads anything again. */
inline roll_over()
{
	printf("        roll-over\n");
	map = 0;
	i = 0;
	do
	:: i < NMM ->
		current[i] = 0;
		if
		:: pinned[i] -> map = map | (1 << (num[i] - 1))
		:: else
		fi;
		i++
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

/* Find a number that is not in use, and store it in j. */
inline fresh_number()
{
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
	map = map | (1 << (j - 1))
}

/* new_context(): the number of m is of an older generation, or m has none. b: the number changed. */
inline new_context(m)
{
	b = (num[m] == 0);
	if
	:: num[m] ->
		b = !pinned[m];
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
		fresh_number();
		b = (j != num[m]);
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
#ifdef V_ROLL_CLEARS_KEPT
	b = 1;
#endif
	/* Change the word before other CPUs can see the number, still under the lock. */
	if
#ifndef V_ROLL_CLEARS_LATE
#ifdef V_ROLL_CLEARS_LOADED
	:: b && !(flags[m] & MANY) ->
#else
	:: b && cnt[m] == 0 && !(flags[m] & MANY) ->
#endif
		flags[m] = 0; home[m] = (cnt[m] -> home[m] : 0);
		VISIBLE(m)
#endif
	:: else
	fi
}

/* check_and_switch_context(): the part that chooses the ASID. */
inline allocate(m)
{
	d_step {
#ifdef RENAME
		(lock == 0 || (actm[me] && current[m])) -> skip;
#endif
		if
		:: actm[me] && current[m]
		:: else ->
			if
			:: !current[m] -> new_context(m); changed = b
			:: else
			fi;
			if
			:: pending[me] -> pending[me] = 0; local_all(me)
			:: else
			fi
		fi;
		actm[me] = m + 1; actn[me] = num[m];
#ifdef RENAME
		id = num[m];
#endif
		b = 0;
		printf("CPU %d: active_asids has mm %d with ASID %d\n", me, m, num[m])
	}
}
#else
#define allocate(m)	skip
#endif

#define STALE_HERE(m)	((flags[m] & STALE) || ((flags[m] & RSTALE) && home[m] != me + 1))

/* Change the word when a CPU loads the mm. todo: what must be done before TTBR0 is written. */
#define NOTHING	0
#define LOCAL	1	/* local TLBI of the whole ASID */
#define BROAD	2	/* a broadcast one */
#define CLEAR	3	/* the same, then STALE is cleared */
#define AGAIN	4	/* renaming was lost */

inline count_in(m)
{
	cnt[m]++;
#ifdef LAG
	if
	:: !lag[m] -> lagcnt[m] = cnt[m] - 1; lagflags[m] = flags[m]
	:: else
	fi;
	lag[m] = me + 1;
#endif
#ifndef V_NO_WANDERED
	if
	:: home[m] && home[m] != me + 1 -> flags[m] = flags[m] | WANDERED
	:: else
	fi;
#endif
	home[m] = me + 1;
	newcounted = 1
}

inline word_in(m)
{
	d_step {
		newcounted = 0;
		todo = NOTHING;
#if defined(ALLOC) && defined(V_ROLL_CLEARS_LATE)
		if
		:: changed && cnt[m] == 0 && !(flags[m] & MANY) -> flags[m] = 0; home[m] = 0
		:: else
		fi;
		changed = 0;
#endif
		if
		:: flags[m] & MANY ->
			if
#ifndef V_MANY_MET
			:: flags[m] & STALE -> todo = BROAD
#endif
			:: else
			fi;
#if defined(LEAVE) && !defined(V_LEAVE_KEPT)
			flags[m] = flags[m] & ~LEAVING	/* another CPU may have looked here before: cmpxchg, if MANY still */
#endif
		:: else ->
			if
			:: cnt[m] == LIMIT ->
				if
				:: flags[m] & (STALE | RSTALE) ->
#ifdef V_MANY_EARLY
					TO_MANY(m, 0);
#else
					TO_MANY(m, STALE);
#endif
#ifndef V_MANY_NO_BROADCAST
					todo = CLEAR
#endif
				:: else -> TO_MANY(m, 0)
				fi;
				VISIBLE(m)
			:: else ->
				todo = (STALE_HERE(m) -> LOCAL : NOTHING);
				count_in(m);
				if
#ifdef V_NO_RSTALE_IN
				:: todo == LOCAL -> flags[m] = flags[m] & ~(STALE | RSTALE)
#else
				:: todo == LOCAL -> flags[m] = (flags[m] & ~STALE) | RSTALE
#endif
				:: else
				fi
			fi
		fi;
		printf("CPU %d: switches to mm %d: count %d, flags %d, home %d; to do %d\n", me, m, cnt[m], flags[m], home[m] - 1, todo)
	}
}

#ifdef RENAME
/*
 * Rename m in place of a local TLBI, if no CPU has m loaded. Under the lock: set STALE, store a number that no CPU has
 * used since the last roll-over, change the word. Other CPUs see the number before the word changes, but a CPU that
 * sees STALE needs the lock to load m.
 */
#ifdef V_RENAME_STORES_FIRST
#define NEEDS_LOCK(m)	(!(flags[m] & MANY) && cnt[m] == 0 && STALE_HERE(m) && todo != AGAIN)
#else
#define NEEDS_LOCK(m)	(!(flags[m] & MANY) && ((flags[m] & STALE) || (cnt[m] == 0 && STALE_HERE(m))))
#endif

inline rename(m)
{
	d_step {
		lock == 0 -> lock = me + 1;
#ifdef V_RENAME_STORES_FIRST
		todo = NOTHING
#else
		todo = (NEEDS_LOCK(m) -> NOTHING : AGAIN);
		if
		:: todo == NOTHING -> flags[m] = flags[m] | STALE
		:: else -> lock = 0
		fi
#endif
	}
	if
	:: todo == NOTHING ->
		d_step {
#ifndef V_RENAME_KEEPS
#ifdef V_RENAME_REUSES
			map = map & ~(1 << (num[m] - 1));
#endif
#ifndef V_RENAME_ROLLS
			if	/* no roll-over here, none since the allocation: this CPU runs on a number that is not its any more */
			:: map == (1 << NNUM) - 1 || !actm[me] -> todo = LOCAL
			:: else ->
#endif
				fresh_number();
				num[m] = j; j = 0;
				current[m] = 1;
				if
				:: pending[me] -> pending[me] = 0; local_all(me)
				:: else
				fi;
				actm[me] = m + 1; actn[me] = num[m];
				id = num[m];
				printf("CPU %d: renames mm %d to ASID %d\n", me, m, num[m])
#ifndef V_RENAME_ROLLS
			fi
#endif
#else
			skip
#endif
		}
		d_step {
			if
			:: cnt[m] == 0 && !(flags[m] & MANY) ->
				if
				:: todo == LOCAL -> flags[m] = (flags[m] & ~STALE) | RSTALE
				:: else -> flags[m] = 0; home[m] = 0
				fi;
				count_in(m)
			:: else -> todo = AGAIN
			fi;
			lock = 0;
			printf("CPU %d: to do %d, mm %d: count %d, flags %d, home %d\n", me, todo, m, cnt[m], flags[m], home[m] - 1)
		}
	:: else
	fi
}

/* Reserved TTBR0, ASID 0, ISB, DSB. The mm that was loaded stays counted. */
inline step_aside()
{
	d_step { ttbr[me] = 0; asid[me] = 0; infl[me] = 0; inflasid[me] = 0 }
}
#endif

#ifdef LEAVE
/*
 * Publish cpu->leaving, then cpu->loaded. A CPU that reads them in the opposite order finds the address space in one
 * of the two. Then a full barrier, and the read of the word.
 */
inline publish(m1)
{
#ifdef V_LEAVE_OUT_LATE
	d_step { b = pub[me]; pub[me] = m1; out[me] = (b << 4) }
	d_step { out[me] = (out[me] >> 4); b = 0 }
#else
	if
	:: atomic { pub[me] != 0 -> out[me] = pub[me] }
	   pub[me] = m1
	:: atomic { pub[me] == 0 -> pub[me] = m1 }
	fi
#endif
}

#ifdef V_LEAVE_BLIND
/* The word was read, and had LEAVING; LEAVING is then cleared, whatever the word is by then. */
inline publish_and_word_in(m)
{
	publish(m + 1);
	if
	:: atomic { (flags[m] & LEAVING) -> skip }
	   d_step { flags[m] = flags[m] & ~LEAVING; newcounted = 0; todo = NOTHING }
	:: atomic { !(flags[m] & LEAVING) -> word_in(m) }
	fi
}
#elif defined(V_LEAVE_NO_MB)
/* The store to cpu->loaded stays in the store buffer while the plain read executes; a read-modify-write drains it. */
inline publish_and_word_in(m)
{
	if
	:: atomic { (flags[m] & MANY) && !(flags[m] & LEAVING) -> word_in(m) }
	   publish(m + 1)
	:: publish(m + 1);
	   word_in(m)
	fi
}
#elif defined(V_LEAVE_LOADED_LATE)
inline publish_and_word_in(m)
{
	publish(0);
	word_in(m);
	publish(m + 1)
}
#else
inline publish_and_word_in(m)
{
	publish(m + 1);
	word_in(m)
}
#endif
#else
#define publish_and_word_in(m)	word_in(m)
#endif

inline put_right(m)
{
	if
	:: todo == LOCAL -> d_step {
		printf("CPU %d: local TLBI of ASID %d\n", me, num[m]);
		local_asid(me, num[m]);
		todo = NOTHING
	   }
	:: todo == BROAD -> d_step {
		printf("CPU %d: broadcast TLBI of ASID %d\n", me, num[m]);
		broadcast_asid(num[m]);
		todo = NOTHING
	   }
	:: todo == CLEAR ->
		d_step { printf("CPU %d: broadcast TLBI of ASID %d\n", me, num[m]); broadcast_asid(num[m]) }
		d_step {
			flags[m] = flags[m] & ~STALE;
			todo = NOTHING;
			VISIBLE(m);
			printf("CPU %d: STALE of mm %d is cleared\n", me, m)
		}
	:: else
	fi
}

/* TTBR0 and the ASID are written, with an ISB. m + 1, or 0: parked. */
inline write_ttbr(m1)
{
	d_step {
		printf("CPU %d: TTBR0: mm %d -> %d (-1: parked), written\n", me, ttbr[me] - 1, (m1) - 1);
		if
		:: ttbr[me] -> infl[me] = ttbr[me]; inflasid[me] = asid[me]
		:: else
		fi;
		leaving[me] = (counted[me] -> loaded[me] : 0);
		counted[me] = newcounted;
		newcounted = 0;
		ttbr[me] = m1;
		loaded[me] = m1;
		if
		:: m1 -> asid[me] = num[m1 - 1]
#ifndef V_PARK_KEEPS_ASID
		:: else -> asid[me] = 0
#else
		:: else
#endif
		fi;
#ifdef LAZY
		if
		:: m1 -> lazy[me] = m1
		:: else
		fi;
#endif
		settle()
	}
}

/* The DSB of __switch_to(), or an explicit one; then the CPU takes its count back. */
inline count_out()
{
#ifdef V_NO_DSB_OUT
	d_step {
		if
		:: leaving[me] -> cnt[leaving[me] - 1]--; printf("CPU %d: out of mm %d: count %d\n", me, leaving[me] - 1, cnt[leaving[me] - 1]); VISIBLE(leaving[me] - 1); leaving[me] = 0
		:: else
		fi;
		settle()
	}
	d_step { dsb(me); NEXT(0); m = 0 }
#else
#ifdef V_LEAVE_OUT_BEFORE_DSB
	out[me] = 0;
#endif
#ifdef V_LEAVE_OUT_BEFORE_COUNT
	d_step { dsb(me); out[me] = 0 }
#endif
	d_step {
		dsb(me);
		if
		:: leaving[me] -> cnt[leaving[me] - 1]--; printf("CPU %d: out of mm %d: count %d\n", me, leaving[me] - 1, cnt[leaving[me] - 1]); VISIBLE(leaving[me] - 1); leaving[me] = 0
		:: else
		fi;
		NEXT(0);
		m = 0;
		settle()
	}
#ifdef LEAVE
	if
	:: atomic { out[me] != 0 -> out[me] = 0 }
	:: atomic { out[me] == 0 -> skip }
	fi
#endif
#endif
}

inline load(m)
{
	allocate(m);
#ifdef RENAME
#ifdef LEAVE
	publish(m + 1);
#endif
	do
	:: if
	   :: atomic { NEEDS_LOCK(m) -> skip } rename(m)
	   :: atomic { !NEEDS_LOCK(m) -> word_in(m) }
	   fi;
	   if
	   :: todo == AGAIN
	   :: else -> break
	   fi
	od;
#ifndef V_NO_RECHECK
	/*
	 * Was m renamed by another CPU after this one read the number and before it changed the word? From now on m
	 * cannot be renamed.
	 */
	if
	:: atomic { id != num[m] ->
		step_aside();
		actm[me] = 0 }
	   allocate(m)
	:: else
	fi;
#endif
	id = 0;
#else
	publish_and_word_in(m);
#endif
#ifdef V_TTBR_FIRST
	write_ttbr(m + 1);
	put_right(m);
#else
	put_right(m);
	write_ttbr(m + 1);
#endif
	count_out()
}

/* A flush of object k of mm m: the store, dsb(ishst), the word, the TLBI, the return. */
#define ELIDED	1
#define LOCALLY	2
#define BROADLY	3

#ifdef ALLOC
#define ID(m)	id
#else
#define ID(m)	num[m]
#endif

#if defined(ALLOC) && !defined(V_ID_BEFORE_WORD) && !defined(V_ID_BEFORE_DSB)
#define READ_ID(m)	id = num[m]
#else
#define READ_ID(m)	skip
#endif

/*
 * The flush returns: the flushed page may be freed, and the model frees it at once. A later moment would only hide
 * errors.
 */
inline returns(m, k)
{
	printf("CPU %d: the flush of mm %d returns\n", me, m);
	pte[m * NOBJ + k] = 0;
	settle();
	todo = NOTHING;
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

inline decide(m)
{
	d_step {
#if defined(V_PLAIN_SAME)
		if	/* the word would not change, so it is not written */
		:: lag[m] && lag[m] != me + 1 && lagcnt[m] == 0 && (lagflags[m] & STALE) -> todo = ELIDED
		:: !(lag[m] && lag[m] != me + 1) && cnt[m] == 0 && (flags[m] & STALE) -> todo = ELIDED
		:: else ->
#endif
		if
		:: flags[m] & MANY -> todo = BROADLY
		:: else ->
			if
			:: cnt[m] == 0 ->
#if !defined(V_NO_STALE)
				flags[m] = flags[m] | STALE;
#endif
				VISIBLE(m);
				todo = ELIDED
#ifdef V_LOCAL_ELSEWHERE
			:: cnt[m] != 0 && loaded[me] == m + 1 ->
#else
			:: cnt[m] == 1 && loaded[me] == m + 1 ->
#endif
#ifndef V_NO_RSTALE
				if
				:: flags[m] & WANDERED -> flags[m] = flags[m] | RSTALE
				:: else
				fi;
#endif
#ifndef V_HOME_KEPT
				home[m] = me + 1;
#endif
				VISIBLE(m);
				todo = LOCALLY
			:: else -> todo = BROADLY
			fi
		fi
#if defined(V_PLAIN_SAME)
		fi
#endif
		;printf("CPU %d: flush of mm %d (1 elided, 2 local, 3 broadcast): %d; count %d, flags %d, home %d\n", me, m, todo,
			cnt[m], flags[m], home[m] - 1)
	}
}

#ifdef LEAVE
/* Is the word as it was when LEAVING was set? Then no CPU has loaded m since, and no counted CPU has left it. */
#ifdef V_LEAVE_NO_BIT
#define EXPECTED(m)	((flags[m] & MANY) && !(flags[m] & STALE) && cnt[m] == was)
#else
#define EXPECTED(m)	((flags[m] & MANY) && (flags[m] & LEAVING) && cnt[m] == was)
#endif

#if defined(V_LEAVE_STALE)
#define MAY_LEAVE(m)	(flags[m] & MANY)
#else
#define MAY_LEAVE(m)	((flags[m] & MANY) && !(flags[m] & STALE))
#endif

#ifdef V_LEAVE_NO_LOCK
#define LOOKING		false
#else
#define LOOKING		looking
#endif

/* One other CPU. */
inline look_at(c, m)
{
#if defined(V_LEAVE_ASIDS)
	if
	:: atomic { actm[c] == m + 1 -> gaveup = 1 }
	:: atomic { actm[c] != m + 1 -> skip }
	fi
#elif defined(V_LEAVE_LEAVING_FIRST)
	gaveup = (out[c] == m + 1);
	gaveup = (gaveup || pub[c] == m + 1)
#elif defined(V_LEAVE_LOADED_ONLY)
	gaveup = (pub[c] == m + 1)
#else
	gaveup = (pub[c] == m + 1);
	if
	:: !gaveup -> gaveup = (out[c] == m + 1)
	:: else
	fi
#endif
}

/*
 * The mm is MANY, but may perhaps leave that state. Preemption is off. whole: MANY was left, and the flush must be for
 * the whole ASID.
 */
inline try_to_leave(m)
{
	d_step {
		gaveup = !MAY_LEAVE(m);
		was = cnt[m];
#ifndef V_LEAVE_NO_BIT
		if
		:: !gaveup -> flags[m] = flags[m] | LEAVING
		:: else
		fi;
#endif
		printf("CPU %d: looks whether mm %d is MANY still: count %d, flags %d\n", me, m, cnt[m], flags[m])
	}
#if defined(PIN) && !defined(V_LEAVE_PINNED)
	if
	:: !gaveup -> gaveup = pinned[m]
	:: else
	fi;
#endif
	other = 0;
	do
	:: other < NCPU && !gaveup ->
		if
		:: other != me -> look_at(other, m)
		:: else
		fi;
		other++
	:: else -> break
	od;
	other = 0;
	d_step {
		looking = 0;
		if
		:: !gaveup && EXPECTED(m) ->
			flags[m] = 0;
			home[m] = me + 1;
#ifdef V_LEAVE_NOT_HERE
			cnt[m] = 0;
#else
			cnt[m] = (loaded[me] == m + 1 -> 1 : 0);
#endif
#ifndef V_LEAVE_UNCOUNTED
			if
			:: loaded[me] == m + 1 -> counted[me] = 1
			:: else
			fi;
#endif
#ifdef V_LEAVE_NARROW_NOTED
			flags[m] = WANDERED;
#endif
#if !defined(V_LEAVE_NARROW) && !defined(V_LEAVE_NARROW_NOTED)
			whole = 1;
#endif
			printf("CPU %d: mm %d is MANY no longer: count %d, home %d\n", me, m, cnt[m], me)
		:: else -> flags[m] = flags[m] & ~LEAVING
		fi;
		gaveup = 0;
		was = 0;
		settle()
	}
}
#endif

inline flush_entry(m, k)
{
#ifdef V_ID_BEFORE_DSB
	id = num[m];
#endif
#if defined(V_NO_ISHST) || defined(MERGE)
	skip;
#else
	d_step { printf("CPU %d: dsb(ishst)\n", me); pte[m * NOBJ + k] = 2; settle() }
#endif
#ifdef V_ID_BEFORE_WORD
	id = num[m];
#endif
#ifdef V_PLAIN_SET
	d_step {
		if	/* a plain read decides, an atomic OR follows */
		:: lag[m] && lag[m] != me + 1 && lagcnt[m] == 0 && !(lagflags[m] & MANY) -> todo = ELIDED
		:: !(lag[m] && lag[m] != me + 1) && cnt[m] == 0 && !(flags[m] & MANY) -> todo = ELIDED
		:: else -> todo = NOTHING
		fi
	}
	if
	:: todo == ELIDED -> d_step { flags[m] = flags[m] | STALE; VISIBLE(m) }
	:: else -> decide(m)
	fi;
#else
	decide(m);
#endif
#ifdef LEAVE
	if
	:: atomic { todo == BROADLY && (flags[m] & MANY) && !LOOKING -> looking = 1 }
	   try_to_leave(m)
	:: skip
	fi;
#endif
	if
	:: todo == ELIDED -> d_step { returns(m, k) }
	:: todo == LOCALLY ->
		READ_ID(m);
		d_step {
			printf("CPU %d: local TLBI, ASID %d\n", me, ID(m));
			local_entry(me, ID(m), m * NOBJ + k);
			returns(m, k)
		}
	:: todo == BROADLY ->
		READ_ID(m);
		d_step {
			printf("CPU %d: broadcast TLBI, ASID %d\n", me, ID(m));
			if
#ifdef LEAVE
			:: ID(m) && whole -> broadcast_asid(ID(m)); whole = 0
			:: ID(m) && !whole -> broadcast_entry(ID(m), m * NOBJ + k)
			:: else -> whole = 0
#else
			:: ID(m) -> broadcast_entry(ID(m), m * NOBJ + k)
			:: else
#endif
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
#ifndef V_FORK_COPIES
	assert(cnt[m] == 0);
#endif
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
	cnt[m] = 0; flags[m] = 0; home[m] = 0; num[m] = 0; current[m] = 0;
	settle()
}

/* fork() copies the mm; the word is new. */
inline born(m)
{
	dead[m] = 0;
#ifdef V_FORK_COPIES
	cnt[m] = 1; home[m] = 1;	/* the parent runs on CPU 0 */
#endif
	b = 0
}

#define UNUSED(m)	(loaded[0] != m + 1 && infl[0] != m + 1 && leaving[0] != m + 1 && next[0] != m + 1 && \
			 loaded[1] != m + 1 && infl[1] != m + 1 && leaving[1] != m + 1 && next[1] != m + 1)
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
					  printf("CPU %d: stores a PTE of mm %d\n", me, m) } } goto flush

proctype cpu(byte me)
{
	byte m;
	byte k;
	byte todo;
	bit newcounted;
#ifdef LEAVE
	byte other;
	byte was;
	bit gaveup;
	bit whole;
#endif
#ifdef EXIT
	bit last;
#endif
#ifdef ALLOC
	byte id;
	bit changed;
#endif

again:	if
	/* The scheduler: another task's mm, or back from a kernel thread or idle. exec and kthread_use_mm() do the same. */
	:: SWITCH(0)
#if NMM > 1
#ifdef PART
	:: me == 1 -> SWITCH(1)
#else
	:: SWITCH(1)
#endif
#endif
	/* A kernel thread, idle, exit_mm(), kthread_unuse_mm(), a CPU that is unplugged. */
	:: loaded[me] -> goto leave
	/* A task that changes a page table; it need not run the mm. */
	:: STORE(0)
#if NFLUSH * NOBJ > 1
	:: STORE(1)
#endif
#if NFLUSH * NOBJ > 2
	:: STORE(2)
	:: STORE(3)
#endif
#ifdef EXIT
	/*
	 * The last mmput(): no CPU runs the mm, and all its tasks have executed exit_mm(). The tables are flushed, and
	 * freed.
	 */
	:: atomic { ALIVE(0) && UNUSED(0) && pte[0] == 0 -> m = 0; dying[0] = 1; last = 1 } goto exit
#if NMM > 1
	:: atomic { ALIVE(1) && UNUSED(1) && pte[NOBJ] == 0 -> m = 1; dying[1] = 1; last = 1 } goto exit
	:: atomic { dead[1] -> born(1) } goto again
#endif
	/* fork */
	:: atomic { dead[0] -> born(0) } goto again
#endif
#ifdef ALLOC
	/* Other mms, which run on no CPU, use up the numbers, and may take the one that mm 0 had. */
	:: atomic { UNLOCKED && (actm[0] || actm[1]) && ROLLS_LEFT -> roll_over(); ROLLED } goto again
	:: atomic { UNLOCKED && (actm[0] || actm[1]) && num[0] && ROLLS_LEFT ->
		d_step { ROLLED; roll_over(); map = map | (1 << (num[0] - 1)) } } goto again
#endif
#ifdef IDMAP
	:: atomic { lazy[me] -> skip } goto idmap
#endif
#ifdef PIN
	:: atomic { !pinned[0] && !ttbr[NCPU] && ALIVE(0) -> m = 0 } goto pin
#endif
	fi;

switch_in:
#ifdef V_LAZY_SKIPS
	if
	:: lazy[me] == m + 1 -> assert(ttbr[me] == m + 1); m = 0	/* or its task cannot run */
	:: else -> load(m)
	fi;
#elif defined(V_LAZY_UNCOUNTED)
	if
	:: lazy[me] == m + 1 -> write_ttbr(m + 1); count_out()
	:: else -> load(m)
	fi;
#else
	load(m);
#endif
	goto again;

leave:
#ifdef LEAVE
	publish(0);
#endif
	write_ttbr(0);
	count_out();
	goto again;

flush:	flush_entry(m, k);
#ifdef EXIT
	if
	:: last -> atomic { (pte[m * NOBJ] == 0 && pte[m * NOBJ + NOBJ - 1] == 0) -> die(m); last = 0; m = 0; k = 0 }
	:: else
	fi;
#endif
	goto again;

#ifdef EXIT
exit:	atomic { (pte[m * NOBJ] == 0); pte[m * NOBJ] = STORED; age(m * NOBJ); settle() }
	goto flush;
#endif
#ifdef IDMAP
	/* TTBR0 points to the identity map for a while (suspend, hibernation, erratum setup), with interrupts off. */
idmap:	atomic {
		infl[me] = ttbr[me]; inflasid[me] = asid[me];
		ttbr[me] = 0; asid[me] = 0; settle()
	}
	d_step {
		infl[me] = 0; inflasid[me] = 0;
#ifdef V_IDMAP_RESURRECTS
		m = lazy[me];
#else
		m = loaded[me];
#endif
		ttbr[me] = m;
		asid[me] = (m -> num[m - 1] : 0);
		m = 0;
		local_all(me)
	}
	goto again;
#endif
#ifdef PIN
pin:	atomic {
		if
		:: !current[m] -> new_context(m)
		:: else
		fi;
		pinned[m] = 1;
		b = 0
	}
	d_step {
		todo = NOTHING;
#if defined(LEAVE) && !defined(V_LEAVE_PIN_KEEPS)
		flags[m] = flags[m] & ~LEAVING;
#endif
#ifndef V_PIN_COUNTED
		if
		:: (flags[m] & MANY) && (flags[m] & STALE) -> todo = BROAD
		:: !(flags[m] & MANY) && (flags[m] & (STALE | RSTALE)) ->
#ifdef V_PIN_NO_BROADCAST
			TO_MANY(m, 0)
#else
			TO_MANY(m, STALE);
			todo = CLEAR
#endif
		:: (flags[m] & MANY) && !(flags[m] & STALE)
		:: else -> TO_MANY(m, 0)
		fi
#endif
	}
	put_right(m);
	d_step { ttbr[NCPU] = m + 1; asid[NCPU] = num[m]; settle() }
	goto again;
#endif
}

init {
	d_step {
		byte c = 0;
		do
		:: c < NMM ->
#ifndef ALLOC
			num[c] = c + 1;
#endif
			c++
		:: else -> break
		od;
		c = 0
#if NFLUSH < NMM
		;flags[1] = MANY	/* no CPU flushes this mm: its word would only add states */
#endif
	}
	atomic {
		run cpu(0);
		run cpu(1);
#if NCPU > 2
		run cpu(2);
#endif
	}
}
