// SPDX-License-Identifier: GPL-2.0-only
/*
 * walk - descriptors and walks of VMSAv8-64 tables. See walk.h.
 */
#include <stddef.h>

#include "walk.h"

/* The n bits from bit low on. */
static uint64_t field(uint64_t value, unsigned int low, unsigned int n)
{
	return value >> low & ((1ull << n) - 1);
}

/* Bits high to low, in place. */
static uint64_t mask(unsigned int high, unsigned int low)
{
	return (~0ull >> (63 - high)) & (~0ull << low);
}

/*
 * TCR_EL1 (Arm ARM D24.2), TTBR0's half and TTBR1's:
 *
 *	TxSZ	5:0	21:16
 *	EPDx	7	23
 *	TGx	15:14	31:30	00 4K 01 64K 10 16K | 01 16K 10 4K 11 64K
 *	IPS	34:32		0b110: 52 bits (0b111: 56, with FEAT_D128)
 *	DS	59		nothing to the 64 KiB granule
 */
#define TCR_IPS(tcr)	field(tcr, 32, 3)
#define TCR_DS(tcr)	field(tcr, 59, 1)
#define IPS_52		6

bool regime_of(uint64_t tcr, bool upper, struct regime *r)
{
	static const uint8_t granules[2][4] = {
		{ 12, 16, 14, 0 }, { 0, 14, 12, 16 },
	};
	unsigned int shift = upper ? 16 : 0;
	unsigned int size = field(tcr, shift, 6);
	unsigned int stride, least;

	*r = (struct regime){ .upper = upper };
	r->granule = granules[upper][field(tcr, upper ? 30 : 14, 2)];
	if (!r->granule)
		return false;
	r->off = field(tcr, shift + 7, 1);
	r->lpa2 = r->granule != 16 && TCR_DS(tcr);
	r->pa52 = (r->granule == 16 || r->lpa2) && TCR_IPS(tcr) >= IPS_52;

	/*
	 * 52 bits with FEAT_LVA (64 KiB) or FEAT_LPA2; without them hardware
	 * faults, or takes 16 for less. FEAT_TTST allows small ones: 48 and 47.
	 */
	least = r->granule == 16 || r->lpa2 ? 12 : 16;
	if (size < least || size > (r->granule == 16 ? 47 : 48))
		return false;
	r->bits = 64 - size;
	stride = r->granule - 3;
	r->start = 4 - (r->bits - r->granule + stride - 1) / stride;
	return true;
}

/*
 * VTCR_EL2 (Arm ARM D24.2):
 *
 *	T0SZ	5:0
 *	SL0	7:6	the level of the root: 4 KiB 2, 1, 0, 3; others 3, 2, 1, 0
 *	TG0	15:14	as in TCR_EL1
 *	PS	18:16	as TCR_EL1.IPS
 *	DS	32	as in TCR_EL1
 *	SL2	33	with 4 KiB and DS: level -1
 */
bool regime_of_stage2(uint64_t vtcr, struct regime *r)
{
	static const int8_t starts[] = { 2, 1, 0, 3 };
	unsigned int sl0 = field(vtcr, 6, 2), shift;

	/* What TCR_EL1 has, too, in the places that it has there. */
	if (!regime_of((vtcr & 0xff3f) | field(vtcr, 16, 3) << 32 | field(vtcr, 32, 1) << 59, false, r))
		return false;
	r->stage2 = true;
	r->start = r->granule == 12 ? starts[sl0] : 3 - (int)sl0;
	if (r->lpa2 && r->granule == 12 && field(vtcr, 33, 1))
		r->start = -1;
	shift = level_shift(r, r->start);
	/* Two descriptors at least, and 16 tables at most. */
	return r->bits > shift && r->bits - shift <= r->granule - 3u + 4;
}

bool regime_has(const struct regime *r, uint64_t va)
{
	return va >> r->bits == (r->upper ? ~0ull >> r->bits : 0);
}

unsigned int level_shift(const struct regime *r, int level)
{
	return r->granule + (3 - level) * (r->granule - 3);
}

unsigned int table_entries(const struct regime *r, int level)
{
	if (level == r->start)
		return 1u << (r->bits - level_shift(r, level));
	return 1u << (r->granule - 3);
}

/*
 * TTBRx_EL1 (Arm ARM D24.2): ASID in 63:48, CnP in 0, BADDR between. A
 * table is aligned to its size, and to 64 bytes where addresses have 52 bits,
 * for bits 5:2 are PA[51:48] then. Linux points TTBR1 into the middle of a
 * page with a 52-bit kernel on a 48-bit CPU (TTBR1_BADDR_4852_OFFSET).
 */
uint64_t ttbr_base(const struct regime *r, uint64_t ttbr)
{
	uint64_t size = 8ull * table_entries(r, r->start);
	uint64_t base = ttbr & mask(47, 1);

	if (r->pa52) {
		base |= field(ttbr, 2, 4) << 48;
		if (size < 64)
			size = 64;
	}
	return base & ~(size - 1);
}

/* Arm ARM AArch64.BlockDescSupported(); level 1 of 64 KiB goes by PAMax there, we only see IPS. */
static bool block_allowed(const struct regime *r, int level)
{
	switch (r->granule) {
	case 12:
		return level == 2 || level == 1 || (level == 0 && r->lpa2);
	case 14:
		return level == 2 || (level == 1 && r->lpa2);
	default:
		return level == 2 || (level == 1 && r->pa52);
	}
}

/* Bits 1:0 (Arm ARM D8.3.1): x0 invalid, 01 block or reserved, 11 table or, at level 3, page. */
enum desc_kind desc_kind(const struct regime *r, int level, uint64_t desc)
{
	if (!(desc & 1))
		return DESC_INVALID;
	if (desc & 2)
		return level == 3 ? DESC_LEAF : DESC_TABLE;
	return block_allowed(r, level) ? DESC_LEAF : DESC_INVALID;
}

/*
 * Where the address is in a descriptor, low being the shift of the page, of
 * the table (a page too), or of the block (Arm ARM D8.3.1):
 *
 *	47:low				 48 bits
 *	47:low, 51:48 in bits 15:12	 FEAT_LPA, 64 KiB
 *	49:low, 51:50 in bits 9:8	 FEAT_LPA2, 4 and 16 KiB
 */
uint64_t desc_output(const struct regime *r, int level, uint64_t desc)
{
	unsigned int low = r->granule;

	switch (desc_kind(r, level, desc)) {
	case DESC_INVALID:
		return 0;
	case DESC_LEAF:
		low = level_shift(r, level);
		break;
	case DESC_TABLE:
		break;
	}
	if (r->lpa2)
		return (desc & mask(49, low)) | field(desc, 8, 2) << 50;
	if (r->pa52)
		return (desc & mask(47, low)) | field(desc, 12, 4) << 48;
	return desc & mask(47, low);
}

/*
 * Attributes of a block or page (Arm ARM D8.3.1, D8.4, D8.5):
 *
 *	4:2	AttrIndx	byte of MAIR_EL1: the memory type
 *	5	NS		no meaning in Non-secure state
 *	6	AP[1]		EL0 may access
 *	7	AP[2]		read-only; Linux: PTE_RDONLY, "hardware-clean"
 *	9:8	SH		shareability; with LPA2 part of the address
 *	10	AF		accessed
 *	11	nG		not global: of one ASID
 *	16	nT		FEAT_BBM: do not cache this block yet
 *	50	GP		guarded: indirect branches need BTI
 *	51	DBM		hardware may clear AP[2] at a write; Linux: PTE_WRITE
 *	52	Contiguous	one entry may stand for the whole group
 *	53	PXN		EL1 may not execute
 *	54	UXN		EL0 may not execute
 *	58:55	software
 *	62:60	POIndex		FEAT_S1POE: a protection key. Without it PBHA, which Linux leaves 0
 *	59	PBHA		implementation defined; ignored
 *	63	ignored
 */
#define LEAF_ATTR(d)	field(d, 2, 3)
#define LEAF_NS		(1ull << 5)
#define LEAF_AP1	(1ull << 6)
#define LEAF_AP2	(1ull << 7)
#define LEAF_SH		(3ull << 8)
#define LEAF_AF		(1ull << 10)
#define LEAF_NG		(1ull << 11)
#define LEAF_GP		(1ull << 50)
#define LEAF_DBM	(1ull << 51)
#define LEAF_CONT	(1ull << 52)
#define LEAF_PXN	(1ull << 53)
#define LEAF_UXN	(1ull << 54)
#define LEAF_KEY	(7ull << 60)

/*
 * Attributes of a table, for all below it (Arm ARM D8.3.1). Linux 6.12 sets
 * PXN and UXN, as a precaution and never apart from the table itself; its TCR
 * has no HPDx, which would turn them off.
 *
 *	59	PXNTable	EL1 may not execute
 *	60	UXNTable	EL0 may not execute
 *	61	APTable[0]	EL0 may not access
 *	62	APTable[1]	read-only
 *	63	NSTable		no meaning in Non-secure state
 */
#define TABLE_LIMITS	mask(63, 59)

/* Bits that take a permission away when they are set. */
#define LEAF_LIMITS	(LEAF_PXN | LEAF_UXN | LEAF_GP)

/* MAIR_EL1: Normal write-back memory, and the same with tags (FEAT_MTE). */
#define MAIR_NORMAL	0xff
#define MAIR_TAGGED	0xf0

/*
 * Attributes of a block or page of stage 2 (Arm ARM D8.3.1, D8.4.2, D8.6), where they
 * differ:
 *
 *	5:2	MemAttr	the memory type
 *	6	S2AP[0]	may be read
 *	7	S2AP[1]	may be written
 *	51	DBM	hardware may set S2AP[1] at a write
 *	53	XN[0]	54 0: EL1 may not execute; 54 1: EL1 may
 *	54	XN[1]	EL0 may not execute
 */
#define S2_ATTR(d)	field(d, 2, 4)
#define S2_READ		(1ull << 6)
#define S2_WRITE	(1ull << 7)	/* LEAF_AP2 of stage 1, and the opposite of it */

/* 2: writable; 1: hardware may make it writable (DBM, if TCR_EL1.HD); 0: not writable. */
static int writable(const struct regime *r, uint64_t desc)
{
	bool set = desc & (r->stage2 ? S2_WRITE : LEAF_AP2);

	if (set == r->stage2)
		return 2;
	return desc & LEAF_DBM ? 1 : 0;
}

/*
 * Two indexes of MAIR_EL1 may have the same type. Linux has one index for tagged memory,
 * which it sets to plain memory where there are no tags. Linux treats a change between
 * the two as safe in live tables (pgattr_change_is_safe()): type and cacheability stay
 * the same. Whether tags are checked is like a permission: a change needs a TLBI, but no
 * break-before-make.
 */
static enum desc_change type_change(const struct regime *r, uint64_t old, uint64_t new)
{
	unsigned int a, b;

	if (LEAF_ATTR(old) == LEAF_ATTR(new))
		return CHANGE_NOTHING;
	if (!r->mair || !*r->mair)
		return CHANGE_BBM;
	a = field(*r->mair, 8 * LEAF_ATTR(old), 8);
	b = field(*r->mair, 8 * LEAF_ATTR(new), 8);
	if (a == b)
		return CHANGE_NOTHING;
	if ((a == MAIR_NORMAL && b == MAIR_TAGGED) || (a == MAIR_TAGGED && b == MAIR_NORMAL))
		return CHANGE_LESS;
	return CHANGE_BBM;
}

/* What a leaf of stage 2 lets a guest execute: 1 at EL1, 2 at EL0. */
static unsigned int executable(uint64_t desc)
{
	static const uint8_t may[] = { 3, 2, 0, 1 };

	return may[field(desc, 53, 2)];
}

static enum desc_change stage2_change(const struct regime *r, uint64_t old, uint64_t new)
{
	unsigned int had = executable(old), has = executable(new);
	int could = writable(r, old), can = writable(r, new);

	if (S2_ATTR(old) != S2_ATTR(new) || (old ^ new) & (LEAF_CONT | LEAF_SH))
		return CHANGE_BBM;
	if (old & ~new & S2_READ || had & ~has || can < could)
		return CHANGE_LESS;
	return new & ~old & S2_READ || has & ~had || can > could ? CHANGE_MORE : CHANGE_NOTHING;
}

static enum desc_change leaf_change(const struct regime *r, uint64_t old, uint64_t new)
{
	uint64_t set = new & ~old, cleared = old & ~new;
	uint64_t make_anew = LEAF_NS | LEAF_CONT | LEAF_SH;
	enum desc_change type;

	if (r->stage2)
		return stage2_change(r, old, new);
	type = type_change(r, old, new);

	/*
	 * (With LPA2 the bits of SH are address, and the same here.)
	 *
	 * nG cleared is BBM: a TLB may then hold a global entry beside one with an
	 * ASID for the same address. nG set is LESS: the old entry still serves
	 * every ASID.
	 */
	if (type == CHANGE_BBM || (set | cleared) & make_anew || cleared & LEAF_NG)
		return CHANGE_BBM;
	if (type == CHANGE_LESS || set & (LEAF_LIMITS | LEAF_NG) || (set | cleared) & LEAF_KEY ||
	    cleared & LEAF_AP1 || writable(r, new) < writable(r, old))
		return CHANGE_LESS;
	if (cleared & LEAF_LIMITS || set & LEAF_AP1 || writable(r, new) > writable(r, old))
		return CHANGE_MORE;
	return CHANGE_NOTHING;
}

static enum desc_change table_change(uint64_t old, uint64_t new)
{
	if (new & ~old & TABLE_LIMITS)
		return CHANGE_LESS;
	if (old & ~new & TABLE_LIMITS)
		return CHANGE_MORE;
	return CHANGE_NOTHING;
}

enum desc_change desc_change(const struct regime *r, int level, uint64_t old, uint64_t new)
{
	enum desc_kind before = desc_kind(r, level, old);
	enum desc_kind after = desc_kind(r, level, new);

	if (before == DESC_INVALID)
		return CHANGE_NOTHING;
	if (after == DESC_INVALID)
		return CHANGE_GONE;
	if (before != after || desc_output(r, level, old) != desc_output(r, level, new))
		return CHANGE_BBM;
	return before == DESC_TABLE ? table_change(old, new) : leaf_change(r, old, new);
}

bool desc_writable(const struct regime *r, uint64_t desc)
{
	return writable(r, desc);
}

bool desc_executable(uint64_t desc)
{
	return !(desc & LEAF_PXN);
}

bool desc_clash(const struct regime *r, uint64_t old, uint64_t new)
{
	return leaf_change(r, old, new) == CHANGE_BBM;
}

bool desc_same(const struct regime *r, int level, uint64_t old, uint64_t new)
{
	if (!r->stage2 && old & new & LEAF_DBM && !(new & LEAF_AP2))
		old &= ~LEAF_AP2;
	return new & LEAF_AF && desc_change(r, level, old, new) == CHANGE_NOTHING;
}

bool desc_aged(uint64_t old, uint64_t new)
{
	return (old ^ new) == LEAF_AF;
}

bool desc_global(const struct regime *r, uint64_t desc)
{
	return !r->stage2 && !(desc & LEAF_NG);
}

bool desc_contiguous(uint64_t desc)
{
	return desc & LEAF_CONT;
}

const char *desc_conflict(const struct regime *r, int level, uint64_t old, uint64_t new)
{
	switch (desc_change(r, level, old, new)) {
	case CHANGE_NOTHING: case CHANGE_MORE:
		return NULL;
	case CHANGE_GONE:
		return "gone";
	case CHANGE_LESS:
		return "permission";
	case CHANGE_BBM:
		break;
	}
	if (desc_kind(r, level, old) != desc_kind(r, level, new))
		return "size";
	if (desc_output(r, level, old) != desc_output(r, level, new))
		return "output";
	if (desc_contiguous(old) != desc_contiguous(new)) {
		const char *rest = desc_conflict(r, level, old & ~LEAF_CONT, new & ~LEAF_CONT);

		return rest ? rest : "contiguous";
	}
	return desc_global(r, old) != desc_global(r, new) ? "global" : "attributes";
}

bool leaf_is_global(const struct regime *r, int level, uint64_t desc)
{
	return !r->upper && desc_kind(r, level, desc) == DESC_LEAF && desc_global(r, desc);
}

void walk(const struct regime *r, uint64_t root, uint64_t va, read_fn read, void *memory, struct walk *w)
{
	uint64_t table = root;

	*w = (struct walk){ .valid = false };
	if (r->off || !regime_has(r, va))
		return;
	for (int level = r->start; level <= 3; level++) {
		unsigned int shift = level_shift(r, level);
		uint64_t index = va >> shift & (table_entries(r, level) - 1);
		struct step *s = &w->step[w->steps];

		s->desc_pa = table + 8 * index;
		s->level = level;
		if (!read(memory, s->desc_pa, &s->desc))
			return;
		w->steps++;
		table = desc_output(r, level, s->desc);
		switch (desc_kind(r, level, s->desc)) {
		case DESC_INVALID:
			return;
		case DESC_LEAF:
			w->pa = table | (va & (mask(shift, 0) >> 1));
			w->valid = true;
			return;
		case DESC_TABLE:
			break;
		}
	}
}
