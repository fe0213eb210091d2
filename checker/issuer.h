/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * issuer - for whom a CPU executes a TLBI: for the system itself, as a guest, or as a
 * hypervisor for a guest. With virtual machines the instruction alone does not say that.
 *
 * "Arm ARM" is the Arm Architecture Reference Manual for A-profile, DDI 0487.
 */
#ifndef LULL_ISSUER_H
#define LULL_ISSUER_H

#include <stdbool.h>
#include <stdint.h>

#include "decode.h"

/* Bits of HCR_EL2 (Arm ARM, "HCR_EL2, Hypervisor Configuration Register"). */
#define HCR_VM	(1ULL << 0)	/* the EL1&0 regime has a second stage: a guest has the CPU */
#define HCR_FB	(1ULL << 9)	/* local TLBIs that EL1 executes go to the Inner Shareable domain */
#define HCR_TGE	(1ULL << 27)	/* EL0 belongs to EL2: no guest has the CPU */
#define HCR_E2H	(1ULL << 34)	/* EL2 has a kernel (VHE) */

enum issuer_kind {
	ISSUER_SELF,		/* a kernel for itself and its processes, or a hypervisor for its own EL2 */
	ISSUER_GUEST,		/* EL1 of a virtual machine, for itself */
	ISSUER_HYPERVISOR,	/* EL2, for a virtual machine */
};

struct issuer {
	enum issuer_kind kind;
	uint16_t vmid;		/* ISSUER_GUEST: which virtual machine */
	bool forced;		/* the TLBI is a local one, and goes to the Inner Shareable domain by HCR_EL2.FB */
};

/* The state of a CPU that decides this. Zeroed memory is a CPU without EL2. */
struct issuer_state {
	unsigned int el;	/* the current exception level */
	uint64_t hcr, vttbr;	/* HCR_EL2, VTTBR_EL2 */
};

/* Return true if the CPU executes a guest, at EL1 or EL0. */
bool issuer_in_guest(const struct issuer_state *s);

/*
 * Return true if the CPU executes a hypervisor, or its boot code, at EL2 without a kernel there (nVHE).
 * Its memory accesses are of the EL2 regime. What it writes to registers of EL1 is for a guest, or what a
 * kernel at EL1 had there before the guest ran.
 */
bool issuer_is_bare(const struct issuer_state *s);

/* The number of the guest (VMID). All 16 bits; the upper 8 are 0 if VMIDs have 8. */
uint16_t issuer_vmid(const struct issuer_state *s);

struct issuer issuer_of(const struct issuer_state *s, const struct tlbi *t);

#endif
