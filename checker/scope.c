// SPDX-License-Identifier: GPL-2.0-only
/*
 * scope - what a TLBI removes. See scope.h.
 */
#include <stddef.h>
#include <string.h>

#include "scope.h"

static uint64_t field(uint64_t value, unsigned int low, unsigned int n)
{
	return value >> low & ((1ull << n) - 1);
}

/* Extend the sign of a value, which is its bit @top. */
static uint64_t extend(uint64_t value, unsigned int top)
{
	return (uint64_t)((int64_t)(value << (63 - top)) >> (63 - top));
}

/* log2 of the granule that TG, or the high half of TTL, names: 4, 16 or 64 KiB; 0: none. */
static unsigned int granule_of(unsigned int tg)
{
	return tg ? 10 + 2 * tg : 0;
}

/* Set [start, end) from a start and a size; a range that would pass the top ends there. */
static void set_addresses(struct scope *out, uint64_t start, uint64_t size)
{
	out->start = start;
	out->end = start + size < start ? 0 : start + size;
}

/*
 * By address (Arm ARM C5.5, TLBI VAE1IS and its kind):
 *
 *	63:48	ASID, not of the VAA forms
 *	47:44	TTL: granule and level of the leaf; 00xx says nothing
 *	43:0	VA[55:12], of which a larger granule ignores the lowest
 *
 * Level 0 of 16 and 64 KiB is reserved, and is no hint. Level 0 of 4 KiB and
 * level 1 of 16 KiB are none either, but only to a CPU without FEAT_LPA2;
 * DS = 0 does not make it one, so that here they are hints.
 */
static void by_address(struct scope *out, uint64_t operand, const struct regime *r)
{
	unsigned int hinted = granule_of(field(operand, 46, 2));
	unsigned int level = field(operand, 44, 2);
	unsigned int granule = r ? r->granule : 12;
	uint64_t va = extend(operand << 12, 55);

	set_addresses(out, va >> granule << granule, 1ull << granule);
	if (!hinted || (level == 0 && hinted != 12))
		return;
	out->level = level;
	out->nothing = r && hinted != granule;
}

/*
 * Ranges (Arm ARM C5.5, TLBI RVAE1IS and its kind):
 *
 *	63:48	ASID, not of the VAA forms
 *	47:46	TG
 *	45:44	SCALE
 *	43:39	NUM
 *	38:37	TTL: level of the leaves, 00 says nothing
 *	36:0	BaseADDR, in granules; with TCR_EL1.DS in 64 KiB
 *
 * (NUM + 1) << (5 * SCALE + 1) granules. Nothing is sure to go when TG is
 * reserved or not the granule in use; and when BaseADDR is not aligned to what
 * a leaf of TTL's level covers, it is UNPREDICTABLE what goes.
 */
static void by_range(struct scope *out, uint64_t operand, const struct regime *r, bool ds)
{
	unsigned int granule = granule_of(field(operand, 46, 2));
	unsigned int shift = 5 * field(operand, 44, 2) + 1;
	uint64_t granules = (field(operand, 39, 5) + 1) << shift;
	unsigned int level = field(operand, 37, 2);
	uint64_t base = extend(operand, 36);

	out->nothing = !granule || (r && r->granule != granule);
	if (r)
		granule = r->granule;
	else if (!granule)
		granule = 12;
	base <<= ds ? 16 : granule;
	set_addresses(out, base, granules << granule);
	if (!level)
		return;
	out->level = level;
	if (field(base, 0, granule + (3 - level) * (granule - 3)))
		out->nothing = true;
}

bool scope_of(const struct tlbi *t, uint64_t operand, const struct regime *lower,
	      const struct regime *upper, struct scope *out)
{
	const struct regime *r;

	if (t->el != 1)
		return false;
	*out = (struct scope){
		.local = t->domain == DOMAIN_LOCAL,
		.last = t->last,
		.level = LEVEL_ANY,
	};
	switch (t->what) {
	case TLBI_ALL:
		out->any_asid = out->every_va = true;
		return true;
	case TLBI_ASID:
		out->asid = tlbi_asid(operand);
		out->every_va = true;
		return true;
	case TLBI_VA:
		out->asid = tlbi_asid(operand);
		break;
	case TLBI_VAA:
		out->any_asid = true;
		break;
	case TLBI_IPA:
	case TLBI_PA:
		return false;
	}
	out->upper = tlbi_upper_half(t, operand);
	r = out->upper ? upper : lower;
	if (t->range)
		by_range(out, operand, r, (lower && lower->lpa2) || (upper && upper->lpa2));
	else
		by_address(out, operand, r);
	return true;
}

/*
 * TLBIs that EL2 executes for a guest (Arm ARM C5.5):
 *
 *	VMALLS12E1	all of the VMID, both stages
 *	ALLE1		the same of all VMIDs
 *	VMALLE1		stage 1, which combined entries have, of the VMID
 *	IPAS2E1 ...	entries of stage 2 for the IPA, not the combined ones
 *
 * An IPA has no sign, and no range goes beyond IPA[51]: what by_range() extends is 0. The others
 * (VAE1, ASIDE1 ...) remove some entries of stage 1.
 */
bool scope_of_stage2(const struct tlbi *t, uint64_t operand, uint16_t vmid, const struct regime *r,
		     struct scope *out)
{
	const uint64_t mask_ipa = (1ull << 40) - 1;	/* IPA[51:12] */

	if (t->el != 1)
		return false;
	*out = (struct scope){
		.local = t->domain == DOMAIN_LOCAL,
		.last = t->last,
		.level = LEVEL_ANY,
		.asid = vmid,
	};
	if (t->what == TLBI_ALL) {
		out->every_va = true;
		out->any_asid = !strncmp(t->name, "alle1", 5);
		out->stage = t->stage2 ? SCOPE_BOTH : SCOPE_STAGE1;
		return true;
	}
	if (t->what != TLBI_IPA)
		return false;
	out->stage = SCOPE_STAGE2;
	if (t->range)
		by_range(out, operand, r, r && r->lpa2);
	else
		by_address(out, operand & (mask_ipa | 0xfull << 44), r);
	return true;
}

/* Compares inclusive ends, because the last byte of the address space may belong to both. */
static bool overlap(const struct scope *r, const struct cached *c)
{
	return r->every_va || (c->va <= r->end - 1 && r->start <= c->va + (c->size - 1));
}

/*
 * Arm ARM C5.5: a TLBI by ASID removes entries that have that ASID and are not global. A
 * TLBI by address and ASID removes leaves that are global or have the ASID, and table
 * entries that have it: an entry above the final level is never global.
 */
static bool same_asid(const struct scope *r, const struct cached *c)
{
	if (r->any_asid)
		return true;
	if (c->global)
		return !r->every_va && !c->table;
	return c->asid == r->asid;
}

/*
 * TTL is the level of the leaf. The TLBI removes that leaf and, unless `last`, the table
 * entries "up to the level indicated in the TTL hint" (Arm ARM C5.5): those above it.
 */
static bool same_level(const struct scope *r, const struct cached *c)
{
	if (r->level == LEVEL_ANY)
		return true;
	return c->table ? c->level < r->level : c->level == r->level;
}

/* If there are several reasons against, the first is the one that makes the TLBI least near. */
enum cover scope_covers(const struct scope *r, const struct cached *c)
{
	if (!overlap(r, c))
		return COVER_VA;
	if (!same_asid(r, c))
		return COVER_ASID;
	if (r->nothing)
		return COVER_NOTHING;
	if (r->last && c->table)
		return COVER_LAST;
	if (!same_level(r, c))
		return COVER_LEVEL;
	return COVER_YES;
}
