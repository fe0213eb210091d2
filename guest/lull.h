/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every guest program uses: options, the window, results, and system calls that must not fail.
 *
 * A program opens a window, does its work, closes the window, and verifies what it did. The counting plugin sees the
 * two marker instructions, and the result line has the same window number for the host. See README.md.
 */
#ifndef LULL_H
#define LULL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE		/* also when a program is compiled by hand; include this header first */
#endif

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel's page size. The C library has it from the kernel, and the compiler knows that it never changes. */
#define PAGE	((unsigned long)getpagesize())

/* What an entry above the last level of page tables maps: 2, 32 or 512 MiB with pages of 4, 16 or 64 KiB. */
#define HUGE	(PAGE / 8 * PAGE)

/* What contiguous entries of the last level map on arm64: 64 KiB with pages of 4 KiB; otherwise 2 MiB. */
#define CONT	(PAGE == 4096 ? 64UL << 10 : 2UL << 20)

enum { FAILED = 1, USAGE = 2, SKIPPED = 77 };

/* ---- the window's state ---- */

#define MAX_METRICS	32

static struct window {
	int number;			/* number of the window in this program, from 1 */
	pid_t opener;			/* the process that has it open; 0: none */
	struct timespec opened;
	unsigned long tsc;		/* of x86-64, when it was opened */
	double seconds;
	int metrics;
	const char *name[MAX_METRICS];
	long value[MAX_METRICS];
} window;

static inline long window_id(void)
{
	const char *job = getenv("LULL_JOB");

	return (job ? atol(job) : 0) * 1000 + window.number;
}

/*
 * Set in the environment of a program that runs in the window of another one (window.c). Such a program opens no
 * window, and reports nothing to the host.
 */
#define WITHIN	"LULL_WITHIN"

/* Add an exact count to the result of the window. */
static inline void add_metric(const char *name, long value)
{
	if (window.metrics < MAX_METRICS) {
		window.name[window.metrics] = name;
		window.value[window.metrics++] = value;
	}
}

/*
 * On arm64, HINT #112 and #113: NOPs to every CPU, seen by the plugin, which reads the number in x0. On x86-64, where
 * there is no plugin, the window gets the metric tsc, by how much the TSC advanced; in the guests of "lull x86" it
 * advances by one with each instruction.
 */
static inline void mark(long id, bool open)
{
#ifdef __aarch64__
	register long x0 asm("x0") = id;

	if (open)
		asm volatile("hint #112" : : "r" (x0) : "memory");
	else
		asm volatile("hint #113" : : "r" (x0) : "memory");
#elif defined(__x86_64__)
	(void)id;
	if (!open)
		add_metric("tsc", __builtin_ia32_rdtsc() - window.tsc);
	window.tsc = __builtin_ia32_rdtsc();
#endif
}

/* Close the window of a program that fails: the next one must find it closed. Its counts are never reported. */
static inline void abandon_window(void)
{
	if (window.opener == getpid())
		mark(window_id(), false);
	window.opener = 0;
}

/* ---- ends ---- */

/* Say what went wrong, with errno if it is set, and end with a status. */
__attribute__((noreturn, format(printf, 2, 3), unused))
static void finish(int status, const char *form, ...)
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

#define die(...)	finish(FAILED, __VA_ARGS__)
#define skip(...)	finish(SKIPPED, __VA_ARGS__)

/* A system call that must not fail: returns its result, or ends the program. */
#define must(call) ({							\
	__typeof__(call) must_result = (call);				\
	if (must_result == (__typeof__(call))-1)			\
		die("%s:%d: %s", __FILE__, __LINE__, #call);		\
	must_result;							\
})

/* A fact that must hold: verification. */
#define verify(fact, ...) do { if (!(fact)) { errno = 0; die(__VA_ARGS__); } } while (0)

/* ---- options ---- */

struct option_spec {
	const char *name;
	long *number;		/* where to store a number, or */
	const char **text;	/* where to store a word */
	const char *help;
};

__attribute__((unused))
static void show_help(const char *about, const struct option_spec *o)
{
	printf("%s: %s\n", program_invocation_short_name, about);
	for (; o->name; o++) {
		if (o->number)
			printf("  %s=%ld\t%s\n", o->name, *o->number, o->help);
		else
			printf("  %s=%s\t%s\n", o->name, *o->text ? *o->text : "", o->help);
	}
}

/* Read key=value arguments into the table, which ends with a NULL name. An unknown name ends the program. */
__attribute__((unused))
static void parse_options(int argc, char **argv, const char *about, const struct option_spec *table)
{
	const struct option_spec *o;
	char *end, *value;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			show_help(about, table);
			exit(0);
		}
		value = strchr(argv[i], '=');
		for (o = table; o->name; o++)
			if (value && strlen(o->name) == (size_t)(value - argv[i]) &&
			    !strncmp(o->name, argv[i], value - argv[i]))
				break;
		if (!o->name)
			finish(USAGE, "unknown option '%s' ('--help' lists them)", argv[i]);
		if (o->text) {
			*o->text = value + 1;
			continue;
		}
		errno = 0;
		*o->number = strtol(value + 1, &end, 0);
		if (errno || *end || end == value + 1 || *o->number < 0)
			finish(USAGE, "'%s' is not a number of 0 or more", argv[i]);
	}
}

/* ---- the window ---- */

/* Return one row of /proc/vmstat, or -1 if this kernel has no such counter. */
__attribute__((unused))
static long vmstat(const char *name)
{
	FILE *in = fopen("/proc/vmstat", "r");
	long value, found = -1;
	char row[80];

	if (!in)
		return -1;
	while (fscanf(in, "%79s %ld", row, &value) == 2)
		if (!strcmp(row, name))
			found = value;
	fclose(in);
	return found;
}

/* Add what /proc/vmstat counts in the window as metrics: begin before it opens, end after it closes. */
static inline void begin_vmstat(const char *const *rows)
{
	for (; *rows; rows++) {
		long value = vmstat(*rows);

		if (value >= 0)
			add_metric(*rows, value);
	}
}

__attribute__((unused))
static void end_vmstat(const char *const *rows)
{
	int i;

	for (; *rows; rows++)
		for (i = 0; i < window.metrics; i++)
			if (window.name[i] == *rows)
				window.value[i] = vmstat(*rows) - window.value[i];
}

/* Return the value of a metric that was added before, or 0. */
__attribute__((unused))
static long metric(const char *name)
{
	int i;

	for (i = 0; i < window.metrics; i++)
		if (!strcmp(window.name[i], name))
			return window.value[i];
	return 0;
}

static inline void open_window(void)
{
	window.number++;
	window.opener = getenv(WITHIN) ? 0 : getpid();
	clock_gettime(CLOCK_MONOTONIC, &window.opened);
	if (window.opener)
		mark(window_id(), true);
}

static inline void close_window(void)
{
	struct timespec now;

	if (window.opener)
		mark(window_id(), false);
	window.opener = 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	window.seconds = (now.tv_sec - window.opened.tv_sec) + (now.tv_nsec - window.opened.tv_nsec) / 1e9;
}

/* Forget the metrics of the last window, before the next one. */
__attribute__((unused))
static void fresh_window(void)
{
	window.metrics = 0;
}

/*
 * Report the window just closed.
 * @name: case of the program, "" when it has one only
 * @operations: how many, each one @unit
 * @scale: our size against the published one, "" when there is none
 */
__attribute__((unused))
static void report(const char *name, long operations, const char *unit, const char *scale)
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

/* Report a case that was measured in @n windows of the same size, each of so many operations; @closed: as they were. */
__attribute__((unused))
static void report_windows(const struct window *closed, long n, const char *name, long operations, const char *unit)
{
	long i;

	for (i = 0; i < n; i++) {
		window = closed[i];
		report(name, operations, unit, "");
	}
}

/* ---- small helpers ---- */

/*
 * SIGCHLD handler: a child that failed ends the program, which may be waiting for a byte that will never come. The
 * child has printed the reason, unless it was killed. The status SKIPPED is left to wait_child(), and to programs that
 * continue with another case.
 */
static inline void child_ended(int number, siginfo_t *info, void *context)
{
	static const char killed[] = "a child was killed\n";
	bool exited = info->si_code == CLD_EXITED;

	(void)number;
	(void)context;
	if (exited && (info->si_status == 0 || info->si_status == SKIPPED))
		return;
	abandon_window();
	if (!exited && write(2, killed, sizeof(killed) - 1) < 0)
		_exit(FAILED);
	_exit(FAILED);
}

/*
 * Fork without printing buffered output twice. The child ends with its parent. The caller checks how the child ended.
 */
static inline pid_t fork_plain(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = must(fork());
	if (!pid) {
		must(prctl(PR_SET_PDEATHSIG, SIGKILL));
		if (getppid() != parent)
			_exit(FAILED);	/* the parent ended before prctl() */
	}
	return pid;
}

/* Fork. If either side fails, the other ends, too. */
static inline pid_t fork_child(void)
{
	struct sigaction action = { .sa_sigaction = child_ended, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP };

	must(sigaction(SIGCHLD, &action, NULL));
	return fork_plain();
}

/* Wait for a child that must end with status 0. If its status was SKIPPED, end with that, too. */
__attribute__((unused))
static void wait_child(pid_t child)
{
	int status;

	must(waitpid(child, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		exit(SKIPPED);
	verify(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d ended with wait status 0x%x", child, status);
}

/* The kernel frees tables after a grace period of RCU. */
__attribute__((unused))
static void wait_for_rcu(void)
{
	for (int i = 0; i < 2; i++)
		must(syscall(SYS_membarrier, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0));
}

/* Run only on one CPU, counted modulo the number of CPUs. */
__attribute__((unused))
static void pin(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	must(sched_setaffinity(0, sizeof(set), &set));
}

/* Return the first CPU of isolcpus=, or -1. */
__attribute__((unused))
static long isolated(void)
{
	FILE *in = fopen("/sys/devices/system/cpu/isolated", "r");
	long cpu = -1;

	if (in && fscanf(in, "%ld", &cpu) != 1)
		cpu = -1;
	if (in)
		fclose(in);
	return cpu;
}

/*
 * Drain the list of new pages of this CPU. It holds up to 31 pages that the CPU touched last, which reclaim on other
 * CPUs does not find. Unmapping anything drains it, and on later kernels (seen on 6.18) only advice about reclaim does.
 * For a pinned process that is about to be paged out.
 */
__attribute__((unused))
static void drain_lru(void)
{
	void *page = must(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0));

	must(madvise(page, PAGE, MADV_COLD));
	must(munmap(page, PAGE));
}

/* Wait until a process sleeps (state S in its stat file). */
__attribute__((unused))
static void wait_asleep(pid_t pid)
{
	struct timespec moment = { .tv_nsec = 5 * 1000 * 1000 };
	char path[64], state = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'S') {
		nanosleep(&moment, NULL);
		in = fopen(path, "r");
		verify(in && fscanf(in, "%*d (%*[^)]) %c", &state) == 1, "%s: no state", path);
		fclose(in);
	}
}

/* Have no huge pages in this memory. A kernel that has none at all refuses the advice, which does no harm. */
__attribute__((unused))
static void use_small_pages(void *memory, size_t size)
{
	if (madvise(memory, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("madvise");
}

/* Map new anonymous memory. */
__attribute__((unused))
static char *map_memory(size_t size, int flags)
{
	return must((char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0));
}

/* Send and receive one byte, to keep two processes in step. */
static inline void tell(int fd)
{
	if (write(fd, "x", 1) != 1)
		die("pipe: write");
}

static inline void hear(int fd)
{
	char byte;

	verify(read(fd, &byte, 1) == 1, "pipe: the other end is gone");
}

/* Write a word to a file of the kernel. Returns false if the file is missing, or the kernel refuses. */
__attribute__((unused))
static bool put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

/*
 * Have each CPU add what it counted and kept to itself. Linux does that at every vm.stat_interval, which can lie in a
 * window. Rows of a node's pages are kept so (from 7.3 on also those of reclaim, pgscan_ and pgsteal_), and read too low
 * without it; rows of events are always complete. An error is no failure: only root may do it.
 */
__attribute__((unused))
static void complete_vmstat(void)
{
	put_file("/proc/sys/vm/stat_refresh", "1");
}

/*
 * Read the word in [brackets] of a kernel's file that lists its choices, into 32 bytes. Returns false if there is
 * none.
 */
__attribute__((unused))
static bool chosen_word(const char *path, char *word)
{
	FILE *in = fopen(path, "r");
	bool found;

	if (!in)
		return false;
	found = fscanf(in, "%*[^[][%31[^]]", word) == 1;
	/* The word may be the first one. */
	if (!found) {
		rewind(in);
		found = fscanf(in, "[%31[^]]", word) == 1;
	}
	fclose(in);
	return found;
}

/* xorshift64: the next pseudo-random number; the state must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
