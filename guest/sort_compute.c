// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many short processes, as in a workload of system B (docs/glossary.md): processes that stand for shells in the
 * background run at the same time, and each runs sort processes one after the other (published: 256 shells, 32 sorts
 * each). A sort process is this program again, by exec: it merge-sorts pseudo-random numbers, and verifies their order
 * and sum. The window begins before the shells are forked and ends when all have ended.
 */
#include "lull.h"

static long shells = 2, sorts = 32, numbers = 2000;

static const struct option_spec options[] = {
	{ "shells", &shells, NULL, "shells in the background (published: 256)" },
	{ "sorts", &sorts, NULL, "sort processes of each (published: 32)" },
	{ "numbers", &numbers, NULL, "numbers that each sorts" },
	{ }
};

static void merge(uint64_t *out, const uint64_t *a, long na, const uint64_t *b, long nb)
{
	while (na && nb) {
		if (*b < *a) {
			*out++ = *b++;
			nb--;
		} else {
			*out++ = *a++;
			na--;
		}
	}
	memcpy(out, na ? a : b, (na + nb) * sizeof(*out));
}

static void sort(uint64_t *data, uint64_t *spare, long count)
{
	long half = count / 2;

	if (count < 2)
		return;
	sort(data, spare, half);
	sort(data + half, spare + half, count - half);
	memcpy(spare, data, count * sizeof(*data));
	merge(data, spare, half, spare + half, count - half);
}

/* The sort process. Exits with 0 if the result is in order and no number was lost. */
static int sort_main(long count, uint64_t seed)
{
	uint64_t *data = malloc(count * sizeof(*data)), *spare = malloc(count * sizeof(*spare)), sum = 0, after = 0;
	long i;

	verify(data && spare, "out of memory");
	for (i = 0; i < count; i++)
		sum += data[i] = next_random(&seed);
	sort(data, spare, count);
	for (i = 0; i < count; i++) {
		verify(!i || data[i - 1] <= data[i], "not sorted at %ld", i);
		after += data[i];
	}
	verify(sum == after, "numbers were lost");
	return 0;
}

/* A shell: forks and execs sort after sort. */
static void shell(long number)
{
	char count[32], seed[32];
	long i;

	snprintf(count, sizeof(count), "%ld", numbers);
	for (i = 0; i < sorts; i++) {
		pid_t pid = fork_child();

		if (!pid) {
			snprintf(seed, sizeof(seed), "%ld", number * sorts + i + 1);
			execl("/proc/self/exe", "sort", "--sort", count, seed, NULL);
			die("exec");
		}
		wait_child(pid);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	pid_t *children;
	char scale[64];
	long i;

	if (argc == 4 && !strcmp(argv[1], "--sort"))
		return sort_main(atol(argv[2]), atol(argv[3]));
	parse_options(argc, argv, "background shells that run short sort processes", options);
	children = calloc(shells + 1, sizeof(*children));
	open_window();
	for (i = 0; i < shells; i++) {
		children[i] = fork_child();
		if (!children[i])
			shell(i);
	}
	for (i = 0; i < shells; i++)
		wait_child(children[i]);
	close_window();
	snprintf(scale, sizeof(scale), "%ld x %ld of 256 x 32 sorts", shells, sorts);
	report("", shells * sorts, "sort", scale);
	return 0;
}
