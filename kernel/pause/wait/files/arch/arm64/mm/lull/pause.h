/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests may replace in a pause.
 */
#ifndef __ARM64_MM_LULL_PAUSE_H
#define __ARM64_MM_LULL_PAUSE_H

#if IS_ENABLED(CONFIG_KUNIT)
void lull_pause_asked(void);
#endif

#endif /* __ARM64_MM_LULL_PAUSE_H */
