/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The teardown switch, for teardown.c and its tests.
 */
#ifndef __ARM64_MM_LULL_TEARDOWN_H
#define __ARM64_MM_LULL_TEARDOWN_H

#include "lull.h"

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_teardown_switch;
#endif

#endif /* __ARM64_MM_LULL_TEARDOWN_H */
