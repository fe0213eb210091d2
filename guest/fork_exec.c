// SPDX-License-Identifier: GPL-2.0-only
/*
 * fork, copy-on-write and exec in a loop, with a byte through a pipe each way: the shape of shells, and of services
 * that fork for each request.
 */
#include "lull.h"

static long loops = 50, pages = 16;

static const struct option_spec options[] = {
	{ "loops", &loops, NULL, "children" },
	{ "pages", &pages, NULL, "pages that each child writes (copies)" },
	{ }
};

static const char *const rows[] = { "pgfault", NULL };

/* The executed program: answers a byte with its successor. */
static int answer(int in, int out)
{
	unsigned char byte;

	verify(read(in, &byte, 1) == 1, "nothing to answer");
	byte++;
	verify(write(out, &byte, 1) == 1, "the answer was not sent");
	return 0;
}

/* The child: verifies the parent's pages, writes its own copies, and execs. */
static void child(long *memory, long loop, int in, int out)
{
	const long step = PAGE / sizeof(long);
	char from[16], to[16];
	long i;

	for (i = 0; i < pages; i++) {
		verify(memory[i * step] == loop + i, "page %ld is not the parent's", i);
		memory[i * step] = -1;
	}
	snprintf(from, sizeof(from), "%d", in);
	snprintf(to, sizeof(to), "%d", out);
	execl("/proc/self/exe", "answer", "--answer", from, to, NULL);
	die("exec");
}

static void one(long *memory, long loop)
{
	const long step = PAGE / sizeof(long);
	unsigned char byte = loop, back;
	int down[2], up[2];
	pid_t pid;
	long i;

	must(pipe(down));
	must(pipe(up));
	for (i = 0; i < pages; i++)
		memory[i * step] = loop + i;
	pid = fork_child();
	if (!pid)
		child(memory, loop, down[0], up[1]);
	close(down[0]);
	close(up[1]);
	verify(write(down[1], &byte, 1) == 1, "pipe: write");
	verify(read(up[0], &back, 1) == 1, "the child did not answer");
	wait_child(pid);
	verify(back == (unsigned char)(byte + 1), "the answer to %d is %d", byte, back);
	for (i = 0; i < pages; i++)
		verify(memory[i * step] == loop + i, "the child's write reached the parent, page %ld", i);
	close(down[1]);
	close(up[0]);
}

int main(int argc, char **argv)
{
	long *memory, i;

	if (argc == 4 && !strcmp(argv[1], "--answer"))
		return answer(atoi(argv[2]), atoi(argv[3]));
	parse_options(argc, argv, "fork, copy-on-write, exec, pipes", options);
	memory = (long *)map_memory((pages + 1) * PAGE, MAP_PRIVATE);
	begin_vmstat(rows);
	open_window();
	for (i = 0; i < loops; i++)
		one(memory, i);
	close_window();
	end_vmstat(rows);
	report("", loops, "fork+exec", "");
	return 0;
}
