// SPDX-License-Identifier: GPL-2.0-only
/*
 * scope-cli - for test_scope.py: reads lines
 *
 *	WORD OPERAND TCR LOWER UPPER [VA SIZE ASID GLOBAL TABLE LEVEL]
 *
 * in hexadecimal: a TLBI, TCR_EL1 and whether each half has a regime, and a
 * cached entry. Says what the TLBI reaches and whether it covers the entry.
 */
#include <inttypes.h>
#include <stdio.h>

#include "decode.h"
#include "scope.h"

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
		struct scope scope;
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
		if (!scope_of(&insn.tlbi, operand, has_lower ? &lower : NULL,
			      has_upper ? &upper : NULL, &scope)) {
			puts("none");
		} else {
			printf("%d %d %d %d %d %" PRIx64 " %" PRIx64 " %d %d %d",
			       scope.local, scope.any_asid, scope.asid, scope.every_va,
			       scope.upper, scope.start, scope.end, scope.last,
			       scope.level, scope.nothing);
			if (n == 11) {
				c.asid = asid;
				c.global = global;
				c.table = table;
				c.level = (int)level;
				printf(" %s", covers[scope_covers(&scope, &c)]);
			}
			putchar('\n');
		}
		fflush(stdout);
	}
	return 0;
}
