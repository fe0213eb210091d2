// SPDX-License-Identifier: GPL-2.0-only
/*
 * MADV_COLLAPSE of a huge page of tmpfs that is mapped by PTEs forgets that it was written to, and reclaim then drops it
 * (docs/findings.md#collapse-loses-dirty). Run it as root, with swap: it mounts a tmpfs below /tmp for itself. The argument
 * "no" leaves the collapse out. The status is 0 if reclaim took the pages and the file has what was written, 1 if it has
 * not, and 2 if that could not be tried.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define HUGE	(2L << 20)	/* with pages of 4 KiB */
#define PAGE	4096L

static int file;

static void need(int right, const char *what)
{
	if (right)
		return;
	perror(what);
	exit(2);
}

static char *map_at(char *where)
{
	int fixed = where ? MAP_FIXED : 0;
	char *memory = mmap(where, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, file, 0);

	need(memory != MAP_FAILED, "mmap");
	return memory;
}

static char written(long at)
{
	return at / PAGE % 100 + 1;
}

/* Return how many pages have not what was written. */
static long count_wrong(const volatile char *memory)
{
	long at, wrong = 0;

	for (at = 0; at < HUGE; at += PAGE)
		wrong += memory[at] != written(at);
	return wrong;
}

/* Return how many pages are in the page cache. */
static long count_cached(char *memory)
{
	unsigned char cached[HUGE / PAGE];
	long i, n = 0;

	need(!mincore(memory, HUGE, cached), "mincore");
	for (i = 0; i < HUGE / PAGE; i++)
		n += cached[i] & 1;
	return n;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/collapse-XXXXXX", path[64], *space, *huge, *small;
	long at, before, after, left;
	volatile char sum = 0;

	need(!unshare(CLONE_NEWNS), "unshare");
	need(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount private");
	need(mkdtemp(folder) != NULL, "mkdtemp");
	need(!mount("none", folder, "tmpfs", 0, "huge=always,size=16m"), "mount tmpfs with huge=always");
	snprintf(path, sizeof(path), "%s/file", folder);
	file = open(path, O_RDWR | O_CREAT, 0600);
	need(file >= 0 && !ftruncate(file, HUGE), path);

	/* Two mappings of the file, at multiples of 2 MiB. */
	space = mmap(NULL, 3 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(space != MAP_FAILED, "mmap");
	space = (char *)(((uintptr_t)space + HUGE - 1) & ~(HUGE - 1));
	huge = map_at(space);
	small = map_at(space + HUGE);

	/* A read allocates a huge page, which is clean. */
	need(!madvise(huge, HUGE, MADV_HUGEPAGE), "MADV_HUGEPAGE");
	sum += *(volatile char *)huge;
	/* Reads map it by PTEs that are clean, and may be written to without a page fault. */
	need(!madvise(small, HUGE, MADV_NOHUGEPAGE), "MADV_NOHUGEPAGE");
	for (at = 0; at < HUGE; at += PAGE)
		sum += *(volatile char *)(small + at);
	/* This makes the PTEs dirty, and not the page. */
	for (at = 0; at < HUGE; at += PAGE)
		small[at] = written(at);
	need(!madvise(small, HUGE, MADV_HUGEPAGE), "MADV_HUGEPAGE");
	if (argc < 2 || strcmp(argv[1], "no"))
		need(!madvise(small, HUGE, MADV_COLLAPSE), "MADV_COLLAPSE");
	need(!munmap(huge, HUGE) && !munmap(small, HUGE), "munmap");

	map_at(huge);
	before = count_wrong(huge);
	need(!madvise(huge, HUGE, MADV_PAGEOUT), "MADV_PAGEOUT");
	left = count_cached(huge);
	after = count_wrong(huge);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
	printf("pages that have not what was written: %ld before reclaim, %ld after it\n", before, after);
	if (before || after)
		return 1;
	if (left)
		printf("nothing is shown: reclaim left %ld of %ld pages\n", left, HUGE / PAGE);
	return left ? 2 : 0;
}
