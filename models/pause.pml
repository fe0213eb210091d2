/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One CPU makes the others wait (kernel/pause). This models the word of arch/arm64/mm/lull/pause.c, and which CPU
 * begins and leaves when. README.md says what must hold.
 *
 * The pausing CPU may stop for ever, as under a debugger or a hypervisor: after it has asked the others to wait, and
 * after it has given up and has stored this in the first of two words. It does not stop between BEGUN and the end. An
 * interrupt may be late, and arrive in a later attempt, or when there is no pause.
 */

#ifndef NCPU
#define NCPU	2		/* CPUs that wait, beside the pausing CPU */
#endif
#ifndef TRIES
#define TRIES	3
#endif
#define BEGUN	15

/* In the kernel these two are one word: each step that uses both is one access. */
byte ticket;
byte missing;

byte last;			/* the last ticket whose CPUs were released */
bit broken;			/* entries that all CPUs use are invalid */
bit waits[NCPU];		/* the CPU waits; otherwise it runs, and uses these entries */
bit sgi[NCPU];

proctype cpu(byte me)
{
	byte mine;
	bit began;

end:
	do
	:: atomic { sgi[me] -> sgi[me] = 0 };
		waits[me] = 1;
		began = 0;
		if	/* come */
		:: atomic { ticket % 2 && missing && missing != BEGUN -> mine = ticket; missing-- }
		:: atomic { else -> goto out }
		fi;
wait:
		if
#ifdef V_PAUSE_WAIT_EQUAL
		:: last == mine
#else
		:: last >= mine
#endif
#ifndef V_PAUSE_NO_LEAVE
		:: !began ->	/* the deadline may pass at any time */
#ifdef V_PAUSE_LEAVE_BLIND
			if
			:: atomic { ticket == mine -> missing++ }
#else
			if
			:: atomic { ticket == mine && missing != BEGUN -> missing++ }
#endif
#ifndef V_PAUSE_STAY
			:: ticket != mine
#endif
			:: atomic { else -> began = 1; goto wait }
			fi
#endif
		fi;
out:
		atomic { waits[me] = 0; assert(!broken) }
	od
}

active proctype pauser()
{
	byte i, n;
	bit was;

	atomic {
		for (i : 0 .. NCPU - 1) { run cpu(i) }
		i = 0;
	}
	do
	:: n < TRIES ->
		n++;
		d_step { ticket++; missing = NCPU };
		for (i : 0 .. NCPU - 1) { sgi[i] = 1 }
		do
#ifdef V_PAUSE_BEGIN_LOOKS
		:: !missing -> missing = BEGUN; goto begun
#else
		:: atomic { !missing -> missing = BEGUN; goto begun }
#endif
		:: goto over	/* the deadline */
		:: goto stopped
		od;
begun:
		was = 1;
#ifdef V_PAUSE_GO_EARLY
		last = ticket;
#endif
		atomic {
			broken = 1;
			for (i : 0 .. NCPU - 1) { assert(waits[i]) }
		}
		broken = 0;
over:
		skip;
#ifdef V_PAUSE_GO_FIRST
		last = ticket;
		d_step { ticket++; missing = 0 };
#else
		d_step { ticket++; missing = 0 };
		if
		:: !was -> goto stopped
		:: last = ticket - 1
		fi;
#endif
		was = 0
	:: else -> goto stopped
	od;
stopped:
end:
	false
}
