// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU goes offline, comes back, and runs this process at once. If the kernel has not invalidated the CPU's TLB when
 * it came up, the entries that the CPU held before are still there.
 */
#include "lull.h"

static long rounds = 5, pages = 64;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "how often the last CPU goes and comes" },
	{ "pages", &pages, NULL, "pages that are used there" },
	{ }
};

int main(int argc, char **argv)
{
	long last = sysconf(_SC_NPROCESSORS_CONF) - 1, round, i, *memory;
	const long step = PAGE / sizeof(long);
	char path[64];

	parse_options(argc, argv, "a process runs on a CPU that has just come back", options);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online", last);
	if (last < 1 || access(path, W_OK))
		skip("no CPU can go offline");
	memory = (long *)map_memory(pages * PAGE, MAP_PRIVATE);
	open_window();
	for (round = 0; round < rounds; round++) {
		pin(0);
		verify(put_file(path, "0"), "CPU %ld does not go", last);
		verify(put_file(path, "1"), "CPU %ld does not come back", last);
		pin(last);
		for (i = 0; i < pages; i++)
			memory[i * step] = i + round;
		for (i = 0; i < pages; i++)
			verify(memory[i * step] == i + round, "page %ld lost its contents", i);
	}
	close_window();
	report("", rounds, "round", "");
	return 0;
}
