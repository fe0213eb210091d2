// SPDX-License-Identifier: GPL-2.0-only
/*
 * issuer - for whom a CPU executes a TLBI. See issuer.h.
 */
#include "issuer.h"

bool issuer_in_guest(const struct issuer_state *s)
{
	return s->el < 2 && (s->hcr & (HCR_VM | HCR_TGE)) == HCR_VM;
}

bool issuer_is_bare(const struct issuer_state *s)
{
	return s->el == 2 && !(s->hcr & HCR_E2H);
}

uint16_t issuer_vmid(const struct issuer_state *s)
{
	return s->vttbr >> 48;
}

/*
 * TLBIs of EL2 for the EL1&0 regime are for a guest: those that reach stage 2 always are, and
 * the others are unless HCR_EL2.{E2H, TGE} is {1, 1}, when the same instructions are for the
 * EL2&0 regime, that of a kernel at EL2. FB is about EL1 only.
 */
struct issuer issuer_of(const struct issuer_state *s, const struct tlbi *t)
{
	bool kernel = (s->hcr & HCR_E2H) && (s->hcr & HCR_TGE);

	if (s->el == 2 && t->el == 1 && (t->stage2 || !kernel))
		return (struct issuer){ .kind = ISSUER_HYPERVISOR };
	if (s->el != 1)
		return (struct issuer){ .kind = ISSUER_SELF };
	return (struct issuer){
		.kind = issuer_in_guest(s) ? ISSUER_GUEST : ISSUER_SELF,
		.vmid = issuer_vmid(s),
		.forced = (s->hcr & HCR_FB) && t->domain == DOMAIN_LOCAL,
	};
}
