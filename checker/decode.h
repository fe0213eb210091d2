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
	INSN_OTHER,	/* nothing the checker looks at */
	INSN_TLBI,
	INSN_DSB,
	INSN_SGI,	/* a write of ICC_SGI1R_EL1: an IPI */
	INSN_OPEN,	/* marker: a measured window opens, x0 is its id */
	INSN_CLOSE,	/* marker: it closes */
	INSN_MARK,	/* marker of the lab kernel: insn.mark says which */
	INSN_MSR,	/* a write of a register in enum sysreg from xN */
	INSN_CALL,	/* HVC or SMC: a call of firmware, x0 is its function */
	INSN_SYNC,	/* ISB or ERET: what was written to system registers is in force */
};

/* The registers that decide what a CPU translates, and for whom. */
enum sysreg {
	REG_TTBR0, REG_TTBR1, REG_TCR, REG_SCTLR, REG_MAIR, REG_SP_EL0, SYSREGS
};

/* What the lab kernel says, by the number of the hint (kernel/lab/NOTE.md). */
enum mark {
	MARK_FREE = 114,/* x0 = PFN, x1 = order: these pages are free from now on */
	MARK_DEAD,	/* x0 = physical address of a PGD that is given back */
	MARK_KERNEL_PTE,/* x0 = virtual address of a kernel PTE just written */
	MARK_PAUSE = 118,/* x0 = enum pause (shadow.h): a CPU waits, or breaks what all CPUs use */
	MARK_LOADED = 119,/* x0 = physical address of a PGD, x1 = 0, 1: this CPU says that it is not loaded, loaded */
	MARK_COLLECTED = 120,/* x0 = physical address of a PGD, x1 = address: that entry's flush is put off */
};

/* Who must obey: this PE, its Inner Shareable domain, its Outer one. */
enum tlbi_scope { SCOPE_LOCAL, SCOPE_IS, SCOPE_OS };

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
	enum tlbi_scope scope;
	enum tlbi_what what;
	uint8_t el;		/* translation regime: 1 (EL1&0), 2 or 3 */
	bool last;		/* leaf entries only */
	bool range;		/* FEAT_TLBIRANGE */
	bool nxs;		/* FEAT_XS: does not wait for XS accesses */
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

/* Does the register operand mean anything? */
bool tlbi_has_operand(const struct tlbi *t);

/*
 * Does an SGI go to a vCPU, from another one? Operand of ICC_SGI1R_EL1, GIC
 * specification IHI 0069 12.2.23; QEMU's virt machine with a GICv3 numbers
 * vCPUs in clusters of 16.
 */
bool sgi_reaches(uint64_t operand, unsigned int from, unsigned int cpu);

/* Operand fields; which of them a form has follows from what and range. */
unsigned int tlbi_asid(uint64_t operand);
bool tlbi_upper_half(const struct tlbi *t, uint64_t operand);

enum tlbi_class tlbi_class(const struct tlbi *t, uint64_t operand);

/*
 * Does it access memory as EL0 would, when EL1 executes it: LDTR, STTR and
 * their kind (Arm ARM C4.1, "Load/store register (unprivileged)")? The kernel
 * reads and writes user memory with these. Not those of FEAT_LSUI, FEAT_MOPS
 * and FEAT_GCS, which Linux 6.12 does not use so.
 */
bool is_unprivileged(uint32_t word);

/*
 * Is it an atomic read-modify-write: CAS, SWP, LDADD and their kind (FEAT_LSE),
 * or the store of an exclusive pair, whether it then succeeds or not? Not those
 * of FEAT_LSE128, FEAT_LSUI and FEAT_THE, which Linux 6.12 does not use.
 */
bool is_atomic(uint32_t word);

/*
 * May this instruction leave its translation block other than by being the
 * last of it? May be true too often, never false too often.
 */
bool may_leave_block(uint32_t word);

#endif
