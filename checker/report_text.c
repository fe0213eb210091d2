// SPDX-License-Identifier: GPL-2.0-only
/*
 * report_text - the lines of a report for people. See report_text.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report_text.h"

#define MANUAL "Arm ARM (DDI 0487)"

/* Why a TLBI that came near was not enough. */
static const char *why(enum miss m)
{
	static const char * const texts[] = {
		[MISS_NONE] = "covered it",
		[MISS_VA] = "is for another address, close to this one",
		[MISS_ASID] = "is for another ASID or VMID",
		[MISS_NOTHING] = "has an operand with which it need not remove anything",
		[MISS_LEVEL] = "has the hint (TTL) of another level",
		[MISS_LAST] = "is for leaf entries only",
		[MISS_LOCAL] = "reaches only its own CPU",
		[MISS_ORDER] = "was issued with no DSB after the store",
		[MISS_DSB] = "was never completed by a DSB",
		[MISS_REPEAT] = "was not repeated, as the workaround of an erratum has to",
		[MISS_STAGE] = "is for one stage, with no TLBI for the other one after a DSB",
	};

	return texts[m];
}

static void address(FILE *out, const struct reports *r, uint64_t pc, bool returns)
{
	char text[SYMBOL_TEXT];

	if (!r->names) {
		fprintf(out, "0x%" PRIx64, pc);
		return;
	}
	symbols_describe(r->names, pc, returns, text);
	fputs(text, out);
}

/* Write the page that a descriptor points to, and the descriptor. */
static void target(FILE *out, const char *which, uint64_t page, uint64_t desc)
{
	fprintf(out, "  %-8s ", which);
	if (desc & 1)
		fprintf(out, "page 0x%" PRIx64, page);
	else
		fputs("nothing", out);
	fprintf(out, ", descriptor 0x%016" PRIx64 "\n", desc);
}

static void holders(FILE *out, cpumask mask)
{
	const char *before = __builtin_popcountll(mask) > 1 ? "  held by  CPUs " : "  held by  CPU ";
	unsigned int cpu;

	for_cpus(cpu, mask) {
		fprintf(out, "%s%u", before, cpu);
		before = ", ";
	}
	if (mask)
		fputc('\n', out);
}

/* Write a place in the code and, if there are names, its callers. */
static void place(FILE *out, const struct reports *r, const char *what, unsigned int cpu,
		  uint64_t pc, unsigned int stack)
{
	const struct stack *s = stack && r->names ? &r->stacks[stack - 1] : NULL;

	fprintf(out, "  %-8s by CPU %u at ", what, cpu);
	address(out, r, pc, false);
	fputc('\n', out);
	for (unsigned int i = s && s->pc[0] == pc; s && i < s->n; i++) {
		fputs("             called from ", out);
		address(out, r, s->pc[i], true);
		fputc('\n', out);
	}
}

static void tlbis(FILE *out, const struct reports *r, const struct pending *inv)
{
	unsigned int n = inv ? inv->n_tlbis : 0;

	if (!n)
		fputs("  TLBIs    none for this ASID or address since the change\n", out);
	for (unsigned int i = 0; i < n; i++) {
		const struct tlbi_seen *t = &inv->tlbis[i].tlbi;

		fprintf(out, "  %-8s %s 0x%" PRIx64 " by CPU %u at ", i ? "" : "TLBIs", t->name,
			t->operand, t->cpu);
		address(out, r, t->pc, false);
		fprintf(out, ": %s\n", why(inv->tlbis[i].miss));
	}
}

void report_text(FILE *out, const struct reports *r, unsigned int number,
		 const struct finding *f)
{
	const struct rule_text *rule = &rules[f->rule];

	fprintf(out, "report %u: %s/%s: %s\n", number, rule->rule, rule->kind, rule->says);
	fprintf(out, "  rule     " MANUAL " %s\n", rule->manual);
	if (f->rule == RULE_ASID_KEPT) {	/* of a TLB, not an entry */
		holders(out, f->holders);
		place(out, r, "noticed", f->cpu, f->pc, f->stack);
		return;
	}
	fprintf(out, "  entry    %s0x%" PRIx64 ", %s %u, a %s at level %d, seen on CPU %u\n",
		f->stage2 ? "IPA " : "", f->va, f->stage2 ? "VMID" : "ASID", f->asid, f->table ? "table" : f->level == 3 ? "page" : "block", f->level, f->cpu);
	target(out, "old", f->old_page, f->old);
	target(out, "new", f->new_page, f->new);
	if (f->differs)
		fprintf(out, "  differs  the contents of the two pages, from byte 0x%" PRIx64 " on\n",
			f->differs - 1);
	holders(out, f->holders);
	if (f->changed)
		place(out, r, "changed", f->changed_cpu, f->changed_pc, f->changed_stack);
	place(out, r, "noticed", f->cpu, f->pc, f->stack);
	tlbis(out, r, f->pending);
}
