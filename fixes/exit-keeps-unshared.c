// SPDX-License-Identifier: GPL-2.0-only
/*
 * On Linux 7.3, a process that exits leaves an entry for a shared PMD table in TLBs, while another process frees the table
 * (docs/findings.md#exit-keeps-unshared). Run it as root, on three CPUs. Two processes share the PMD table of HugeTLB pages.
 * One is killed. When it no longer shares the table, and still gives back its other memory, the other one unmaps the HugeTLB
 * pages, and makes new page tables. The status is 0 if that was in time, 1 if the first process had ended before, and 2 if
 * there are no HugeTLB pages. That a CPU uses the freed table, the program does not show.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE		(1UL << 30)		/* what a PMD table maps */
#define AT		((char *)0x4000000000)
#define OTHER		(256UL << 20)		/* bytes that the process gives back after it has unshared the table */
#define SHARED_BY_ONE	(1UL << 56)		/* of /proc/self/pagemap */

static int *ready;

static void pin(int number)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(number, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
}

/* Its CPU is idle afterwards, and keeps the address space. */
static void *wait_on_another_cpu(void *unused)
{
	pin(2);
	(void)*(volatile char *)AT;
	__atomic_add_fetch(ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return unused;
}

static void share_and_wait(void)
{
	pthread_t thread;
	char *other;

	pin(1);
	(void)*(volatile char *)AT;
	other = mmap(AT + 4 * TABLE, OTHER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (other == MAP_FAILED || pthread_create(&thread, NULL, wait_on_another_cpu, NULL))
		_exit(2);
	madvise(other, OTHER, MADV_NOHUGEPAGE);
	memset(other, 1, OTHER);
	__atomic_add_fetch(ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

static int shared_by_one(int pagemap)
{
	uint64_t entry = 0;

	pread(pagemap, &entry, sizeof(entry), (uintptr_t)AT / getpagesize() * sizeof(entry));
	return !!(entry & SHARED_BY_ONE);
}

/* Zombies have given back their memory. */
static int has_ended(pid_t child)
{
	siginfo_t info = { 0 };

	waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == child;
}

int main(void)
{
	int pool = open("/proc/sys/vm/nr_hugepages", O_WRONLY), pagemap = open("/proc/self/pagemap", O_RDONLY);
	int file = memfd_create("shared", MFD_HUGETLB | MFD_HUGE_2MB), in_time;
	unsigned long offset;
	char *memory;
	pid_t child;

	pin(0);
	ready = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (write(pool, "4", 1) != 1 || ftruncate(file, TABLE) ||
	    mmap(AT, TABLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) != AT)
		return 2;
	*AT = 1;
	child = fork();
	if (!child)
		share_and_wait();
	while (__atomic_load_n(ready, __ATOMIC_SEQ_CST) < 2)
		usleep(1000);
	usleep(20000);
	if (shared_by_one(pagemap)) {
		printf("the table is not shared\n");
		return 2;
	}
	kill(child, SIGKILL);
	while (!shared_by_one(pagemap))
		;
	munmap(AT, TABLE);
	/* A grace period of RCU, after which the table is freed. */
	syscall(SYS_membarrier, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0);
	syscall(SYS_membarrier, 1, 0, 0);
	/* Each page is mapped by a table of its own. */
	memory = mmap(NULL, TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise(memory, TABLE, MADV_NOHUGEPAGE);
	for (offset = 0; offset < TABLE; offset += 2UL << 20)
		memory[offset] = 1;
	in_time = !has_ended(child);
	printf("the table was freed %s the process had ended\n", in_time ? "before" : "after");
	return !in_time;
}
