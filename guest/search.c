// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's side of "./lull search": reads programs of calls (calls.h) from the second UART, and runs one after the other.
 *
 * A program comes as the number of its calls, one byte, and the calls; 0 ends. A marker tells the checker's plugin, and by
 * it the host, when a program has ended (checker/cover.h).
 */
#include "calls.h"

/* HINT #121: programs 1 to x0 have ended, or with 0: none was begun. */
static void ended(uint64_t number)
{
#ifdef __aarch64__
	register uint64_t x0 asm("x0") = number + 1;

	asm volatile("hint #121" : : "r" (x0) : "memory");
#else
	(void)number;
#endif
}

static void take(int fd, void *bytes, size_t n)
{
	for (size_t got = 0; got < n; ) {
		ssize_t more = must(read(fd, (char *)bytes + got, n - got));

		verify(more > 0, "the host has gone");
		got += more;
	}
}

int main(int argc, char **argv)
{
	const char *path = getenv("LULL_RESULTS");
	struct call calls[255];
	uint8_t n;
	int fd;

	if (argc == 2 && !strcmp(argv[1], "--end"))
		return 0;
	if (!path)
		skip("there is no second UART");
	fd = must(open(path, O_RDWR | O_CLOEXEC | O_NOCTTY));
	set_up();
	for (uint64_t number = 0; ; number++) {
		ended(number);
		take(fd, &n, 1);
		if (!n) {
			open_window();
			close_window();
			report("", number, "program", "");
			return 0;
		}
		take(fd, calls, n * sizeof(*calls));
		run_calls(calls, n);
	}
}
