/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Residency is switched on and off while CPUs use it. There are two static keys, and each CPU, at each place in the
 * code, sees a key change at a moment of its own. The word, loads and flushes are those of residency.pml, in fewer
 * steps. README.md says what must hold.
 *
 *	track	words and per-CPU variables are kept up to date
 *	on	flushes may elide TLBIs, idle CPUs park, new address spaces are counted
 */

#define NCPU	2
#ifndef NMM
#define NMM	1
#endif
#ifndef TURNS
#define TURNS	1	/* times that it is switched on and off */
#endif
/* Also: IDMAP. */

/* The places that test `track` */
#define AT_LOAD	1	/* a load: the word, before TTBR0 */
#define AT_BACK	2	/* a switch back to the same address space: is it loaded? */
#define AT_LEFT	4	/* after the DSB: the count is taken back */
#define AT_IDMAP 8	/* after the identity map: is the address space loaded? */
#ifdef IDMAP
#define PLACES	15
#else
#define PLACES	7
#endif
byte track[NCPU];
bit on[NCPU];
byte epoch = 1;			/* grows each time residency is switched on */

/* The word */
#define MANY	1
#define STALE	2
#define RSTALE	4
#define WANDERED 8
byte cnt[NMM];
byte flags[NMM];
byte home[NMM];			/* CPU + 1 */
byte born[NMM];			/* the epoch in which the mm was made; 0: there is no mm */

/* The state that the kernel has on record; mm + 1, or 0 */
byte task[NCPU];		/* mm of the task that runs; 0: a kernel thread, or idle */
byte act[NCPU];			/* active_mm: the mm that the scheduler believes to be loaded */
byte loaded[NCPU];
bit counted[NCPU];
byte leaving[NCPU];		/* and it was counted */
#define GONE	9		/* and it is freed */
bit parked[NCPU];
bit irqs_off[NCPU];
bit rcu[NCPU];			/* preemption is off, and `on` was read since then */

/* What hardware does */
byte ttbr[NCPU];		/* TTBR0 and the ASID; 0: parked with ASID 0 */
byte infl[NCPU];		/* walks begun before TTBR0 was written */
byte pte[NMM];			/* 0 at rest, 1 stored but in the store buffer, 2 visible, flush not returned */
#define NEW	1
#define OLD	2
byte tlb[NCPU * NMM];
#define FETCHED(m)	(pte[m] == 1 -> OLD : NEW)
#define T(c, m)	tlb[(c) * NMM + (m)]

#ifdef SHORTEST
byte i, j;			/* spin's breadth-first search has no hidden variables */
#else
hidden byte i, j;		/* only inside a step */
#endif

/* Is active_mm parked? */
#ifdef V_BACK_BY_LOADED
#define AWAY(c)	(loaded[c] != act[c])
#else
#define AWAY(c)	parked[c]
#endif
#ifdef V_IDMAP_BY_LOADED
#define STAYS_AWAY(c)	(loaded[c] != act[c])
#else
#define STAYS_AWAY(c)	parked[c]
#endif

#define COUNTS(m)	(!(flags[m] & MANY) && CURRENT(m))
#ifdef V_NO_EPOCH
#define CURRENT(m)	true
#else
#define CURRENT(m)	(born[m] == epoch)
#endif

/*
 * Every walk that may happen does happen. Assert: no CPU uses an entry whose flush has returned, and no task runs
 * without its tables.
 */
inline settle()
{
	i = 0;
	do
	:: i < NCPU ->
		if
		:: ttbr[i] -> T(i, ttbr[i] - 1) = T(i, ttbr[i] - 1) | FETCHED(ttbr[i] - 1)
		:: else
		fi;
		if
		:: infl[i] -> T(i, infl[i] - 1) = T(i, infl[i] - 1) | FETCHED(infl[i] - 1)
		:: else
		fi;
		assert(!ttbr[i] || !(T(i, ttbr[i] - 1) & OLD) || pte[ttbr[i] - 1]);
		assert(!infl[i] || !(T(i, infl[i] - 1) & OLD) || pte[infl[i] - 1]);
		assert(!task[i] || irqs_off[i] || ttbr[i] == task[i]);
		i++
	:: else -> break
	od;
	i = 0
}

/* Entries that were correct become old. */
inline age(m)
{
	j = 0;
	do
	:: j < NCPU -> T(j, m) = (T(j, m) -> OLD : 0); j++
	:: else -> break
	od;
	j = 0
}

inline forget(m)
{
	j = 0;
	do
	:: j < NCPU -> T(j, m) = 0; j++
	:: else -> break
	od;
	j = 0
}

inline forget_all(c)
{
	j = 0;
	do
	:: j < NMM -> T(c, j) = 0; j++
	:: else -> break
	od;
	j = 0
}

/* After the DSB: the mm from which the CPU switched away is not loaded any more. */
inline left(c)
{
	infl[c] = 0;
	if
	:: leaving[c] ->
		assert(leaving[c] != GONE);
		cnt[leaving[c] - 1]--;
		leaving[c] = 0
	:: else
	fi
}

inline leave(c)
{
	if
	:: leaving[c] -> left(c)	/* two switches without a __switch_to() between them, or it did not see the key */
	:: else
	fi;
	leaving[c] = (counted[c] -> loaded[c] : 0);
	loaded[c] = 0;
	counted[c] = 0
}

/* The mm is freed, and its memory may be used for anything. */
inline gone(n)
{
	if
	:: leaving[0] == n + 1 -> leaving[0] = GONE
	:: else
	fi;
	if
	:: leaving[1] == n + 1 -> leaving[1] = GONE
	:: else
	fi
}

/* lull_load() */
inline word_in(c, m)
{
	leave(c);
	if
	:: !COUNTS(m)			/* with MANY from the beginning, STALE would cause a broadcast; this model has none */
	:: else ->
		if
		:: (flags[m] & STALE) || ((flags[m] & RSTALE) && home[m] != c + 1) ->
			T(c, m) = 0;
			flags[m] = (flags[m] & ~STALE) | RSTALE
		:: else
		fi;
		if
		:: home[m] && home[m] != c + 1 -> flags[m] = flags[m] | WANDERED
		:: else
		fi;
		cnt[m]++;
		home[m] = c + 1;
		counted[c] = 1
	fi;
	loaded[c] = m + 1;
	parked[c] = 0
}

inline write_ttbr(c, m1)
{
	if
	:: ttbr[c] -> infl[c] = ttbr[c]
	:: else
	fi;
	ttbr[c] = m1
}

/* __switch_to() */
inline switched()
{
	d_step {
		infl[me] = 0;
		if
		:: track[me] & AT_LEFT -> left(me)
		:: else
		fi;
		irqs_off[me] = 0;
		m = 0;
		settle()
	}
}

inline load()
{
	d_step {
		if
		:: track[me] & AT_LOAD -> word_in(me, m)
		:: else
		fi;
		printf("CPU %d: loads mm %d, count %d, flags %d, loaded %d\n", me, m, cnt[m], flags[m], loaded[me] - 1)
	}
	d_step { write_ttbr(me, m + 1); settle() }
}

/* After the store. */
#define ELIDED	1
#define LOCAL	2
#define BROAD	3

inline flush()
{
#ifdef V_KEY_BEFORE			/* the key was read before preemption was disabled */
	d_step { todo = BROAD; mine = on[me] }
	rcu[me] = mine;
#else
	d_step { todo = BROAD; rcu[me] = on[me] }	/* reads the key; preemption is off */
#endif
	if
	:: rcu[me] -> d_step {
		pte[m] = 2;			/* dsb(ishst) */
		if
		:: COUNTS(m) && cnt[m] == 0 -> flags[m] = flags[m] | STALE; todo = ELIDED
		:: COUNTS(m) && cnt[m] == 1 && loaded[me] == m + 1 ->
			if
			:: flags[m] & WANDERED -> flags[m] = flags[m] | RSTALE
			:: else
			fi;
			home[m] = me + 1;
			todo = LOCAL
		:: else
		fi;
		settle()
	   }
	:: else
	fi;
	d_step {
		printf("CPU %d: flush of mm %d (1 elided, 2 local, 3 broadcast): %d\n", me, m, todo);
		if
		:: todo == LOCAL -> T(me, m) = 0
		:: todo == BROAD -> forget(m)
		:: else
		fi;
		pte[m] = 0;
		rcu[me] = 0;
		todo = 0;
		m = 0;
		settle()
	}
}

#define SWITCH(n)	atomic { born[n] && task[me] != (n) + 1 -> irqs_off[me] = 1; m = n; task[me] = m + 1 } goto switch_in
#define STORE(n)	atomic { born[n] && !pte[n] -> d_step { m = n; pte[n] = 1; age(n); settle() } } goto change
/* The task from which the CPU switches away holds the mm until after __switch_to(). */
#define HELD(c, n)	(task[c] == (n) + 1 || act[c] == (n) + 1 || ttbr[c] == (n) + 1 || infl[c] == (n) + 1 || \
			 (irqs_off[c] && leaving[c] == (n) + 1))
#define UNUSED(n)	(!HELD(0, n) && !HELD(1, n) && !pte[n])
#define FORK(n)		atomic { !born[n] && !making -> making = 1; m = n } goto fork
#define DIE(n)		atomic { born[n] && UNUSED(n) -> born[n] = 0; cnt[n] = 0; flags[n] = 0; home[n] = 0; forget(n); gone(n) } goto again

bit making;			/* one fork at a time */

proctype cpu(byte me)
{
	byte m, todo, mine;

again:	if
	:: SWITCH(0)
	:: STORE(0)
	:: FORK(0)
	:: DIE(0)
#if NMM > 1
	:: SWITCH(1)	/* exists since boot, and no CPU changes it: it occupies CPUs */
#endif
	/* A kernel thread, or idle. */
	:: atomic { task[me] -> irqs_off[me] = 1; task[me] = 0; m = act[me] - 1 } goto idle
	/* Idle for ever. Its active_mm is another mm, like a third address space. */
	:: atomic { !task[me] && act[me] -> irqs_off[me] = 1; m = 0 } goto nothing
#ifdef IDMAP
	:: atomic { act[me] -> irqs_off[me] = 1 } goto idmap
#endif
	fi;

switch_in:
	if	/* switch_mm() */
	:: atomic { act[me] == m + 1 && !((track[me] & AT_BACK) && AWAY(me)) -> skip }
	:: atomic { act[me] != m + 1 || ((track[me] & AT_BACK) && AWAY(me)) -> act[me] = m + 1 }
	   load()
	fi;
	switched();
	goto again;

idle:	rcu[me] = on[me];
	if
	:: rcu[me] && loaded[me] && counted[me] ->
		d_step { leave(me); parked[me] = 1; write_ttbr(me, 0); printf("CPU %d: parks\n", me); settle() }
	:: else
	fi;
	rcu[me] = 0;
	switched();
	goto again;

nothing:
	atomic {
		act[me] = 0;
		if
		:: track[me] & AT_LOAD -> leave(me); parked[me] = 0
		:: else
		fi;
		write_ttbr(me, 0);
		settle()
	}
	switched();
	goto again;

change:	flush();
	goto again;

fork:	/* Preemption is on: keys and epoch may change between any two steps. */
#ifndef V_EPOCH_LATE
	mine = epoch;
#endif
	if
#ifdef V_NEW_BY_TRACK
	:: track[me] & AT_LOAD -> todo = 1
#else
	:: on[me] -> todo = 1
#endif
	:: else
	fi;
#ifdef V_EPOCH_LATE
	mine = epoch;
#endif
	d_step {
		cnt[m] = 0; home[m] = 0;
		flags[m] = (todo -> 0 : MANY);
		born[m] = mine;
		printf("CPU %d: makes mm %d, flags %d, epoch %d\n", me, m, flags[m], mine);
		todo = 0; m = 0; mine = 0; making = 0
	}
	goto again;

#ifdef IDMAP
	/* Back from a deep idle state, or from suspend: cpu_uninstall_idmap() */
idmap:	atomic {
		ttbr[me] = ((track[me] & AT_IDMAP) && STAYS_AWAY(me) -> 0 : act[me]);
		forget_all(me);
		irqs_off[me] = 0;
		settle()
	}
	goto again;
#endif
}

/* A static key is switched: each place on each CPU sees it at a moment of its own. Then the call returns. */
#define FLIP(c, place)	d_step { (track[c] & place) != (to & place) -> track[c] = track[c] ^ place }

/*
 * The key that is tested after the DSB is another one, which is on for longer, so that a count that was taken is
 * always taken back.
 */
inline set_track(to)
{
#ifndef V_ONE_KEY
	if
	:: to != 0 -> track[0] = AT_LEFT; track[1] = AT_LEFT
	:: else
	fi;
#endif
	do
	:: FLIP(0, AT_LOAD)
	:: FLIP(0, AT_BACK)
#ifdef V_ONE_KEY
	:: FLIP(0, AT_LEFT)
	:: FLIP(1, AT_LEFT)
#endif
	:: FLIP(0, AT_IDMAP)
	:: FLIP(1, AT_LOAD)
	:: FLIP(1, AT_BACK)
	:: FLIP(1, AT_IDMAP)
	:: (track[0] | AT_LEFT) == (to | AT_LEFT) && (track[1] | AT_LEFT) == (to | AT_LEFT) -> break
	od;
#ifdef V_ONE_KEY
	track[0] == to && track[1] == to
#else
	!irqs_off[0];			/* an IPI, or synchronize_rcu(): no switch that saw the first key is in progress */
	!irqs_off[1];
	track[0] = to;
	track[1] = to
#endif
}

inline set_on(to)
{
	if
	:: on[0] = to; on[1] = to
	:: on[1] = to; on[0] = to
	fi
}

/* The IPIs. Their order does not matter, because each changes only the state of its own CPU. */
inline reset(c)
{
	d_step {
		!irqs_off[c] ->
#ifndef V_NO_RESET
		leaving[c] = 0;
		counted[c] = 0;
		loaded[c] = 0;
#endif
		printf("CPU %d: starts anew\n", c)
	}
}

inline settle_down(c)
{
	d_step {
		!irqs_off[c] ->
#ifndef V_NO_FLUSH
		forget_all(c);
#endif
#ifndef V_NO_RELOAD
		if
		:: parked[c] && act[c] -> word_in(c, act[c] - 1); ttbr[c] = act[c]
		:: else
		fi;
#endif
		printf("CPU %d: forgets all, has mm %d\n", c, act[c] - 1);
		settle()
	}
}

inline synchronize_rcu()
{
	rcu[0] == 0;
	rcu[1] == 0
}

proctype policy()
{
	byte turns;

	do
	:: turns < TURNS ->
		reset(0);
		reset(1);
#ifndef V_EPOCH_AFTER_TRACK
		epoch++;
#endif
#ifdef V_ON_BEFORE_TRACK
		set_on(1);
		set_track(PLACES);
#else
		set_track(PLACES);
#ifdef V_EPOCH_AFTER_TRACK
		epoch++;
#endif
		set_on(1);
#endif
		/* off */
		set_on(0);
#ifndef V_NO_RCU
		synchronize_rcu();
#endif
		settle_down(0);
		settle_down(1);
		set_track(0);
		turns++
	:: else -> break
	od
}

init {
	d_step {
		born[0] = 1; flags[0] = MANY;
#if NMM > 1
		born[1] = 1; flags[1] = MANY
#endif
	}
	atomic { run cpu(0); run cpu(1); run policy() }
}
