// SPDX-License-Identifier: GPL-2.0-only
/*
 * window - see window.h.
 */
#include <inttypes.h>

#include "json.h"
#include "window.h"

bool window_open(struct window *w, uint64_t id, FILE *out)
{
	char error[128];

	if (w->open) {
		snprintf(error, sizeof(error),
			 "window %" PRIu64 " was to open while %" PRIu64 " is open",
			 id, w->id);
		json_error(out, error);
		return false;
	}
	*w = (struct window){ .open = true, .id = id };
	return true;
}

bool window_close(struct window *w, uint64_t id, FILE *out)
{
	char error[128];

	if (!w->open) {
		snprintf(error, sizeof(error),
			 "window %" PRIu64 " was to close and none is open", id);
		json_error(out, error);
		return false;
	}
	if (w->id != id) {
		snprintf(error, sizeof(error),
			 "window %" PRIu64 " was to close while %" PRIu64 " is open",
			 id, w->id);
		json_error(out, error);
		return false;
	}
	w->open = false;
	return true;
}

void window_end(const struct window *w, FILE *out)
{
	char error[128];

	if (!w->open)
		return;
	snprintf(error, sizeof(error), "window %" PRIu64 " is still open at exit", w->id);
	json_error(out, error);
}
