/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * window - what stands between two markers of the guest: one window at a time
 * in all of it. A wrong marker is an error in the output and changes nothing.
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

/* A marker; false: it was wrong. */
bool window_open(struct window *w, uint64_t id, FILE *out);
bool window_close(struct window *w, uint64_t id, FILE *out);

/* None may be open when the guest ends. */
void window_end(const struct window *w, FILE *out);

#endif
