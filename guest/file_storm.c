// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files on a real file system, written through shared mappings while the kernel cleans their pages, writes them out,
 * copies them and frees them, for every reason that it has. The file system is ext4, or ext2 where there is no ext4, on
 * a zRAM device of the program's own.
 *
 *	write		threads store to a mapped file all the time. Meanwhile their process has the file written back,
 *			paged out and dropped, maps it a second time and unmaps that mapping, truncates it and punches
 *			holes. Each page is compared with what was stored to it last, in memory and on the device
 *	crowd		many processes map one file and store to the same pages, each to words of its own
 *	reclaim		reclaims the memory of all of them
 *	flush		calls sync(), so that kernel threads write pages back
 *	drop		drops clean pages from the page cache
 *	move		makes the kernel compact memory
 *	hotplug		takes CPUs offline and online; only if asked for
 *
 * If the kernel misses a store, the store is lost when the page is dropped, and the next comparison finds an older
 * value.
 */
#include "cgroup.h"
#include "disk.h"
#include "storm_actors.h"

#define FILE_PAGES	48
#define CROWD_PAGES	32
#define STORERS		2
#define MOST_PAGES	256L	/* of a file */

static long crowded = 12, pages = FILE_PAGES;
static const char *on = "ext4";

static const struct option_spec options[] = {
	STORM_OPTIONS,
	{ "crowd", &crowded, NULL, "how many processes map one file; at most 120" },
	{ "pages", &pages, NULL, "of each file that a process has for itself" },
	{ "on", NULL, &on, "a file system, for mount; or 'device': the mapped files are parts of a device" },
	{ }
};

static const char *const rows[] = {
	"pgpgin", "pgpgout", "pswpin", "pswpout", "nr_dirtied", "nr_written", "pgmigrate_success", "pgsteal_file", NULL
};

enum {
	STORED = OFFLINED + 1, SYNCED, PAGED_OUT, DROPPED, MAPPED_TWICE, CUT, PUNCHED, COMPARED, READ_BACK,
	RECLAIMS, SYNCS, COMPACTIONS, SHARED, TALLIES
};

static const char *const tallies[] = {
	"offlined", "stored", "synced", "paged_out", "dropped", "mapped_twice", "cut", "punched", "compared", "read_back",
	"reclaims", "syncs", "compactions", "shared"
};

static bool is_device(void)
{
	return !strcmp(on, "device");
}

/* ---- a file, and what each page of it holds ---- */

struct file {
	int fd;
	off_t at;		/* offset of its first byte: 0, or an offset in the device */
	size_t size;
	char *memory;
	long *first, *second;	/* what the first and the second word of each page must be */
};

/* Open file number @number. */
static void open_file(struct file *f, long number, size_t size)
{
	char path[96];

	f->size = size;
	f->at = is_device() ? number * MOST_PAGES * PAGE : 0;
	if (is_device())
		snprintf(path, sizeof(path), "%s", disk.device);
	else
		snprintf(path, sizeof(path), "%s/%ld", disk.place, number);
	f->fd = must(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
	if (!is_device())
		must(ftruncate(f->fd, size));
	f->memory = map_at(fresh(size), size, MAP_SHARED, -1);
	must(mmap(f->memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->fd, f->at));
	f->first = (long *)map_memory(size / PAGE * sizeof(long), MAP_PRIVATE);
	f->second = (long *)map_memory(size / PAGE * sizeof(long), MAP_PRIVATE);
}

static volatile long *word(char *memory, long page, int number)
{
	return (volatile long *)(memory + page * PAGE) + number;
}

static void compare(const struct file *f, char *memory, const char *where)
{
	long page;

	for (page = 0; page < (long)(f->size / PAGE); page++) {
		long first = *word(memory, page, 0), second = *word(memory, page, 1);

		verify(first == f->first[page], "%s: page %ld holds %ld, and %ld was stored there last", where, page, first,
		       f->first[page]);
		verify(second == f->second[page], "%s: page %ld has %ld in its second word, and %ld was stored there", where,
		       page, second, f->second[page]);
	}
}

/* ---- write ---- */

/* The threads with which a process stores to its file. */
static struct {
	struct file *file;
	pthread_t thread[STORERS];
	long pause, paused;
	bool stop;
} storers;

static long load(long *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/*
 * Store to the file all the time. Each thread has pages of its own, and stores to them repeatedly, so that its CPU has
 * entries for them.
 */
static void *store_on(void *argument)
{
	struct file *f = storers.file;
	long number = (long)argument, n = f->size / PAGE / STORERS, i, page, value = 0;
	uint64_t random = sequence(getpid(), number);

	while (!__atomic_load_n(&storers.stop, __ATOMIC_RELAXED)) {
		if (load(&storers.pause)) {
			__atomic_add_fetch(&storers.paused, 1, __ATOMIC_ACQ_REL);
			while (load(&storers.pause))
				usleep(100);
			__atomic_sub_fetch(&storers.paused, 1, __ATOMIC_ACQ_REL);
		}
		for (i = 0; i < 64; i++) {
			page = any(&random, n) * STORERS + number;
			*word(f->memory, page, 0) = ++value;
			f->first[page] = value;
		}
		count(STORED);
		/* Other processes need the CPU, too, but most of the time the thread runs in user space. */
		if (one_in(&random, 16))
			nap(&random, 2000);
		if (one_in(&random, 64))
			hop(&random, 0);
	}
	return NULL;
}

static void pause_storers(void)
{
	__atomic_store_n(&storers.pause, 1, __ATOMIC_RELEASE);
	while (load(&storers.paused) < STORERS)
		usleep(100);
}

static void resume_storers(void)
{
	__atomic_store_n(&storers.pause, 0, __ATOMIC_RELEASE);
	while (load(&storers.paused))
		usleep(100);
}

/* Write the file back and compare its contents on the device, bypassing the page cache. */
static void read_back(struct file *f)
{
	static char *buffer;
	char path[40];
	int fd;

	if (!buffer)
		buffer = map_memory(f->size, MAP_PRIVATE);
	must(fsync(f->fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	fd = must(open(path, O_RDONLY | O_DIRECT | O_CLOEXEC));
	verify(must(pread(fd, buffer, f->size, f->at)) == (ssize_t)f->size, "a short read");
	close(fd);
	compare(f, buffer, "on the device");
	count(READ_BACK);
}

/* Map the file a second time, make pages dirty through that mapping, and unmap it. */
static void map_twice(struct file *f, uint64_t *random)
{
	size_t size = f->size / 2;
	char *view = must((char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, f->at));
	long i, page;

	for (i = 0; i < 16; i++) {
		page = any(random, size / PAGE);
		*word(view, page, 1) = ++f->second[page];
	}
	if (one_in(random, 2))
		must(mprotect(view, size, PROT_READ));
	if (one_in(random, 2))
		must(madvise(view, size, MADV_DONTNEED));
	must(munmap(view, size));
	count(MAPPED_TWICE);
}

static void forget(struct file *f, long page, long end)
{
	for (; page < end; page++)
		f->first[page] = f->second[page] = 0;
}

/* Truncate the file or punch a hole into it. The storing threads must be paused. */
static void cut(struct file *f, uint64_t *random)
{
	long n = f->size / PAGE, from = any(random, n), end = from + any(random, n - from);

	if (!is_device() && one_in(random, 2)) {
		must(ftruncate(f->fd, from * PAGE));
		must(ftruncate(f->fd, f->size));
		forget(f, from, n);
		count(CUT);
		return;
	}
	if (end == from ||
	    fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, f->at + from * PAGE, (end - from) * PAGE))
		return;
	forget(f, from, end);
	count(PUNCHED);
}

static void sync_some(struct file *f, uint64_t *random)
{
	size_t from = any(random, f->size / PAGE) * PAGE;

	switch (any(random, 3)) {
	case 0:
		must(fsync(f->fd));
		break;
	case 1:
		must(msync(f->memory + from, f->size - from, MS_SYNC));
		break;
	case 2:
		must(sync_file_range(f->fd, f->at + from, f->size - from,
				     SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
		break;
	}
	count(SYNCED);
}

static void one_change(struct file *f, uint64_t *random)
{
	switch (any(random, 8)) {
	case 0:
	case 1:
		step("written back");
		sync_some(f, random);
		break;
	case 2:
	case 3:
		step("paged out, and written back at once");
		must(madvise(f->memory, f->size, MADV_PAGEOUT));
		count(PAGED_OUT);
		if (one_in(random, 2))
			sync_some(f, random);
		break;
	case 4:
		step("dropped");
		must(posix_fadvise(f->fd, f->at, f->size, POSIX_FADV_DONTNEED) ? -1 : 0);
		count(DROPPED);
		break;
	case 5:
	case 6:
		step("mapped twice");
		map_twice(f, random);
		break;
	case 7:
		step("compared");
		pause_storers();
		compare(f, f->memory, "in memory");
		count(COMPARED);
		if (one_in(random, 2))
			read_back(f);
		if (one_in(random, 2))
			cut(f, random);
		resume_storers();
		break;
	}
}

static void write_file(uint64_t random)
{
	struct file f;
	long i;

	cgroup_enter();
	open_file(&f, 1 + (mine - shared->progress), pages * PAGE);
	memset(f.memory, 0, f.size);
	storers.file = &f;
	for (i = 0; i < STORERS; i++)
		verify(!pthread_create(&storers.thread[i], NULL, store_on, (void *)i), "no thread");
	while (!stopped()) {
		one_change(&f, &random);
		if (one_in(&random, 8))
			hop(&random, 0);
		nap(&random, 1000);
	}
	__atomic_store_n(&storers.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < STORERS; i++)
		pthread_join(storers.thread[i], NULL);
	compare(&f, f.memory, "in memory, at the end");
	read_back(&f);
}

/* ---- crowd ---- */

/* Each process has a word of its own in each page, behind the words of "write". */
static void share(struct file *f, int number, uint64_t random)
{
	long n = f->size / PAGE, page, i;

	while (!stopped()) {
		for (i = 0; i < 8; i++) {
			page = any(&random, n);
			verify(*word(f->memory, page, 2 + number) == f->first[page],
			       "process %d of a crowd: page %ld holds %ld, and %ld was stored there last", number, page,
			       *word(f->memory, page, 2 + number), f->first[page]);
			*word(f->memory, page, 2 + number) = ++f->first[page];
		}
		count(SHARED);
		nap(&random, 20000);
	}
	for (page = 0; page < n; page++)
		verify(*word(f->memory, page, 2 + number) == f->first[page],
		       "process %d of a crowd: page %ld holds something else at the end", number, page);
	_exit(0);
}

static void crowd(uint64_t random)
{
	struct file f;
	pid_t pid[128];
	int i, status, left;

	cgroup_enter();
	open_file(&f, 1 + (mine - shared->progress), CROWD_PAGES * PAGE);
	memset(f.memory, 0, f.size);
	for (i = 0; i < crowded; i++) {
		pid[i] = fork_plain();
		if (!pid[i])
			share(&f, i, sequence(next_random(&random), i));
	}
	for (left = crowded; left;) {
		usleep(20000);
		step("one of a crowd");
		if (one_in(&random, 4))
			must(fsync(f.fd));
		for (i = 0; i < crowded; i++) {
			if (!pid[i] || must(waitpid(pid[i], &status, WNOHANG)) != pid[i])
				continue;
			verify(!status, "process %d of a crowd ended with wait status 0x%x", i, status);
			pid[i] = 0;
			left--;
		}
	}
}

/* ---- what happens to all of them ---- */

static void reclaim(uint64_t random)
{
	while (!stopped()) {
		step("memory.reclaim");
		/* Reclaim keeps pages that were used meanwhile, and then fails the write. */
		put_file(cgroup_file("memory.reclaim"), one_in(&random, 4) ? "1M" : "128K");
		count(RECLAIMS);
		nap(&random, 20000);
	}
}

static void flush(uint64_t random)
{
	while (!stopped()) {
		step("sync");
		sync();
		count(SYNCS);
		nap(&random, 200000);
	}
}

static void drop(uint64_t random)
{
	while (!stopped()) {
		step("drop_caches");
		put_file("/proc/sys/vm/drop_caches", "1");
		nap(&random, 400000);
	}
}

static void move(uint64_t random)
{
	while (!stopped()) {
		step("compact_memory");
		put_file("/proc/sys/vm/compact_memory", "1");
		count(COMPACTIONS);
		nap(&random, 1000000);
	}
}

static const struct actor actors[] = {
	{ "write", write_file, 1, NULL },
	{ "crowd", crowd, 1, NULL },
	{ "reclaim", reclaim, 1, NULL },
	{ "flush", flush, 1, NULL },
	{ "drop", drop, 1, NULL },
	{ "move", move, 1, NULL },
	{ "hotplug", plug, 1, &hotplug },
};

static const struct storm files = { actors, sizeof(actors) / sizeof(*actors), rows, tallies, TALLIES };

int main(int argc, char **argv)
{
	actors_wanted = "write,crowd,reclaim,flush,drop,move";
	parse_options(argc, argv, "files written through mappings while their pages are cleaned and reclaimed", options);
	check_wishes(&files);
	if (crowded > 120 || pages < STORERS || pages > MOST_PAGES)
		finish(USAGE, "crowd=%ld, pages=%ld: at most 120, and from %d to %ld", crowded, pages, STORERS,
		       MOST_PAGES);
	cgroup_make("file-storm");
	make_disk(is_device() ? NULL : on, 64);
	run_storm(&files);
	return 0;
}
