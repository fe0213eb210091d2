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
	bool any_asid;		/* VAA, and whole regime: of any ASID, and global */
	uint16_t asid;
	bool every_va;		/* ASID and ALL forms */
	bool upper;		/* addresses of the TTBR1 half */
	uint64_t start, end;	/* [start, end), sign-extended; end is 0 at the very top */
	bool last;		/* leaves only; table descriptors stay */
	int8_t level;		/* TTL: where the leaf is; or LEVEL_ANY */
	bool nothing;		/* removes nothing for sure */
};

/*
 * Returns false for what is no invalidation of EL1&0 entries (IPA, PA, EL2,
 * EL3 forms). lower, upper: the regimes in force, whose granule and LPA2 units
 * of ranges matter; either may be NULL when translation is off: then the
 * granule is 4 KiB, that of a range what it says.
 *
 * Nothing for sure goes by a TTL, or a range's TG, for another granule than
 * that of its half; a range with a reserved TG; a range whose start is not
 * aligned to what its TTL says. A TTL that is reserved for its granule is no
 * hint; one that is so only to CPUs without FEAT_LPA2 is taken for a hint.
 * Range forms: BaseADDR in units of the granule, or of 64 KiB with LPA2
 * (TCR_EL1.DS); (NUM + 1) << (5 * SCALE + 1) granules. What would reach beyond
 * the top of the address space ends there.
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
	bool global;		/* matches any ASID; of a table: the ASID is not known */
	bool table;		/* a table descriptor (walk cache), else a leaf */
	int8_t level;		/* of the descriptor */
};

/*
 * Does the TLBI remove the entry, for sure? A leaf larger than the addresses
 * named goes when one of its addresses is named. A table entry goes with any
 * address under it, if not `last`; a TTL hint says where the leaf is, and the
 * tables above it on the way go too (Arm ARM, TTL: the level of the leaf).
 *
 * Global leaves go by address whatever the ASID, and never by ASID. Tables are
 * cached under an ASID, the kernel's too: those that are `global` go by VAA
 * and whole-regime forms only.
 *
 * When there are several reasons against, the answer is the first of VA, ASID,
 * NOTHING, LAST, LEVEL.
 */
enum cover reach_covers(const struct reach *r, const struct cached *c);

#endif
