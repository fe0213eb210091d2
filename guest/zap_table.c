// SPDX-License-Identifier: GPL-2.0-only
/*
 * MADV_DONTNEED gives back a whole page table of dirty pages of a file, while another thread truncates the file, or has it
 * written back. Whoever looks for mappings of such a page must find the table, and wait for its lock, until the TLB is
 * flushed and the mappings are given up (docs/findings.md#zap-hides-mappings).
 *
 *	truncate	a memfd. The kernel says in its log if a page that is still mapped is removed from the file
 *	clean		a file on a disk. For the checker: its rule "written" needs no thread that stores through the old entries
 */
#include "disk.h"

#include <sys/klog.h>

static long rounds = 200;
static const char *how = "truncate";

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "times that the table is given back" },
	{ "how", NULL, &how, "what happens meanwhile: truncate, clean" },
	{ }
};

#define LAST	(HUGE / 8)	/* the pages whose mappings are given up last, in bytes */

static char *memory;
static int file;
static long turn, done;

static void *disturb(void *unused)
{
	volatile long delay;

	(void)unused;
	pin(1);
	for (long n = 1; n <= rounds; n++) {
		while (seen(&turn) < n)
			;
		/* Later and later within the call that gives the table back. */
		for (delay = n * 7919 % 20000; delay; delay--)
			;
		if (*how == 't') {
			must(ftruncate(file, HUGE - LAST));
			must(ftruncate(file, HUGE));
		} else {
			must(sync_file_range(file, HUGE - LAST, LAST, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
		}
		__atomic_store_n(&done, n, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Return true if the kernel's log has a complaint. */
static bool has_complained(void)
{
	static char log[1 << 18];
	int bytes = must(klogctl(3, log, sizeof(log) - 1));

	log[bytes] = '\0';
	return strstr(log, "Bad page") || strstr(log, "Bad rss");
}

int main(int argc, char **argv)
{
	pthread_t other;
	long n, page, pages;
	char path[80];

	parse_options(argc, argv, "give back a page table while the file is truncated or written back", options);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("needs two CPUs");
	if (PAGE != 4096)
		skip("for pages of 4 KiB");
	pin(0);
	if (*how == 't') {
		file = must(memfd_create("zap_table", 0));
	} else {
		make_disk("ext4", 16);
		snprintf(path, sizeof(path), "%s/file", disk.place);
		file = must(open(path, O_RDWR | O_CREAT, 0600));
	}
	must(ftruncate(file, HUGE));
	pages = HUGE / PAGE;
	memory = must((char *)mmap((void *)(1UL << 40), HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0));
	must(pthread_create(&other, NULL, disturb, NULL));
	open_window();
	for (n = 1; n <= rounds; n++) {
		for (page = 0; page < pages; page++)
			*(volatile long *)(memory + page * PAGE) = n;
		__atomic_store_n(&turn, n, __ATOMIC_RELEASE);
		must(madvise(memory, HUGE, MADV_DONTNEED));
		while (seen(&done) < n)
			;
	}
	close_window();
	pthread_join(other, NULL);
	verify(!has_complained(), "the kernel's log has a complaint");
	report("", rounds, "table", "");
	return 0;
}
