// SPDX-License-Identifier: GPL-2.0-only
/*
 * unit - tests of the checker's pure modules. Each prints its name when it
 * held; the first that does not ends the program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count.h"
#include "cover.h"
#include "filter.h"
#include "json.h"
#include "options.h"
#include "version.h"
#include "walk.h"

#define CHECK(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, \
			__LINE__, __func__, #cond); \
		exit(1); \
	} \
} while (0)

#define CHECK_STR(got, want) do { \
	const char *g = (got), *w = (want); \
	if (strcmp(g, w)) { \
		fprintf(stderr, "%s:%d: %s:\n got  %s\n want %s\n", __FILE__, \
			__LINE__, __func__, g, w); \
		exit(1); \
	} \
} while (0)

/* A stream into memory, to look at what was written. */
static char *text;
static size_t length;

static FILE *record(void)
{
	return open_memstream(&text, &length);
}

static void forget(FILE *f)
{
	fclose(f);
	free(text);
}

static void test_json(void)
{
	FILE *f = record();
	struct json j = { .out = f };

	json_open(&j, '{');
	json_field(&j, "a", UINT64_MAX);
	json_key(&j, "b");
	json_open(&j, '[');
	json_u64(&j, 0);
	json_open(&j, '{');
	json_close(&j, '}');
	json_close(&j, ']');
	json_key(&j, "c");
	json_string(&j, "q\"b\\n\n\x1f");
	json_close(&j, '}');
	json_end_line(&j);
	json_open(&j, '[');
	json_close(&j, ']');
	json_end_line(&j);
	fflush(f);
	CHECK_STR(text, "{\"a\":18446744073709551615,\"b\":[0,{}],"
		  "\"c\":\"q\\\"b\\\\n\\u000a\\u001f\"}\n[]\n");
	forget(f);
}

#define ARGS(...) ((char *[]){ __VA_ARGS__ }), \
		  (int)(sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *))

static bool parse(struct options *o, char **argv, int argc, char *error)
{
	error[0] = 0;
	return options_parse(o, argc, argv, error, 256);
}

static void test_options_good(void)
{
	struct options o;
	char e[256];

	CHECK(parse(&o, ARGS("out=x"), e));
	CHECK_STR(o.out, "x");
	CHECK(o.insns == INSNS_SEGMENT);
	CHECK(parse(&o, ARGS("mode=count", "out=a=b", "insns=block"), e));
	CHECK_STR(o.out, "a=b");
	CHECK(o.insns == INSNS_BLOCK);
	CHECK(parse(&o, ARGS("insns=each", "out=x"), e));
	CHECK(o.insns == INSNS_EACH);
	CHECK(parse(&o, ARGS("insns=segment", "out=x"), e));
	CHECK(o.insns == INSNS_SEGMENT);
	CHECK(o.mode == MODE_COUNT);
}

static void test_options_check(void)
{
	struct options o;
	char e[256];

	CHECK(parse(&o, ARGS("mode=check"), e));
	CHECK(o.mode == MODE_CHECK && !o.out && o.speculation && !o.symbols);
	CHECK(parse(&o, ARGS("mode=check", "out=x", "speculation=off", "symbols=System.map"), e));
	CHECK(!o.speculation && !strcmp(o.symbols, "System.map"));
	CHECK(parse(&o, ARGS("mode=check", "out=x", "speculation=on"), e));
	CHECK(o.speculation);
}

static void test_options_check_bad(void)
{
	struct options o;
	char e[256];

	CHECK(!parse(&o, ARGS("out=x", "insns=each", "mode=check"), e));
	CHECK_STR(e, "option insns is for mode=count only");
	CHECK(!parse(&o, ARGS("out=x", "mode=count", "speculation=on"), e));
	CHECK_STR(e, "option speculation is for mode=check only");
	CHECK(!parse(&o, ARGS("out=x", "symbols=a"), e));
	CHECK_STR(e, "option symbols is for mode=check only");
	CHECK(!parse(&o, ARGS("speculation=maybe"), e));
	CHECK_STR(e, "option speculation='maybe' is not one of: on off");
	CHECK(!parse(&o, ARGS("symbols="), e));
	CHECK_STR(e, "option symbols='' is not a file name");
}

static void test_options_skip(void)
{
	struct options o;
	char e[256];

	CHECK(parse(&o, ARGS("out=x"), e));
	CHECK(!options_skips(&o, 0));
	CHECK(parse(&o, ARGS("out=x", "skip=ffff800080012340-ffff800080012350", "skip=0x10-0X14"), e));
	CHECK(o.nskips == 2);
	CHECK(!options_skips(&o, 0xffff80008001233c) && options_skips(&o, 0xffff800080012340));
	CHECK(options_skips(&o, 0xffff80008001234c) && !options_skips(&o, 0xffff800080012350));
	CHECK(!options_skips(&o, 0xf) && options_skips(&o, 0x10) && !options_skips(&o, 0x14));
	CHECK(!parse(&o, ARGS("out=x", "mode=check", "skip=1-2"), e));
	CHECK_STR(e, "option skip is for mode=count only");
	for (const char *const *bad = (const char *const[]){
		     "skip=", "skip=1", "skip=1-", "skip=-1", "skip=-", "skip=2-2", "skip=2-1", "skip=1-2-3",
		     "skip=0x-1", "skip=1-0x", "skip=g-h", "skip=1- 2", "skip=1-10000000000000000", NULL }; *bad; bad++) {
		char want[256];

		CHECK(!parse(&o, ARGS("out=x", (char *)*bad), e));
		snprintf(want, sizeof(want), "option skip='%s' is not HEXSTART-HEXEND", *bad + 5);
		CHECK_STR(e, want);
	}
}

/* As many as there is room for, and one more. */
static void test_options_skips(void)
{
	char *argv[OPTIONS_SKIPS + 2];
	struct options o;
	char e[256];

	for (int i = 0; i < OPTIONS_SKIPS + 1; i++)
		argv[i] = "skip=1-2";
	argv[OPTIONS_SKIPS + 1] = "out=x";
	CHECK(!parse(&o, argv, OPTIONS_SKIPS + 2, e));
	CHECK_STR(e, "option skip='1-2' is one too many: at most 16 are possible");
	CHECK(parse(&o, argv + 1, OPTIONS_SKIPS + 1, e));
	CHECK(o.nskips == OPTIONS_SKIPS);
}

static void test_options_bad(void)
{
	struct options o;
	char e[256];

	CHECK(!options_parse(&o, 0, NULL, e, sizeof(e)));
	CHECK_STR(e, "option out=FILE is missing: where to write the counts");
	CHECK(!parse(&o, ARGS("out=x", "modes=count"), e));
	CHECK_STR(e, "unknown option 'modes' (known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)");
	CHECK(!parse(&o, ARGS("out=x", "mod=count"), e));
	CHECK_STR(e, "unknown option 'mod' (known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)");
	CHECK(!parse(&o, ARGS("=x"), e));
	CHECK_STR(e, "unknown option '' (known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)");
	CHECK(!parse(&o, ARGS("out=x", "mode=chec"), e));
	CHECK_STR(e, "option mode='chec' is not one of: count check");
	CHECK(!parse(&o, ARGS("out=x", "insns=seg"), e));
	CHECK_STR(e, "option insns='seg' is not one of: segment each block");
	CHECK(!parse(&o, ARGS("out=x", "insns=segment each"), e));
	CHECK(!parse(&o, ARGS("out=x", "insns="), e));
	CHECK(!parse(&o, ARGS("out="), e));
	CHECK_STR(e, "option out='' is not a file name");
	CHECK(!parse(&o, ARGS("out"), e));
	CHECK(!parse(&o, ARGS("out=x", "out=y"), e));
	CHECK_STR(e, "option out is given twice");
}

/* Whatever comes, it is refused with a reason or understood; never worse. */
static void test_options_fuzz(void)
{
	static const char *const pieces[] = {
		"out", "mode", "insns", "=", "==", "count", "each", " ", "",
		"x", "\xff\x01", "%s%n", ",", "segment each", "check",
		"speculation=", "on", "off", "hook=", "a@", "0x", "ffff", "skip=", "-",
	};
	unsigned int refused = 0, taken = 0;

	srand(1);
	for (int round = 0; round < 20000; round++) {
		char args[4][600] = { "" };
		char *argv[4], e[256];
		int argc = rand() % 5;
		struct options o;

		for (int i = 0; i < argc; i++) {
			int n = rand() % 5;

			if (rand() % 50 == 0)
				memset(args[i], 'a', 500);
			for (int k = 0; k < n; k++)
				strcat(args[i], pieces[rand() % (sizeof(pieces) / sizeof(*pieces))]);
			if (rand() % 3 == 0)
				strcpy(args[i], rand() % 3 ? "out=f" : "mode=check");
			argv[i] = args[i];
		}
		if (parse(&o, argv, argc, e)) {
			CHECK(o.out ? *o.out : o.mode == MODE_CHECK);
			taken++;
		} else {
			CHECK(e[0] && strlen(e) < sizeof(e));
			refused++;
		}
	}
	CHECK(taken > 100 && refused > 100);
}

/* Words from the assembler: tlbi vale1is x1, aside1is x1, rvae1 x1, vmalle1 */
#define VALE1IS		0xd50883a1
#define ASIDE1IS	0xd5088341
#define RVAE1		0xd5088621
#define VMALLE1		0xd508871f
#define DSB_ISH_W	0xd5033b9f
#define DSB_ISHST_W	0xd5033a9f
#define SGI		0xd518cba0

/* Of a vCPU that is in no guest. */
static const struct issuer_state no_guest;

static void event(struct counts *c, unsigned int cpu, uint32_t word, uint64_t operand)
{
	struct insn insn = decode(word);

	CHECK(insn.kind != INSN_OTHER);
	count_event(c, cpu, &insn, operand, &(struct issuer){ 0 });
}

static void test_count_window(void)
{
	FILE *f = record();
	struct counts c;

	CHECK(count_init(&c, 2));
	/* before the window: must not be in it, must be in the whole run */
	event(&c, 0, VALE1IS, 1);
	event(&c, 1, SGI, 0);
	count_set_insns(&c, 0, 100, 30, 10);
	count_set_insns(&c, 1, 50, 9, 5);
	count_open(&c, 1, &no_guest, 3001, f);
	event(&c, 0, VALE1IS, 1);
	event(&c, 0, VALE1IS, 1ULL << 43);
	event(&c, 0, VALE1IS, 1ULL << 43);
	event(&c, 1, ASIDE1IS, 0);
	event(&c, 1, RVAE1, 0);
	event(&c, 1, RVAE1, 1ULL << 36);
	event(&c, 1, VMALLE1, 0);
	event(&c, 0, DSB_ISH_W, 0);
	event(&c, 0, DSB_ISH_W, 0);
	event(&c, 1, DSB_ISHST_W, 0);
	event(&c, 1, SGI, 0);
	count_set_insns(&c, 0, 160, 70, 17);
	count_set_insns(&c, 1, 52, 10, 6);
	count_close(&c, 3001, f);
	fflush(f);
	CHECK_STR(text,
		"{\"window\":3001,\"seq\":1,\"cpus\":["
		"{\"cpu\":0,\"insns\":60,\"insns_spin\":40,\"atomics\":7,\"tlbi\":{\"vale1is/user\":1,\"vale1is/kernel\":2},"
		"\"dsb\":{\"ish\":2},\"ipi\":0,\"ipi_all\":0,\"ic_broadcast\":0},"
		"{\"cpu\":1,\"insns\":2,\"insns_spin\":1,\"atomics\":1,\"tlbi\":{\"vmalle1/all\":1,\"aside1is/user\":1,"
		"\"rvae1/user\":1,\"rvae1/kernel\":1},\"dsb\":{\"ishst\":1},\"ipi\":1,\"ipi_all\":0,\"ic_broadcast\":0}],"
		"\"total\":{\"insns\":62,\"insns_own\":2,\"insns_spin\":41,\"insns_spin_own\":1,\"atomics\":8,\"atomics_own\":1,\"waits_own\":0,"
		"\"tlbi_broadcast\":4,\"tlbi_local\":3,\"tlbi_range\":2,\"tlbi_asid\":1,"
		"\"tlbi_user\":3,\"tlbi_broadcast_user\":2,\"tlbi_local_user\":1,"
		"\"tlbi_kernel\":3,\"tlbi_broadcast_kernel\":2,\"tlbi_local_kernel\":1,"
		"\"tlbi_all\":1,\"tlbi_broadcast_all\":0,\"tlbi_local_all\":1,"
		"\"tlbi_other\":0,\"tlbi_broadcast_other\":0,\"tlbi_local_other\":0,"
		"\"dsb_oshld\":0,\"dsb_oshst\":0,\"dsb_osh\":0,"
		"\"dsb_nshld\":0,\"dsb_nshst\":0,\"dsb_nsh\":0,"
		"\"dsb_ishld\":0,\"dsb_ishst\":1,\"dsb_ish\":2,"
		"\"dsb_ld\":0,\"dsb_st\":0,\"dsb_sy\":0,"
		"\"dsb_oshnxs\":0,\"dsb_nshnxs\":0,\"dsb_ishnxs\":0,\"dsb_synxs\":0,"
		"\"ipi\":1,\"ipi_all\":0,\"ic_broadcast\":0}}\n");
	forget(f);

	f = record();
	count_write_run(&c, f);
	fflush(f);
	CHECK(strstr(text, "{\"window\":\"whole-run\",\"seq\":2,") == text);
	CHECK(strstr(text, "\"cpu\":0,\"insns\":160,\"insns_spin\":70,\"atomics\":17,\"tlbi\":{\"vale1is/user\":2,\"vale1is/kernel\":2}"));
	CHECK(strstr(text, "\"total\":{\"insns\":212,\"insns_own\":0,\"insns_spin\":80,\"insns_spin_own\":0,\"atomics\":23,\"atomics_own\":0,\"waits_own\":0,\"tlbi_broadcast\":5,"));
	CHECK(strstr(text, "\"ipi\":2,\"ipi_all\":0,\"ic_broadcast\":0}}\n"));
	CHECK(!strstr(text, "error"));
	forget(f);
	count_free(&c);
}

/* Those of the vCPU that opened the window, without what it had before; functions that did not run are left out. */
static void test_count_functions(void)
{
	uint64_t counters[5] = { 7, 7, 7, 7, 7 };
	FILE *f = record();
	struct counts c;

	CHECK(count_init(&c, 2));
	c.functions.starts = calloc(4, sizeof(uint64_t));
	c.functions.opened = calloc(5, sizeof(uint64_t));
	c.functions.counters = 5;
	for (int i = 0; i < 4; i++)
		c.functions.starts[i] = 0x1000 + 0x10 * i;
	CHECK(functions_find(&c.functions, 0) == 0);
	CHECK(functions_find(&c.functions, 0xffc) == 0);
	CHECK(functions_find(&c.functions, 0x1000) == 1);
	CHECK(functions_find(&c.functions, 0x100c) == 1);
	CHECK(functions_find(&c.functions, 0x1010) == 2);
	CHECK(functions_find(&c.functions, 0x102c) == 3);
	CHECK(functions_find(&c.functions, 0x1030) == 4);
	CHECK(functions_find(&c.functions, UINT64_MAX) == 4);
	CHECK(count_open(&c, 1, &no_guest, 3001, f));
	functions_open(&c.functions, counters);
	counters[0] += 3;
	counters[4] += UINT32_MAX;
	count_set_functions(&c, counters);
	count_close(&c, 3001, f);
	count_write_run(&c, f);
	fflush(f);
	CHECK(strstr(text, "\"ipi\":0,\"ipi_all\":0,\"ic_broadcast\":0},\"functions\":[[0,3],[4,4294967295]]}\n{\"window\":\"whole-run\""));
	CHECK(strstr(text, "functions") == strrchr(text, 'f'));
	forget(f);
	count_free(&c);
}

/* A wrong marker is reported, and the window that is open stays whole. */
/* Only a window with modelled time says so, before all else. */
static void test_count_time(void)
{
	FILE *f = record();
	struct counts c;

	CHECK(count_init(&c, 1));
	count_open(&c, 0, &no_guest, 1, f);
	count_close(&c, 1, f);
	fflush(f);
	CHECK(!strstr(text, "modelled_ns"));
	count_open(&c, 0, &no_guest, 2, f);
	count_set_time(&c, 1234, 5);
	count_close(&c, 2, f);
	fflush(f);
	CHECK(strstr(text, "{\"window\":2,\"modelled_ns\":1234,\"insns_astray\":5,\"seq\":2,"));
	forget(f);
	count_free(&c);
}

static void test_count_errors(void)
{
	FILE *f = record();
	struct counts c;

	CHECK(count_init(&c, 1));
	count_close(&c, 5, f);
	count_open(&c, 0, &no_guest, 6, f);
	event(&c, 0, VMALLE1, 0);
	count_open(&c, 0, &no_guest, 7, f);
	event(&c, 0, VMALLE1, 0);
	count_close(&c, 7, f);
	event(&c, 0, VMALLE1, 0);
	fflush(f);
	CHECK_STR(text,
		"{\"error\":\"window 5 was to close and none is open\"}\n"
		"{\"error\":\"window 7 was to open while 6 is open\"}\n"
		"{\"error\":\"window 7 was to close while 6 is open\"}\n");
	forget(f);

	f = record();
	count_close(&c, 6, f);
	fflush(f);
	CHECK(strstr(text, "{\"window\":6,\"seq\":1,\"cpus\":[{\"cpu\":0,\"insns\":0,\"insns_spin\":0,\"atomics\":0,\"tlbi\":{\"vmalle1/all\":3}"));
	forget(f);

	f = record();
	count_open(&c, 0, &no_guest, UINT64_MAX, f);
	count_write_run(&c, f);
	fflush(f);
	CHECK(strstr(text, "{\"error\":\"window 18446744073709551615 is still open at exit\"}\n{\"window\":\"whole-run\"") == text);
	forget(f);
	count_free(&c);
}

static void test_count_header(void)
{
	FILE *f = record();
	struct counts c;

	CHECK(count_init(&c, 8));
	count_write_header(&c, 4, f);
	fflush(f);
	CHECK_STR(text, "{\"plugin\":\"lull\",\"version\":\"" LULL_VERSION "\",\"mode\":\"count\",\"api\":4,\"vcpus_max\":8}\n");
	forget(f);
	count_free(&c);
}

/* Every form there is can be counted, and is found in exactly one total. */
static void test_count_every_form(void)
{
	struct counts c;
	unsigned int forms = 0;
	uint64_t range = 0, local = 0, asid = 0;
	char want[256];
	FILE *f;

	CHECK(count_init(&c, 1));
	for (uint32_t op1 = 0; op1 < 8; op1++)
		for (uint32_t low = 0x8000; low < 0xa000; low += 32) {
			struct insn insn = decode(0xd5080000 | op1 << 16 | low | 3);

			if (insn.kind != INSN_TLBI)
				continue;
			CHECK(insn.rt == 3);
			CHECK(insn.tlbi.index < TLBI_FORMS);
			count_event(&c, 0, &insn, 0, &(struct issuer){ 0 });
			forms++;
			range += insn.tlbi.range;
			local += insn.tlbi.domain == DOMAIN_LOCAL;
			asid += insn.tlbi.what == TLBI_ASID;
		}
	CHECK(forms == TLBI_FORMS - 4);		/* RME's four have no nXS form */
	f = record();
	count_write_run(&c, f);
	fflush(f);
	snprintf(want, sizeof(want), "\"tlbi_broadcast\":%" PRIu64 ",\"tlbi_local\":%" PRIu64
		 ",\"tlbi_range\":%" PRIu64 ",\"tlbi_asid\":%" PRIu64 ",", forms - local, local, range, asid);
	CHECK(strstr(text, want));
	for (unsigned int i = 0; i < TLBI_FORMS; i++) {
		struct tlbi form;

		if (!tlbi_form(i, &form))
			continue;
		snprintf(want, sizeof(want), "\"%s/%s\":1", form.name,
			 tlbi_class_name(tlbi_class(&form, 0)));
		CHECK(strstr(text, want));
	}
	forget(f);
	count_free(&c);
}

/* How many bytes were reached in each half. */
static unsigned int reached(const struct coverage *c, unsigned int half)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < COVER_HALF; i++)
		n += c->reached[half * COVER_HALF + i];
	return n;
}

static void test_cover(void)
{
	char file[] = "/tmp/lull-unit-XXXXXX", error[256] = "";
	struct context context = { .loaded = CPU(1) };
	struct pending inv = { .context = &context, .old = 0x60000040000fc3, .what.level = 3 };
	struct stack here = { .n = 2, .pc = { 0x1000, 0x2000 } }, there = { .n = 2, .pc = { 0x1000, 0x3000 } };
	struct coverage *c;

	CHECK(!cover_open("/nowhere/file", error, sizeof(error)));
	CHECK_STR(error, "/nowhere/file: No such file or directory");
	close(mkstemp(file));
	c = cover_open(file, error, sizeof(error));
	CHECK(c && !c->ended && !c->reports && !reached(c, 0) && !reached(c, 1));

	for (uint64_t pc = 0; pc < 4096; pc += 4)
		*cover_block(c, 0xffff800080000000 + pc) = 1;
	CHECK(reached(c, 0) > 900 && reached(c, 0) <= 1024 && !reached(c, 1));

	cover_pending(c, &inv, &here);
	cover_pending(c, &inv, &here);
	inv.old += 0x1000;		/* another page: the same thing */
	cover_pending(c, &inv, &here);
	CHECK(reached(c, 1) == 1);
	cover_pending(c, &inv, &there);	/* another way to the same code */
	inv.held = CPU(1);		/* another CPU has it */
	cover_pending(c, &inv, &here);
	context.loaded = 0;		/* and has not the address space loaded */
	cover_pending(c, &inv, &here);
	inv.old |= 1ull << 52;		/* contiguous */
	cover_pending(c, &inv, &here);
	CHECK(reached(c, 1) == 5);

	cover_report(c, 2);
	cover_report(c, 2);
	cover_report(NULL, 1);
	CHECK(c->reports == 2 && c->occurrences[1] == 2 && !c->occurrences[0]);
	unlink(file);
}

static void test_filter(void)
{
	static struct filter f;
	const struct scope all = { .every_va = true, .any_asid = true };
	const struct scope one = { .asid = 7, .start = 0x5000, .end = 0x7000 };
	uint64_t tag, late, page;

	filter_init(&f);
	CHECK(!filter_has(&f, USE_DATA, 0) && !filter_kernel(&f, 0, &tag, &page));
	for (int i = 0; i < 5000; i++) {	/* more than there are generations */
		CHECK(!filter_has(&f, USE_DATA, 0x5abc) && !filter_has(&f, USE_STORE, 0x4000));
		CHECK(!filter_kernel(&f, 0xffff000000005000, &tag, &page));
		if (!(i % 4999)) {
			filter_add(&f, USE_DATA, 0x5123);
			filter_add(&f, USE_DATA, 0x6000);
			filter_add(&f, USE_STORE, 0x4000);
			filter_add_kernel(&f, tag, 0x40000000);
			CHECK(filter_kernel(&f, 0xffff000000005fff, &late, &page) && page == 0x40000000);
			CHECK(filter_has(&f, USE_DATA, 0x5abc) && !filter_has(&f, USE_STORE, 0x5abc));
			CHECK(!filter_has(&f, USE_DATA, 0x7000) && !filter_has(&f, USE_DATA, 0x805000));
			filter_forget(&f, 8, &one);
			CHECK(filter_has(&f, USE_DATA, 0x5000));
			filter_forget(&f, 7, &one);
			CHECK(!filter_has(&f, USE_DATA, 0x5000) && !filter_has(&f, USE_DATA, 0x6000));
			CHECK(filter_has(&f, USE_STORE, 0x4000));
			filter_add(&f, USE_DATA, 0x5000);
		}
		filter_forget(&f, 7, &all);
	}
	/* Looked up before the filter forgot, and added after it: not taken. */
	filter_kernel(&f, 0xffff000000005000, &tag, &page);
	filter_forget(&f, -1, &all);
	filter_add_kernel(&f, tag, 0x40000000);
	CHECK(!filter_kernel(&f, 0xffff000000005000, &tag, &page));
}

/* VTCR_EL2 as KVM writes it: of each page size, and with roots of several tables. */
static void test_stage2_regimes(void)
{
	static const struct {
		uint64_t vtcr;
		unsigned int granule, bits, entries;
		int start;
	} good[] = {
		{ 25 | 1 << 6, 12, 39, 512, 1 },
		{ 24 | 1 << 6, 12, 40, 1024, 1 },
		{ 21 | 1 << 6, 12, 43, 8192, 1 },
		{ 16 | 2 << 6, 12, 48, 512, 0 },
		{ 12 | 1ull << 33 | 1ull << 32, 12, 52, 16, -1 },
		{ 24 | 1 << 6 | 2 << 14, 14, 40, 32768, 2 },
		{ 16 | 2 << 6 | 2 << 14, 14, 48, 4096, 1 },
		{ 24 | 1 << 6 | 1 << 14, 16, 40, 2048, 2 },
		{ 12 | 2 << 6 | 1 << 14 | 6 << 16, 16, 52, 1024, 1 },
	};
	static const uint64_t bad[] = {
		16,				/* 2^27 descriptors at level 2 */
		20 | 1 << 6,			/* 32 tables */
		25 | 1 << 6 | 3 << 14,		/* no page size */
		0,
	};
	struct regime r;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(regime_of_stage2(good[i].vtcr, &r));
		CHECK(r.stage2 && !r.upper && !r.off);
		CHECK(r.granule == good[i].granule && r.bits == good[i].bits && r.start == good[i].start);
		CHECK(table_entries(&r, r.start) == good[i].entries);
		CHECK(r.pa52 == (r.granule == 16 && r.bits == 52));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!regime_of_stage2(bad[i], &r));
	CHECK(regime_of_stage2(24 | 1 << 6, &r));
	CHECK(ttbr_base(&r, 5ull << 48 | 0x40007001) == 0x40006000);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = {
#define TEST(name) { #name, test_##name }
		TEST(json),
		TEST(options_good),
		TEST(options_check),
		TEST(options_check_bad),
		TEST(options_skip),
		TEST(options_skips),
		TEST(options_bad),
		TEST(options_fuzz),
		TEST(count_window),
		TEST(count_functions),
		TEST(count_time),
		TEST(count_errors),
		TEST(count_header),
		TEST(count_every_form),
		TEST(cover),
		TEST(filter),
		TEST(stage2_regimes),
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].test();
		printf("ok %s\n", tests[i].name);
	}
	return 0;
}
