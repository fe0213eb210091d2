/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * count - counters of what each vCPU executes, in the whole run and in windows.
 *
 * Each vCPU adds to its own struct, without locks. When a window opens the counters are
 * copied, and when it closes the copy is subtracted, so a window costs nothing while it
 * is open. One window can be open at a time in the whole guest.
 *
 * Locking: only the vCPU's own thread calls count_event(). The caller serialises the
 * window calls and count_write_*(). These may run while other vCPUs count, and read each
 * counter as it is either before or after an event.
 */
#ifndef LULL_COUNT_H
#define LULL_COUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "decode.h"
#include "functions.h"
#include "issuer.h"
#include "window.h"

/* Guests that are counted apart; all others are counted together. */
#define GUESTS 8

/* How far a guest's TLBI goes. FORCED: it is a local one, and HCR_EL2.FB makes it a broadcast. */
enum guest_kind { GUEST_LOCAL, GUEST_BROADCAST, GUEST_FORCED, GUEST_KINDS };

/* Aligned, so that no two vCPUs write into one cache line. */
struct cpu_counts {
	uint64_t insns, insns_spin, atomics;
	uint64_t tlbi[TLBI_FORMS][CLASSES];
	uint64_t by_guests[TLBI_FORMS][CLASSES];	/* those of tlbi that guests executed */
	uint64_t guest[GUESTS + 1][GUEST_KINDS][CLASSES];	/* the same, of each guest */
	/* Those of tlbi that a hypervisor executed for guests: local and broadcast; how many of both reach stage 2. */
	uint64_t hyp_local, hyp_broadcast, hyp_stage2;
	uint64_t forced[CLASSES];	/* local TLBIs that HCR_EL2.FB made broadcasts, of guests and others */
	uint64_t dsb[DSB_FORMS];
	uint64_t ipi, ipi_all;
	uint64_t ic;		/* IC IVAU, IC IALLUIS */
} __attribute__((aligned(128)));

struct counts {
	unsigned int ncpus;
	struct cpu_counts *live;	/* since the start */
	struct cpu_counts *opened;	/* copy of live when the window opened */
	struct cpu_counts *shown;	/* scratch of the writer */
	struct window window;
	unsigned int opener;		/* the vCPU whose marker opened it */
	unsigned int opener_guest;	/* the guest that had this vCPU; GUESTS + 1: none */
	bool virtual;			/* set by the caller: there is an EL2, and so there may be guests */
	uint32_t guests[GUESTS];	/* VMID + 1 of the guests seen, in the order of their first TLBIs and windows */
	uint64_t seq;			/* windows written so far */
	bool timed;			/* windows have a modelled time */
	uint64_t modelled, astray;	/* of the window that closes: count_set_time() */
	struct functions functions;	/* the caller's; empty: windows have no "functions" */
	const uint64_t *of_functions;	/* count_set_functions() */
};

bool count_init(struct counts *c, unsigned int ncpus);
void count_free(struct counts *c);

/*
 * vCPU @cpu is about to execute a TLBI, DSB or SGI; @operand is that of a TLBI or an SGI, and
 * @by the issuer of a TLBI.
 */
void count_event(struct counts *c, unsigned int cpu, const struct insn *insn,
		 uint64_t operand, const struct issuer *by);

/* These counters are kept by the caller, which sets them here before each call below. */
void count_set_insns(struct counts *c, unsigned int cpu, uint64_t insns, uint64_t insns_spin,
		     uint64_t atomics);

/*
 * Before a window closes: its modelled time in ns, and the number of instructions that
 * vCPUs executed while they should have been held (plugin_time.h).
 */
void count_set_time(struct counts *c, uint64_t modelled, uint64_t astray);

/*
 * Before a window closes: the counters by function of vCPU c->opener. Their growth in the
 * window is written, if functions_load() has filled c->functions.
 */
void count_set_functions(struct counts *c, const uint64_t *counters);

/*
 * A marker, executed by vCPU @cpu in the state @state. Opening a second window is written as an
 * error, changes nothing, and returns false.
 */
bool count_open(struct counts *c, unsigned int cpu, const struct issuer_state *state, uint64_t id, FILE *out);
void count_close(struct counts *c, uint64_t id, FILE *out);

/* Return true if window @id is open. */
bool count_is_open(const struct counts *c, uint64_t id);

/* The first line, and the last one. */
void count_write_header(const struct counts *c, int api, FILE *out);
void count_write_run(struct counts *c, FILE *out);

#endif
