/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * decode - which A64 instruction words matter for TLB maintenance.
 *
 * Pure: words and operand values in, structs out. No QEMU, no state, so that
 * every encoding can be compared with the assembler's.
 *
 * "Arm ARM" is the Arm Architecture Reference Manual for A-profile, DDI 0487.
 */
#ifndef LULL_DECODE_H
#define LULL_DECODE_H

#include <stdbool.h>
#include <stdint.h>

/* ICC_SGI1R_EL1.IRM: to all CPUs but the sender. */
#define SGI_TO_ALL	(1ULL << 40)

enum insn_kind {
	INSN_OTHER,	/* none of the following */
	INSN_TLBI,
	INSN_DSB,
	INSN_SGI,	/* a write of ICC_SGI1R_EL1: an IPI */
	INSN_OPEN,	/* marker: a measured window opens, x0 is its id */
	INSN_CLOSE,	/* marker: the window closes */
	INSN_MARK,	/* marker of the lab kernel: insn.mark says which */
	INSN_MSR,	/* a write of a register in enum sysreg from xN */
	INSN_CALL,	/* HVC or SMC: a call of firmware, x0 is its function */
	INSN_SYNC,	/* ISB or ERET: context synchronisation events */
	INSN_IC,	/* IC IVAU or IALLUIS: a broadcast that instruction caches take part in */
};

/*
 * The registers that decide how a CPU translates, and SP_EL0, in which Linux keeps the task. From
 * REG_HCR on: of EL2, by which a hypervisor runs guests. The others are of EL1; where a kernel
 * runs at EL2 (HCR_EL2.E2H), these instructions write those of EL2.
 */
enum sysreg {
	REG_TTBR0, REG_TTBR1, REG_TCR, REG_SCTLR, REG_MAIR, REG_SP_EL0, REG_VBAR,
	REG_HCR, REG_VTCR, REG_VTTBR, REG_VMPIDR, SYSREGS
};

/* The markers of the lab kernel, by the number of the hint (kernel/lab.md). */
enum mark {
	MARK_FREE = 114,/* x0 = PFN, x1 = order: these pages are free from now on */
	MARK_DEAD,	/* x0 = physical address of a PGD that is freed */
	MARK_KERNEL_PTE,/* x0 = virtual address of a kernel PTE just written */
	/* x0 = physical address of a PGD; x1: this CPU announces it as not loaded (0) or loaded (1) */
	MARK_LOADED = 119,
	/* x0 = physical address of a PGD, x1 = address: the flush of that entry is deferred */
	MARK_COLLECTED = 120,
	MARK_PROGRAM = 121,/* not the kernel's. x0 = 1 + number of the program that has ended: cover.h */
};

/* Where a TLBI takes effect: this PE, its Inner Shareable domain, its Outer Shareable domain. */
enum tlbi_domain { DOMAIN_LOCAL, DOMAIN_IS, DOMAIN_OS };

/* What the operand selects. */
enum tlbi_what {
	TLBI_ALL,	/* a whole regime, or all of a VMID: no operand */
	TLBI_ASID,	/* all of one ASID */
	TLBI_VA,	/* an address, under one ASID */
	TLBI_VAA,	/* an address, under every ASID */
	TLBI_IPA,	/* an intermediate physical address: stage 2 */
	TLBI_PA,	/* a physical address: granule protection (RME) */
};

/* How the lab books a TLBI; see tlbi_class(). */
enum tlbi_class { CLASS_USER, CLASS_KERNEL, CLASS_ALL, CLASS_OTHER, CLASSES };

struct tlbi {
	const char *name;	/* the assembler's, lower case: "vale1isnxs" */
	enum tlbi_domain domain;
	enum tlbi_what what;
	uint8_t el;		/* translation regime: 1 (EL1&0), 2 or 3 */
	bool last;		/* leaf entries only */
	bool range;		/* FEAT_TLBIRANGE */
	bool nxs;		/* FEAT_XS: does not wait for XS accesses */
	bool stage2;		/* removes what was translated by stage 2: a hypervisor's */
	uint8_t index;		/* dense number, below TLBI_FORMS */
};

enum dsb_form {
	DSB_OSHLD, DSB_OSHST, DSB_OSH,
	DSB_NSHLD, DSB_NSHST, DSB_NSH,
	DSB_ISHLD, DSB_ISHST, DSB_ISH,
	DSB_LD, DSB_ST, DSB_SY,
	DSB_OSHNXS, DSB_NSHNXS, DSB_ISHNXS, DSB_SYNXS,
	DSB_FORMS
};

struct insn {
	enum insn_kind kind;
	struct tlbi tlbi;	/* INSN_TLBI */
	enum dsb_form dsb;	/* INSN_DSB */
	enum mark mark;		/* INSN_MARK */
	enum sysreg reg;	/* INSN_MSR */
	uint8_t rt;		/* operand register; 31 is xzr */
};

/* TLBI forms with and without nXS; index / 2 is the row of the table. */
#define TLBI_FORMS 164

struct insn decode(uint32_t word);

/* A form by its index; false when there is none (PA forms have no nXS). */
bool tlbi_form(unsigned int index, struct tlbi *form);
const char *dsb_name(enum dsb_form form);
const char *tlbi_class_name(enum tlbi_class class);

/* Return true if the form has a register operand. */
bool tlbi_has_operand(const struct tlbi *t);

/*
 * Return true if an SGI of vCPU @from goes to vCPU @cpu. Operand of ICC_SGI1R_EL1, GIC
 * specification IHI 0069 12.2.23; QEMU's virt machine with a GICv3 numbers
 * vCPUs in clusters of 16.
 */
bool sgi_reaches(uint64_t operand, unsigned int from, unsigned int cpu);

/* Operand fields; which of them a form has follows from what and range. */
unsigned int tlbi_asid(uint64_t operand);
bool tlbi_upper_half(const struct tlbi *t, uint64_t operand);

enum tlbi_class tlbi_class(const struct tlbi *t, uint64_t operand);

/*
 * Return true for LDTR, STTR and their variants (Arm ARM C4.1, "Load/store register
 * (unprivileged)"), which access memory as EL0 would when EL1 executes them. The
 * kernel reads and writes user memory with these. Not for the instructions of
 * FEAT_LSUI, FEAT_MOPS and FEAT_GCS, which Linux 6.12 does not use for that.
 */
bool is_unprivileged(uint32_t word);

/*
 * Return true for an atomic read-modify-write: CAS, SWP, LDADD and their variants
 * (FEAT_LSE), and the store of an exclusive pair, whether or not it then succeeds. Not
 * for those of FEAT_LSE128, FEAT_LSUI and FEAT_THE, which Linux 6.12 does not use.
 */
bool is_atomic(uint32_t word);

/*
 * Return true if this instruction may leave its translation block without being the
 * last of it, by a fault for example. May return true when that is impossible, but
 * never false when it is possible.
 */
bool may_leave_block(uint32_t word);

#endif
