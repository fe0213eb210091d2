// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run-time switches of residency and gather, for measurements. While residency is off,
 * flushes are broadcasts. Loads and leaves go on, so that it can be switched on again.
 */
#include <asm/lull_residency.h>

#include "lull.h"

DEFINE_STATIC_KEY_FALSE(lull_flushes_on);
DEFINE_STATIC_KEY_FALSE(lull_gather_on);

LULL_KEY_SWITCH(residency, "on", lull_flushes_on);
LULL_KEY_SWITCH(gather, "runs", lull_gather_on);
