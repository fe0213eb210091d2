// SPDX-License-Identifier: GPL-2.0-only
/* The window and its result, and how a program ends. */
#include "lull.h"

struct window window;

void add_metric(const char *name, long value)
{
	if (window.metrics < MAX_METRICS) {
		window.name[window.metrics] = name;
		window.value[window.metrics++] = value;
	}
}

long metric(const char *name)
{
	int i;

	for (i = 0; i < window.metrics; i++)
		if (!strcmp(window.name[i], name))
			return window.value[i];
	return 0;
}

void begin_window(void)
{
	window.number++;
	window.opener = getenv(WITHIN) ? 0 : getpid();
	window.opened = clock_seconds();
}

void end_window(void)
{
	window.opener = 0;
	window.seconds = clock_seconds() - window.opened;
}

void abandon_window(void)
{
	if (window.opener == getpid())
		mark(window_id(), false);
	window.opener = 0;
}

void finish(int status, const char *form, ...)
{
	int error = errno;
	va_list args;

	abandon_window();
	va_start(args, form);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, form, args);
	va_end(args);
	if (error && status == FAILED)
		fprintf(stderr, ": %s", strerror(error));
	fputc('\n', stderr);
	exit(status);
}

void report(const char *name, long operations, const char *unit, const char *scale)
{
	const char *path = getenv(WITHIN) ? NULL : getenv("LULL_RESULTS");
	const char *job = getenv("LULL_JOB");
	char line[4096];
	int length, i, fd = path ? must(open(path, O_WRONLY | O_APPEND)) : 1;

	length = snprintf(line, sizeof(line),
			  "{\"job\":%ld,\"window\":%ld,\"case\":\"%s\",\"operations\":%ld,\"unit\":\"%s\","
			  "\"scale\":\"%s\",\"seconds\":%.6f,\"metrics\":{",
			  job ? atol(job) : 0L, window_id(), name, operations, unit, scale, window.seconds);
	for (i = 0; i < window.metrics; i++)
		length += snprintf(line + length, sizeof(line) - length, "%s\"%s\":%ld", i ? "," : "",
				   window.name[i], window.value[i]);
	length += snprintf(line + length, sizeof(line) - length, "}}\n");
	verify(write(fd, line, length) == length, "the result line could not be written");
	if (path)
		close(fd);
}

void report_windows(const struct window *closed, long n, const char *name, long operations, const char *unit)
{
	long i;

	for (i = 0; i < n; i++) {
		window = closed[i];
		report(name, operations, unit, "");
	}
}
