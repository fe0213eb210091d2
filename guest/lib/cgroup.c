// SPDX-License-Identifier: GPL-2.0-only
#include "cgroup.h"

static char cgroup[64];		/* its folder; "": none */
static pid_t maker;

const char *cgroup_file(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	return path;
}

void cgroup_write(const char *file, const char *text)
{
	if (!put_file(cgroup_file(file), text))
		die("%s: cannot write '%s'", cgroup_file(file), text);
}

void cgroup_lower_limit(void)
{
	cgroup_write("memory.high", "0");
	cgroup_write("memory.high", "max");
}

void cgroup_enter(void)
{
	cgroup_write("cgroup.procs", "0");
}

void cgroup_remove(void)
{
	int tries;

	if (!*cgroup || maker != getpid())
		return;
	for (tries = 0; rmdir(cgroup) && errno == EBUSY && tries < 200; tries++)
		usleep(5000);
	*cgroup = 0;
}

void cgroup_make(const char *name)
{
	struct sysinfo memory;

	must(sysinfo(&memory));
	if (!memory.totalswap)
		skip("no swap device is in use");
	snprintf(cgroup, sizeof(cgroup), "/sys/fs/cgroup/lull-%s-%d", name, getpid());
	if (mkdir(cgroup, 0755)) {
		*cgroup = 0;
		skip("no cgroup can be made in /sys/fs/cgroup");
	}
	if (!maker)
		must(atexit(cgroup_remove));
	maker = getpid();
	if (access(cgroup_file("memory.max"), W_OK))
		skip("no memory controller in /sys/fs/cgroup");
}
