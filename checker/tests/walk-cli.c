// SPDX-License-Identifier: GPL-2.0-only
/*
 * walk-cli - for test_walk.py: reads lines in hexadecimal
 *
 *	regime TCR UPPER
 *	change TCR UPPER MAIR LEVEL OLD NEW
 *	walk TCR UPPER TTBR VA [PA VALUE]...
 *
 * LEVEL is one more than the level. Memory is what the walk's line names.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "walk.h"

#define WORDS 16

struct memory {
	unsigned int n;
	uint64_t pa[WORDS], value[WORDS];
};

static bool read_memory(void *memory, uint64_t pa, uint64_t *value)
{
	const struct memory *m = memory;

	for (unsigned int i = 0; i < m->n; i++) {
		if (m->pa[i] == pa) {
			*value = m->value[i];
			return true;
		}
	}
	return false;
}

static void say_regime(const struct regime *r)
{
	printf("%d %d %d %d %d %d %u", r->granule, r->bits, r->start, r->lpa2,
	       r->pa52, r->off, table_entries(r, r->start));
	for (int level = r->start; level <= 3; level++)
		printf(" %u", level_shift(r, level));
	putchar('\n');
}

static void say_change(struct regime *r, const char *rest)
{
	static const char * const kinds[] = { "invalid", "table", "leaf" };
	static const char * const changes[] = { "nothing", "more", "less", "gone", "bbm" };
	uint64_t mair, old, new;
	int level;

	if (sscanf(rest, "%" SCNx64 " %x %" SCNx64 " %" SCNx64, &mair,
		   (unsigned int *)&level, &old, &new) != 4)
		return;
	level--;
	r->mair = &mair;
	printf("%s %" PRIx64 " %s %" PRIx64 " %s\n",
	       kinds[desc_kind(r, level, old)], desc_output(r, level, old),
	       kinds[desc_kind(r, level, new)], desc_output(r, level, new),
	       changes[desc_change(r, level, old, new)]);
}

static void say_walk(const struct regime *r, const char *rest)
{
	struct memory m = { 0 };
	uint64_t ttbr, va;
	struct walk w;
	int used;

	if (sscanf(rest, "%" SCNx64 " %" SCNx64 "%n", &ttbr, &va, &used) != 2)
		return;
	for (rest += used; m.n < WORDS; m.n++, rest += used)
		if (sscanf(rest, "%" SCNx64 " %" SCNx64 "%n", &m.pa[m.n],
			   &m.value[m.n], &used) != 2)
			break;
	walk(r, ttbr_base(r, ttbr), va, read_memory, &m, &w);
	printf("%s %" PRIx64, w.valid ? "valid" : "fault", w.pa);
	for (unsigned int i = 0; i < w.steps; i++)
		printf(" %d:%" PRIx64 ":%" PRIx64, w.step[i].level,
		       w.step[i].desc_pa, w.step[i].desc);
	putchar('\n');
}

int main(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		unsigned int upper;
		struct regime r;
		char what[16];
		uint64_t tcr;
		int used;

		if (sscanf(line, "%15s %" SCNx64 " %x%n", what, &tcr, &upper, &used) != 3)
			return 2;
		if (!regime_of(tcr, upper, &r))
			puts("reserved");
		else if (!strcmp(what, "regime"))
			say_regime(&r);
		else if (!strcmp(what, "change"))
			say_change(&r, line + used);
		else
			say_walk(&r, line + used);
		fflush(stdout);
	}
	return 0;
}
