// SPDX-License-Identifier: GPL-2.0-only
/*
 * options - see options.h.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

struct option {
	const char *key;
	const char *values;	/* "a b c": one of these; NULL: any but empty */
};

enum { KEY_MODE, KEY_OUT, KEY_INSNS, KEYS };

static const struct option known[KEYS] = {
	[KEY_MODE]  = { "mode", "count" },
	[KEY_OUT]   = { "out", NULL },
	[KEY_INSNS] = { "insns", "segment each block" },
};

/* Position of value in a list of words, or -1. */
static int word_index(const char *words, const char *value)
{
	size_t n = strlen(value);

	for (int i = 0; *words; i++) {
		size_t len = strcspn(words, " ");

		if (len == n && !memcmp(words, value, n))
			return i;
		words += len;
		words += strspn(words, " ");
	}
	return -1;
}

static int find_key(const char *arg, size_t len)
{
	for (int k = 0; k < KEYS; k++)
		if (strlen(known[k].key) == len &&
		    !memcmp(known[k].key, arg, len))
			return k;
	return -1;
}

bool options_parse(struct options *o, int argc, char **argv,
		   char *error, size_t size)
{
	bool given[KEYS] = { false };

	*o = (struct options){ .insns = INSNS_SEGMENT };
	for (int i = 0; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");
		int key = find_key(argv[i], len);
		const char *value;
		int choice = 0;

		if (key < 0) {
			snprintf(error, size, "unknown option '%.*s' (known: mode out insns)",
				 (int)(len < 64 ? len : 64), argv[i]);
			return false;
		}
		value = argv[i][len] ? argv[i] + len + 1 : "";
		if (known[key].values)
			choice = word_index(known[key].values, value);
		if (!*value || choice < 0) {
			snprintf(error, size, "option %s='%.64s' is not one of: %s",
				 known[key].key, value,
				 known[key].values ?: "a file name");
			return false;
		}
		if (given[key]) {
			snprintf(error, size, "option %s is given twice", known[key].key);
			return false;
		}
		given[key] = true;
		if (key == KEY_OUT)
			o->out = value;
		else if (key == KEY_INSNS)
			o->insns = choice;
	}
	if (!o->out) {
		snprintf(error, size, "option out=FILE is missing: where to write the counts");
		return false;
	}
	return true;
}
