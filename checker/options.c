// SPDX-License-Identifier: GPL-2.0-only
/*
 * options - see options.h.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

enum { KEY_MODE, KEY_OUT, KEY_INSNS, KEY_RAM, KEY_SPECULATION, KEY_HOOK, KEYS };

/* Of which mode an option is. */
enum { ANY_MODE = -1 };

static const struct option {
	const char *key;
	const char *values;	/* "a b c": one of these; NULL: not a list of words */
	const char *wanted;	/* what it is when it is no list */
	int mode;
	bool repeated;
} known[KEYS] = {
	[KEY_MODE] = { .key = "mode", .values = "count check", .mode = ANY_MODE },
	[KEY_OUT] = { .key = "out", .wanted = "a file name", .mode = ANY_MODE },
	[KEY_INSNS] = { .key = "insns", .values = "segment each block", .mode = MODE_COUNT },
	[KEY_RAM] = { .key = "ram", .wanted = "a number of bytes, decimal, a multiple of 4096",
		      .mode = MODE_CHECK },
	[KEY_SPECULATION] = { .key = "speculation", .values = "on off", .mode = MODE_CHECK },
	[KEY_HOOK] = { .key = "hook", .wanted = "NAME@HEXADDRESS", .mode = MODE_CHECK,
		       .repeated = true },
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

/* All of text, and no more than 64 bits; strtoull() takes signs and spaces too. */
static bool number(const char *text, unsigned int base, uint64_t *value)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";

	if (!*text)
		return false;
	for (*value = 0; *text; text++) {
		const char *at = strchr(digits, *text);
		unsigned int digit = at ? (at - digits) % 16 : 16;

		if (digit >= base || __builtin_mul_overflow(*value, base, value) ||
		    __builtin_add_overflow(*value, digit, value))
			return false;
	}
	return true;
}

static bool parse_ram(struct options *o, const char *value)
{
	return number(value, 10, &o->ram) && o->ram && !(o->ram & 0xfff);
}

/* Names are ours to look up, so that any is taken that a symbol can have. */
static bool parse_hook(struct options *o, const char *value)
{
	struct hook *h = &o->hooks[o->nhooks];
	const char *at = strchr(value, '@');

	if (!at || at == value)
		return false;
	h->name = value;
	h->len = at - value;
	at++;
	if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	if (!number(at, 16, &h->addr))
		return false;
	o->nhooks++;
	return true;
}

static bool parse_value(struct options *o, int key, const char *value)
{
	int choice = known[key].values ? word_index(known[key].values, value) : 0;

	if (choice < 0)
		return false;
	switch (key) {
	case KEY_MODE:
		o->mode = choice;
		return true;
	case KEY_OUT:
		o->out = value;
		return *value;
	case KEY_INSNS:
		o->insns = choice;
		return true;
	case KEY_RAM:
		return parse_ram(o, value);
	case KEY_SPECULATION:
		o->speculation = choice == 0;
		return true;
	default:
		return parse_hook(o, value);
	}
}

bool options_hook(const struct options *o, const char *name, uint64_t *addr)
{
	for (unsigned int i = 0; i < o->nhooks; i++) {
		const struct hook *h = &o->hooks[i];

		if (h->len == strlen(name) && !memcmp(h->name, name, h->len)) {
			*addr = h->addr;
			return true;
		}
	}
	return false;
}

/* What cannot be said before all options are known. */
static bool complete(const struct options *o, const bool *given, char *error, size_t size)
{
	for (int k = 0; k < KEYS; k++) {
		if (!given[k] || known[k].mode == ANY_MODE || known[k].mode == (int)o->mode)
			continue;
		snprintf(error, size, "option %s is for mode=%s only", known[k].key,
			 known[k].mode == MODE_CHECK ? "check" : "count");
		return false;
	}
	if (!o->out) {
		snprintf(error, size, "option out=FILE is missing: where to write the %s",
			 o->mode == MODE_CHECK ? "reports" : "counts");
		return false;
	}
	if (o->mode == MODE_CHECK && !given[KEY_RAM]) {
		snprintf(error, size, "option ram=BYTES is missing: mode=check must know how much RAM the guest has");
		return false;
	}
	return true;
}

bool options_parse(struct options *o, int argc, char **argv,
		   char *error, size_t size)
{
	bool given[KEYS] = { false };

	*o = (struct options){ .speculation = true };
	for (int i = 0; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");
		int key = find_key(argv[i], len);
		const char *value;

		if (key < 0) {
			snprintf(error, size, "unknown option '%.*s' (known: mode out insns ram speculation hook)",
				 (int)(len < 64 ? len : 64), argv[i]);
			return false;
		}
		value = argv[i][len] ? argv[i] + len + 1 : "";
		if (given[key] && !known[key].repeated) {
			snprintf(error, size, "option %s is given twice", known[key].key);
			return false;
		}
		if (key == KEY_HOOK && o->nhooks == OPTIONS_HOOKS) {
			snprintf(error, size, "option hook='%.64s' is one too many: at most %d are possible",
				 value, OPTIONS_HOOKS);
			return false;
		}
		if (!parse_value(o, key, value)) {
			snprintf(error, size, "option %s='%.64s' is not %s%s", known[key].key, value,
				 known[key].values ? "one of: " : "", known[key].values ?: known[key].wanted);
			return false;
		}
		given[key] = true;
	}
	return complete(o, given, error, size);
}
