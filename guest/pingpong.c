// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes, a byte to and fro through pipes: context switches on one CPU, and through idle on two. Case same-cpu
 * switches between two address spaces; in case two-cpus each CPU goes idle and comes back to the same one.
 */
#include "lull.h"

static long loops = 1000;
static const char *wanted = "";

static const struct option_spec options[] = {
	{ "loops", &loops, NULL, "round trips" },
	{ "case", NULL, &wanted, "same-cpu or two-cpus (default: both)" },
	{ }
};

/* Add one to what comes and send it back. */
static void echo(int in, int out, int cpu)
{
	long value;

	pin(cpu);
	while (read(in, &value, sizeof(value)) == sizeof(value)) {
		value++;
		verify(write(out, &value, sizeof(value)) == sizeof(value), "echo: write");
	}
	exit(0);
}

static void round_trip(int out, int in, long *value)
{
	verify(write(out, value, sizeof(*value)) == sizeof(*value), "write");
	verify(read(in, value, sizeof(*value)) == sizeof(*value), "read");
}

static void play(const char *name, int cpu)
{
	int down[2], up[2];
	long value = 0, i;
	pid_t pid;

	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid) {
		close(down[1]);
		echo(down[0], up[1], cpu);
	}
	close(down[0]);
	pin(0);
	round_trip(down[1], up[0], &value);	/* its first steps, copies on write too, stay outside */
	open_window();
	for (i = 0; i < loops; i++)
		round_trip(down[1], up[0], &value);
	close_window();
	verify(value == loops + 1, "%ld additions arrived, not %ld", value, loops + 1);
	close(down[1]);
	wait_child(pid);
	report(name, loops, "round trip", "");
}

int main(int argc, char **argv)
{
	parse_options(argc, argv, "a byte to and fro", options);
	if (*wanted && strcmp(wanted, "same-cpu") && strcmp(wanted, "two-cpus"))
		finish(USAGE, "case is same-cpu or two-cpus, not '%s'", wanted);
	if (strcmp(wanted, "two-cpus"))
		play("same-cpu", 0);
	if (strcmp(wanted, "same-cpu") && sysconf(_SC_NPROCESSORS_ONLN) > 1)
		play("two-cpus", 1);
	return 0;
}
