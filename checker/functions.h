/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * functions - the instructions of a window, by function of the guest's kernel.
 *
 * A file lists where functions begin. Each vCPU has an array of counters, which the
 * caller keeps: counter n is for the code from address n of the file up to the next one,
 * and counter 0 is for the code below the first. A copy of one vCPU's counters is made
 * when a window opens, and subtracted when it closes.
 */
#ifndef LULL_FUNCTIONS_H
#define LULL_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"

struct functions {
	uint64_t *starts;	/* sorted; starts[n - 1] is where counter n begins */
	size_t counters;	/* one more than starts; 0: nothing was loaded */
	uint64_t *opened;	/* the counters of the opener when the window opened */
};

/*
 * Read a file of lines that begin with a hexadecimal address, each larger than the one
 * before it. What follows a blank is ignored. Returns false with the reason in @error.
 */
bool functions_load(struct functions *f, const char *path, char *error, size_t size);
void functions_free(struct functions *f);

/* Return the number of the counter for the instruction at @pc. */
size_t functions_find(const struct functions *f, uint64_t pc);

/* A window opens; @counters are those of the vCPU that opens it. */
void functions_open(struct functions *f, const uint64_t *counters);

/* It closes. Write an array of [number, count] for each counter of that vCPU that has grown. */
void functions_write(const struct functions *f, const uint64_t *counters, struct json *j);

#endif
