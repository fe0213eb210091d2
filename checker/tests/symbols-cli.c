// SPDX-License-Identifier: GPL-2.0-only
/*
 * symbols-cli - for test_symbols.py: reads the file of symbols FILE, to which the guest's
 * addresses are SLIDE above. Each line of the input is a question:
 *
 *	at ADDRESS	what is there
 *	call ADDRESS	what called and returns there
 *	find NAME	its address in the file
 *	hook ADDRESS	whether the checker follows the function that begins there
 *	caller PC,LR	the caller of the function at PC, if no frame but LR tells it
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linux.h"
#include "symbols.h"

int main(int argc, char **argv)
{
	char error[256], line[256], what[8], text[SYMBOL_TEXT];
	uint64_t pc, lr;
	struct stack stack;
	static struct linux_guest guest;
	static struct shadow shadow;
	static struct cpu cpu;
	struct symbols s;

	if (argc != 3)
		return 2;
	if (!symbols_read(&s, argv[1], error, sizeof(error)) ||
	    !linux_init(&guest, &shadow, argv[1], error, sizeof(error))) {
		puts(error);
		return 1;
	}
	guest.symbols.slide = s.slide = strtoull(argv[2], NULL, 16);
	cpu.upper.bits = 48;
	shadow.cpus = &cpu;
	while (fgets(line, sizeof(line), stdin)) {
		char word[200];

		if (sscanf(line, "%7s %199s", what, word) != 2)
			return 2;
		if (!strcmp(what, "find")) {
			printf("%" PRIx64 "\n", symbols_find(&s, word));
			continue;
		}
		if (!strcmp(what, "hook")) {
			puts(linux_hook_at(&guest, strtoull(word, NULL, 16)) < 0 ? "no" : "yes");
			continue;
		}
		if (sscanf(word, "%" SCNx64 ",%" SCNx64, &pc, &lr) == 2) {
			linux_stack(&guest, 0, pc, 0, lr, &stack);
			symbols_describe(&s, stack.pc[stack.n - 1], true, text);
			puts(stack.n == 2 ? text : "none");
			continue;
		}
		symbols_describe(&s, strtoull(word, NULL, 16), !strcmp(what, "call"), text);
		puts(text);
	}
	symbols_free(&guest.symbols);
	symbols_free(&s);
	return 0;
}
