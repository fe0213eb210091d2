/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reach - what a TLBI removes: which CPUs, ASIDs, addresses and levels.
 *
 * Pure. Only the EL1&0 regime; of the others reach_of() says so. Arm ARM
 * C5.5 (each TLBI's operand), D8.16 (TLB maintenance), "TTL hints"
 * (FEAT_TTL), FEAT_TLBIRANGE.
 */
#ifndef LULL_REACH_H
#define LULL_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "decode.h"
#include "walk.h"

#define LEVEL_ANY 4	/* no hint */

struct reach {
	bool local;		/* the issuing PE alone */
	bool any_asid;		/* VAA, and whole regime */
	uint16_t asid;
	bool every_va;		/* ASID and ALL forms */
	bool upper;		/* addresses of the TTBR1 half */
	uint64_t start, end;	/* [start, end), end may be 0 at the top of the address space; sign-extended addresses */
	bool last;		/* leaves only; table descriptors stay */
	int8_t level;		/* TTL: only leaf entries of that level are sure to go; or LEVEL_ANY */
	bool nothing;		/* removes nothing for sure: TG of a range does not match the granule, or reserved TTL */
};

/*
 * Returns false for what is no invalidation of EL1&0 entries (IPA, PA, EL2,
 * EL3 forms). lower, upper: the regimes in force, whose granule and LPA2 units
 * of ranges matter; either may be NULL when translation is off.
 * Range forms: BaseADDR in units of the granule, or of 64 KiB with LPA2
 * (TCR_EL1.DS); NUM, SCALE: (NUM + 1) << (5 * SCALE + 1) granules; TTL; TG.
 */
bool reach_of(const struct tlbi *t, uint64_t operand, const struct regime *lower,
	      const struct regime *upper, struct reach *out);

enum cover {
	COVER_YES,
	COVER_ASID,	/* another ASID */
	COVER_VA,	/* other addresses */
	COVER_LAST,	/* an entry of a table, the TLBI is for leaves only */
	COVER_LEVEL,	/* its TTL names another level */
	COVER_NOTHING,	/* the TLBI removes nothing for sure */
};

/* A cached entry, as far as TLBIs can tell them apart. */
struct cached {
	uint64_t va;		/* first address it translates, sign-extended */
	uint64_t size;		/* bytes */
	uint16_t asid;
	bool global;		/* matches any ASID */
	bool table;		/* a table descriptor (walk cache), else a leaf */
	int8_t level;		/* of the descriptor */
};

/*
 * Does the TLBI remove the entry, for sure? A leaf larger than the addresses
 * named goes when one of its addresses is named. A table entry goes with any
 * address under it, if not `last`; a TTL hint says where the leaf is, and the
 * tables above it on the way go too (Arm ARM, TTL: the level of the leaf).
 */
enum cover reach_covers(const struct reach *r, const struct cached *c);

#endif
