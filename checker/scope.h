/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scope - what a TLBI removes: on which CPUs, of which ASIDs, addresses and levels.
 *
 * Pure functions, for one regime with two ASID-tagged halves (EL1&0, or EL2&0 where the
 * kernel runs at EL2), and for stage 2 of the guests. Arm
 * ARM C5.5 (each TLBI's operand), D8.16 (TLB maintenance), "TTL hints" (FEAT_TTL),
 * FEAT_TLBIRANGE.
 */
#ifndef LULL_SCOPE_H
#define LULL_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "decode.h"
#include "walk.h"

#define LEVEL_ANY 4	/* no hint */

/* Of which stage of a guest: entries of stage 2 alone; and those that stage 1 has a part in, combined ones. */
enum scope_stage { SCOPE_BOTH, SCOPE_STAGE1, SCOPE_STAGE2 };

struct scope {
	bool local;		/* the issuing PE alone */
	bool any_asid;		/* VAA and whole-regime forms: of any ASID, and global entries */
	uint16_t asid;
	bool every_va;		/* ASID and ALL forms: all addresses */
	bool upper;		/* addresses of the TTBR1 half */
	uint64_t start, end;	/* [start, end), sign-extended; end is 0 at the very top */
	bool last;		/* leaves only; table descriptors stay */
	int8_t level;		/* TTL hint: the level of the leaf; or LEVEL_ANY */
	bool nothing;		/* by the architecture it need not remove anything */
	enum scope_stage stage;	/* of scope_of_stage2(); the ASID is a VMID there, the addresses are IPAs */
};

/*
 * Returns false for a TLBI that invalidates no EL1&0 entries (IPA, PA, EL2, EL3
 * forms). @lower, @upper: the regimes in force, of which the granule and LPA2 matter.
 * Either may be NULL when translation is off: the granule is then 4 KiB, or for a range
 * the one that its operand names.
 *
 * out->nothing is set, because the TLBI need not remove anything, for: a TTL, or a
 * range's TG, of another granule than that of its half; a range with a reserved TG; a
 * range whose start is not aligned to the level that its TTL names. A TTL that is
 * reserved for its granule counts as no hint; one that is reserved only on CPUs without
 * FEAT_LPA2 counts as a hint.
 *
 * Range forms: BaseADDR is in units of the granule, or of 64 KiB with LPA2 (TCR_EL1.DS);
 * the length is (NUM + 1) << (5 * SCALE + 1) granules. A range that would go beyond the
 * top of the address space ends there.
 */
bool scope_of(const struct tlbi *t, uint64_t operand, const struct regime *lower,
	      const struct regime *upper, struct scope *out);

/*
 * The same for a TLBI that EL2 executes for a guest, with HCR_EL2.{E2H, TGE} other than
 * {1, 1}; @vmid: of VTTBR_EL2, @r: of VTCR_EL2, or NULL. Returns false if it need not remove all
 * entries of stage 1 of the guest, nor any of stage 2.
 */
bool scope_of_stage2(const struct tlbi *t, uint64_t operand, uint16_t vmid, const struct regime *r,
		     struct scope *out);

enum cover {
	COVER_YES,
	COVER_ASID,	/* another ASID */
	COVER_VA,	/* other addresses */
	COVER_LAST,	/* an entry of a table, the TLBI is for leaves only */
	COVER_LEVEL,	/* its TTL names another level */
	COVER_NOTHING,	/* the TLBI need not remove anything */
};

/* An entry in a TLB, with the properties by which TLBIs select entries. */
struct cached {
	uint64_t va;		/* first address it translates, sign-extended */
	uint64_t size;		/* bytes */
	uint16_t asid;
	bool global;		/* matches any ASID; of a table: the ASID is not known */
	bool table;		/* a table descriptor (walk cache), else a leaf */
	int8_t level;		/* of the descriptor */
};

/*
 * Must the TLBI remove the entry, by the architecture? A leaf is removed when any of its
 * addresses is named. A table entry is removed with any address under it, unless `last`
 * is set. A TTL hint names the level of the leaf; the table entries above that leaf are
 * removed too (Arm ARM, TTL: the level of the leaf).
 *
 * Global leaves are removed by address, whatever the ASID, and never by ASID. Table
 * entries are tagged with an ASID, also the kernel's. Those that are `global` here (the
 * ASID is not known) are removed by VAA and whole-regime forms only.
 *
 * If there are several reasons against, the answer is the first of VA, ASID, NOTHING,
 * LAST, LEVEL.
 */
enum cover scope_covers(const struct scope *r, const struct cached *c);

#endif
