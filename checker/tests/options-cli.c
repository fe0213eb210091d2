// SPDX-License-Identifier: GPL-2.0-only
/*
 * options-cli - for test_options.py: reads a line of arguments in
 * hexadecimal, a word each ("-": an empty one), and says what they mean, or
 * "refused" and why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define ARGS 64

/* In memory of exactly its size, so that the sanitizer sees a step too far. */
static char *from_hex(const char *hex)
{
	size_t n = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
	char *s = calloc(1, n + 1);

	for (size_t i = 0; i < n; i++)
		sscanf(hex + 2 * i, "%2hhx", (unsigned char *)&s[i]);
	return s;
}

static void put_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", (unsigned char)s[i]);
}

static void answer(int argc, char **argv)
{
	struct options o;
	char error[256] = "";

	if (!options_parse(&o, argc, argv, error, sizeof(error))) {
		printf("refused ");
		put_hex(error, strlen(error));
		putchar('\n');
		return;
	}
	printf("%s %d %s %d ", o.mode == MODE_CHECK ? "check" : "count",
	       o.insns, o.speculation ? "on" : "off", o.ntlbpa);
	if (o.out)
		put_hex(o.out, strlen(o.out));
	else
		putchar('-');
	for (unsigned int i = 0; i < o.nskips; i++)
		printf(" %" PRIx64 "-%" PRIx64, o.skips[i].start, o.skips[i].end);
	if (o.timed)
		printf(" %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64, o.costs.insn, o.costs.tlbi,
		       o.costs.broadcast, o.costs.latency, o.costs.dsb);
	printf(" quantum=%" PRIu64, o.quantum);
	if (o.functions) {
		printf(" functions=");
		put_hex(o.functions, strlen(o.functions));
	}
	if (o.symbols) {
		printf(" symbols=");
		put_hex(o.symbols, strlen(o.symbols));
	}
	if (o.cover) {
		printf(" cover=");
		put_hex(o.cover, strlen(o.cover));
	}
	putchar('\n');
}

int main(void)
{
	static char line[1 << 16];

	while (fgets(line, sizeof(line), stdin)) {
		char *argv[ARGS];
		int argc = 0;

		for (char *w = strtok(line, " \n"); w && argc < ARGS; w = strtok(NULL, " \n"))
			argv[argc++] = from_hex(w);
		answer(argc, argv);
		for (int i = 0; i < argc; i++)
			free(argv[i]);
		fflush(stdout);
	}
	return 0;
}
