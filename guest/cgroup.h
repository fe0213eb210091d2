/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A memory cgroup (v2) of the program's own, which is made before the work and removed after it.
 */
#ifndef LULL_CGROUP_H
#define LULL_CGROUP_H

#include "lull.h"

#include <sys/stat.h>
#include <sys/sysinfo.h>

static char cgroup_path[64];
static pid_t cgroup_maker;

/* Write @text to a file of the cgroup; end the program if the kernel refuses. */
static void cgroup_write(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", cgroup_path, file);
	if (!put_file(path, text))
		die("%s: cannot write '%s'", path, text);
}

/*
 * Remove the cgroup; retry while its last process exits. Only the process that made the cgroup removes it, also when
 * it fails.
 */
static void cgroup_remove(void)
{
	struct timespec moment = { .tv_nsec = 5 * 1000 * 1000 };
	int tries;

	if (!*cgroup_path || cgroup_maker != getpid())
		return;
	for (tries = 0; rmdir(cgroup_path) && errno == EBUSY && tries < 200; tries++)
		nanosleep(&moment, NULL);
	*cgroup_path = 0;
}

/* Make the cgroup; skip if there is no memory controller, or no swap to which reclaim could write. */
__attribute__((unused))
static void cgroup_make(const char *name)
{
	struct sysinfo memory;
	char limit[128];

	must(sysinfo(&memory));
	if (!memory.totalswap)
		skip("no swap device is in use");
	snprintf(cgroup_path, sizeof(cgroup_path), "/sys/fs/cgroup/lull-%s-%d", name, getpid());
	if (mkdir(cgroup_path, 0755)) {
		*cgroup_path = 0;
		skip("no cgroup can be made in /sys/fs/cgroup");
	}
	if (!cgroup_maker)
		must(atexit(cgroup_remove));
	cgroup_maker = getpid();
	snprintf(limit, sizeof(limit), "%s/memory.max", cgroup_path);
	if (access(limit, W_OK))
		skip("no memory controller in /sys/fs/cgroup");
}

/* Move the calling process into the cgroup: pages that it touches from now on are charged there. */
__attribute__((unused))
static void cgroup_enter(void)
{
	cgroup_write("cgroup.procs", "0");
}

#endif
