// SPDX-License-Identifier: GPL-2.0-only
/*
 * stage2 - virtual machines. See stage2.h.
 */
#include <stdlib.h>
#include <string.h>

#include "stage2.h"

bool stage2_init(struct stage2 *v, struct shadow *host)
{
	memset(v, 0, sizeof(*v));
	/* What a guest accesses is not watched: speculation is all there is. */
	if (!shadow_init(&v->s, host->ncpus, true, host->reports.out, host->reports.text))
		return false;
	v->s.reports.to = &host->reports;
	v->s.stage2 = v;
	v->s.stack = host->stack;
	v->s.arg = host->arg;
	v->on = true;
	return true;
}

/* A page that holds tables of either stage is followed: one map is enough for both. */
bool stage2_ram(struct stage2 *v, const struct shadow *host)
{
	struct spaces *s = &v->s.spaces;

	s->ram = host->spaces.ram;
	s->followed = host->spaces.followed;
	s->mapped = calloc(s->ram.size >> 12, sizeof(*s->mapped));
	s->bytes += (s->ram.size >> 12) * sizeof(*s->mapped);
	return s->mapped;
}

void stage2_free(struct stage2 *v)
{
	for (size_t i = 0; v->machines.bucket && i < (size_t)1 << (64 - v->machines.shift); i++) {
		while (v->machines.bucket[i]) {
			struct machine *m = container_of(v->machines.bucket[i], struct machine, node);

			v->machines.bucket[i] = m->node.next;
			free(m);
		}
	}
	free(v->machines.bucket);
	v->s.spaces.followed = NULL;
	shadow_free_all(&v->s);
}

/* --- Virtual CPUs --- */

static struct machine *machine_of(struct stage2 *v, uint16_t vmid)
{
	struct hash_node *n = hash_first(&v->machines, vmid);
	struct machine *m;

	if (n)
		return container_of(n, struct machine, node);
	m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	m->vmid = vmid;
	hash_add(&v->machines, &m->node, vmid);
	return m;
}

static uint16_t vmid_of(const struct cpu *c)
{
	return c->ttbr0 >> 48 & c->asid_mask;
}

static void report_vcpu(struct stage2 *v, unsigned int cpu, const struct machine *m, enum rule rule, uint64_t pc)
{
	struct finding f = finding_here(&v->s, cpu, pc, rule);

	f.asid = m->vmid;
	f.holders = CPU(cpu);
	report(&v->s.reports, &f);
}

/* A virtual CPU is about to run. */
static void enters(struct stage2 *v, unsigned int cpu, uint64_t pc)
{
	struct machine *m = machine_of(v, vmid_of(&v->s.cpus[cpu]));

	if (m->on[cpu].holds && m->on[cpu].who != v->vmpidr[cpu])
		report_vcpu(v, cpu, m, RULE_VCPU_OTHER, pc);
	else if (m->on[cpu].stale)
		report_vcpu(v, cpu, m, RULE_VCPU_MOVED, pc);
	m->on[cpu].who = v->vmpidr[cpu];
	m->on[cpu].holds = true;
	m->on[cpu].stale = false;
	if (v->s.cpus[cpu].context && v->s.cpus[cpu].context->root)
		shadow_entered(&v->s, v->s.cpus[cpu].context->root);
}

/* TLBIs may have removed its entries while it ran, and it made new ones. */
static void leaves(struct stage2 *v, unsigned int cpu)
{
	machine_of(v, vmid_of(&v->s.cpus[cpu]))->on[cpu].holds = true;
}

void stage2_guest_tlbi(struct stage2 *v, unsigned int cpu, const struct tlbi *t)
{
	struct machine *m;

	if (t->domain != DOMAIN_LOCAL || v->hcr[cpu] & HCR_FB)
		return;
	m = machine_of(v, vmid_of(&v->s.cpus[cpu]));
	for (unsigned int other = 0; other < v->s.ncpus; other++)
		if (other != cpu && m->on[other].holds && m->on[other].who == v->vmpidr[cpu])
			m->on[other].stale = true;
}

void stage2_flushed(struct stage2 *v, bool any, uint16_t vmid, cpumask cpus)
{
	for (size_t i = 0; v->machines.bucket && i < (size_t)1 << (64 - v->machines.shift); i++) {
		for (struct hash_node *n = v->machines.bucket[i]; n; n = n->next) {
			struct machine *m = container_of(n, struct machine, node);
			unsigned int cpu;

			if (!any && m->vmid != vmid)
				continue;
			for_cpus(cpu, cpus)
				m->on[cpu].holds = m->on[cpu].stale = false;
		}
	}
}

/* --- Events --- */

const char *stage2_msr(struct stage2 *v, unsigned int cpu, enum sysreg reg, uint64_t value, uint64_t pc)
{
	bool ran = stage2_in_guest(v, cpu);

	switch (reg) {
	case REG_VMPIDR:
		v->vmpidr[cpu] = value;
		return NULL;
	case REG_HCR:
		v->hcr[cpu] = value;
		if ((value & (HCR_E2H | HCR_TGE)) == (HCR_E2H | HCR_TGE))
			v->vhe |= CPU(cpu);
		else if (!(value & HCR_E2H))
			v->vhe &= ~CPU(cpu);
		/* VMID 0 is the host's. */
		if (value & HCR_VM && !(v->vhe & CPU(cpu)) && (value & HCR_E2H || !vmid_of(&v->s.cpus[cpu])))
			return "mode=check does not model pKVM, nor hosts at EL1 under HCR_EL2.E2H (hVHE): "
			       "boot the host without kvm-arm.mode=protected or arm64_sw.hvhe";
		break;
	default:
		break;
	}
	if (ran)
		leaves(v, cpu);
	shadow_msr(&v->s, cpu, reg, value, pc);
	if (stage2_in_guest(v, cpu))
		enters(v, cpu, pc);
	return NULL;
}

bool stage2_sp_el0(struct stage2 *v, unsigned int cpu, uint64_t value)
{
	if (!(value >> 63))
		return !read_once(&v->s.pendings.open);
	v->s.cpus[cpu].task = value;
	return true;
}

void stage2_seen(const struct stage2 *v, struct seen *seen)
{
	seen->guest_entries = v->s.seen.loads;
	seen->guest_tlbis = v->s.seen.tlbis;
	seen->stage2_stores = v->s.seen.table_stores;
	seen->stage2_pending = v->s.seen.pending;
	seen->memory += v->s.spaces.bytes + v->s.pendings.most * sizeof(struct pending);
}
