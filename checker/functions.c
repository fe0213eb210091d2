// SPDX-License-Identifier: GPL-2.0-only
/*
 * functions - the instructions of a window by function. See functions.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"

/* Append @start; the arrays have room for a power of two of counters. */
static bool append(struct functions *f, uint64_t start)
{
	if (!(f->counters & (f->counters - 1))) {
		uint64_t *more = realloc(f->starts, 2 * f->counters * sizeof(*more));

		if (!more)
			return false;
		f->starts = more;
	}
	f->starts[f->counters++ - 1] = start;
	return true;
}

bool functions_load(struct functions *f, const char *path, char *error, size_t size)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	char line[512];

	*f = (struct functions){ .counters = 1 };
	if (!file) {
		snprintf(error, size, "cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	*error = 0;
	while (!*error && fgets(line, sizeof(line), file)) {
		uint64_t start;
		int end = 0;

		number++;
		if (sscanf(line, "%16" SCNx64 "%n", &start, &end) != 1 || !strchr(" \n", line[end]) ||
		    (f->counters > 1 && start <= f->starts[f->counters - 2]))
			snprintf(error, size, "'%s' line %u has no address above the one before", path, number);
		else if (!append(f, start))
			snprintf(error, size, "no memory for the functions of '%s'", path);
	}
	fclose(file);
	if (!*error && f->counters == 1)
		snprintf(error, size, "'%s' has no addresses", path);
	if (!*error) {
		f->opened = calloc(f->counters, sizeof(*f->opened));
		if (f->opened)
			return true;
		snprintf(error, size, "no memory for the functions of '%s'", path);
	}
	functions_free(f);
	return false;
}

void functions_free(struct functions *f)
{
	free(f->starts);
	free(f->opened);
	*f = (struct functions){ 0 };
}

size_t functions_find(const struct functions *f, uint64_t pc)
{
	size_t low = 0, high = f->counters ? f->counters - 1 : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->starts[middle] <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void functions_open(struct functions *f, const uint64_t *counters)
{
	memcpy(f->opened, counters, f->counters * sizeof(*counters));
}

void functions_write(const struct functions *f, const uint64_t *counters, struct json *j)
{
	json_open(j, '[');
	for (size_t i = 0; i < f->counters; i++) {
		/* Another vCPU's marker may close the window: its opener then goes on counting. */
		uint64_t n = __atomic_load_n(&counters[i], __ATOMIC_RELAXED) - f->opened[i];

		if (!n)
			continue;
		json_open(j, '[');
		json_u64(j, i);
		json_u64(j, n);
		json_close(j, ']');
	}
	json_close(j, ']');
}
