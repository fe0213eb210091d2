/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ram - the guest's memory, as it is mapped into this process.
 */
#ifndef LULL_RAM_H
#define LULL_RAM_H

#include <stdbool.h>
#include <stdint.h>

struct ram {
	unsigned char *host;	/* where it is mapped */
	uint64_t base, size;	/* guest physical, bytes */
};

static inline bool ram_has(const struct ram *r, uint64_t pa, uint64_t size)
{
	return pa >= r->base && pa - r->base < r->size &&
	       r->size - (pa - r->base) >= size;
}

/* Other vCPUs write it meanwhile: each word is read once, whole. */
static inline bool ram_read(void *memory, uint64_t pa, uint64_t *value)
{
	const struct ram *r = memory;

	if (pa & 7 || !ram_has(r, pa, 8))
		return false;
	*value = __atomic_load_n((uint64_t *)(r->host + (pa - r->base)),
				 __ATOMIC_RELAXED);
	return true;
}

/*
 * Compare two pages or blocks. Returns 0 if they have the same contents; otherwise 1 + the
 * offset of the first byte that differs. Memory that is not in @r counts as different.
 */
static inline uint64_t ram_differs(const struct ram *r, uint64_t a, uint64_t b, uint64_t size)
{
	if (!ram_has(r, a, size) || !ram_has(r, b, size))
		return 1;
	for (uint64_t at = 0; at < size; at++)
		if (r->host[a - r->base + at] != r->host[b - r->base + at])
			return 1 + at;
	return 0;
}

#endif
