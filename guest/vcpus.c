// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decides on which CPUs the vCPUs of a guest run: vCPU N on CPU first + N, modulo the number of CPUs; with move=MS, each
 * vCPU goes to the next CPU every MS milliseconds, until the guest ends. QEMU names the thread of vCPU N "CPU N/KVM".
 *
 *	vcpus pid=PID count=N [first=CPU] [move=MS]
 */
#include "lull.h"

#include <dirent.h>

#define MAX_VCPUS	64

static long process, count = 1, first, move;

static const struct option_spec options[] = {
	{ "pid", &process, NULL, "the process of the guest" },
	{ "count", &count, NULL, "its vCPUs, which are waited for" },
	{ "first", &first, NULL, "the CPU of the first one" },
	{ "move", &move, NULL, "milliseconds on each CPU; 0: the vCPUs stay" },
	{ }
};

static pid_t threads[MAX_VCPUS];

/* Find the threads of the vCPUs. Returns how many there are. */
static long find_threads(void)
{
	char path[64], name[32];
	struct dirent *entry;
	long found = 0;
	int number;
	DIR *tasks;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%ld/task", process);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		pid_t thread = atol(entry->d_name);

		snprintf(path, sizeof(path), "/proc/%ld/task/%d/comm", process, thread);
		in = thread ? fopen(path, "r") : NULL;
		if (!in)
			continue;
		if (fgets(name, sizeof(name), in) && sscanf(name, "CPU %d/KVM", &number) == 1 &&
		    number < count) {
			threads[number] = thread;
			found++;
		}
		fclose(in);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* Move each vCPU to its CPU, @step further than its own number. Returns false if the guest has ended. */
static bool place(long step)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), i;

	for (i = 0; i < count; i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((first + step + i) % cpus, &set);
		if (sched_setaffinity(threads[i], sizeof(set), &set)) {
			verify(errno == ESRCH, "vCPU %ld cannot be moved", i);
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 }, stay;
	char path[64], program[8];
	long step = 0;

	parse_options(argc, argv, "where the vCPUs of a guest run", options);
	if (!process || !count || count > MAX_VCPUS)
		finish(USAGE, "pid=PID and count=N, of 1 to %d, are needed", MAX_VCPUS);
	snprintf(path, sizeof(path), "/proc/%ld/exe", process);
	while (find_threads() != count) {
		/* A process that has ended has no program, also while it is a zombie. */
		verify(readlink(path, program, sizeof(program)) > 0, "process %ld has ended", process);
		nanosleep(&moment, NULL);
	}
	stay.tv_sec = move / 1000;
	stay.tv_nsec = move % 1000 * 1000000;
	while (place(step++) && move)
		nanosleep(&stay, NULL);
	return 0;
}
