/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What can be set of a pause, for its users and its tests.
 */
#ifndef __ARM64_MM_LULL_PAUSE_H
#define __ARM64_MM_LULL_PAUSE_H

extern unsigned int lull_pause_wait_ms;	/* of the first try; then twice that */

#endif /* __ARM64_MM_LULL_PAUSE_H */
