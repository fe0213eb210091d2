/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that run beside the measured work, each on a CPU of its own, and read a few pages of their own again and
 * again. A flush that is wider than necessary removes the entries of these pages from their CPUs' TLBs.
 */
#ifndef LULL_HOT_H
#define LULL_HOT_H

#include "lull.h"

/* Start @count threads, on CPU 1 and up. The caller must run on CPU 0. */
void hot_start(long count);

/* Wait until each thread has read all its pages @times more. */
void hot_rounds(long times);

void hot_end(void);

#endif
