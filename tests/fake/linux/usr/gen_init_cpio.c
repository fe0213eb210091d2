// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fake tree's initramfs writer: the same command line and list as the kernel's own, for the kinds of lines the
 * lab writes (dir, file, slink, nod).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int written, inode = 1;

static void out(const void *data, size_t size)
{
	fwrite(data, 1, size, stdout);
	written += size;
}

static void pad(void)
{
	while (written % 4)
		out("", 1);
}

static void entry(const char *name, unsigned int mode, const char *data, size_t size)
{
	char head[111];

	if (*name == '/')
		name++;
	snprintf(head, sizeof(head), "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", inode++, mode, 0, 0, 1,
		 0, (unsigned int)size, 3, 1, 0, 0, (unsigned int)strlen(name) + 1, 0);
	out(head, 110);
	out(name, strlen(name) + 1);
	pad();
	out(data, size);
	pad();
}

static void file(const char *name, const char *source, unsigned int mode)
{
	FILE *in = fopen(source, "rb");
	size_t size = 0, got;
	char *data = NULL;

	if (!in) {
		perror(source);
		exit(1);
	}
	do {
		data = realloc(data, size + 65536);
		got = data ? fread(data + size, 1, 65536, in) : 0;
		size += got;
	} while (got);
	fclose(in);
	entry(name, 0100000 | mode, data, size);
	free(data);
}

int main(int argc, char **argv)
{
	FILE *list = argc > 1 ? fopen(argv[argc - 1], "r") : NULL;
	char line[4096], kind[8], name[1024], rest[1024];
	unsigned int mode;

	if (!list) {
		perror("list");
		return 1;
	}
	while (fgets(line, sizeof(line), list)) {
		if (sscanf(line, "file %1023s %1023s %o", name, rest, &mode) == 3)
			file(name, rest, mode);
		else if (sscanf(line, "slink %1023s %1023s %o", name, rest, &mode) == 3)
			entry(name, 0120000 | mode, rest, strlen(rest));
		else if (sscanf(line, "%7s %1023s %o", kind, name, &mode) == 3)
			entry(name, (strcmp(kind, "dir") ? 0020000 : 0040000) | mode, "", 0);
	}
	entry("TRAILER!!!", 0, "", 0);
	fclose(list);
	return 0;
}
