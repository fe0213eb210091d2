// SPDX-License-Identifier: GPL-2.0-only
/*
 * decode-cli - for test_decode.py: reads lines "WORD [OPERAND]" in hexadecimal
 * and says in a line each what the checker makes of it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "decode.h"

int main(void)
{
	static const char * const domains[] = { "local", "is", "os" };
	static const char * const whats[] = {
		"all", "asid", "va", "vaa", "ipa", "pa",
	};
	static const char * const marks[] = {
		[MARK_FREE] = "free", [MARK_DEAD] = "dead", [MARK_KERNEL_PTE] = "kernel-pte",
		[MARK_LOADED] = "loaded", [MARK_COLLECTED] = "collected", [MARK_PROGRAM] = "program",
	};
	static const char * const registers[] = {
		"ttbr0", "ttbr1", "tcr", "sctlr", "mair", "sp_el0", "vbar", "hcr", "vtcr", "vttbr", "vmpidr",
	};
	char line[128];

	while (fgets(line, sizeof(line), stdin)) {
		uint64_t operand = 0;
		struct insn i;
		uint32_t word;

		if (sscanf(line, "%" SCNx32 " %" SCNx64, &word, &operand) < 1)
			return 2;
		i = decode(word);
		switch (i.kind) {
		case INSN_TLBI:
			printf("tlbi %s %s %s %d %d %d %d %d %s %u %d\n", i.tlbi.name,
			       domains[i.tlbi.domain], whats[i.tlbi.what], i.tlbi.el,
			       i.tlbi.last, i.tlbi.range, i.tlbi.nxs, i.rt,
			       tlbi_class_name(tlbi_class(&i.tlbi, operand)),
			       tlbi_asid(operand), tlbi_has_operand(&i.tlbi));
			break;
		case INSN_DSB:
			printf("dsb %s\n", dsb_name(i.dsb));
			break;
		case INSN_IC:
			puts("ic");
			break;
		case INSN_SGI:
			printf("sgi %d\n", i.rt);
			break;
		case INSN_OPEN:
			puts("open");
			break;
		case INSN_CLOSE:
			puts("close");
			break;
		case INSN_MARK:
			printf("mark %s\n", marks[i.mark]);
			break;
		case INSN_MSR:
			printf("msr %s %d\n", registers[i.reg], i.rt);
			break;
		case INSN_CALL:
			puts("call");
			break;
		case INSN_SYNC:
			puts("sync");
			break;
		case INSN_OTHER:
			printf("other %s%s%s\n", may_leave_block(word) ? "leaves" : "stays",
			       is_unprivileged(word) ? " unprivileged" : "",
			       is_atomic(word) ? " atomic" : "");
			break;
		}
	}
	return 0;
}
