// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim unlocks a dirty page of a file before it flushes the TLB; fsync() meanwhile takes the page for clean, and a
 * store through an old TLB entry is lost (docs/findings.md#reclaim-unlocks-before-dsb). For x86, with three CPUs. More
 * are lost with a delay of 200 ms before the last try_to_unmap_flush() of shrink_folio_list(): by mdelay() there, or
 * by a QEMU plugin that sleeps when CPU 0 executes its first instruction.
 *
 * The argument is a file of a page or more on a file system with a disk, or a block device; it is overwritten. The status is
 * 0 if the file had all that was stored, 1 if not, and 2 if that could not be tried.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

#define ROUNDS	20
#define PAGE	4096L

static int file, pagemap;
static volatile long *memory;
static long stored, synced;
static int stop, reclaimed;

static void need(int right, const char *what)
{
	if (right)
		return;
	perror(what);
	exit(2);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	need(!sched_setaffinity(0, sizeof(set), &set), "needs three CPUs");
}

static int mapped(void)
{
	uint64_t entry;

	need(pread(pagemap, &entry, 8, (uintptr_t)memory / PAGE * 8) == 8, "pagemap");
	return entry >> 63;
}

static void *store(void *unused)
{
	(void)unused;
	pin(1);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		*memory = ++stored;
	return NULL;
}

static void *sync_file(void *unused)
{
	(void)unused;
	pin(2);
	while (mapped() && !__atomic_load_n(&reclaimed, __ATOMIC_ACQUIRE))
		;
	need(!fsync(file), "fsync");
	need(pread(file, &synced, sizeof(synced), 0) == sizeof(synced), "read");
	usleep(1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Return whether the last store is lost. */
static int lose(void)
{
	pthread_t storer, syncer;
	long found;

	stop = reclaimed = 0;
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	need(memory != MAP_FAILED, "mmap");
	*memory = ++stored;
	need(!pthread_create(&storer, NULL, store, NULL) && !pthread_create(&syncer, NULL, sync_file, NULL), "thread");
	usleep(20000);
	need(!madvise((void *)memory, PAGE, MADV_PAGEOUT), "MADV_PAGEOUT");
	__atomic_store_n(&reclaimed, 1, __ATOMIC_RELEASE);
	pthread_join(storer, NULL);
	pthread_join(syncer, NULL);
	need(!munmap((void *)memory, PAGE), "munmap");
	/* Writes the page, if it is dirty, and drops it. */
	need(!posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
	need(pread(file, &found, sizeof(found), 0) == sizeof(found), "read");
	if (found == stored)
		return 0;
	printf("stored %ld, fsync() saw %ld, the file has %ld\n", stored, synced, found);
	return 1;
}

int main(int argc, char **argv)
{
	int round, lost = 0;

	need(argc == 2, "needs a file, or a block device");
	file = open(argv[1], O_RDWR);
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	need(file >= 0 && pagemap >= 0, "open");
	pin(0);
	for (round = 0; round < ROUNDS; round++)
		lost += lose();
	printf("%d of %d last stores were lost\n", lost, ROUNDS);
	return lost != 0;
}
