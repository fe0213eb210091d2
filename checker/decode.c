// SPDX-License-Identifier: GPL-2.0-only
/*
 * decode - A64 instruction words that matter for TLB maintenance. See decode.h.
 */
#include <stddef.h>

#include "decode.h"

/*
 * TLBI is an alias of SYS (Arm ARM C5.1.3 "op0 == 0b01", C5.5 "A64 system
 * instructions for TLB maintenance"):
 *
 *   31        22 21 20 19 18  16 15  12 11   8 7   5 4  0
 *   1101010100   0  01    op1    CRn    CRm    op2   Rt
 *
 * CRn is 8, or 9 for the nXS form of the same operation. Where the operation
 * takes no operand the assembler puts 31 into Rt; hardware does not look.
 */
#define SYS_MASK	0xfff80000
#define SYS_VALUE	0xd5080000
#define SYS_OP1(w)	(((w) >> 16) & 7)
#define SYS_CRN(w)	(((w) >> 12) & 15)
#define SYS_CRM(w)	(((w) >> 8) & 15)
#define SYS_OP2(w)	(((w) >> 5) & 7)
#define SYS_RT(w)	((w) & 31)

struct row {
	uint8_t op1, crm, op2;
	struct tlbi form;
	const char *nxs_name;		/* NULL: no nXS form */
};

#define LAST	.last = true
#define RANGE	.range = true
#define ROW(op1, crm, op2, n, e, s, w, ...) \
	{ op1, crm, op2, { .name = n, .el = e, .domain = DOMAIN_##s, \
			   .what = TLBI_##w, ##__VA_ARGS__ }, n "nxs" }
#define ROW_PA(op1, crm, op2, n, s, w, ...) \
	{ op1, crm, op2, { .name = n, .el = 3, .domain = DOMAIN_##s, \
			   .what = TLBI_##w, ##__VA_ARGS__ }, NULL }

static const struct row rows[] = {
	/* EL1&0: a kernel's TLBIs for itself and its processes */
	ROW(0, 7, 0, "vmalle1",		1, LOCAL, ALL),
	ROW(0, 7, 1, "vae1",		1, LOCAL, VA),
	ROW(0, 7, 2, "aside1",		1, LOCAL, ASID),
	ROW(0, 7, 3, "vaae1",		1, LOCAL, VAA),
	ROW(0, 7, 5, "vale1",		1, LOCAL, VA, LAST),
	ROW(0, 7, 7, "vaale1",		1, LOCAL, VAA, LAST),
	ROW(0, 3, 0, "vmalle1is",	1, IS, ALL),
	ROW(0, 3, 1, "vae1is",		1, IS, VA),
	ROW(0, 3, 2, "aside1is",	1, IS, ASID),
	ROW(0, 3, 3, "vaae1is",		1, IS, VAA),
	ROW(0, 3, 5, "vale1is",		1, IS, VA, LAST),
	ROW(0, 3, 7, "vaale1is",	1, IS, VAA, LAST),
	ROW(0, 1, 0, "vmalle1os",	1, OS, ALL),
	ROW(0, 1, 1, "vae1os",		1, OS, VA),
	ROW(0, 1, 2, "aside1os",	1, OS, ASID),
	ROW(0, 1, 3, "vaae1os",		1, OS, VAA),
	ROW(0, 1, 5, "vale1os",		1, OS, VA, LAST),
	ROW(0, 1, 7, "vaale1os",	1, OS, VAA, LAST),
	ROW(0, 6, 1, "rvae1",		1, LOCAL, VA, RANGE),
	ROW(0, 6, 3, "rvaae1",		1, LOCAL, VAA, RANGE),
	ROW(0, 6, 5, "rvale1",		1, LOCAL, VA, RANGE, LAST),
	ROW(0, 6, 7, "rvaale1",		1, LOCAL, VAA, RANGE, LAST),
	ROW(0, 2, 1, "rvae1is",		1, IS, VA, RANGE),
	ROW(0, 2, 3, "rvaae1is",	1, IS, VAA, RANGE),
	ROW(0, 2, 5, "rvale1is",	1, IS, VA, RANGE, LAST),
	ROW(0, 2, 7, "rvaale1is",	1, IS, VAA, RANGE, LAST),
	ROW(0, 5, 1, "rvae1os",		1, OS, VA, RANGE),
	ROW(0, 5, 3, "rvaae1os",	1, OS, VAA, RANGE),
	ROW(0, 5, 5, "rvale1os",	1, OS, VA, RANGE, LAST),
	ROW(0, 5, 7, "rvaale1os",	1, OS, VAA, RANGE, LAST),

	/* EL2, and a hypervisor's TLBIs for its guests (stage 2) */
	ROW(4, 7, 0, "alle2",		2, LOCAL, ALL),
	ROW(4, 7, 1, "vae2",		2, LOCAL, VA),
	ROW(4, 7, 4, "alle1",		1, LOCAL, ALL),
	ROW(4, 7, 5, "vale2",		2, LOCAL, VA, LAST),
	ROW(4, 7, 6, "vmalls12e1",	1, LOCAL, ALL),
	ROW(4, 3, 0, "alle2is",		2, IS, ALL),
	ROW(4, 3, 1, "vae2is",		2, IS, VA),
	ROW(4, 3, 4, "alle1is",		1, IS, ALL),
	ROW(4, 3, 5, "vale2is",		2, IS, VA, LAST),
	ROW(4, 3, 6, "vmalls12e1is",	1, IS, ALL),
	ROW(4, 1, 0, "alle2os",		2, OS, ALL),
	ROW(4, 1, 1, "vae2os",		2, OS, VA),
	ROW(4, 1, 4, "alle1os",		1, OS, ALL),
	ROW(4, 1, 5, "vale2os",		2, OS, VA, LAST),
	ROW(4, 1, 6, "vmalls12e1os",	1, OS, ALL),
	ROW(4, 6, 1, "rvae2",		2, LOCAL, VA, RANGE),
	ROW(4, 6, 5, "rvale2",		2, LOCAL, VA, RANGE, LAST),
	ROW(4, 2, 1, "rvae2is",		2, IS, VA, RANGE),
	ROW(4, 2, 5, "rvale2is",	2, IS, VA, RANGE, LAST),
	ROW(4, 5, 1, "rvae2os",		2, OS, VA, RANGE),
	ROW(4, 5, 5, "rvale2os",	2, OS, VA, RANGE, LAST),
	ROW(4, 4, 1, "ipas2e1",		1, LOCAL, IPA),
	ROW(4, 4, 5, "ipas2le1",	1, LOCAL, IPA, LAST),
	ROW(4, 4, 2, "ripas2e1",	1, LOCAL, IPA, RANGE),
	ROW(4, 4, 6, "ripas2le1",	1, LOCAL, IPA, RANGE, LAST),
	ROW(4, 0, 1, "ipas2e1is",	1, IS, IPA),
	ROW(4, 0, 5, "ipas2le1is",	1, IS, IPA, LAST),
	ROW(4, 0, 2, "ripas2e1is",	1, IS, IPA, RANGE),
	ROW(4, 0, 6, "ripas2le1is",	1, IS, IPA, RANGE, LAST),
	ROW(4, 4, 0, "ipas2e1os",	1, OS, IPA),
	ROW(4, 4, 4, "ipas2le1os",	1, OS, IPA, LAST),
	ROW(4, 4, 3, "ripas2e1os",	1, OS, IPA, RANGE),
	ROW(4, 4, 7, "ripas2le1os",	1, OS, IPA, RANGE, LAST),

	/* EL3, and granule protection (FEAT_RME) */
	ROW(6, 7, 0, "alle3",		3, LOCAL, ALL),
	ROW(6, 7, 1, "vae3",		3, LOCAL, VA),
	ROW(6, 7, 5, "vale3",		3, LOCAL, VA, LAST),
	ROW(6, 3, 0, "alle3is",		3, IS, ALL),
	ROW(6, 3, 1, "vae3is",		3, IS, VA),
	ROW(6, 3, 5, "vale3is",		3, IS, VA, LAST),
	ROW(6, 1, 0, "alle3os",		3, OS, ALL),
	ROW(6, 1, 1, "vae3os",		3, OS, VA),
	ROW(6, 1, 5, "vale3os",		3, OS, VA, LAST),
	ROW(6, 6, 1, "rvae3",		3, LOCAL, VA, RANGE),
	ROW(6, 6, 5, "rvale3",		3, LOCAL, VA, RANGE, LAST),
	ROW(6, 2, 1, "rvae3is",		3, IS, VA, RANGE),
	ROW(6, 2, 5, "rvale3is",	3, IS, VA, RANGE, LAST),
	ROW(6, 5, 1, "rvae3os",		3, OS, VA, RANGE),
	ROW(6, 5, 5, "rvale3os",	3, OS, VA, RANGE, LAST),
	ROW_PA(6, 7, 4, "paall",	LOCAL, ALL),
	ROW_PA(6, 1, 4, "paallos",	OS, ALL),
	ROW_PA(6, 4, 3, "rpaos",	OS, PA, RANGE),
	ROW_PA(6, 4, 7, "rpalos",	OS, PA, RANGE, LAST),
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

_Static_assert(TLBI_FORMS == 2 * ROWS, "TLBI_FORMS must be two for each row");

static struct insn decode_tlbi(uint32_t word)
{
	struct insn insn = { .kind = INSN_OTHER };
	bool nxs = SYS_CRN(word) == 9;

	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];

		if (r->op1 != SYS_OP1(word) || r->crm != SYS_CRM(word) ||
		    r->op2 != SYS_OP2(word))
			continue;
		if (!tlbi_form(2 * i + nxs, &insn.tlbi))
			return insn;
		insn.kind = INSN_TLBI;
		insn.rt = SYS_RT(word);
		return insn;
	}
	return insn;
}

/*
 * DSB (Arm ARM C6.2 "DSB"): CRm<3:2> is the domain, CRm<1:0> the kind of
 * access. Kind 00 is not a kind: CRm 0 and 4 are SSBB and PSSBB, which
 * complete no TLBI, and the reserved 8 and 12 are executed as SY.
 */
static struct insn decode_dsb(uint32_t word)
{
	static const uint8_t form[16] = {
		[1] = DSB_OSHLD, [2] = DSB_OSHST, [3] = DSB_OSH,
		[5] = DSB_NSHLD, [6] = DSB_NSHST, [7] = DSB_NSH,
		[9] = DSB_ISHLD, [10] = DSB_ISHST, [11] = DSB_ISH,
		[13] = DSB_LD, [14] = DSB_ST, [15] = DSB_SY,
		[8] = DSB_SY, [12] = DSB_SY,
	};
	unsigned int crm = SYS_CRM(word);
	struct insn insn = { .kind = INSN_OTHER };

	if (crm != 0 && crm != 4) {
		insn.kind = INSN_DSB;
		insn.dsb = form[crm];
	}
	return insn;
}

/* DSB nXS (the same section): the domain is in bits 11:10. */
static struct insn decode_dsb_nxs(uint32_t word)
{
	return (struct insn){ .kind = INSN_DSB,
			      .dsb = DSB_OSHNXS + ((word >> 10) & 3) };
}

static struct insn decode_sgi(uint32_t word)
{
	return (struct insn){ .kind = INSN_SGI, .rt = SYS_RT(word) };
}

static struct insn decode_open(uint32_t word)
{
	(void)word;
	return (struct insn){ .kind = INSN_OPEN };
}

static struct insn decode_close(uint32_t word)
{
	(void)word;
	return (struct insn){ .kind = INSN_CLOSE };
}

/* Bits 11:5 are the number of a hint. */
static struct insn decode_mark(uint32_t word)
{
	return (struct insn){ .kind = INSN_MARK, .mark = (word >> 5) & 0x7f };
}

/* MSR (register) has the fields of SYS; bits 20:5 are the register. */
#define SYSREG(op0, op1, crn, crm, op2) \
	((op0) << 14 | (op1) << 11 | (crn) << 7 | (crm) << 3 | (op2))

static struct insn decode_msr(uint32_t word)
{
	static const uint16_t registers[SYSREGS] = {
		[REG_TTBR0]  = SYSREG(3, 0, 2, 0, 0),
		[REG_TTBR1]  = SYSREG(3, 0, 2, 0, 1),
		[REG_TCR]    = SYSREG(3, 0, 2, 0, 2),
		[REG_SCTLR]  = SYSREG(3, 0, 1, 0, 0),
		[REG_VBAR]   = SYSREG(3, 0, 12, 0, 0),
		[REG_MAIR]   = SYSREG(3, 0, 10, 2, 0),
		[REG_SP_EL0] = SYSREG(3, 0, 4, 1, 0),
		[REG_HCR]    = SYSREG(3, 4, 1, 1, 0),
		[REG_VTCR]   = SYSREG(3, 4, 2, 1, 2),
		[REG_VTTBR]  = SYSREG(3, 4, 2, 1, 0),
		[REG_VMPIDR] = SYSREG(3, 4, 0, 0, 5),
	};

	for (unsigned int reg = 0; reg < SYSREGS; reg++)
		if (registers[reg] == ((word >> 5) & 0xffff))
			return (struct insn){ .kind = INSN_MSR, .reg = reg,
					      .rt = SYS_RT(word) };
	return (struct insn){ .kind = INSN_OTHER };
}

static struct insn decode_call(uint32_t word)
{
	(void)word;
	return (struct insn){ .kind = INSN_CALL };
}

static struct insn decode_sync(uint32_t word)
{
	(void)word;
	return (struct insn){ .kind = INSN_SYNC };
}

static struct insn decode_ic(uint32_t word)
{
	(void)word;
	return (struct insn){ .kind = INSN_IC };
}

/* The most precise patterns first. */
static const struct {
	uint32_t mask, value;
	struct insn (*decode)(uint32_t word);
} patterns[] = {
	/* hint #112 and on, to the last of enum mark: unallocated hints, NOPs to every CPU */
	{ 0xffffffff, 0xd5032e1f, decode_open },
	{ 0xffffffff, 0xd5032e3f, decode_close },
	{ 0xffffffff, 0xd5032e5f, decode_mark },
	{ 0xffffffff, 0xd5032e7f, decode_mark },
	{ 0xffffffff, 0xd5032e9f, decode_mark },
	{ 0xffffffff, 0xd5032eff, decode_mark },
	{ 0xffffffff, 0xd5032f1f, decode_mark },
	{ 0xffffffff, 0xd5032f3f, decode_mark },
	{ 0xfffff3ff, 0xd503323f, decode_dsb_nxs },
	{ 0xfffff0ff, 0xd503309f, decode_dsb },
	/* ISB, whatever CRm; ERET, ERETAA, ERETAB */
	{ 0xfffff0ff, 0xd50330df, decode_sync },
	{ 0xffffffff, 0xd69f03e0, decode_sync },
	{ 0xfffffbff, 0xd69f0bff, decode_sync },
	/* IC IVAU, Xt, which user space executes, too; IC IALLUIS */
	{ 0xffffffe0, 0xd50b7520, decode_ic },
	{ 0xffffffe0, 0xd5087100, decode_ic },
	/* MSR ICC_SGI1R_EL1 (S3_0_C12_C11_5), GIC specification IHI 0069 */
	{ 0xffffffe0, 0xd518cba0, decode_sgi },
	/* MSR (register), op0 3; after that of the GIC, which is one too */
	{ 0xfff80000, 0xd5180000, decode_msr },
	/* HVC, and SMC */
	{ 0xffe0001f, 0xd4000002, decode_call },
	{ 0xffe0001f, 0xd4000003, decode_call },
	/* SYS with CRn 8 or 9 */
	{ SYS_MASK | 0xe000, SYS_VALUE | 0x8000, decode_tlbi },
};

struct insn decode(uint32_t word)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if ((word & patterns[i].mask) == patterns[i].value)
			return patterns[i].decode(word);
	return (struct insn){ .kind = INSN_OTHER };
}

bool tlbi_form(unsigned int index, struct tlbi *form)
{
	const struct row *r;

	if (index >= TLBI_FORMS)
		return false;
	r = &rows[index / 2];
	*form = r->form;
	form->index = index;
	form->stage2 = r->op1 == 4 && form->el == 1;
	if (index % 2) {
		form->name = r->nxs_name;
		form->nxs = true;
	}
	return form->name;
}

const char *dsb_name(enum dsb_form form)
{
	static const char * const names[DSB_FORMS] = {
		"oshld", "oshst", "osh", "nshld", "nshst", "nsh",
		"ishld", "ishst", "ish", "ld", "st", "sy",
		"oshnxs", "nshnxs", "ishnxs", "synxs",
	};

	return names[form];
}

const char *tlbi_class_name(enum tlbi_class class)
{
	static const char * const names[CLASSES] = {
		"user", "kernel", "all", "other",
	};

	return names[class];
}

bool tlbi_has_operand(const struct tlbi *t)
{
	return t->what != TLBI_ALL;
}

bool sgi_reaches(uint64_t operand, unsigned int from, unsigned int cpu)
{
	unsigned int cluster = operand >> 16 & 0xff;

	if (operand & SGI_TO_ALL)
		return cpu != from;
	return cpu / 16 == cluster && operand >> cpu % 16 & 1;
}

/* The ASID is in bits 63:48 of the operand in all forms: address, ASID and range (Arm ARM C5.5). */
unsigned int tlbi_asid(uint64_t operand)
{
	return operand >> 48;
}

/*
 * Return true if the address is in the half that TTBR1 translates. Forms by address (Arm
 * ARM C5.5, TLBI VAE1IS and similar): bits 43:0 hold VA[55:12], and bit 55 selects the
 * TTBR whatever the size of the address space, and also with tagged addresses.
 * Range forms (TLBI RVAE1IS and its kind): bits 36:0 hold BaseADDR, in units
 * of the granule, or of 64 KiB with 52-bit addresses; the hardware extends the
 * sign of bit 36, whatever the unit.
 */
bool tlbi_upper_half(const struct tlbi *t, uint64_t operand)
{
	return operand >> (t->range ? 36 : 43) & 1;
}

/*
 * user    an ASID, or an address of the lower half under an ASID
 * kernel  an address of the upper half, or under every ASID (Linux flushes
 *         global entries that way)
 * all     a whole regime
 * other   not the running kernel's own EL1&0 regime: stage 2, EL2, EL3, RME.
 *         A VHE kernel's own flushes use the EL1 forms.
 */
enum tlbi_class tlbi_class(const struct tlbi *t, uint64_t operand)
{
	switch (t->what) {
	case TLBI_ALL:
		return CLASS_ALL;
	case TLBI_ASID:
		return CLASS_USER;
	case TLBI_VA:
		if (t->el != 1)
			return CLASS_OTHER;
		return tlbi_upper_half(t, operand) ? CLASS_KERNEL : CLASS_USER;
	case TLBI_VAA:
		return CLASS_KERNEL;
	case TLBI_IPA:
	case TLBI_PA:
		break;
	}
	return CLASS_OTHER;
}

/*
 * Arm ARM C4.1 "Load/store register (unprivileged)":
 *
 *   31  30 29 27 26 25 24 23 22 21 20   12 11 10 9  5 4  0
 *    size   111   0   00   opc   0   imm9    10    Rn   Rt
 *
 * opc 00 stores, 01 loads, 10 loads and extends the sign to 64 bits, 11 to 32;
 * there is nothing to extend from 64 bits, or from 32 to 32.
 */
bool is_unprivileged(uint32_t word)
{
	unsigned int size = word >> 30, opc = (word >> 22) & 3;

	if ((word & 0x3f200c00) != 0x38000800)
		return false;
	return size < 2 || opc < 2 || (size == 2 && opc == 2);
}

/*
 * Arm ARM C4.1 "Loads and stores". Exclusives, and compare and swap:
 *
 *   31 30 29    24 23 22 21 20  16 15 14 10 9  5 4  0
 *    size  001000  o2  L o1   Rs   o0  Rt2   Rn   Rt
 *
 * STXR has o2, L and o1 0, and STXP o1 1 and size 1x; CASP has that with
 * size 0x, and CAS with o2 1: both with Rt2 31, and whatever L.
 *
 *   31 30 29  27 26 25 24 23 22 21 20  16 15 14 12 11 10 9  5 4  0
 *    size  111   0   00   A  R  1    Rs   o3  opc   00   Rn   Rt
 *
 * With o3 0 all of opc are atomic, with o3 1 only 0, SWP (4 is LDAPR).
 */
bool is_atomic(uint32_t word)
{
	static const struct {
		uint32_t mask, value;
	} forms[] = {
		{ 0x3fe00000, 0x08000000 },	/* STXR, STLXR */
		{ 0xbfe00000, 0x88200000 },	/* STXP, STLXP */
		{ 0xbfa07c00, 0x08207c00 },	/* CASP */
		{ 0x3fa07c00, 0x08a07c00 },	/* CAS */
		{ 0x3f208c00, 0x38200000 },	/* LDADD ... LDUMIN */
		{ 0x3f20fc00, 0x38208000 },	/* SWP */
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if ((word & forms[i].mask) == forms[i].value)
			return true;
	return false;
}

/*
 * By the top level of the encoding (Arm ARM C4.1, op0 in bits 28:25). An instruction
 * that always raises an exception, or always branches, ends its block anyway. So this
 * is about instructions that only sometimes do.
 */
bool may_leave_block(uint32_t word)
{
	switch ((word >> 25) & 15) {
	case 0x8: case 0x9:			/* immediate arithmetic */
	case 0x7: case 0xf:			/* floating point, SIMD */
		return false;
	case 0x5: case 0xd:			/* register arithmetic ... */
		/* ... but pointer authentication can trap, or fail */
		return (word & 0xffff0000) == 0xdac10000 ||
		       (word & 0xffe0fc00) == 0x9ac03000;
	default:	/* loads, stores, system, branches, SVE, SME, unknown */
		return true;
	}
}
