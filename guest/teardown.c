// SPDX-License-Identifier: GPL-2.0-only
/*
 * System C: what it costs to give memory back. A child maps and touches memory of one kind, then, in the window, goes
 * (how=exit), unmaps it (munmap) or discards it (dontneed). A case per kind of folio; that it really was of that kind
 * is verified in smaps or the kernel's own statistics.
 */
#include "lull.h"

#include <sys/mount.h>
#include <sys/stat.h>

#define HUGE	(2UL << 20)
#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define MTHP	THP "hugepages-64kB/"

static long mib = 32;
static const char *how = "exit", *wanted = "";

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory torn down, MiB (even)" },
	{ "how", NULL, &how, "exit, munmap or dontneed" },
	{ "case", NULL, &wanted, "one of the cases only" },
	{ }
};

static const char *const rows[] = { "pgfree", NULL };

struct kind {
	const char *name;
	bool file;		/* tmpfs, else anonymous */
	const char *folio;	/* "4k", "64k", "2m" */
};

static const struct kind kinds[] = {
	{ "anon-4k", false, "4k" }, { "anon-64k", false, "64k" }, { "anon-2m", false, "2m" },
	{ "file-4k", true, "4k" }, { "file-2m", true, "2m" },
};

/* First number in a file of the kernel, or -1. */
static long number_in(const char *path)
{
	FILE *in = fopen(path, "r");
	long value = -1;

	if (in) {
		if (fscanf(in, "%ld", &value) != 1)
			value = -1;
		fclose(in);
	}
	return value;
}

/* What decides about the size of anonymous folios, and how it was set when we came. */
static struct setting {
	const char *path;
	char before[32];
} settings[] = { { THP "enabled", "" }, { THP "hugepages-2048kB/enabled", "" }, { MTHP "enabled", "" } };

/* Keep the word in [brackets] of each setting. */
static void save_settings(void)
{
	struct setting *s;

	for (s = settings; s < settings + 3; s++)
		if (!chosen_word(s->path, s->before))
			*s->before = 0;
}

static void restore_settings(void)
{
	struct setting *s;

	for (s = settings; s < settings + 3; s++)
		if (*s->before)
			put_file(s->path, s->before);
}

/* Let anonymous memory come in the wanted size only; false when this kernel has no such folios. */
static bool choose_anon(const char *folio)
{
	bool huge = !strcmp(folio, "2m"), middle = !strcmp(folio, "64k");

	if (!strcmp(folio, "4k"))
		return true;
	return put_file(settings[0].path, "madvise") &&
	       put_file(settings[1].path, huge ? "madvise" : "never") &&
	       put_file(settings[2].path, middle ? "madvise" : "never");
}

/* A tmpfs of our own whose files have the wanted folios. */
static bool mount_files(const char *folio)
{
	mkdir("/tmp/teardown", 0700);
	return !mount("teardown", "/tmp/teardown", "tmpfs", 0, strcmp(folio, "2m") ? "huge=never" : "huge=always");
}

static char *map_kind(const struct kind *kind, size_t size)
{
	char *memory;
	int fd;

	if (kind->file) {
		fd = must(open("/tmp/teardown/file", O_RDWR | O_CREAT, 0600));
		must(ftruncate(fd, size));
		/* An aligned address, so that huge folios are mapped huge. */
		memory = must((char *)mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
		memory = must((char *)mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
		close(fd);
		return memory;
	}
	memory = map_memory(size + HUGE, MAP_PRIVATE);
	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	must(madvise(memory, size, strcmp(kind->folio, "4k") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
	return memory;
}

/* KiB of a field in smaps, summed over all mappings. */
static long smaps(const char *field)
{
	FILE *in = fopen("/proc/self/smaps", "r");
	char line[256];
	long sum = 0;

	verify(in, "no /proc/self/smaps");
	while (fgets(line, sizeof(line), in))
		if (!strncmp(line, field, strlen(field)))
			sum += atol(line + strlen(field));
	fclose(in);
	return sum;
}

/* End with SKIPPED when the kernel gave other folios than wanted. */
static void verify_kind(const struct kind *kind, size_t size, long middle_before)
{
	const char *field = kind->file ? "ShmemPmdMapped:" : "AnonHugePages:";
	long huge = smaps(field), want = (long)(size >> 10);

	if (!strcmp(kind->folio, "2m") && huge < want * 9 / 10)
		skip("%s: %ld of %ld KiB are mapped huge", kind->name, huge, want);
	verify(!strcmp(kind->folio, "2m") || !huge, "%s: %ld KiB are mapped huge", kind->name, huge);
	if (!strcmp(kind->folio, "64k") &&
	    number_in(MTHP "stats/anon_fault_alloc") - middle_before < want / 64 * 9 / 10)
		skip("%s: the kernel gave no 64 KiB folios", kind->name);
}

static void child(const struct kind *kind, size_t size, int told, int say)
{
	long before = number_in(MTHP "stats/anon_fault_alloc");
	char *memory = map_kind(kind, size);
	size_t at;

	for (at = 0; at < size; at += PAGE)
		memory[at] = (char)(at / PAGE % 251 + 1);
	verify_kind(kind, size, before);
	for (at = 0; at < size; at += PAGE)
		verify(memory[at] == (char)(at / PAGE % 251 + 1), "page %zu lost its contents", at / PAGE);
	tell(say);
	hear(told);
	if (!strcmp(how, "exit"))
		_exit(0);
	if (!strcmp(how, "munmap"))
		must(munmap(memory, size));
	else
		must(madvise(memory, size, MADV_DONTNEED));
	tell(say);
	hear(told);
	exit(0);
}

/* One case; false when this kernel cannot run it. */
static bool one(const struct kind *kind)
{
	size_t size = mib << 20;
	int down[2], up[2], status;
	bool there;
	char byte;
	pid_t pid;

	if (!(kind->file ? mount_files(kind->folio) : choose_anon(kind->folio))) {
		fprintf(stderr, "teardown: this kernel has no folios for %s\n", kind->name);
		return false;
	}
	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid) {
		close(up[0]);
		child(kind, size, down[0], up[1]);
	}
	close(up[1]);
	there = read(up[0], &byte, 1) == 1;
	if (there) {
		fresh_window();
		begin_vmstat(rows);
		open_window();
		tell(down[1]);
		if (!strcmp(how, "exit"))
			must(waitpid(pid, &status, 0));
		else
			hear(up[0]);
		close_window();
		end_vmstat(rows);
		tell(down[1]);
	}
	if (!there || strcmp(how, "exit"))
		must(waitpid(pid, &status, 0));
	verify(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED),
	       "%s: the child ended with wait status 0x%x", kind->name, status);
	if (kind->file)
		must(umount("/tmp/teardown"));
	if (there)
		report(kind->name, size / PAGE, "page", "");
	return there;
}

int main(int argc, char **argv)
{
	bool found = false, ran = false;
	unsigned int i;

	parse_options(argc, argv, "memory is given back", options);
	if (strcmp(how, "exit") && strcmp(how, "munmap") && strcmp(how, "dontneed"))
		finish(USAGE, "how is exit, munmap or dontneed, not '%s'", how);
	if (mib < 2 || mib % 2)
		finish(USAGE, "mib is an even number, 2 at least");
	save_settings();
	/* On one CPU: one that waits for another executes instructions that are not the teardown's. */
	pin(0);
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (*wanted && strcmp(wanted, kinds[i].name))
			continue;
		found = true;
		ran |= one(&kinds[i]);
	}
	restore_settings();
	if (!found)
		finish(USAGE, "no case '%s': anon-4k anon-64k anon-2m file-4k file-2m", wanted);
	return ran ? 0 : SKIPPED;
}
