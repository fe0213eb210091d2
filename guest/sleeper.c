// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process that sleeps is paged out by another one with process_madvise(MADV_PAGEOUT), as Android does with
 * applications in the background. No CPU has the sleeper's address space loaded, so no TLBI is needed.
 */
#include "lull.h"

static long pages = 2048;

static const struct option_spec options[] = {
	{ "pages", &pages, NULL, "pages of the sleeper, all paged out in one go" },
	{ }
};

static const char *const rows[] = { "pswpout", NULL };

/* Touch the memory, sleep until a byte arrives, and verify the contents. */
static void sleeper(long *memory, int told, int say)
{
	const long step = PAGE / sizeof(long);
	long i;

	pin(1);
	for (i = 0; i < pages; i++)
		memory[i * step] = i * 7 + 1;	/* not zero: Linux does not write pages of zeroes to swap */
	drain_lru();
	tell(say);
	hear(told);
	for (i = 0; i < pages; i++)
		verify(memory[i * step] == i * 7 + 1, "page %ld lost its contents", i);
	exit(0);
}

int main(int argc, char **argv)
{
	int down[2], up[2], pidfd;
	struct iovec { void *base; size_t length; } range;
	char *memory;
	pid_t pid;

	parse_options(argc, argv, "a sleeping process is paged out", options);
	if (pages < 1)
		finish(USAGE, "pages is at least 1");
	memory = map_memory(pages * PAGE, MAP_PRIVATE);
	use_small_pages(memory, pages * PAGE);
	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid)
		sleeper((long *)memory, down[0], up[1]);
	pin(0);		/* the sleeper's CPU goes idle, with its address space loaded lazily */
	hear(up[0]);
	wait_asleep(pid);
	pidfd = must((int)syscall(SYS_pidfd_open, pid, 0));
	range.base = memory;
	range.length = pages * PAGE;
	begin_vmstat(rows);
	open_window();
	if (syscall(SYS_process_madvise, pidfd, &range, 1, MADV_PAGEOUT, 0) != (long)range.length)
		die("process_madvise");
	close_window();
	end_vmstat(rows);
	tell(down[1]);
	wait_child(pid);
	if (!metric("pswpout"))
		skip("nothing went to swap: has this kernel a swap device?");
	verify(metric("pswpout") >= pages, "only %ld of %ld pages went to swap", metric("pswpout"), pages);
	report("", pages, "page", "");
	return 0;
}
