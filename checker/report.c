// SPDX-License-Identifier: GPL-2.0-only
/*
 * report - findings and the verdict, as JSON lines and as text for people. See report.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "json.h"
#include "report.h"
#include "report_text.h"
#include "version.h"

struct known {
	struct hash_node node;
	enum rule rule;
	unsigned int number;
	uint64_t count;
};

struct interned {
	struct hash_node node;
	unsigned int number;
};

unsigned int stack_intern(struct reports *r, const struct stack *s)
{
	struct interned *i;
	uint64_t key = s->n;

	if (!s->n)
		return 0;
	for (unsigned int f = 0; f < s->n; f++)
		key = hash_mix(key, s->pc[f]);
	for (struct hash_node *n = hash_first(&r->stack_nodes, key); n; n = hash_next(n)) {
		i = container_of(n, struct interned, node);
		if (!memcmp(&r->stacks[i->number - 1].pc, &s->pc, s->n * sizeof(s->pc[0])))
			return i->number;
	}
	if ((r->n_stacks & (r->n_stacks - 1)) == 0) {
		size_t room = r->n_stacks ? 2ull * r->n_stacks : 1;

		r->stacks = realloc(r->stacks, room * sizeof(*r->stacks));
		if (!r->stacks)
			abort();
	}
	i = malloc(sizeof(*i));
	if (!i)
		abort();
	r->stacks[r->n_stacks] = *s;
	i->number = ++r->n_stacks;
	hash_add(&r->stack_nodes, &i->node, key);
	return i->number;
}

static void hex(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_key(j, key);
	json_string(j, text);
}

static void text(struct json *j, const char *key, const char *value)
{
	json_key(j, key);
	json_string(j, value);
}

static void flag(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}

/* Write the description of an address. */
static void named(struct json *j, const struct reports *r, uint64_t address, bool returns)
{
	char text[SYMBOL_TEXT];

	symbols_describe(r->names, address, returns, text);
	json_string(j, text);
}

/* Write the names of the functions of a place, without offsets. */
static void functions(struct json *j, const struct reports *r, uint64_t pc, bool kernel,
		      const uint64_t *callers, unsigned int n)
{
	uint64_t offset;
	const char *name = symbols_function(r->names, pc, false, &offset);

	/* User space does not write the kernel's tables, so a low address is code in the identity map. */
	if (!name && kernel)
		name = symbols_identity(r->names, pc, &offset);
	json_key(j, "functions");
	json_open(j, '[');
	if (name)
		json_string(j, name);
	for (unsigned int i = 0; i < n; i++) {
		name = symbols_function(r->names, callers[i], true, &offset);
		if (name)
			json_string(j, name);
	}
	json_close(j, ']');
}

static void names(struct json *j, const struct reports *r, uint64_t pc, bool kernel,
		  unsigned int stack)
{
	const struct stack *s = stack ? &r->stacks[stack - 1] : NULL;
	unsigned int skip = s && s->n && s->pc[0] == pc, n = s ? s->n - skip : 0;

	json_key(j, "at");
	named(j, r, pc, false);
	json_key(j, "calls");
	json_open(j, '[');
	for (unsigned int i = 0; i < n; i++)
		named(j, r, s->pc[skip + i], true);
	json_close(j, ']');
	functions(j, r, pc, kernel, s ? s->pc + skip : NULL, n);
}

static void place(struct json *j, const struct reports *r, const char *key,
		  unsigned int cpu, uint64_t pc, bool kernel, unsigned int stack)
{
	json_key(j, key);
	json_open(j, '{');
	json_field(j, "cpu", cpu);
	hex(j, "pc", pc);
	if (r->names)
		names(j, r, pc, kernel, stack);
	json_key(j, "stack");
	json_open(j, '[');
	for (unsigned int i = 0; stack && i < r->stacks[stack - 1].n; i++) {
		char frame[24];

		snprintf(frame, sizeof(frame), "0x%" PRIx64, r->stacks[stack - 1].pc[i]);
		json_string(j, frame);
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void tlbis(struct json *j, const struct reports *r, const struct pending *inv)
{
	unsigned int n = inv ? inv->n_tlbis : 0;

	json_key(j, "tlbis");
	json_open(j, '[');
	for (unsigned int i = 0; i < n; i++) {
		const struct tlbi_seen *t = &inv->tlbis[i].tlbi;

		json_open(j, '{');
		text(j, "name", t->name);
		hex(j, "operand", t->operand);
		json_field(j, "cpu", t->cpu);
		hex(j, "pc", t->pc);
		if (r->names) {
			json_key(j, "at");
			named(j, r, t->pc, false);
		}
		text(j, "why", miss_name(inv->tlbis[i].miss));
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void cpus(struct json *j, const char *key, cpumask mask)
{
	unsigned int cpu;

	json_key(j, key);
	json_open(j, '[');
	for_cpus(cpu, mask)
		json_u64(j, cpu);
	json_close(j, ']');
}

/* Write a text as a list of its lines. */
static void lines(struct json *j, const char *key, char *text)
{
	char *save;

	json_key(j, key);
	json_open(j, '[');
	for (char *one = strtok_r(text, "\n", &save); one; one = strtok_r(NULL, "\n", &save))
		json_string(j, one);
	json_close(j, ']');
}

/* Write the text for people, to both outputs. */
static void text_of(struct json *j, const struct reports *r, unsigned int number,
		    const struct finding *f)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (!memory)
		abort();
	report_text(memory, r, number, f);
	if (fclose(memory))
		abort();
	fputs(text, r->text);
	fflush(r->text);
	lines(j, "text", text);
	free(text);
}

static uint64_t mix_text(uint64_t key, const char *text)
{
	while (*text)
		key = hash_mix(key, (unsigned char)*text++);
	return key;
}

static uint64_t finding_key(const struct reports *r, const struct finding *f)
{
	unsigned int stack = f->changed ? f->changed_stack : f->stack;
	bool written = !strcmp(rules[f->rule].rule, rules[RULE_WRITTEN_NO_TLBI].rule);
	uint64_t key = f->rule;

	key = mix_text(key, f->conflict ? f->conflict : "");
	if (f->pending)
		key = hash_mix(key, pending_nearest(f->pending));
	if (f->changed)
		key = hash_mix(hash_mix(key, f->changed_pc), written ? f->stack : 0);
	key = hash_mix(key, f->pc);
	for (unsigned int i = 0; stack && i < r->stacks[stack - 1].n && i < 3; i++)
		key = hash_mix(key, r->stacks[stack - 1].pc[i]);
	return key;
}

void report(struct reports *r, const struct finding *f)
{
	struct json j = { .out = r->out };
	struct finding of_guests;
	struct known *k;
	uint64_t key;

	if (r->to) {
		of_guests = *f;
		of_guests.stage2 = true;
		report(r->to, &of_guests);
		return;
	}
	key = finding_key(r, f);
	r->occurrences++;
	for (struct hash_node *n = hash_first(&r->by_key, key); n; n = hash_next(n)) {
		k = container_of(n, struct known, node);
		if (k->rule == f->rule) {
			k->count++;
			cover_report(r->cover, k->number);
			return;
		}
	}
	k = malloc(sizeof(*k));
	if (!k)
		abort();
	*k = (struct known){ .rule = f->rule, .number = ++r->n, .count = 1 };
	hash_add(&r->by_key, &k->node, key);
	cover_report(r->cover, k->number);

	json_open(&j, '{');
	json_field(&j, "report", k->number);
	text(&j, "rule", rules[f->rule].rule);
	text(&j, "kind", rules[f->rule].kind);
	json_field(&j, "cpu", f->cpu);
	json_field(&j, f->stage2 ? "vmid" : "asid", f->asid);
	flag(&j, "kernel", f->kernel);
	hex(&j, "va", f->va);
	json_key(&j, "level");
	json_i64(&j, f->level);
	flag(&j, "table", f->table);
	hex(&j, "old", f->old);
	hex(&j, "new", f->new);
	hex(&j, "old_page", f->old_page);
	hex(&j, "new_page", f->new_page);
	if (f->conflict)
		text(&j, "conflict", f->conflict);
	if (f->differs)
		hex(&j, "differs", f->differs - 1);
	hex(&j, "task", f->task);
	cpus(&j, "holders", f->holders);
	if (f->changed)
		place(&j, r, "changed", f->changed_cpu, f->changed_pc, f->kernel, f->changed_stack);
	place(&j, r, "noticed", f->cpu, f->pc, f->kernel, f->stack);
	tlbis(&j, r, f->pending);
	json_field(&j, "count", 1);
	text_of(&j, r, k->number, f);
	json_close(&j, '}');
	json_end_line(&j);
	fflush(r->out);
}

void report_header(FILE *out, int api, unsigned int ncpus, bool speculation)
{
	struct json j = { .out = out };

	json_open(&j, '{');
	text(&j, "plugin", "lull");
	text(&j, "version", LULL_VERSION);
	text(&j, "mode", "check");
	json_field(&j, "api", api);
	json_field(&j, "vcpus_max", ncpus);
	flag(&j, "speculation", speculation);
	json_close(&j, '}');
	json_end_line(&j);
	fflush(out);
}

void report_guest(FILE *out, const char *key, uint64_t value)
{
	struct json j = { .out = out };

	json_open(&j, '{');
	hex(&j, key, value);
	json_close(&j, '}');
	json_end_line(&j);
	fflush(out);
}

void report_error(struct reports *r, const char *text)
{
	if (r->to) {
		report_error(r->to, text);
		return;
	}
	r->failed = true;
	json_error(r->out, text);
	fprintf(r->text, "error: %s\n", text);
}

/* A count of the verdict. */
struct count {
	const char *key;
	uint64_t value;
	const char *name;	/* for people; NULL: may be 0 */
};

/* Write what was never seen, or how often each was seen. */
static void counts_text(FILE *out, const struct count *all, size_t n, bool unseen)
{
	const char *before = unseen ? "it did not see " : "";

	for (size_t i = 0; i < n; i++) {
		if (!all[i].name || unseen == (all[i].value != 0))
			continue;
		fputs(before, out);
		before = ", ";
		if (!unseen)
			fprintf(out, "%" PRIu64 " ", all[i].value);
		fputs(all[i].name, out);
	}
}

static void verdict_text(const struct reports *r, const struct known *const *known, bool unseen,
			 const char *seen)
{
	if (r->n)
		fprintf(r->text, "verdict: reports: %u, seen %" PRIu64 " time%s\n", r->n, r->occurrences,
			r->occurrences > 1 ? "s" : "");
	else
		fprintf(r->text, "verdict: %s: %s\n", r->failed ? "failed" : unseen ? "inconclusive" : "passed",
			r->failed ? "see the errors above" : seen);
	for (unsigned int i = 0; i < r->n; i++)
		if (known[i]->count > 1)
			fprintf(r->text, "  report %u, seen %" PRIu64 " times: %s/%s\n", known[i]->number,
				known[i]->count, rules[known[i]->rule].rule, rules[known[i]->rule].kind);
	fflush(r->text);
}

/* Returns the reports in the order of their numbers. */
static const struct known **all_known(const struct reports *r)
{
	const struct known **known = calloc(r->n + 1, sizeof(*known));

	if (!known)
		abort();
	for (size_t i = 0; r->by_key.bucket && i < (size_t)1 << (64 - r->by_key.shift); i++) {
		for (struct hash_node *n = r->by_key.bucket[i]; n; n = n->next) {
			const struct known *k = container_of(n, struct known, node);

			known[k->number - 1] = k;
		}
	}
	return known;
}

void report_verdict(struct reports *r, const struct seen *seen)
{
	const struct count all[] = {
		{ "frees", seen->frees, "frees of pages" },
		{ "table_frees", seen->table_frees, "frees of tables" },
		{ "tlbis", seen->tlbis, "TLBIs" },
		{ "dsbs", seen->dsbs, "DSBs" },
		{ "table_stores", seen->table_stores, "stores to page tables" },
		{ "pending", seen->pending, "entries taken away" },
		{ "loads", seen->loads, "loads of address spaces" },
		{ "user_returns", seen->user_returns, "returns to user space" },
		{ "accesses", seen->accesses, "accesses" },
		{ "left", seen->left, NULL },
		{ "misses", seen->misses, NULL },
		{ "walks", seen->walks, NULL },
		{ "races", seen->races, NULL },
		{ "repointed", seen->repointed, NULL },
		{ "published", seen->published, NULL },
		{ "tlb_over_invalidated", seen->tlb_over_invalidated, NULL },
		{ "tlb_refills", seen->tlb_refills, NULL },
		{ "tlb_refills_unchanged", seen->tlb_refills_unchanged, NULL },
		{ "ranges", seen->ranges, NULL },
		{ "sync_points", seen->sync_points, NULL },
		{ "unlocks", seen->unlocks, NULL },
		{ "cleaned", seen->cleaned, NULL },
		{ "returned", seen->returned, NULL },
		{ "repeats", seen->repeats, NULL },
		{ "memory", seen->memory, NULL },
		{ "physical", seen->physical, NULL },
		{ "guest_entries", seen->guest_entries, seen->guest_entries ? "entries to guests" : NULL },
		{ "guest_tlbis", seen->guest_tlbis, seen->guest_entries ? "TLBIs for guests" : NULL },
		{ "stage2_stores", seen->stage2_stores, seen->guest_entries ? "stores to tables of stage 2" : NULL },
		{ "stage2_pending", seen->stage2_pending,
		  seen->guest_entries ? "entries of stage 2 taken away" : NULL },
	};
	const size_t n = sizeof(all) / sizeof(all[0]);
	const struct known **known = all_known(r);
	struct json j = { .out = r->out };
	bool unseen = false;
	char words[1024];
	FILE *memory = fmemopen(words, sizeof(words), "w");

	if (!memory)
		abort();
	for (size_t i = 0; i < n; i++)
		unseen |= all[i].name && !all[i].value;
	counts_text(memory, all, n, unseen);
	fclose(memory);
	json_open(&j, '{');
	text(&j, "verdict", r->n ? "reports" : unseen ? "inconclusive" : "passed");
	json_field(&j, "reports", r->n);
	json_field(&j, "occurrences", r->occurrences);
	json_key(&j, "unseen");
	json_open(&j, '[');
	for (size_t i = 0; i < n; i++)
		if (all[i].name && !all[i].value)
			json_string(&j, all[i].key);
	json_close(&j, ']');
	text(&j, "text", words);
	json_key(&j, "by");
	json_open(&j, '[');
	for (unsigned int i = 0; i < r->n; i++) {
		json_open(&j, '{');
		json_field(&j, "report", known[i]->number);
		json_field(&j, "count", known[i]->count);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_key(&j, "seen");
	json_open(&j, '{');
	for (size_t i = 0; i < n; i++)
		json_field(&j, all[i].key, all[i].value);
	json_close(&j, '}');
	json_close(&j, '}');
	json_end_line(&j);
	fflush(r->out);
	verdict_text(r, known, unseen, words);
	free(known);
}

static void free_nodes(struct hash *h, size_t offset)
{
	for (size_t i = 0; h->bucket && i < (size_t)1 << (64 - h->shift); i++) {
		while (h->bucket[i]) {
			struct hash_node *n = h->bucket[i];

			h->bucket[i] = n->next;
			free((char *)n - offset);
		}
	}
	free(h->bucket);
}

void reports_free(struct reports *r)
{
	free_nodes(&r->by_key, offsetof(struct known, node));
	free_nodes(&r->stack_nodes, offsetof(struct interned, node));
	free(r->stacks);
}
