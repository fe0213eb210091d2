/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stage2 - virtual machines: their translations of stage 2, and their virtual CPUs.
 *
 * The host's kernel runs at EL2, as its hypervisor does (VHE: HCR_EL2.{E2H, TGE} is {1, 1} while no
 * guest runs), or at EL1 (nVHE: HCR_EL2.VM is 0 then). The kernel's own regime, EL2&0 or EL1&0, is
 * judged as EL1&0 is elsewhere, by another struct shadow. The one here has the tables of stage 2: its
 * contexts are VMIDs with a root each, its addresses IPAs, and a CPU has a context loaded while it runs
 * a guest. It is at EL2 then for a moment, too: from the write of HCR_EL2 to the ERET, and after the
 * exception.
 *
 * A walk of both stages leaves one combined entry in the TLB, by VMID, ASID and virtual address. Tables
 * of stage 1 are the guest's and are not followed: of each entry of stage 2, a CPU is taken to hold
 * combined ones as well. TLBI IPAS2E1 does not remove these (pending.h, @alone).
 *
 * What a guest executes helps no pending invalidation: a hypervisor cannot rely on it. Only for the rule
 * `vcpu` its TLBIs are looked at. Each virtual CPU must find a TLB as of its own: entries that another one
 * has made on the CPU are not its own, nor those that it has made before it invalidated them
 * elsewhere, where a local TLBI (HCR_EL2.FB clear) does not reach them. VMPIDR_EL2 tells
 * virtual CPUs apart.
 */
#ifndef LULL_STAGE2_H
#define LULL_STAGE2_H

#include "issuer.h"
#include "shadow.h"

/* A virtual machine, on each CPU. */
struct machine {
	struct hash_node node;
	uint16_t vmid;
	struct {
		bool holds;		/* can hold entries of stage 1, or combined ones */
		bool stale;		/* ... and its virtual CPU has invalidated some since, elsewhere and locally */
		uint64_t who;		/* VMPIDR_EL2 of the virtual CPU that ran last */
	} on[MAX_CPUS];
};

struct stage2 {
	struct shadow s;
	bool on;			/* the CPUs have EL2 */
	struct hash machines;
	uint64_t vmpidr[MAX_CPUS];
	uint64_t hcr[MAX_CPUS];
	cpumask vhe;			/* CPUs that run a kernel at EL2 */
};

/* @host: the kernel's own translations; takes the reports. Returns false if there is no memory. */
bool stage2_init(struct stage2 *v, struct shadow *host);

/* The guest's RAM was found, and @host knows it. Returns false if there is no memory. */
bool stage2_ram(struct stage2 *v, const struct shadow *host);

/*
 * A CPU writes a register of EL2, from REG_HCR on. Returns NULL, or why a host like this one is not modelled.
 */
const char *stage2_msr(struct stage2 *v, unsigned int cpu, enum sysreg reg, uint64_t value, uint64_t pc);

/* Return true if this write of HCR_EL2 makes EL2 a kernel's. */
static inline bool stage2_to_el2(const struct stage2 *v, unsigned int cpu, uint64_t value)
{
	return value & HCR_E2H && !(v->hcr[cpu] & HCR_E2H);
}

/* Return true if a guest has the CPU. */
static inline bool stage2_in_guest(const struct stage2 *v, unsigned int cpu)
{
	return v->s.cpus[cpu].mmu;
}

/* The host's task on a CPU: SP_EL0, as for shadow_sp_el0(). Returns false if shadow_settles() is to be called. */
bool stage2_sp_el0(struct stage2 *v, unsigned int cpu, uint64_t value);

/* A guest executes a TLBI. */
void stage2_guest_tlbi(struct stage2 *v, unsigned int cpu, const struct tlbi *t);

/* shadow_tlbi.c: these CPUs hold no entries of stage 1 of a VMID, or of any, any more. */
void stage2_flushed(struct stage2 *v, bool any, uint16_t vmid, cpumask cpus);

/* Add its counts to the verdict's. */
void stage2_seen(const struct stage2 *v, struct seen *seen);
void stage2_free(struct stage2 *v);

#endif
