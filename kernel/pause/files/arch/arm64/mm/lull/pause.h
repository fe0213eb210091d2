/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What can be set of a pause, for its users and its tests.
 */
#ifndef __ARM64_MM_LULL_PAUSE_H
#define __ARM64_MM_LULL_PAUSE_H

/* Of the first try; then twice that. 0, for tests: nobody comes in no time. */
extern unsigned int lull_pause_wait_ms;

#endif /* __ARM64_MM_LULL_PAUSE_H */
