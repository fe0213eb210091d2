/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs about HVO share. HVO: HugeTLB pages give back most of the memory that holds their struct pages (the
 * vmemmap). Lull's kernels can do so only if they were booted with hugetlb_free_vmemmap=on.
 */
#ifndef HVO_H
#define HVO_H

#include "lull.h"

#define OPTIMIZE	"/proc/sys/vm/hugetlb_optimize_vmemmap"
#define POOLS		"/sys/kernel/mm/hugepages/"
#define GIB		(1UL << 30)

/* The flag of mmap() for HugeTLB pages of @bytes. */
#define huge_flag(bytes)	(__builtin_ctzl(bytes) << MAP_HUGE_SHIFT)

/* Return the number of pages of the vmemmap that are in use, those from before boot included. */
long memmap(void);

/* Return the path of a file of the pool of HugeTLB pages of @bytes. It is overwritten by the next call. */
const char *pool(size_t bytes, const char *file);

/* Skip a kernel that has no HugeTLB pages of @bytes, before anything changes. */
void need_pool(size_t bytes);

/* Return true if the kernel was booted with hugetlb_free_vmemmap=on. */
bool booted_with_hvo(void);

#endif
