/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * count - what each vCPU did, in the whole run and between two markers.
 *
 * Each vCPU adds to its own struct, without locks. A window takes a copy when
 * it opens and subtracts it when it closes, so that it costs nothing while it
 * is open. One window at a time in the whole guest.
 *
 * Locking: count_event() is for the vCPU's own thread. The window calls and
 * count_write_*() are serialised by the caller; they may run while other vCPUs
 * count, and see each counter either before or after an event.
 */
#ifndef LULL_COUNT_H
#define LULL_COUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "decode.h"
#include "window.h"

/* Aligned, so that no two vCPUs write into one cache line. */
struct cpu_counts {
	uint64_t insns, insns_spin, atomics;
	uint64_t tlbi[TLBI_FORMS][CLASSES];
	uint64_t dsb[DSB_FORMS];
	uint64_t ipi, ipi_all;
} __attribute__((aligned(128)));

struct counts {
	unsigned int ncpus;
	struct cpu_counts *live;	/* since the start */
	struct cpu_counts *opened;	/* copy of live when the window opened */
	struct cpu_counts *shown;	/* scratch of the writer */
	struct window window;
	unsigned int opener;		/* the vCPU whose marker opened it */
	uint64_t seq;			/* windows written so far */
	bool timed;			/* windows have a time */
	uint64_t modelled, astray;	/* of the window: count_set_time() */
};

bool count_init(struct counts *c, unsigned int ncpus);
void count_free(struct counts *c);

/* A TLBI, DSB or SGI that vCPU cpu is about to execute; the operand of a TLBI and an SGI. */
void count_event(struct counts *c, unsigned int cpu, const struct insn *insn,
		 uint64_t operand);

/* These counters are kept outside; set them before each call below. */
void count_set_insns(struct counts *c, unsigned int cpu, uint64_t insns, uint64_t insns_spin,
		     uint64_t atomics);

/* Before a window closes: its modelled time, ns, and instructions that were not held back as they should. */
void count_set_time(struct counts *c, uint64_t modelled, uint64_t astray);

/* A marker. A wrong one is written as an error and changes nothing else; false. */
bool count_open(struct counts *c, unsigned int cpu, uint64_t id, FILE *out);
void count_close(struct counts *c, uint64_t id, FILE *out);

/* Is it the one that is open? */
bool count_is_open(const struct counts *c, uint64_t id);

/* The first line, and the last one. */
void count_write_header(const struct counts *c, int api, FILE *out);
void count_write_run(struct counts *c, FILE *out);

#endif
