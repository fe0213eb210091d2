// SPDX-License-Identifier: GPL-2.0-only
/*
 * The run-time switch of residency, for measurements. While it is off, flushes are
 * broadcasts. Loads and leaves go on as if it were on, so that it can be switched on again.
 */
#include <asm/lull_residency.h>

#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_flushes_on);

LULL_KEY_SWITCH(residency, "on", lull_flushes_on);
