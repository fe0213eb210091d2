/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The teardown switch, for teardown.c and its tests.
 */
#ifndef __ARM64_MM_LULL_TEARDOWN_H
#define __ARM64_MM_LULL_TEARDOWN_H

#include "lull.h"

/**
 * enum lull_teardown_policy - how memory is given back
 * @LULL_TEARDOWN_OFF: page by page, as ever
 * @LULL_TEARDOWN_ON: what can be done for many at once is
 */
enum lull_teardown_policy {
	LULL_TEARDOWN_OFF,
	LULL_TEARDOWN_ON,
};

#if IS_ENABLED(CONFIG_KUNIT)
extern struct lull_switch lull_teardown_switch;
#endif

#endif /* __ARM64_MM_LULL_TEARDOWN_H */
