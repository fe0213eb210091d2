// SPDX-License-Identifier: GPL-2.0-only
#include "disk.h"

#include <sys/mount.h>

#define ZRAM	"/sys/class/zram-control/"

struct disk disk = { .number = -1 };

/* Unmount only in the process that mounted. Another process may keep the file system busy for a moment. */
static void remove_disk(void)
{
	char text[24];
	int tries;

	if (disk.number < 0 || disk.maker != getpid())
		return;
	for (tries = 0; disk.mounted && umount(disk.place) && errno == EBUSY && tries < 200; tries++)
		usleep(5000);
	if (*disk.place)
		rmdir(disk.place);
	snprintf(text, sizeof(text), "%d", disk.number);
	for (tries = 0; !put_file(ZRAM "hot_remove", text) && tries < 200; tries++)
		usleep(5000);
	disk.number = -1;
}

static void make_file_system(const char *type)
{
	pid_t pid = fork_plain();

	if (!pid) {
		must(dup2(must(open("/dev/null", O_WRONLY)), 1));
		execl("/bin/busybox", "busybox", "mke2fs", "-b", "4096", disk.device, NULL);
		die("no busybox");
	}
	wait_child(pid);
	snprintf(disk.place, sizeof(disk.place), "/tmp/files-%d", disk.number);
	must(mkdir(disk.place, 0755));
	if (mount(disk.device, disk.place, type, 0, NULL)) {
		/* ENOENT: the file system needs something that this kernel has not, as CRC32C for ext4. */
		if (errno != ENODEV && errno != ENOENT)
			die("%s: mount", disk.device);
		if (strcmp(type, "ext4"))
			skip("this kernel cannot mount %s", type);
		if (mount(disk.device, disk.place, "ext2", 0, NULL))
			skip("this kernel can mount neither ext4 nor ext2");
	}
	disk.mounted = true;
}

void make_disk(const char *type, long mib)
{
	FILE *in = fopen(ZRAM "hot_add", "r");
	char path[64], size[24];

	if (!in || fscanf(in, "%d", &disk.number) != 1)
		skip("this kernel makes no zRAM devices");
	fclose(in);
	disk.maker = getpid();
	must(atexit(remove_disk));
	snprintf(path, sizeof(path), "/sys/block/zram%d/disksize", disk.number);
	snprintf(size, sizeof(size), "%ldM", mib);
	if (!put_file(path, size)) {
		if (errno == EINVAL)
			skip("this kernel has no compression for zRAM");
		die("%s: cannot write %s", path, size);
	}
	snprintf(disk.device, sizeof(disk.device), "/dev/zram%d", disk.number);
	if (type)
		make_file_system(type);
}
