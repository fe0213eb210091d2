// SPDX-License-Identifier: GPL-2.0-only
/*
 * System A's program: 1 MiB of shared anonymous memory filled with 0x88; again and again one byte of every page is
 * read (swap in), then madvise(MADV_PAGEOUT) sends all of it to swap. Published with 10 000 rounds and zRAM.
 */
#include "lull.h"

#define SIZE	(1UL << 20)
#define PAGES	(SIZE / PAGE)

static long rounds = 20, share = 1;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "times everything is swapped in and out (published: 10000)" },
	{ "share", &share, NULL, "processes that map it, running on CPUs of their own (published: 1)" },
	{ }
};

static const char *const rows[] = { "pgfault", "pswpin", "pswpout", NULL };

/* Another process that runs and uses the mapping, until it is killed. */
static pid_t sharer(volatile unsigned char *memory, int cpu)
{
	pid_t pid = fork_child();

	if (pid)
		return pid;
	pin(cpu);
	for (;;)
		(void)memory[0];
}

static void swap_all(volatile unsigned char *memory)
{
	unsigned long page;

	for (page = 0; page < PAGES; page++)
		verify(memory[page * PAGE] == 0x88, "page %lu reads 0x%x", page, memory[page * PAGE]);
	must(madvise((void *)memory, SIZE, MADV_PAGEOUT));
}

int main(int argc, char **argv)
{
	unsigned char *memory;
	pid_t others[16];
	char scale[64];
	long i;

	parse_options(argc, argv, "swap 1 MiB in and out, page by page", options);
	if (share < 1 || share > 16 || rounds < 1)
		finish(USAGE, "share is 1 to 16, rounds at least 1");
	memory = (unsigned char *)map_memory(SIZE, MAP_SHARED);
	memset(memory, 0x88, SIZE);
	must(madvise(memory, SIZE, MADV_PAGEOUT));
	for (i = 1; i < share; i++)
		others[i] = sharer(memory, i);
	if (share > 1)
		pin(0);

	begin_vmstat(rows);
	open_window();
	for (i = 0; i < rounds; i++)
		swap_all(memory);
	close_window();
	end_vmstat(rows);

	for (i = 1; i < share; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	for (i = 0; i < (long)SIZE; i++)
		verify(memory[i] == 0x88, "byte %ld reads 0x%x", i, memory[i]);
	verify(share > 1 || metric("pswpout") >= rounds * (long)PAGES * 9 / 10, "only %ld of %ld pages went to swap",
	       metric("pswpout"), rounds * (long)PAGES);
	snprintf(scale, sizeof(scale), "%ld of 10000 rounds", rounds);
	report("", rounds * PAGES, "page", scale);
	return 0;
}
