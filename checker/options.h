/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * options - the plugin's key=value arguments.
 */
#ifndef LULL_OPTIONS_H
#define LULL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Where the instructions are added up; README.md has what each costs. */
enum insns_mode {
	INSNS_SEGMENT,	/* before each one that may fault: exact */
	INSNS_EACH,	/* before each one: exact, slow; to check the first */
	INSNS_BLOCK,	/* where a block starts: too many when it faults */
};

struct options {
	enum insns_mode insns;
	const char *out;	/* points into the arguments */
};

/*
 * Returns false with the reason in error. QEMU keeps the arguments for as
 * long as the plugin lives, so that nothing is copied.
 */
bool options_parse(struct options *o, int argc, char **argv,
		   char *error, size_t size);

#endif
