/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * written - the rule `written`: a page that may no longer be written must not be
 * writable through an old entry.
 *
 * A kernel that marks a page clean, hands it to I/O or copies its contents relies on
 * every later store to the page to fault. A CPU that still holds an old, writable
 * entry stores without a fault, and the store is lost. The caller says when a kernel
 * relies on this for a page (shadow_written()). This module then looks for pending invalidations
 * (pending.h) whose old entry leads to the page and permits writing.
 *
 * A CPU stores through an entry of user space when it executes user code. So a CPU on
 * the pending invalidation's list that has the address space loaded is reported at once if it
 * executes user code. Otherwise it is reported when it next does, unless the
 * invalidation is complete by then: until then the kernel may still flush. The last
 * user of an address space never returns to user space, and need not flush.
 *
 * An entry permits writing when its AP[2] is clear. A descriptor with AP[2] and DBM set
 * is clean: to make it dirty, hardware would have to update the descriptor in memory,
 * which is invalid by now, so a store through such an entry faults. Where hardware made
 * this update before, no store instruction cleared AP[2]; shadow_wrote() reads it from
 * memory.
 *
 * Kinds:
 *	no-tlbi		no TLBI that covers the entry was issued
 *	no-dsb		one was issued, and no DSB has completed it
 *	unlocked	as no-dsb, when a page of a file is unlocked
 *	mapped		a page is copied, and a guest may still write to it: by a valid entry of stage 2
 */
#ifndef LULL_WRITTEN_H
#define LULL_WRITTEN_H

#include "shadow.h"

/* The CPU begins to execute user code with this context: report what it can still write. */
void written_user(struct shadow *s, unsigned int cpu, struct context *c);

#endif
