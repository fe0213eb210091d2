// SPDX-License-Identifier: GPL-2.0-only
/*
 * count - counters of each vCPU, windows, and their output as JSON. See count.h.
 */
#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "json.h"
#include "version.h"

/* Sums over all forms, of one vCPU or of all vCPUs. */
struct totals {
	uint64_t insns, insns_own, insns_spin, insns_spin_own, atomics, atomics_own, waits_own, ipi, ipi_all, ic, dsb[DSB_FORMS];
	uint64_t broadcast[CLASSES], local[CLASSES], range, asid;
	uint64_t guest[GUESTS + 1][GUEST_KINDS][CLASSES], hyp_local, hyp_broadcast, hyp_stage2, forced[CLASSES];
};

static struct cpu_counts *alloc(unsigned int ncpus)
{
	size_t size = ncpus * sizeof(struct cpu_counts);
	struct cpu_counts *c = aligned_alloc(_Alignof(struct cpu_counts), size);

	if (c)
		memset(c, 0, size);
	return c;
}

bool count_init(struct counts *c, unsigned int ncpus)
{
	*c = (struct counts){
		.ncpus = ncpus,
		.live = alloc(ncpus),
		.opened = alloc(ncpus),
		.shown = alloc(ncpus),
	};
	if (c->live && c->opened && c->shown)
		return true;
	count_free(c);
	return false;
}

void count_free(struct counts *c)
{
	free(c->live);
	free(c->opened);
	free(c->shown);
	functions_free(&c->functions);
	*c = (struct counts){ 0 };
}

/* Only one thread writes a counter; readers on other threads must not see half of a number. */
static void bump(uint64_t *n)
{
	__atomic_store_n(n, *n + 1, __ATOMIC_RELAXED);
}

/* Return the place of a guest in c->guests, which it gets when it is first seen; GUESTS if there is none left. */
static unsigned int place_of(struct counts *c, uint16_t vmid)
{
	uint32_t name = vmid + 1;
	unsigned int i;

	for (i = 0; i < GUESTS; i++) {
		uint32_t found = 0;

		if (__atomic_compare_exchange_n(&c->guests[i], &found, name, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) || found == name)
			break;
	}
	return i;
}

static void count_tlbi(struct counts *c, struct cpu_counts *live, const struct tlbi *t,
		       enum tlbi_class class, const struct issuer *by)
{
	bool local = t->domain == DOMAIN_LOCAL;

	bump(&live->tlbi[t->index][class]);
	if (by->forced)
		bump(&live->forced[class]);
	if (by->kind == ISSUER_GUEST) {
		bump(&live->by_guests[t->index][class]);
		bump(&live->guest[place_of(c, by->vmid)]
				 [by->forced ? GUEST_FORCED : local ? GUEST_LOCAL : GUEST_BROADCAST][class]);
	} else if (by->kind == ISSUER_HYPERVISOR) {
		bump(local ? &live->hyp_local : &live->hyp_broadcast);
		if (t->stage2)
			bump(&live->hyp_stage2);
	}
}

void count_event(struct counts *c, unsigned int cpu, const struct insn *insn,
		 uint64_t operand, const struct issuer *by)
{
	struct cpu_counts *live = &c->live[cpu];

	switch (insn->kind) {
	case INSN_TLBI:
		count_tlbi(c, live, &insn->tlbi, tlbi_class(&insn->tlbi, operand), by);
		break;
	case INSN_DSB:
		bump(&live->dsb[insn->dsb]);
		break;
	case INSN_SGI:
		bump(&live->ipi);
		if (operand & SGI_TO_ALL)
			bump(&live->ipi_all);
		break;
	case INSN_IC:
		bump(&live->ic);
		break;
	case INSN_OTHER:
	case INSN_OPEN:
	case INSN_CLOSE:
	case INSN_MARK:
	case INSN_MSR:
	case INSN_CALL:
	case INSN_SYNC:
		break;
	}
}

void count_set_insns(struct counts *c, unsigned int cpu, uint64_t insns, uint64_t insns_spin,
		     uint64_t atomics)
{
	c->live[cpu].insns = insns;
	c->live[cpu].insns_spin = insns_spin;
	c->live[cpu].atomics = atomics;
}

void count_set_time(struct counts *c, uint64_t modelled, uint64_t astray)
{
	c->timed = true;
	c->modelled = modelled;
	c->astray = astray;
}

void count_set_functions(struct counts *c, const uint64_t *counters)
{
	c->of_functions = counters;
}

/* struct cpu_counts is nothing but counters: copy it as an array of them. */
#define COUNTERS (sizeof(struct cpu_counts) / sizeof(uint64_t))

static void copy(struct cpu_counts *to, const struct cpu_counts *from)
{
	const uint64_t *f = (const uint64_t *)from;
	uint64_t *t = (uint64_t *)to;

	for (size_t i = 0; i < COUNTERS; i++)
		t[i] = __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

static void subtract(struct cpu_counts *from, const struct cpu_counts *what)
{
	const uint64_t *w = (const uint64_t *)what;
	uint64_t *f = (uint64_t *)from;

	for (size_t i = 0; i < COUNTERS; i++)
		f[i] -= w[i];
}

static void add(struct totals *t, const struct cpu_counts *c)
{
	t->insns += c->insns;
	t->insns_spin += c->insns_spin;
	t->atomics += c->atomics;
	t->ipi += c->ipi;
	t->ipi_all += c->ipi_all;
	t->ic += c->ic;
	for (unsigned int i = 0; i < DSB_FORMS; i++)
		t->dsb[i] += c->dsb[i];
	for (unsigned int i = 0; i <= GUESTS; i++)
		for (unsigned int kind = 0; kind < GUEST_KINDS; kind++)
			for (unsigned int class = 0; class < CLASSES; class++)
				t->guest[i][kind][class] += c->guest[i][kind][class];
	t->hyp_local += c->hyp_local;
	t->hyp_broadcast += c->hyp_broadcast;
	t->hyp_stage2 += c->hyp_stage2;
	for (unsigned int class = 0; class < CLASSES; class++)
		t->forced[class] += c->forced[class];
	for (unsigned int i = 0; i < TLBI_FORMS; i++) {
		struct tlbi form;

		if (!tlbi_form(i, &form))
			continue;
		for (unsigned int class = 0; class < CLASSES; class++) {
			uint64_t n = c->tlbi[i][class];

			if (form.domain == DOMAIN_LOCAL)
				t->local[class] += n;
			else
				t->broadcast[class] += n;
			if (form.range)
				t->range += n;
			if (form.what == TLBI_ASID)
				t->asid += n;
		}
	}
}

static uint64_t sum(const uint64_t *of_classes)
{
	uint64_t n = 0;

	for (unsigned int class = 0; class < CLASSES; class++)
		n += of_classes[class];
	return n;
}

/* Write the TLBIs of a vCPU by form. The forms are many, so only those that are not 0. */
static void write_forms(struct json *j, const uint64_t counts[TLBI_FORMS][CLASSES])
{
	json_open(j, '{');
	for (unsigned int i = 0; i < TLBI_FORMS; i++) {
		struct tlbi form;

		if (!tlbi_form(i, &form))
			continue;
		for (unsigned int class = 0; class < CLASSES; class++) {
			char key[48];

			if (!counts[i][class])
				continue;
			snprintf(key, sizeof(key), "%s/%s", form.name,
				 tlbi_class_name(class));
			json_field(j, key, counts[i][class]);
		}
	}
	json_close(j, '}');
}

/* Write one vCPU's counts; @virtual: also those of guests. */
static void write_cpu(struct json *j, unsigned int cpu, const struct cpu_counts *c, bool virtual)
{
	json_open(j, '{');
	json_field(j, "cpu", cpu);
	json_field(j, "insns", c->insns);
	json_field(j, "insns_spin", c->insns_spin);
	json_field(j, "atomics", c->atomics);
	json_key(j, "tlbi");
	write_forms(j, c->tlbi);
	if (virtual) {
		json_key(j, "tlbi_by_guests");
		write_forms(j, c->by_guests);
	}
	json_key(j, "dsb");
	json_open(j, '{');
	for (unsigned int i = 0; i < DSB_FORMS; i++)
		if (c->dsb[i])
			json_field(j, dsb_name(i), c->dsb[i]);
	json_close(j, '}');
	json_field(j, "ipi", c->ipi);
	json_field(j, "ipi_all", c->ipi_all);
	json_field(j, "ic_broadcast", c->ic);
	json_close(j, '}');
}

static const char *const kinds[GUEST_KINDS] = { "local", "broadcast", "forced" };

/* Write what a guest executed; @prefix: of the keys. */
static void write_guest(struct json *j, const char *prefix, const uint64_t counts[GUEST_KINDS][CLASSES])
{
	char key[48];

	for (unsigned int kind = 0; kind < GUEST_KINDS; kind++) {
		snprintf(key, sizeof(key), "%s%s", prefix, kinds[kind]);
		json_field(j, key, sum(counts[kind]));
		snprintf(key, sizeof(key), "%s%s_user", prefix, kinds[kind]);
		json_field(j, key, counts[kind][CLASS_USER]);
	}
}

/* The part of write_total() that is about virtual machines. */
static void write_virtual(struct json *j, const struct counts *c, const struct totals *t)
{
	static const uint64_t none[GUEST_KINDS][CLASSES];
	uint64_t all[GUEST_KINDS][CLASSES] = { 0 };

	for (unsigned int i = 0; i <= GUESTS; i++)
		for (unsigned int kind = 0; kind < GUEST_KINDS; kind++)
			for (unsigned int class = 0; class < CLASSES; class++)
				all[kind][class] += t->guest[i][kind][class];
	json_field(j, "tlbi_forced", sum(t->forced));
	json_field(j, "tlbi_forced_user", t->forced[CLASS_USER]);
	json_field(j, "tlbi_hyp_local", t->hyp_local);
	json_field(j, "tlbi_hyp_broadcast", t->hyp_broadcast);
	json_field(j, "tlbi_hyp_stage2", t->hyp_stage2);
	write_guest(j, "tlbi_guests_", all);
	write_guest(j, "tlbi_guest_", c->opener_guest <= GUESTS ? t->guest[c->opener_guest] : none);
}

/* Write each guest that has executed something: the VMID, or "others". */
static void write_guests(struct json *j, const struct counts *c, const struct totals *t)
{
	json_open(j, '[');
	for (unsigned int i = 0; i <= GUESTS; i++) {
		uint64_t n = 0;

		for (unsigned int kind = 0; kind < GUEST_KINDS; kind++)
			n += sum(t->guest[i][kind]);
		if (!n)
			continue;
		json_open(j, '{');
		json_key(j, "vmid");
		if (i < GUESTS)
			json_u64(j, c->guests[i] - 1);
		else
			json_string(j, "others");
		write_guest(j, "", t->guest[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Write the sums of all vCPUs: every key, also when it is 0, so that readers need no default. */
static void write_total(struct json *j, const struct counts *c, const struct totals *t)
{
	char key[48];

	json_open(j, '{');
	json_field(j, "insns", t->insns);
	json_field(j, "insns_own", t->insns_own);
	json_field(j, "insns_spin", t->insns_spin);
	json_field(j, "insns_spin_own", t->insns_spin_own);
	json_field(j, "atomics", t->atomics);
	json_field(j, "atomics_own", t->atomics_own);
	json_field(j, "waits_own", t->waits_own);
	json_field(j, "tlbi_broadcast", sum(t->broadcast));
	json_field(j, "tlbi_local", sum(t->local));
	json_field(j, "tlbi_range", t->range);
	json_field(j, "tlbi_asid", t->asid);
	for (unsigned int class = 0; class < CLASSES; class++) {
		const char *name = tlbi_class_name(class);

		snprintf(key, sizeof(key), "tlbi_%s", name);
		json_field(j, key, t->broadcast[class] + t->local[class]);
		snprintf(key, sizeof(key), "tlbi_broadcast_%s", name);
		json_field(j, key, t->broadcast[class]);
		snprintf(key, sizeof(key), "tlbi_local_%s", name);
		json_field(j, key, t->local[class]);
	}
	for (unsigned int i = 0; i < DSB_FORMS; i++) {
		snprintf(key, sizeof(key), "dsb_%s", dsb_name(i));
		json_field(j, key, t->dsb[i]);
	}
	json_field(j, "ipi", t->ipi);
	json_field(j, "ipi_all", t->ipi_all);
	json_field(j, "ic_broadcast", t->ic);
	if (c->virtual)
		write_virtual(j, c, t);
	json_close(j, '}');
}

/* Write the counts in c->shown after the key "window". @own: the vCPU that opened the window. */
static void write_rest(struct counts *c, struct json *j, unsigned int own)
{
	struct totals totals = { 0 };

	json_field(j, "seq", ++c->seq);
	json_key(j, "cpus");
	json_open(j, '[');
	for (unsigned int cpu = 0; cpu < c->ncpus; cpu++) {
		write_cpu(j, cpu, &c->shown[cpu], c->virtual);
		add(&totals, &c->shown[cpu]);
		if (cpu == own) {
			totals.insns_own = c->shown[cpu].insns;
			totals.insns_spin_own = c->shown[cpu].insns_spin;
			totals.atomics_own = c->shown[cpu].atomics;
			totals.waits_own = c->shown[cpu].dsb[DSB_ISH];
		}
	}
	json_close(j, ']');
	json_key(j, "total");
	write_total(j, c, &totals);
	if (c->virtual) {
		json_key(j, "guests");
		write_guests(j, c, &totals);
	}
	if (own < c->ncpus && c->of_functions) {
		json_key(j, "functions");
		functions_write(&c->functions, c->of_functions, j);
	}
	json_close(j, '}');
	json_end_line(j);
	fflush(j->out);
}

bool count_is_open(const struct counts *c, uint64_t id)
{
	return c->window.open && c->window.id == id;
}

bool count_open(struct counts *c, unsigned int cpu, const struct issuer_state *state, uint64_t id, FILE *out)
{
	if (!window_open(&c->window, id, out))
		return false;
	c->opener = cpu;
	c->opener_guest = issuer_in_guest(state) ? place_of(c, issuer_vmid(state)) : GUESTS + 1;
	for (cpu = 0; cpu < c->ncpus; cpu++)
		copy(&c->opened[cpu], &c->live[cpu]);
	return true;
}

void count_close(struct counts *c, uint64_t id, FILE *out)
{
	struct json j = { .out = out };

	if (!window_close(&c->window, id, out))
		return;
	/* Make all copies first: writing takes long, and other vCPUs go on counting. */
	for (unsigned int cpu = 0; cpu < c->ncpus; cpu++)
		copy(&c->shown[cpu], &c->live[cpu]);
	for (unsigned int cpu = 0; cpu < c->ncpus; cpu++)
		subtract(&c->shown[cpu], &c->opened[cpu]);
	json_open(&j, '{');
	json_field(&j, "window", id);
	if (c->timed) {
		json_field(&j, "modelled_ns", c->modelled);
		json_field(&j, "insns_astray", c->astray);
	}
	write_rest(c, &j, c->opener);
}

void count_write_header(const struct counts *c, int api, FILE *out)
{
	struct json j = { .out = out };

	json_open(&j, '{');
	json_key(&j, "plugin");
	json_string(&j, "lull");
	json_key(&j, "version");
	json_string(&j, LULL_VERSION);
	json_key(&j, "mode");
	json_string(&j, "count");
	json_field(&j, "api", api);
	json_field(&j, "vcpus_max", c->ncpus);
	json_close(&j, '}');
	json_end_line(&j);
	fflush(out);
}

void count_write_run(struct counts *c, FILE *out)
{
	struct json j = { .out = out };

	window_end(&c->window, out);
	c->opener_guest = GUESTS + 1;
	for (unsigned int cpu = 0; cpu < c->ncpus; cpu++)
		copy(&c->shown[cpu], &c->live[cpu]);
	json_open(&j, '{');
	json_key(&j, "window");
	json_string(&j, "whole-run");
	write_rest(c, &j, c->ncpus);	/* no vCPU opened it */
}
