/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * walk - VMSAv8-64 translation tables: descriptors, and the walk.
 *
 * Pure functions: registers and descriptors in, structs out. Memory is read through a
 * function that the caller passes. Arm ARM D8.2 to D8.5. Granules of 4, 16 and 64 KiB,
 * 16 to 52 address bits, FEAT_LPA (64 KiB) and FEAT_LPA2 (4, 16 KiB). Both stages: a
 * regime says of which its tables are. Not known: FEAT_D128, and FEAT_S1PIE: with it,
 * permission bits are still compared as bits, which the kernels that we check keep
 * meaningful.
 */
#ifndef LULL_WALK_H
#define LULL_WALK_H

#include <stdbool.h>
#include <stdint.h>

#define LEVELS 5	/* -1 to 3; LEVELS is the most a walk can take */

/* One half of the address space: what TCR_EL1 says about TTBR0 or TTBR1; or stage 2, by VTCR_EL2. */
struct regime {
	uint8_t granule;	/* log2 of the page size: 12, 14 or 16 */
	uint8_t bits;		/* size of the input address: 64 - TxSZ */
	int8_t start;		/* level of the root table: -1 to 3 */
	bool lpa2;		/* TCR_EL1.DS: 52-bit descriptors with 4, 16 KiB */
	bool upper;		/* TTBR1 */
	bool stage2;		/* VTTBR_EL2: input addresses are IPAs */
	bool off;		/* TCR_EL1.EPDx: no walks */
	bool pa52;		/* TCR_EL1.IPS: 52 bits, with LPA (64 KiB) or lpa2 */
	const uint64_t *mair;	/* MAIR_EL1, which may change later; NULL, or 0 there: not known */
};

enum desc_kind { DESC_INVALID, DESC_TABLE, DESC_LEAF };

/*
 * What a change of a descriptor means for CPUs that may hold the old entry. Ordered by
 * how much must be invalidated: of several that apply, it is the last.
 */
enum desc_change {
	CHANGE_NOTHING,	/* same for the hardware, or AF only, or the old one was invalid */
	CHANGE_MORE,	/* same output, more permissions: old entries fault, which removes them */
	CHANGE_LESS,	/* same output, fewer permissions: old entries allow too much */
	CHANGE_GONE,	/* valid to invalid */
	CHANGE_BBM,	/* valid to valid as break-before-make forbids it */
};

struct step {
	uint64_t desc_pa;	/* where the descriptor is */
	uint64_t desc;
	int8_t level;
};

struct walk {
	bool valid;		/* ends in a leaf */
	uint8_t steps;		/* descriptors read: step[steps - 1] is the last */
	uint64_t pa;		/* of the address asked for, when valid */
	struct step step[LEVELS];
};

/* Reads the 8 bytes at a physical address. Returns false if that is not the guest's RAM. */
typedef bool (*read_fn)(void *memory, uint64_t pa, uint64_t *value);

/*
 * Fill in one half's regime from TCR_EL1. Returns false if a field of this half is
 * reserved: TG, or TxSZ out of range (it is 0 at reset), also with EPDx set. TG0 and TG1
 * have different encodings; a walk can start at level -1 only with lpa2.
 */
bool regime_of(uint64_t tcr, bool upper, struct regime *r);

/* The same for stage 2, from VTCR_EL2. The root may be up to 16 tables, one behind the other. */
bool regime_of_stage2(uint64_t vtcr, struct regime *r);

/*
 * Return true if the address is in this half: all bits above its size are the half's
 * sign. The caller strips top bytes (TBI) before.
 */
bool regime_has(const struct regime *r, uint64_t va);

/* log2 of the sizes that a block can have, of all page sizes (Arm ARM D8.2: 2, 32, 512 MiB and 1 GiB). */
static const uint8_t block_shifts[] = { 21, 25, 29, 30 };
enum { BLOCKS = sizeof(block_shifts) };

/* log2 of the bytes that one descriptor of a level translates: 12, 21, 30, 39, 48 with 4 KiB. */
unsigned int level_shift(const struct regime *r, int level);

/*
 * The number of descriptors in a table of that level. A root may have fewer, and is then
 * smaller than a page. The root is the only table of its level.
 */
unsigned int table_entries(const struct regime *r, int level);

/*
 * The root's physical address in a value of TTBRx_EL1 or VTTBR_EL2: BADDR with 48 or 52
 * bits, aligned to the size of the root; CnP and ASID or VMID left out.
 */
uint64_t ttbr_base(const struct regime *r, uint64_t ttbr);

enum desc_kind desc_kind(const struct regime *r, int level, uint64_t desc);

/*
 * Output address: of the next table, or of the block or page, whatever the
 * contiguous bit; 0 of an invalid one.
 */
uint64_t desc_output(const struct regime *r, int level, uint64_t desc);

/*
 * Returns what replacing @old by @new at that level means.
 *
 * BBM (Arm ARM D8.16.1 in issue K.a, "Using break-before-make when updating
 * translation table entries"): another output address; block against table;
 * of leaves, another memory type (AttrIndx, by MAIR_EL1 when it is known),
 * shareability (without lpa2), NS, the contiguous bit, or nG cleared.
 * LESS: AP[2] set; DBM cleared while AP[2] is set, whether or not TCR_EL1.HD
 * lets hardware use it; AP[1] cleared; PXN, UXN or GP set; nG set (the old
 * entry serves every ASID); tags on or off; another protection key; of tables, one of bits 63:59 set.
 * Of stage 2: MemAttr in place of AttrIndx and NS; S2AP in place of AP, and XN[1:0], by
 * what EL1 and EL0 may execute.
 * MORE: the opposite of these permissions.
 * NOTHING: AF, nT, bits for software, PBHA[0] and other ignored ones; DBM while
 * AP[2] is clear.
 */
enum desc_change desc_change(const struct regime *r, int level, uint64_t old, uint64_t new);

/*
 * Return true if a CPU can write through the leaf, or hardware can make it so (DBM).
 * The tables above may forbid it (APTable); that is not known here.
 */
bool desc_writable(const struct regime *r, uint64_t desc);

bool desc_executable(uint64_t desc);	/* PXN clear: for leaves of the kernel's half */

/* Return true if two leaves need break-before-make whatever their output addresses are. */
bool desc_clash(const struct regime *r, uint64_t old, uint64_t new);

/*
 * Return true if two values of a leaf differ at most in what hardware changes: the dirty
 * state, which is AP[2] cleared while DBM is set. AF cleared is a difference.
 */
bool desc_same(const struct regime *r, int level, uint64_t old, uint64_t new);

bool desc_global(const struct regime *r, uint64_t desc);	/* nG clear: for leaves of stage 1 */

/* Do two invalid descriptors differ in AF only? So Linux makes a PROT_NONE entry old. */
bool desc_aged(uint64_t old, uint64_t new);
bool desc_contiguous(uint64_t desc);

/*
 * What the old entry of a descriptor that is @new now has, and the new one must not: "gone",
 * "permission", "size", "output", "contiguous" (and nothing worse), "global" or "attributes".
 * Returns NULL if old entries are still true.
 */
const char *desc_conflict(const struct regime *r, int level, uint64_t old, uint64_t new);

/* Return true for a valid leaf of the lower half that CPUs use under every ASID. */
bool leaf_is_global(const struct regime *r, int level, uint64_t desc);

/*
 * Walk from @root, as ttbr_base() gives it. There is no step if the half is off or the
 * address is not in it. A descriptor that cannot be read is no step.
 */
void walk(const struct regime *r, uint64_t root, uint64_t va, read_fn read, void *memory, struct walk *w);

#endif
