/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory whose contents are known, and other functions that all storms use.
 */
#ifndef STORM_H
#define STORM_H

#include "lull.h"

/* POLICY, the switch that makes flushes local, is defined on the command line: src/lull/guest/__init__.py. */

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

/* Return the word that page @at holds after fill() with @seed. */
static inline long expected(size_t at, long seed)
{
	return (long)(at / PAGE * 0x9e3779b9UL + seed + 1);
}

__attribute__((unused))
static void fill(char *memory, size_t size, long seed)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		*(volatile long *)(memory + at) = expected(at, seed);
}

__attribute__((unused))
static void check(const char *memory, size_t size, long seed, const char *what)
{
	size_t at;

	for (at = 0; at < size; at += PAGE) {
		long holds = *(volatile const long *)(memory + at);	/* read once: a second read might be right */

		verify(holds == expected(at, seed), "%s: page %zu, at %p, holds 0x%lx, not 0x%lx", what, at / PAGE,
		       memory + at, holds, expected(at, seed));
	}
}

__attribute__((unused))
static void check_zero(const char *memory, size_t size, const char *what)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		verify(*(volatile const long *)(memory + at) == 0, "%s: page %zu is not empty", what, at / PAGE);
}

/* Return addresses that nothing else uses. Each is returned only once. */
static inline char *fresh(size_t size)
{
	static char *next;

	if (!next)
		next = (char *)(0x2000UL << 20);
	next = (char *)(((uintptr_t)next + 2 * HUGE - 1) & ~(HUGE - 1));
	next += size;
	return next - size;
}

static inline char *map_at(char *place, size_t size, int flags, int fd)
{
	char *memory = must((char *)mmap(place, size, PROT_READ | PROT_WRITE,
					 flags | (fd < 0 ? MAP_ANONYMOUS : 0) | MAP_FIXED_NOREPLACE, fd, 0));

	verify(memory == place, "the kernel does not know MAP_FIXED_NOREPLACE");
	return memory;
}

/* Map small pages at unused addresses, and fill them. */
__attribute__((unused))
static char *small(size_t size, long seed)
{
	char *memory = map_at(fresh(size), size, MAP_PRIVATE, -1);

	use_small_pages(memory, size);
	fill(memory, size, seed);
	return memory;
}

#endif
