// SPDX-License-Identifier: GPL-2.0-only
/*
 * cover - what a program has reached. See cover.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cover.h"
#include "hash.h"

/* Frames of the stack that tell ways to one function apart. */
#define FRAMES_USED 4

/* Attributes that make two leaves different things: AttrIndx, AP, SH, AF, nG, DBM, contiguous, PXN, UXN, software bits. */
#define ATTRIBUTES 0x07f8000000000fffull

struct coverage *cover_open(const char *file, char *error, size_t size)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct coverage *c = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(*c)))
		c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		snprintf(error, size, "%s: %s", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	return c == MAP_FAILED ? NULL : c;
}

uint8_t *cover_block(struct coverage *c, uint64_t pc)
{
	return &c->reached[hash_mix(0, pc) >> 49];
}

void cover_pending(struct coverage *c, const struct pending *inv, const struct stack *s)
{
	uint64_t key = hash_mix(inv->change, inv->old & ATTRIBUTES);
	cpumask others = inv->held & ~CPU(inv->cpu);

	/* What an invalid descriptor has is an address, too. */
	key = hash_mix(key, inv->new & 1 ? inv->new & ATTRIBUTES : inv->new != 0);
	key = hash_mix(key, inv->what.level + 1);
	key = hash_mix(key, inv->context->kernel | !!others << 1 | !!(others & inv->context->loaded) << 2);
	for (unsigned int i = 0; s && i < s->n && i < FRAMES_USED; i++)
		key = hash_mix(key, s->pc[i]);
	c->reached[COVER_HALF + (key >> 49)] = 1;
}
