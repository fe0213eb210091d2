/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hash - chained hash table of structs that embed a node.
 *
 * hash_first() and hash_next() give the nodes with the same 64-bit key. The key may be
 * a mixture of several values, so the caller compares them. The table grows by itself.
 */
#ifndef LULL_HASH_H
#define LULL_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct hash_node {
	struct hash_node *next, **link;	/* link: the pointer that points to this node */
	uint64_t key;
};

struct hash {
	struct hash_node **bucket;
	unsigned int shift;	/* 64 - log2 of the number of buckets */
	size_t n;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* Fibonacci hashing: the high bits of the product depend on all bits of the values. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
	return (a ^ (b * 0xd6e8feb86659fd93ull)) * 0x9e3779b97f4a7c15ull;
}

static inline struct hash_node **hash_bucket(const struct hash *h, uint64_t key)
{
	return &h->bucket[(key * 0x9e3779b97f4a7c15ull) >> h->shift];
}

static inline void hash_put(struct hash_node **bucket, struct hash_node *node)
{
	node->next = *bucket;
	node->link = bucket;
	if (node->next)
		node->next->link = &node->next;
	*bucket = node;
}

static inline void hash_resize(struct hash *h, unsigned int bits)
{
	struct hash old = *h;

	h->bucket = calloc((size_t)1 << bits, sizeof(*h->bucket));
	if (!h->bucket)
		abort();
	h->shift = 64 - bits;
	for (size_t i = 0; old.bucket && i < (size_t)1 << (64 - old.shift); i++) {
		while (old.bucket[i]) {
			struct hash_node *node = old.bucket[i];

			old.bucket[i] = node->next;
			hash_put(hash_bucket(h, node->key), node);
		}
	}
	free(old.bucket);
}

static inline void hash_add(struct hash *h, struct hash_node *node, uint64_t key)
{
	if (!h->bucket)
		hash_resize(h, 6);
	else if (h->n >= (size_t)2 << (64 - h->shift))
		hash_resize(h, 64 - h->shift + 2);
	node->key = key;
	hash_put(hash_bucket(h, key), node);
	h->n++;
}

static inline void hash_del(struct hash *h, struct hash_node *node)
{
	*node->link = node->next;
	if (node->next)
		node->next->link = node->link;
	h->n--;
}

static inline struct hash_node *hash_same(struct hash_node *node, uint64_t key)
{
	while (node && node->key != key)
		node = node->next;
	return node;
}

static inline struct hash_node *hash_first(const struct hash *h, uint64_t key)
{
	return h->n ? hash_same(*hash_bucket(h, key), key) : NULL;
}

static inline struct hash_node *hash_next(const struct hash_node *node)
{
	return hash_same(node->next, node->key);
}

#endif
