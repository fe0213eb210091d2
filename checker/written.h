/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * written - the rule `written`: a page that may no longer be written must not be
 * writable through an old entry.
 *
 * A kernel that marks a page clean, hands it to I/O or copies its contents
 * relies on this: every later store to the page faults. A CPU that still holds
 * an old, writable entry stores without a fault, and the store is lost. The
 * caller says when a kernel relies on it for a page; this looks for obligations
 * (owe.h) whose old entry leads to the page and permits writing.
 *
 * A CPU stores through an entry of user space when it executes user code. So a
 * CPU on the obligation's list that has the address space loaded is reported at
 * once if it executes user code, or else when it next does, unless the
 * invalidation is complete by then. In between the kernel may still flush; the
 * last user of an address space, which never returns to it, need not.
 *
 * What permits writing is a clear AP[2]. A descriptor with AP[2] and DBM set is
 * clean: the hardware's update of the dirty state would need the descriptor in
 * memory, which is invalid by now, so that such an entry faults. Hardware that
 * has made this update clears AP[2] in memory by no store of any instruction:
 * shadow_wrote() finds out.
 *
 * Kinds: no-dsb, a TLBI that covers the entry was issued and no DSB has
 * completed it; no-tlbi, there was none.
 */
#ifndef LULL_WRITTEN_H
#define LULL_WRITTEN_H

#include "shadow.h"

/* User code runs on the CPU, with this context. */
void written_user(struct shadow *s, unsigned int cpu, struct context *c);

#endif
