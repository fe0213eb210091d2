/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * window - the part of a guest program that is measured, between two marker
 * instructions. One window at a time is open in the whole guest. A marker that does
 * not fit writes an error to the output and changes nothing. Zeroed memory is a
 * window that is closed. The caller serialises.
 */
#ifndef LULL_WINDOW_H
#define LULL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct window {
	bool open;
	uint64_t id;
};

/* The guest has executed a marker. Return false if the marker does not fit. */
bool window_open(struct window *w, uint64_t id, FILE *out);
bool window_close(struct window *w, uint64_t id, FILE *out);

/* The guest has ended: write an error if a window is still open. */
void window_end(const struct window *w, FILE *out);

#endif
