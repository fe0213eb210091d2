// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it costs to give memory back, as system C was measured (docs/glossary.md has systems A to E). A process maps and
 * touches memory of one kind. The window, the part that is measured, has one of these in it:
 *
 *	how=exit	a child ends that has the memory (the default)
 *	how=fork	a forked child ends that shares all of its parent's memory: its page tables are freed, the pages stay
 *	how=munmap	the memory is unmapped
 *	how=dontneed	the memory is discarded with MADV_DONTNEED
 *	how=truncate	the file in tmpfs is truncated, after it was unmapped
 *
 * A case is a kind of memory: anonymous in folios of 4 KiB, 32 KiB (order 3, as published for system C), 64 KiB, 2 MiB,
 * or a file in folios of 4 KiB, 2 MiB. On a kernel with larger pages the smallest and the largest folios are larger,
 * and the cases are named accordingly. The program verifies in smaps or in the kernel's statistics that the memory has
 * such folios.
 *
 * windows=N measures each case N times. With munmap, dontneed and truncate the memory of all N windows is touched
 * before the first, so that no window uses pages that an earlier one freed. exit and fork have a new child for each
 * window. cgroup=1 runs all of it in a memory cgroup of its own, to which the memory is charged. mib=0 has a size for
 * each case that takes about 250,000 instructions, less than the time between two ticks
 * (guest/README.md). The program needs root, and changes the settings of huge pages while it runs.
 */
#include "cgroup.h"

#include <sys/mount.h>

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define FOLDER	"/tmp/teardown"

static long mib = 32, windows = 1, cgroup;
static const char *how = "exit", *wanted = "";

static const struct option_spec options[] = {
	{ "mib", &mib, NULL, "memory torn down in a window, MiB (even); 0: what takes about 250,000 instructions" },
	{ "windows", &windows, NULL, "times each case is measured" },
	{ "cgroup", &cgroup, NULL, "1: in a memory cgroup of its own, as services are" },
	{ "how", NULL, &how, "exit, fork, munmap, dontneed or truncate" },
	{ "case", NULL, &wanted, "one of the cases only" },
	{ }
};

static const char *const rows[] = { "pgfree", NULL };

enum folio { SMALL, MIDDLE, LARGE };	/* a page; a size between; one that an entry above the last level maps */

static struct kind {
	bool file;		/* true: tmpfs; false: anonymous */
	enum folio folio;
	size_t bytes;		/* of a folio */
	size_t freed;		/* bytes that a window frees with mib=0; SMALL: pages */
	char name[32];
} kinds[] = {
	{ false, SMALL, 0, 256, "" }, { false, MIDDLE, 32 << 10, 4 << 20, "" },
	{ false, MIDDLE, 64 << 10, 8 << 20, "" }, { false, LARGE, 0, 32 << 20, "" },
	{ true, SMALL, 0, 128, "" }, { true, LARGE, 0, 32 << 20, "" },
};

#define KINDS	(sizeof(kinds) / sizeof(*kinds))

/* Fill in the sizes that depend on the size of a page, and the names: "anon-4k" to "file-2m" with pages of 4 KiB. */
static void name_kinds(void)
{
	struct kind *k;

	for (k = kinds; k < kinds + KINDS; k++) {
		if (k->folio == SMALL) {
			k->bytes = PAGE;
			k->freed *= PAGE;
		} else if (k->folio == LARGE) {
			k->bytes = HUGE;
			if (k->freed < HUGE)
				k->freed = HUGE;
		}
		snprintf(k->name, sizeof(k->name), "%s-%zu%c", k->file ? "file" : "anon",
			 k->bytes >> (k->bytes >> 20 ? 20 : 10), k->bytes >> 20 ? 'm' : 'k');
	}
}

/* Go on in a child that is in a cgroup of its own; its parent ends as the child does. */
static void enter_cgroup(void)
{
	int status;
	pid_t child;

	cgroup_make("teardown");
	child = must(fork());
	if (!child) {
		cgroup_enter();
		return;
	}
	must(waitpid(child, &status, 0));
	if (!WIFEXITED(status))
		die("the child in the cgroup was killed by signal %d", WTERMSIG(status));
	exit(WEXITSTATUS(status));
}

static bool is_how(const char *word)
{
	return !strcmp(how, word);
}

/*
 * Can this kind be measured by this how=? truncate needs a file. fork needs anonymous memory: fork() does not copy the
 * page tables of a shared mapping of a file.
 */
static bool fits(const struct kind *kind)
{
	return (kind->file || !is_how("truncate")) && (!kind->file || !is_how("fork"));
}

/* The settings that decide about the size of anonymous folios: which size in bytes, 0 for all. */
static struct setting {
	size_t folio;
	char path[96];
} settings[] = { { .folio = 0 }, { .folio = 1 }, { .folio = 64 << 10 }, { .folio = 32 << 10 } };

#define SETTINGS	(sizeof(settings) / sizeof(*settings))

static void save_settings(void)
{
	struct setting *s;

	settings[1].folio = HUGE;
	for (s = settings; s < settings + SETTINGS; s++) {
		if (s->folio)
			snprintf(s->path, sizeof(s->path), THP "hugepages-%zukB/enabled", s->folio >> 10);
		else
			snprintf(s->path, sizeof(s->path), THP "enabled");
		keep_setting(s->path);
	}
}

/*
 * Make this the size of new anonymous folios. Return false if that cannot be set here. A kernel before 6.8 has no
 * settings for single sizes: its folios are SMALL, or LARGE if "enabled" permits.
 */
static bool choose_anon(const struct kind *kind)
{
	struct setting *s;
	bool chosen;

	if (kind->folio == SMALL)
		return true;
	for (s = settings; s < settings + SETTINGS; s++) {
		chosen = !s->folio || s->folio == kind->bytes;
		if (!put_file(s->path, chosen ? "madvise" : "never") && chosen && !(s->folio && kind->folio == LARGE))
			return false;
	}
	return true;
}

/* Return how many anonymous folios of a size between the others page faults have got, or -1 for the others. */
static long middle_folios(const struct kind *kind)
{
	char path[128];

	snprintf(path, sizeof(path), THP "hugepages-%zukB/stats/anon_fault_alloc", kind->bytes >> 10);
	return kind->folio == MIDDLE ? number_in(path) : -1;
}

/* Mount a tmpfs whose files have the wanted folios. A kernel without huge pages does not know the option. */
static bool mount_files(const struct kind *kind)
{
	mkdir(FOLDER, 0700);
	if (kind->folio == LARGE)
		return !mount("teardown", FOLDER, "tmpfs", 0, "huge=always");
	return !mount("teardown", FOLDER, "tmpfs", 0, "huge=never") || !mount("teardown", FOLDER, "tmpfs", 0, NULL);
}

/* Map new memory of one kind, aligned for huge pages; @file: where to store its file. */
static char *map_kind(const struct kind *kind, size_t size, int *file)
{
	char *memory = must((char *)mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	int flags = MAP_FIXED | (kind->file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);

	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	*file = -1;
	if (kind->file) {
		*file = must(open(FOLDER "/file", O_RDWR | O_CREAT | O_TRUNC, 0600));
		must(ftruncate(*file, size));
	}
	memory = must((char *)mmap(memory, size, PROT_READ | PROT_WRITE, flags, *file, 0));
	if (!kind->file && kind->folio == SMALL)
		use_small_pages(memory, size);
	else if (!kind->file)
		must(madvise(memory, size, MADV_HUGEPAGE));
	return memory;
}

/* Return the KiB of a field in smaps, summed over all mappings. */
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

/*
 * End with SKIPPED if more than a tenth of the memory is not in large folios of this kind. Fail if memory of a case with
 * smaller folios is mapped huge.
 */
static void verify_kind(const struct kind *kind, size_t size, long middle_before)
{
	const char *field = kind->file ? "ShmemPmdMapped:" : "AnonHugePages:";
	long huge = smaps(field), want = (long)(size >> 10);

	if (kind->folio == LARGE && huge < want * 9 / 10)
		skip("%s: %ld of %ld KiB are mapped huge", kind->name, huge, want);
	verify(kind->folio == LARGE || !huge, "%s: %ld KiB are mapped huge", kind->name, huge);
	if (!kind->file && middle_before >= 0 &&
	    middle_folios(kind) - middle_before < want / (long)(kind->bytes >> 10) * 9 / 10)
		skip("%s: the kernel gave no such folios", kind->name);
}

static char content(size_t at)
{
	return (char)(at / PAGE % 251 + 1);
}

static void verify_content(const char *memory, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		verify(memory[at] == content(at), "page %zu lost its contents", at / PAGE);
}

/* Map memory of one kind, and touch every page. */
static char *take(const struct kind *kind, size_t size, int *file)
{
	long before = middle_folios(kind);
	char *memory = map_kind(kind, size, file);
	size_t at;

	for (at = 0; at < size; at += PAGE)
		memory[at] = content(at);
	verify_kind(kind, size, before);
	verify_content(memory, size);
	return memory;
}

static void begin(void)
{
	fresh_window();
	begin_vmstat(rows);
}

/*
 * One window of exit or fork: start a child, wait until it has its memory, and measure its end. @inherited is the
 * memory that it shares with its parent; NULL: it maps memory of its own.
 */
static void leave(const struct kind *kind, size_t size, const char *inherited)
{
	int down[2], up[2], file;
	char byte;
	pid_t pid;

	must(pipe(down));
	must(pipe(up));
	pid = fork_child();
	if (!pid) {
		close(up[0]);
		if (inherited)
			verify_content(inherited, size);
		else
			take(kind, size, &file);
		tell(up[1]);
		hear(down[0]);
		_exit(0);
	}
	close(up[1]);
	if (read(up[0], &byte, 1) == 1) {
		begin();
		open_window();
		tell(down[1]);
		must(waitpid(pid, NULL, 0));
		close_window();
		end_vmstat(rows);
	} else {
		wait_child(pid);
	}
	close(up[0]);
	close(down[0]);
	close(down[1]);
}

/*
 * One window of munmap, dontneed or truncate: give back @size bytes at @memory, the last that are left. truncate cuts
 * @file to @before bytes.
 */
static void give_back(char *memory, size_t size, int file, size_t before)
{
	begin();
	open_window();
	if (is_how("munmap"))
		must(munmap(memory, size));
	else if (is_how("dontneed"))
		must(madvise(memory, size, MADV_DONTNEED));
	else
		must(ftruncate(file, before));
	close_window();
	end_vmstat(rows);
}

/*
 * Verify what give_back() did: memory that was unmapped is not mapped; a file that was truncated has no pages;
 * discarded memory reads as zero, and of a file as what is in the file.
 */
static void verify_gone(const struct kind *kind, const char *memory, size_t size, int file)
{
	unsigned char there;
	struct stat status;
	size_t at;

	if (is_how("munmap")) {
		for (at = 0; at < size; at += HUGE)
			verify(mincore((void *)(memory + at), PAGE, &there) < 0 && errno == ENOMEM,
			       "page %zu is still mapped", at / PAGE);
	} else if (is_how("truncate")) {
		must(fstat(file, &status));
		verify(!status.st_size && !status.st_blocks, "the file still has pages");
	} else if (kind->file) {
		verify_content(memory, size);
	} else {
		for (at = 0; at < size; at += PAGE)
			verify(!memory[at], "page %zu is not empty", at / PAGE);
	}
}

/* Return the bytes that a window frees. */
static size_t size_of(const struct kind *kind)
{
	return mib ? (size_t)mib << 20 : kind->freed;
}

/* Return true if the memory of all windows that have theirs at once is at most three quarters of this machine's. */
static bool has_room(const struct kind *kind)
{
	size_t at_once = size_of(kind) * (is_how("exit") || is_how("fork") ? 1 : windows);
	struct sysinfo memory;

	must(sysinfo(&memory));
	return at_once <= memory.totalram * memory.mem_unit / 4 * 3;
}

/* Run all windows of a case. one() calls it in a process of its own. */
static void play(const struct kind *kind)
{
	size_t size = size_of(kind), total = windows * size;
	struct window *closed = calloc(windows, sizeof(*closed));
	char *memory = NULL;
	int file;
	long i;

	verify(closed, "out of memory");
	if (is_how("fork"))
		memory = take(kind, size, &file);
	else if (!is_how("exit"))
		memory = take(kind, total, &file);
	if (is_how("truncate"))
		must(munmap(memory, total));
	for (i = 0; i < windows; i++) {
		size_t before = total - (i + 1) * size;

		if (is_how("exit") || is_how("fork"))
			leave(kind, size, memory);
		else
			give_back(memory + before, size, file, before);
		closed[i] = window;
	}
	if (is_how("fork"))
		verify_content(memory, size);
	else if (memory)
		verify_gone(kind, memory, total, file);
	report_windows(closed, windows, kind->name, size / PAGE, "page");
	exit(0);
}

/* Run one case. Returns false if this kernel cannot run it. */
static bool one(const struct kind *kind)
{
	int status;
	pid_t pid;

	if (!has_room(kind)) {
		fprintf(stderr, "teardown: this machine has too little memory for %s\n", kind->name);
		return false;
	}
	if ((kind->folio == MIDDLE && kind->bytes <= PAGE) || !(kind->file ? mount_files(kind) : choose_anon(kind))) {
		fprintf(stderr, "teardown: this kernel has no folios for %s\n", kind->name);
		return false;
	}
	pid = fork_child();
	if (!pid)
		play(kind);
	must(waitpid(pid, &status, 0));
	verify(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED),
	       "%s: the child ended with wait status 0x%x", kind->name, status);
	if (kind->file)
		must(umount(FOLDER));
	return !WEXITSTATUS(status);
}

static bool known_how(void)
{
	return is_how("exit") || is_how("fork") || is_how("munmap") || is_how("dontneed") || is_how("truncate");
}

int main(int argc, char **argv)
{
	const unsigned int count = KINDS;
	bool found = false, ran = false;
	unsigned int i;

	parse_options(argc, argv, "memory is given back", options);
	if (!known_how())
		finish(USAGE, "how is exit, fork, munmap, dontneed or truncate, not '%s'", how);
	if (mib % 2)
		finish(USAGE, "mib is an even number");
	if (windows < 1 || windows > 999 / count)
		finish(USAGE, "windows is 1 to %u: they are numbered to 999", 999 / count);
	if (cgroup)
		enter_cgroup();
	name_kinds();
	save_settings();
	/* Stay on one CPU: a CPU that waits for another one executes instructions that are not part of the teardown. */
	pin(0);
	for (i = 0; i < count; i++) {
		if (!fits(&kinds[i]) || (*wanted && strcmp(wanted, kinds[i].name)))
			continue;
		found = true;
		window.number = i * windows;	/* the child continues from here: one number per window */
		ran |= one(&kinds[i]);
	}
	if (!found)
		/* Workloads name the cases that kernels with pages of 4 KiB have. */
		finish(PAGE == 4096 ? USAGE : SKIPPED,
		       "how=%s has no case '%s' with pages of %lu KiB: %s %s %s %s %s %s", how, wanted,
		       PAGE >> 10, kinds[0].name, kinds[1].name, kinds[2].name, kinds[3].name, kinds[4].name,
		       kinds[5].name);
	return ran ? 0 : SKIPPED;
}
