/* SPDX-License-Identifier: GPL-2.0-only */
/* A memory cgroup (v2) of a program's own: made before the work, removed after it. */
#ifndef LULL_CGROUP_H
#define LULL_CGROUP_H

#include "lull.h"

#include <sys/stat.h>

static char cgroup_path[64];

/* Write @text to a file of the cgroup; ends the program when the kernel refuses. */
static void cgroup_write(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", cgroup_path, file);
	if (!put_file(path, text))
		die("%s: cannot write '%s'", path, text);
}

/* Remove the cgroup; it must be empty. */
__attribute__((unused))
static void cgroup_remove(void)
{
	if (*cgroup_path)
		must(rmdir(cgroup_path));
	*cgroup_path = 0;
}

/* Make the cgroup; skips when the kernel has no memory controller. */
__attribute__((unused))
static void cgroup_make(const char *name)
{
	snprintf(cgroup_path, sizeof(cgroup_path), "/sys/fs/cgroup/lull-%s-%d", name, getpid());
	if (mkdir(cgroup_path, 0755) || access("/sys/fs/cgroup/cgroup.controllers", R_OK))
		skip("no cgroup v2 at /sys/fs/cgroup");
	if (access("/sys/fs/cgroup/cgroup.subtree_control", W_OK))
		skip("the memory controller cannot be enabled");
}

/* Move the calling process into the cgroup: what it touches from now on is charged there. */
__attribute__((unused))
static void cgroup_enter(void)
{
	cgroup_write("cgroup.procs", "0");
}

#endif
