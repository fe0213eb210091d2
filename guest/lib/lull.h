/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every guest program uses: options, the window, results, and system calls that must not fail.
 *
 * A program opens a window, does its work, closes the window, and verifies what it did. The counting plugin sees the
 * two marker instructions, and the result line has the same window number for the host. See README.md. Programs are
 * linked with liblull.a; only what runs in windows very often, or belongs to their marks, is inline.
 */
#ifndef LULL_H
#define LULL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE		/* also when a program is compiled by hand; include this header first */
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel's page size. The C library has it from the kernel, and the compiler knows that it never changes. */
#define PAGE	((unsigned long)getpagesize())

/* What an entry above the last level of page tables maps: 2, 32 or 512 MiB with pages of 4, 16 or 64 KiB. */
#define HUGE	(PAGE / 8 * PAGE)

/* What contiguous entries of the last level map on arm64: 64 KiB with pages of 4 KiB; otherwise 2 MiB. */
#define CONT	(PAGE == 4096 ? 64UL << 10 : 2UL << 20)

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101	/* of the kernel; no C library has it yet */
#endif

/* ---- ends: window.c ---- */

enum { FAILED = 1, USAGE = 2, SKIPPED = 77 };

/* Say what went wrong, with errno if it is set, and end with a status. */
__attribute__((noreturn, format(printf, 2, 3)))
void finish(int status, const char *form, ...);

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

/* ---- options: options.c ---- */

struct option_spec {
	const char *name;
	long *number;		/* where to store a number, or */
	const char **text;	/* where to store a word */
	const char *help;
};

/* Read key=value arguments into the table, which ends with a NULL name. An unknown name ends the program. */
void parse_options(int argc, char **argv, const char *about, const struct option_spec *table);

/* ---- the window: window.c ---- */

#define MAX_METRICS	32

/* Hidden: its address needs no table, so that marks are as short as can be. */
__attribute__((visibility("hidden")))
extern struct window {
	int number;			/* number of the window in this program, from 1 */
	pid_t opener;			/* the process that has it open; 0: none */
	double opened;			/* when, by clock_seconds() */
	unsigned long tsc;		/* of x86-64, when it was opened */
	double seconds;
	int metrics;
	const char *name[MAX_METRICS];
	long value[MAX_METRICS];
} window;

/*
 * Set in the environment of a program that runs in the window of another one (../window.c). Such a program opens no
 * window, and reports nothing to the host.
 */
#define WITHIN	"LULL_WITHIN"

static inline long window_id(void)
{
	const char *job = getenv("LULL_JOB");

	return (job ? atol(job) : 0) * 1000 + window.number;
}

/* Add an exact count to the result of the window. */
void add_metric(const char *name, long value);

/* Return the value of a metric that was added before, or 0. */
long metric(const char *name);

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

void begin_window(void);	/* all that comes before the mark, */
void end_window(void);		/* and after it */

static inline void open_window(void)
{
	begin_window();
	if (window.opener)
		mark(window_id(), true);
}

static inline void close_window(void)
{
	if (window.opener)
		mark(window_id(), false);
	end_window();
}

/* Close the window of a program that fails: the next one must find it closed. Its counts are never reported. */
void abandon_window(void);

/* Forget the metrics of the last window, before the next one. */
static inline void fresh_window(void)
{
	window.metrics = 0;
}

/*
 * Report the window just closed.
 * @name: case of the program, "" when it has one only
 * @operations: how many, each one @unit
 * @scale: our size against the published one, "" when there is none
 */
void report(const char *name, long operations, const char *unit, const char *scale);

/* Report a case that was measured in @n windows of the same size, each of so many operations; @closed: as they were. */
void report_windows(const struct window *closed, long n, const char *name, long operations, const char *unit);

/* ---- the kernel's files: files.c ---- */

/* Write a word to a file. Returns false if the file is missing, or the kernel refuses. */
bool put_file(const char *path, const char *text);

/* Return the first number in a file, or -1. */
long number_in(const char *path);

/* Return the number in the row @name of a file of names and numbers, or -1. */
long row_in(const char *path, const char *name);

/* Return one row of /proc/vmstat, or -1 if this kernel has no such counter. */
long vmstat(const char *name);

/* Add what /proc/vmstat counts in the window as metrics: begin before it opens, end after it closes. */
void begin_vmstat(const char *const *rows);
void end_vmstat(const char *const *rows);

/*
 * Have each CPU add what it counted and kept to itself. Linux does that at every vm.stat_interval, which can lie in a
 * window. Rows of a node's pages are kept so (from 7.3 on also those of reclaim, pgscan_ and pgsteal_), and read too low
 * without it; rows of events are always complete. An error is no failure: only root may do it.
 */
void complete_vmstat(void);

/* Read the first word of a file, of choices the one in [brackets], into 32 bytes. Returns false if there is none. */
bool chosen_word(const char *path, char *word);

/* Have the word that a file holds now put back when this process ends, also by die(). */
void keep_setting(const char *path);

/* Return the first CPU of isolcpus=, or -1. */
long isolated(void);

/* Take a CPU offline, or online. Returns false if the kernel refuses. */
bool set_online(long cpu, bool online);

/* Wait until a process sleeps (state S in its stat file). */
void wait_asleep(pid_t pid);

/* ---- processes: process.c ---- */

/* Fork without printing buffered output twice. The child ends with its parent. The caller checks how the child ended. */
pid_t fork_plain(void);

/*
 * Fork. If either side fails, the other ends, too: a child that fails ends the program, which may be waiting for a byte
 * that will never come. A child that ends with SKIPPED is left to wait_child(), and to programs that continue with
 * another case.
 */
pid_t fork_child(void);

/* Wait for a child that must end with status 0. If its status was SKIPPED, end with that, too. */
void wait_child(pid_t child);

/* Run only on one CPU, counted modulo the number of CPUs. */
void pin(long cpu);

/* Return what another thread or process has stored. */
static inline long seen(const long *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
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

/* ---- memory, time, chance: memory.c ---- */

/* Map new anonymous memory. */
char *map_memory(size_t size, int flags);

/* Have no huge pages in this memory. A kernel that has none at all refuses the advice, which does no harm. */
void use_small_pages(void *memory, size_t size);

/*
 * Drain the list of new pages of this CPU. It holds up to 31 pages that the CPU touched last, which reclaim on other
 * CPUs does not find. Unmapping anything drains it, and on later kernels (seen on 6.18) only advice about reclaim does.
 * For a pinned process that is about to be paged out.
 */
void drain_lru(void);

/* The kernel frees tables after a grace period of RCU. */
void wait_for_rcu(void);

/* Return the time of CLOCK_MONOTONIC. */
double clock_seconds(void);

/* xorshift64: the next pseudo-random number; the state must not be 0. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
