/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A memory cgroup (v2) of the program's own, which is made before the work and removed after it.
 */
#ifndef LULL_CGROUP_H
#define LULL_CGROUP_H

#include "lull.h"

/* Make the cgroup; skip if there is no memory controller, or no swap to which reclaim could write. */
void cgroup_make(const char *name);

/* Return the path of a file of the cgroup. It is overwritten by the next call. */
const char *cgroup_file(const char *file);

/* Write @text to a file of the cgroup; end the program if the kernel refuses. */
void cgroup_write(const char *file, const char *text);

/* Reclaim all that can be reclaimed: lower the limit for a moment. */
void cgroup_lower_limit(void);

/* Move the calling process into the cgroup: pages that it touches from now on are charged there. */
void cgroup_enter(void);

/*
 * Remove the cgroup; retry while its last process exits. Only the process that made the cgroup removes it, also when
 * it fails.
 */
void cgroup_remove(void);

#endif
