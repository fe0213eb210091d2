// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes that send each other a byte through pipes. In case same-cpu, one CPU switches between two address
 * spaces. In case two-cpus, each CPU goes idle and comes back to the address space that it had.
 *
 * A case is measured in many windows, each much shorter than the time between two timer ticks. So most windows have no
 * tick. insns_quiet is the lowest decile of the windows' instructions, which are those of the round trips alone. The
 * program reports at the very end, because the UART that carries the reports causes interrupts, too.
 *
 * The processes are real-time: in some boots, the fair scheduler keeps a task that sleeps in its queue (delayed dequeue),
 * and a round trip has 1000 instructions more, or fewer.
 */
#include "lull.h"

static long windows = 127, loops = 4;
static const char *wanted = "";

static const struct option_spec options[] = {
	{ "windows", &windows, NULL, "times it is measured" },
	{ "loops", &loops, NULL, "round trips in each" },
	{ "case", NULL, &wanted, "same-cpu or two-cpus (default: both)" },
	{ }
};

/* Add one to each byte that arrives, and send it back. */
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

/* The windows of a case, as they were when closed. */
static struct window *play(int cpu)
{
	int down[2], up[2];
	struct window *closed = calloc(windows, sizeof(*closed));
	long value = 0, i, j;
	pid_t pid;

	verify(closed, "out of memory");
	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid) {
		close(down[1]);
		echo(down[0], up[1], cpu);
	}
	close(down[0]);
	pin(0);
	for (i = 0; i < windows; i++) {
		/*
		 * The first round trips, with their copies on write, and the scheduler's work after a pause stay
		 * outside.
		 */
		for (j = 0; j < loops; j++)
			round_trip(down[1], up[0], &value);
		open_window();
		for (j = 0; j < loops; j++)
			round_trip(down[1], up[0], &value);
		close_window();
		closed[i] = window;
	}
	verify(value == windows * 2 * loops, "%ld additions arrived, not %ld", value, windows * 2 * loops);
	close(down[1]);
	close(up[0]);
	wait_child(pid);
	return closed;
}

int main(int argc, char **argv)
{
	struct window *same = NULL, *two = NULL;

	parse_options(argc, argv, "a byte to and fro", options);
	if (*wanted && strcmp(wanted, "same-cpu") && strcmp(wanted, "two-cpus"))
		finish(USAGE, "case is same-cpu or two-cpus, not '%s'", wanted);
	if (windows > 499)
		finish(USAGE, "windows is at most 499: they are numbered to 999");
	must(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	if (strcmp(wanted, "two-cpus"))
		same = play(0);
	if (strcmp(wanted, "same-cpu") && sysconf(_SC_NPROCESSORS_ONLN) > 1)
		two = play(1);
	if (same)
		report_windows(same, windows, "same-cpu", loops, "round trip");
	if (two)
		report_windows(two, windows, "two-cpus", loops, "round trip");
	return 0;
}
