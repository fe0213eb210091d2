// SPDX-License-Identifier: GPL-2.0-only
/*
 * munmap() of HugeTLB pages whose PMD table is shared leaves them in the TLBs, with pages of 16 KiB
 * (docs/findings.md#gather-range-truncated). Run it as root, on two CPUs. Two processes map a file of HugeTLB pages, with the
 * size that one PMD table maps. One of them unmaps the file, while a thread of it reads the file on another CPU. The status is
 * 0 if the thread has a page fault, 1 if it reads on, and 2 if there are no HugeTLB pages.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char *page;
static volatile long reads, faulted;

static void pin(int number)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(number, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
}

static void on_fault(int number)
{
	(void)number;
	faulted = 1;
	for (;;)
		pause();
}

static void *read_on(void *unused)
{
	pin(1);
	for (;; reads++)
		(void)*page;
	return unused;
}

static void unmap_while_read(size_t size)
{
	pthread_t thread;
	long before;

	pin(0);
	signal(SIGSEGV, on_fault);
	(void)*page;	/* The process shares the table of its parent now. */
	if (pthread_create(&thread, NULL, read_on, NULL))
		_exit(2);
	while (reads < 1000)
		;
	munmap((void *)page, size);
	before = reads;
	usleep(200000);
	printf("after munmap(), a thread on another CPU read %ld times, %s a page fault\n", reads - before,
	       faulted ? "then had" : "without");
	fflush(stdout);
	_exit(!faulted);
}

int main(void)
{
	const size_t base = sysconf(_SC_PAGESIZE), size = base / 8 * (base / 8) * base;
	FILE *pool = fopen("/proc/sys/vm/nr_hugepages", "w");
	int fd = memfd_create("table", MFD_HUGETLB), status;
	char *memory;
	pid_t pid;

	if (pool) {
		fputs("2\n", pool);
		fclose(pool);
	}
	if (fd < 0 || ftruncate(fd, size)) {
		perror("file of HugeTLB pages");
		return 2;
	}
	memory = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	memory = (char *)(((uintptr_t)memory + size - 1) & ~(size - 1));
	page = mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
	if (page == MAP_FAILED) {
		perror("mmap of HugeTLB pages");
		return 2;
	}
	*page = 1;
	pid = fork();
	if (!pid)
		unmap_while_read(size);
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 2;
	return WEXITSTATUS(status);
}
