/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * options - the plugin's key=value arguments.
 */
#ifndef LULL_OPTIONS_H
#define LULL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "account.h"

enum run_mode {
	MODE_COUNT,	/* what is executed */
	MODE_CHECK,	/* whether the kernel invalidates what it must */
};

/* Where instructions are counted; README.md has what each mode costs. */
enum insns_mode {
	INSNS_SEGMENT,	/* before each instruction that may fault: exact */
	INSNS_EACH,	/* before each instruction: exact, slow; to check INSNS_SEGMENT against */
	INSNS_BLOCK,	/* where a block starts: too many when the block is left early */
};

/* Whether the CPUs are taken to have FEAT_nTLBPA (walks.h). */
enum ntlbpa {
	NTLBPA_NO,
	NTLBPA_YES,
	NTLBPA_CPU,	/* what ID_AA64MMFR1_EL1 says; no if QEMU does not give that register */
};

#define OPTIONS_SKIPS 16	/* at most */

/* Addresses from start on and before end. */
struct range {
	uint64_t start, end;
};

struct options {
	enum run_mode mode;
	const char *out;		/* points into the arguments; NULL in check mode: text only */
	/* Count mode: */
	enum insns_mode insns;
	struct range skips[OPTIONS_SKIPS];	/* code whose instructions are also counted separately */
	unsigned int nskips;
	const char *functions;		/* points into the arguments; NULL: not by function */
	bool timed;			/* costs were given */
	struct costs costs;
	uint64_t quantum;		/* how far vCPUs may run ahead, picoseconds */
	/* Check mode: */
	bool speculation;
	enum ntlbpa ntlbpa;
	const char *symbols;		/* points into the arguments; NULL: not known */
	const char *cover;		/* points into the arguments; NULL: not asked for */
};

/*
 * Parse the plugin's arguments. Returns false with the reason in @error. Strings are not
 * copied: QEMU keeps the arguments for as long as the plugin lives.
 */
bool options_parse(struct options *o, int argc, char **argv,
		   char *error, size_t size);

/* Return true if the instruction at @pc is in a range of skip=. */
bool options_skips(const struct options *o, uint64_t pc);

#endif
