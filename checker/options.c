// SPDX-License-Identifier: GPL-2.0-only
/*
 * options - the plugin's arguments. See options.h.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

enum { KEY_MODE, KEY_OUT, KEY_INSNS, KEY_SKIP, KEY_COST, KEY_QUANTUM, KEY_FUNCTIONS, KEY_SPECULATION, KEY_NTLBPA,
       KEY_SYMBOLS, KEY_COVER, KEYS };

/* struct option.mode: an option of both modes. */
enum { ANY_MODE = -1 };

/* The number of costs. */
enum { COSTS = 5 };

/*
 * The default of quantum=: how far vCPUs may run ahead. A vCPU that runs ahead books the
 * interconnect before others that would have been served earlier, and these are then
 * served in pieces around its booking. Where CPUs just begin to queue, the quantum must
 * be well below the cost of a broadcast.
 */
static uint64_t quantum(const struct costs *costs)
{
	uint64_t part = costs->broadcast / 4;

	if (part < 100 * PS_PER_NS)
		return costs->broadcast ? 100 * PS_PER_NS : 10000 * PS_PER_NS;
	return part < 10000 * PS_PER_NS ? part : 10000 * PS_PER_NS;
}

static const struct option {
	const char *key;
	const char *values;	/* "a b c": one of these; NULL: not a list of words */
	const char *wanted;	/* description of a valid value, when values is NULL */
	int mode;
	unsigned int most;	/* how many times the option may be given; 0: once */
} known[KEYS] = {
	[KEY_MODE] = { .key = "mode", .values = "count check", .mode = ANY_MODE },
	[KEY_OUT] = { .key = "out", .wanted = "a file name", .mode = ANY_MODE },
	[KEY_INSNS] = { .key = "insns", .values = "segment each block", .mode = MODE_COUNT },
	[KEY_SKIP] = { .key = "skip", .wanted = "HEXSTART-HEXEND", .mode = MODE_COUNT,
		       .most = OPTIONS_SKIPS },
	[KEY_COST] = { .key = "cost", .wanted = "NAME:NS, below 10 ms, with up to three digits behind the point (names: insn tlbi broadcast latency dsb)",
		       .mode = MODE_COUNT, .most = COSTS },
	[KEY_QUANTUM] = { .key = "quantum", .wanted = "a number of ns, decimal, more than 0 and below 10 ms", .mode = MODE_COUNT },
	[KEY_FUNCTIONS] = { .key = "functions", .wanted = "a file name", .mode = MODE_COUNT },
	[KEY_SPECULATION] = { .key = "speculation", .values = "on off", .mode = MODE_CHECK },
	[KEY_NTLBPA] = { .key = "ntlbpa", .values = "0 1", .mode = MODE_CHECK },
	[KEY_SYMBOLS] = { .key = "symbols", .wanted = "a file name", .mode = MODE_CHECK },
	[KEY_COVER] = { .key = "cover", .wanted = "a file name", .mode = MODE_CHECK },
};

/* Returns the position of value in a list of words, or -1. */
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

/*
 * Parse all of the text up to @end as a number of at most 64 bits. strtoull() would accept
 * signs and spaces too.
 */
static bool number(const char *text, const char *end, unsigned int base, uint64_t *value)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";

	if (text == end)
		return false;
	for (*value = 0; text < end; text++) {
		const char *at = strchr(digits, *text);
		unsigned int digit = at ? (at - digits) % 16 : 16;

		if (digit >= base || __builtin_mul_overflow(*value, base, value) ||
		    __builtin_add_overflow(*value, digit, value))
			return false;
	}
	return true;
}

/* The same in hexadecimal, with 0x or without. */
static bool address(const char *text, const char *end, uint64_t *value)
{
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	return number(text, end, 16, value);
}

static bool parse_skip(struct options *o, const char *value)
{
	struct range *r = &o->skips[o->nskips];
	const char *dash = strchr(value, '-');

	if (!dash || !address(value, dash, &r->start) ||
	    !address(dash + 1, value + strlen(value), &r->end) || r->start >= r->end)
		return false;
	o->nskips++;
	return true;
}

/* Parse nanoseconds with up to three decimals, below 10 ms, into picoseconds. */
static bool nanoseconds(const char *text, uint64_t *ps)
{
	const char *end = text + strlen(text), *point = strchr(text, '.');
	uint64_t part = 0;

	if (!number(text, point ?: end, 10, ps) || *ps >= 10000000)
		return false;
	*ps *= PS_PER_NS;
	if (!point)
		return true;
	if (end - point > 4 || !number(point + 1, end, 10, &part))
		return false;
	for (long digits = end - point - 1; digits < 3; digits++)
		part *= 10;
	*ps += part;
	return true;
}

static bool parse_cost(struct options *o, const char *value)
{
	static const char names[] = "insn tlbi broadcast latency dsb";
	uint64_t *const costs[COSTS] = {
		&o->costs.insn, &o->costs.tlbi, &o->costs.broadcast, &o->costs.latency, &o->costs.dsb,
	};
	const char *colon = strchr(value, ':');
	char name[16];
	int which;

	if (!colon || colon - value >= (long)sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(colon - value), value);
	which = word_index(names, name);
	o->timed = true;
	return which >= 0 && nanoseconds(colon + 1, costs[which]);
}

static bool parse_quantum(struct options *o, const char *value)
{
	return nanoseconds(value, &o->quantum) && o->quantum;
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
	case KEY_SKIP:
		return parse_skip(o, value);
	case KEY_COST:
		return parse_cost(o, value);
	case KEY_QUANTUM:
		return parse_quantum(o, value);
	case KEY_FUNCTIONS:
		o->functions = value;
		return *value;
	case KEY_SPECULATION:
		o->speculation = choice == 0;
		return true;
	case KEY_NTLBPA:
		o->ntlbpa = choice;
		return true;
	case KEY_COVER:
		o->cover = value;
		return *value;
	default:
		o->symbols = value;
		return *value;
	}
}

bool options_skips(const struct options *o, uint64_t pc)
{
	for (unsigned int i = 0; i < o->nskips; i++)
		if (pc >= o->skips[i].start && pc < o->skips[i].end)
			return true;
	return false;
}

/* Checks that need all options: those of the other mode, and missing ones. */
static bool complete(const struct options *o, const unsigned int *given, char *error, size_t size)
{
	for (int k = 0; k < KEYS; k++) {
		if (!given[k] || known[k].mode == ANY_MODE || known[k].mode == (int)o->mode)
			continue;
		snprintf(error, size, "option %s is for mode=%s only", known[k].key,
			 known[k].mode == MODE_CHECK ? "check" : "count");
		return false;
	}
	if (!o->out && o->mode == MODE_COUNT) {
		snprintf(error, size, "option out=FILE is missing: where to write the counts");
		return false;
	}
	if (o->functions && o->insns == INSNS_BLOCK) {
		snprintf(error, size, "option functions is not for insns=block, which does not know how far a block came");
		return false;
	}
	return true;
}

bool options_parse(struct options *o, int argc, char **argv,
		   char *error, size_t size)
{
	unsigned int given[KEYS] = { 0 };

	*o = (struct options){ .speculation = true, .ntlbpa = NTLBPA_CPU };
	for (int i = 0; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");
		int key = find_key(argv[i], len);
		const char *value;

		if (key < 0) {
			snprintf(error, size, "unknown option '%.*s' (known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)",
				 (int)(len < 64 ? len : 64), argv[i]);
			return false;
		}
		value = argv[i][len] ? argv[i] + len + 1 : "";
		if (given[key] && !known[key].most) {
			snprintf(error, size, "option %s is given twice", known[key].key);
			return false;
		}
		if (known[key].most && given[key] == known[key].most) {
			snprintf(error, size, "option %s='%.64s' is one too many: at most %u are possible",
				 known[key].key, value, known[key].most);
			return false;
		}
		if (!parse_value(o, key, value)) {
			snprintf(error, size, "option %s='%.64s' is not %s%s", known[key].key, value,
				 known[key].values ? "one of: " : "", known[key].values ?: known[key].wanted);
			return false;
		}
		given[key]++;
	}
	if (!given[KEY_QUANTUM])
		o->quantum = quantum(&o->costs);
	return complete(o, given, error, size);
}
