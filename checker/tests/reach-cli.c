// SPDX-License-Identifier: GPL-2.0-only
/*
 * reach-cli - for test_reach.py: reads lines
 *
 *	WORD OPERAND TCR LOWER UPPER [VA SIZE ASID GLOBAL TABLE LEVEL]
 *
 * in hexadecimal: a TLBI, TCR_EL1 and whether each half has a regime, and a
 * cached entry. Says what the TLBI reaches and whether it covers the entry.
 */
#include <inttypes.h>
#include <stdio.h>

#include "decode.h"
#include "reach.h"

int main(void)
{
	static const char * const covers[] = {
		"yes", "asid", "va", "last", "level", "nothing",
	};
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		unsigned int has_lower, has_upper, asid, global, table, level;
		struct regime lower, upper;
		uint64_t operand, tcr;
		struct reach reach;
		struct cached c;
		struct insn insn;
		uint32_t word;
		int n;

		n = sscanf(line, "%" SCNx32 " %" SCNx64 " %" SCNx64 " %x %x %" SCNx64 " %" SCNx64 " %x %x %x %x",
			   &word, &operand, &tcr, &has_lower, &has_upper,
			   &c.va, &c.size, &asid, &global, &table, &level);
		insn = decode(word);
		if ((n != 5 && n != 11) || insn.kind != INSN_TLBI)
			return 2;
		has_lower &= regime_of(tcr, false, &lower);
		has_upper &= regime_of(tcr, true, &upper);
		if (!reach_of(&insn.tlbi, operand, has_lower ? &lower : NULL,
			      has_upper ? &upper : NULL, &reach)) {
			puts("none");
		} else {
			printf("%d %d %d %d %d %" PRIx64 " %" PRIx64 " %d %d %d",
			       reach.local, reach.any_asid, reach.asid, reach.every_va,
			       reach.upper, reach.start, reach.end, reach.last,
			       reach.level, reach.nothing);
			if (n == 11) {
				c.asid = asid;
				c.global = global;
				c.table = table;
				c.level = (int)level;
				printf(" %s", covers[reach_covers(&reach, &c)]);
			}
			putchar('\n');
		}
		fflush(stdout);
	}
	return 0;
}
