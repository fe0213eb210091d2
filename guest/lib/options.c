// SPDX-License-Identifier: GPL-2.0-only
/* Options of the command line. */
#include "lull.h"

static void show_help(const char *about, const struct option_spec *o)
{
	printf("%s: %s\n", program_invocation_short_name, about);
	for (; o->name; o++) {
		if (o->number)
			printf("  %s=%ld\t%s\n", o->name, *o->number, o->help);
		else
			printf("  %s=%s\t%s\n", o->name, *o->text ? *o->text : "", o->help);
	}
}

void parse_options(int argc, char **argv, const char *about, const struct option_spec *table)
{
	const struct option_spec *o;
	char *end, *value;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			show_help(about, table);
			exit(0);
		}
		value = strchr(argv[i], '=');
		for (o = table; o->name; o++)
			if (value && strlen(o->name) == (size_t)(value - argv[i]) &&
			    !strncmp(o->name, argv[i], value - argv[i]))
				break;
		if (!o->name)
			finish(USAGE, "unknown option '%s' ('--help' lists them)", argv[i]);
		if (o->text) {
			*o->text = value + 1;
			continue;
		}
		errno = 0;
		*o->number = strtol(value + 1, &end, 0);
		if (errno || *end || end == value + 1 || *o->number < 0)
			finish(USAGE, "'%s' is not a number of 0 or more", argv[i]);
	}
}
