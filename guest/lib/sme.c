// SPDX-License-Identifier: GPL-2.0-only
#include "sme.h"

#include <sys/auxv.h>

bool have_sme(void)
{
#ifdef __aarch64__
	return getauxval(AT_HWCAP2) & 1UL << 23;	/* HWCAP2_SME */
#else
	return false;
#endif
}

void sme_copy(const void *from, void *to, const int *stop, long *copies)
{
#ifdef __aarch64__
	asm volatile(".arch_extension sme\n"
		     "	smstart\n"
		     "	mov	w12, wzr\n"
		     "1:	ldar	w13, [%[stop]]\n"
		     "	ldr	za[w12, 0], [%[from]]\n"
		     "	str	za[w12, 0], [%[to]]\n"
		     "	ldr	x14, [%[copies]]\n"
		     "	add	x14, x14, #1\n"
		     "	str	x14, [%[copies]]\n"
		     "	cbz	w13, 1b\n"
		     "	smstop	sm\n"
		     : : [stop] "r" (stop), [from] "r" (from), [to] "r" (to), [copies] "r" (copies)
		     : "x12", "x13", "x14", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",
		       "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
		       "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#else
	(void)from, (void)to, (void)stop, (void)copies;
#endif
}
