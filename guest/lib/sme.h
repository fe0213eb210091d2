/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SME, the Scalable Matrix Extension: memory accesses in streaming mode, by programs that are compiled for ARMv8.0.
 * To Linux, a thread uses SME from its first such instruction on (TIF_SME).
 */
#ifndef SME_H
#define SME_H

#include "lull.h"

#define SME_ROW	256	/* bytes of a row of ZA, at most */

/* Return true if the CPU and the kernel have it. */
bool have_sme(void);

/*
 * In streaming mode, copy a row of ZA between two places of SME_ROW bytes, again and again until *@stop is not 0, and
 * count the copies in *@copies. The last copy begins after *@stop was set. ZA stays on, as between two functions that
 * use it.
 */
void sme_copy(const void *from, void *to, const int *stop, long *copies);

#endif
