/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A zRAM device of the program's own, with a file system on it or without. It is removed when the program ends.
 */
#ifndef LULL_DISK_H
#define LULL_DISK_H

#include "lull.h"

extern struct disk {
	char device[32], place[64];	/* place: where the file system is mounted */
	int number;
	bool mounted;
	pid_t maker;
} disk;

/*
 * Make the device.
 * @type: the file system to mount, of the family of ext2; ext4: ext2 where the kernel has no ext4; NULL: none
 */
void make_disk(const char *type, long mib);

#endif
