/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * list - doubly linked, circular, embedded; the head is a node too.
 */
#ifndef LULL_LIST_H
#define LULL_LIST_H

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline void list_add(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Leaves the node as an empty list, so that deleting it again is harmless. */
static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline int list_empty(const struct list *head)
{
	return head->next == head;
}

/* The body may delete the current node, but no other. */
#define list_for(node, head) \
	for (struct list *node = (head)->next, *next_ = node->next; \
	     node != (head); node = next_, next_ = node->next)

#endif
