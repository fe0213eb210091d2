// SPDX-License-Identifier: GPL-2.0-only
/* Files of the kernel. They are apart from what every program needs, because scanf() is large. */
#include "lull.h"

bool put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

long number_in(const char *path)
{
	FILE *in = fopen(path, "r");
	long value;

	if (!in)
		return -1;
	if (fscanf(in, "%ld", &value) != 1)
		value = -1;
	fclose(in);
	return value;
}

long row_in(const char *path, const char *name)
{
	FILE *in = fopen(path, "r");
	long value, found = -1;
	char row[80];

	if (!in)
		return -1;
	while (fscanf(in, "%79s %ld", row, &value) == 2)
		if (!strcmp(row, name))
			found = value;
	fclose(in);
	return found;
}

long vmstat(const char *name)
{
	return row_in("/proc/vmstat", name);
}

void begin_vmstat(const char *const *rows)
{
	for (; *rows; rows++) {
		long value = vmstat(*rows);

		if (value >= 0)
			add_metric(*rows, value);
	}
}

void end_vmstat(const char *const *rows)
{
	int i;

	for (; *rows; rows++)
		for (i = 0; i < window.metrics; i++)
			if (window.name[i] == *rows)
				window.value[i] = vmstat(*rows) - window.value[i];
}

void complete_vmstat(void)
{
	put_file("/proc/sys/vm/stat_refresh", "1");
}

bool chosen_word(const char *path, char *word)
{
	FILE *in = fopen(path, "r");
	char row[256], *choice = row;

	if (!in)
		return false;
	if (!fgets(row, sizeof(row), in))
		*row = 0;
	fclose(in);
	if (strchr(row, '['))
		choice = strchr(row, '[') + 1;
	return sscanf(choice, "%31[^] \n]", word) == 1;
}

static struct {
	char path[96], word[32];
} kept[4];

static unsigned int n_kept;
static pid_t keeper;

static void put_back(void)
{
	while (keeper == getpid() && n_kept) {
		n_kept--;
		put_file(kept[n_kept].path, kept[n_kept].word);
	}
}

void keep_setting(const char *path)
{
	verify(n_kept < sizeof(kept) / sizeof(*kept), "too many settings");
	if (!chosen_word(path, kept[n_kept].word))
		return;
	if (!n_kept)
		must(atexit(put_back));
	keeper = getpid();
	snprintf(kept[n_kept++].path, sizeof(kept->path), "%s", path);
}

long isolated(void)
{
	return number_in("/sys/devices/system/cpu/isolated");
}

bool set_online(long cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online", cpu);
	return put_file(path, online ? "1" : "0");
}

void wait_asleep(pid_t pid)
{
	char path[64], state = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'S') {
		usleep(5000);
		in = fopen(path, "r");
		verify(in && fscanf(in, "%*d (%*[^)]) %c", &state) == 1, "%s: no state", path);
		fclose(in);
	}
}
