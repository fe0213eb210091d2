// SPDX-License-Identifier: GPL-2.0-only
/*
 * Change memory while other CPUs use SME, and count the IPIs that Linux sends because of erratum 4193714 of C1-Pro.
 *
 * The erratum: a TLBI removes an entry from all TLBs, and a DSB waits for the TLBI. Nevertheless an access of SME on
 * another CPU may still be under way through this entry. The other CPU completes the access when it enters the kernel.
 * So Linux 7.3 sends IPIs after the DSB:
 *
 *	mprotect(), munmap()	to each CPU that executes user code of the same address space with SME
 *	reclaim			to each CPU that executes any user code with SME, because reclaim flushes pages of many
 *				address spaces at once
 *
 * CPU 0 changes the memory. In each case, one or several users (threads, or another process) run or sleep meanwhile:
 *
 *	running		a thread of the process uses SME on another CPU
 *	everywhere	a thread of the process uses SME on each other CPU
 *	plain		a thread of the process runs on another CPU, and does not use SME
 *	asleep		a thread of the process has used SME on another CPU, and sleeps
 *	here		two threads of the process use SME on CPU 0
 *	another		another process uses SME on another CPU
 *	tables		a thread of the process sleeps during a flush, and then uses SME on another CPU, while CPU 0
 *			frees a page table: residency then broadcasts a TLBI for the whole ASID
 *	pageout		a thread of the process uses SME on another CPU, while pages of the process go to swap
 *	pageout-another	another process uses SME on another CPU, while pages of this process go to swap
 *
 * The program fails if a case has too few or too many IPIs. A kernel without the workaround should send none. No CPU of
 * QEMU has the erratum; `./lull check --cpu max+sme` makes Linux take the CPU max for one that has it.
 */
#include "gate.h"
#include "sme.h"

#include <sys/klog.h>

#define NAP		5000	/* us */
#define SWAPPED		128	/* pages */

static long flushes = 60, tables = 60;

static const struct option_spec options[] = {
	{ "flushes", &flushes, NULL, "protection changes of each case" },
	{ "tables", &tables, NULL, "page tables that are freed" },
	{ }
};

static const char *const rows[] = {
	"tlbi_local", "tlbi_elided", "pswpout", NULL
};

/*
 * A user is a thread of this process, or another process. What it does:
 *	SME	copies memory with SME until @stop is set
 *	PLAIN	counts, without SME, until @stop is set
 *	ASLEEP	copies memory with SME once, and sleeps until @stop is set
 *	NAPS	copies memory with SME while @stop is clear, sleeps while @stop is set, and ends when @end is set
 * @copies grows with each copy, or with each step of counting.
 */
static struct user {
	enum how { SME, PLAIN, ASLEEP, NAPS } how;
	long cpu;
	pthread_t thread;
	pid_t tid;
	int stop, end;
	long copies;
	char copy[SME_ROW];
} *users;		/* shared with the other process */

static volatile long *page;	/* the memory whose protection changes; SME reads it */
static long changes;
static long cpus;
static bool workaround;

static void *use(void *argument)
{
	static const int once = 1;
	struct user *self = argument;

	pin(self->cpu);
	__atomic_store_n(&self->tid, gettid(), __ATOMIC_RELEASE);
	switch (self->how) {
	case PLAIN:
		while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE))
			__atomic_fetch_add(&self->copies, 1, __ATOMIC_RELAXED);
		return NULL;
	case ASLEEP:
		sme_copy((void *)page, self->copy, &once, &self->copies);
		await(&self->stop, 1);
		return NULL;
	case SME:
		sme_copy((void *)page, self->copy, &self->stop, &self->copies);
		break;
	case NAPS:
		while (!__atomic_load_n(&self->end, __ATOMIC_ACQUIRE)) {
			sme_copy((void *)page, self->copy, &self->stop, &self->copies);
			/* Polls @stop, because an IPI that woke this user would be counted. */
			while (__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE) &&
			       !__atomic_load_n(&self->end, __ATOMIC_ACQUIRE))
				usleep(NAP);
		}
	}
	verify(*(long *)self->copy == *page, "SME copied %ld, not %ld", *(long *)self->copy, *page);
	return NULL;
}

/*
 * Wait until each of the first @n users, but those that sleep, has executed user code since the last flush. A user on
 * CPU 0 needs this CPU for that, so the caller yields.
 */
static void wait_users(long n)
{
	long i;

	for (i = 0; i < n; i++) {
		long before = seen(&users[i].copies);

		while (users[i].how != ASLEEP && seen(&users[i].copies) == before)
			if (users[i].cpu == 0)
				sched_yield();
	}
}

/*
 * Return how many function-call IPIs the CPUs with the number @cpu or a higher one have received since boot. The
 * workaround sends IPIs of this kind. The scheduler does, too: to the idle CPU with the lowest number. So callers
 * leave out CPUs with low numbers that have no user.
 */
static long function_calls(long cpu)
{
	FILE *in = fopen("/proc/interrupts", "r");
	char row[4096], *at = NULL, *end;
	long sum = 0, i, n;

	while (in && !at && fgets(row, sizeof(row), in))
		if (strstr(row, "Function call interrupts"))
			at = strchr(row, ':');
	verify(at, "/proc/interrupts has no function call interrupts");
	for (i = 0, at++; n = strtol(at, &end, 10), end != at; i++, at = end)
		sum += i < cpu ? 0 : n;
	fclose(in);
	return sum;
}

/* Return true if the kernel works around the erratum, which its log says at boot. */
static bool works_around(void)
{
	long size = must(klogctl(10, NULL, 0));
	char *log = calloc(1, size + 1);
	bool found;

	must(klogctl(3, log, size));
	if (!strstr(log, "Booting Linux"))
		skip("the kernel's log has lost its beginning, which says whether erratum 4193714 is worked around");
	found = strstr(log, "detected: C1-Pro SME DVMSync early acknowledgement");
	free(log);
	return found;
}

static void change_protection(void)
{
	if (changes++ % 2) {
		must(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
		*page += 1;
	} else {
		must(mprotect((void *)page, PAGE, PROT_READ));
		verify(*page == changes / 2, "page reads %ld, not %ld", *page, changes / 2);
	}
}

static void change_protections(long n)
{
	long i;

	for (i = 0; i < flushes; i++) {
		change_protection();
		wait_users(n);
	}
}

/*
 * Free page tables. For each: the user sleeps, and a flush makes residency note that the user's CPU may hold entries
 * that are out of date (it passes the CPU by). The user uses SME again, and munmap() frees a table. Because of the
 * note, residency broadcasts a TLBI for the whole ASID.
 */
static void free_tables(long n)
{
	char *memory, *table;
	long i;

	for (i = 0; i < tables; i++) {
		__atomic_store_n(&users[0].stop, 1, __ATOMIC_RELEASE);
		wait_asleep(users[0].tid);
		change_protection();
		memory = map_memory(2 * HUGE, MAP_PRIVATE | MAP_NORESERVE);
		use_small_pages(memory, 2 * HUGE);
		table = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
		*table = 1;
		__atomic_store_n(&users[0].stop, 0, __ATOMIC_RELEASE);
		wait_users(n);
		must(munmap(memory, 2 * HUGE));
	}
}

static void page_out(long n)
{
	long *memory = (long *)map_memory(SWAPPED * PAGE, MAP_PRIVATE), i;
	const long words = PAGE / sizeof(long);

	use_small_pages(memory, SWAPPED * PAGE);
	for (i = 0; i < SWAPPED; i++)
		memory[i * words] = i + 1;
	drain_lru();
	wait_users(n);
	must(madvise(memory, SWAPPED * PAGE, MADV_PAGEOUT));
	for (i = 0; i < SWAPPED; i++)
		verify(memory[i * words] == i + 1, "a page that was paged out holds %ld", memory[i * words]);
	must(munmap(memory, SWAPPED * PAGE));
}

/*
 * The cases. @on says where the users are: one on the last CPU (LAST), one on each CPU but CPU 0 (EACH; @users is not
 * used), or all on CPU 0 (FIRST).
 */
static const struct test {
	const char *name;
	enum how how;
	long users;
	enum { LAST, EACH, FIRST } on;
	bool another;		/* the user is another process */
	void (*work)(long users);
	long least, most;	/* IPIs to each user in 32 operations: needed; sent at most */
} tests[] = {
	{ "running", SME, 1, LAST, false, change_protections, 32, 32 },
	/* The users outnumber the CPUs of a small host, which stops one of them often: two of three IPIs are enough. */
	{ "everywhere", SME, 0, EACH, false, change_protections, 22, 32 },
	{ "plain", PLAIN, 1, LAST, false, change_protections, 0, 0 },
	{ "asleep", ASLEEP, 1, LAST, false, change_protections, 0, 0 },
	{ "here", SME, 2, FIRST, false, change_protections, 0, 0 },
	{ "another", SME, 1, LAST, true, change_protections, 0, 0 },
	/* An munmap() flushes twice: for the page, and for its table. */
	{ "tables", NAPS, 1, LAST, false, free_tables, 64, 64 },
	/* Linux flushes 1 to 32 pages at once, so 32 pages take 1 to 32 IPIs. */
	{ "pageout", SME, 1, LAST, false, page_out, 1, 32 },
	{ "pageout-another", SME, 1, LAST, true, page_out, 0, 32 },
	{ }
};

/*
 * How often a case is measured at most. It is measured again while its pages are not in swap, or IPIs are missing. IPIs
 * may be missing although Linux is right: a user's CPU that is in the kernel gets none. A timer takes it there, and it
 * stays there for long if a busy host stops that virtual CPU. So measure() accepts a case without a quarter of its IPIs,
 * and "everywhere" needs fewer. A kernel that sends too few sends too few in each measurement.
 */
#define ATTEMPTS	10

/*
 * Measure a case. Return false if it is to be measured again, because pages did not go to swap, or IPIs are missing. At
 * the last attempt, the case is left out for the first reason, and the program fails for the second one.
 */
static bool measure(const struct test *t, bool last)
{
	long n = t->on == EACH ? cpus - 1 : t->users, counted = t->on == EACH ? 1 : cpus - 1, i, before, ipis, least, most;
	long operations = t->work == free_tables ? tables : t->work == page_out ? SWAPPED : flushes;
	pid_t child = 0;

	memset(users, 0, cpus * sizeof(*users));
	for (i = 0; i < n; i++) {
		users[i].how = t->how;
		users[i].cpu = t->on == FIRST ? 0 : cpus - 1 - i;
		if (!t->another)
			verify(!pthread_create(&users[i].thread, NULL, use, &users[i]), "pthread_create");
		else if (!(child = fork_child()))
			exit(use(&users[i]) != NULL);
	}
	for (i = 0; i < n; i++) {
		while (!__atomic_load_n(&users[i].tid, __ATOMIC_ACQUIRE) || !seen(&users[i].copies))
			sched_yield();
		if (t->how == ASLEEP)
			wait_asleep(users[i].tid);
	}

	fresh_window();
	begin_vmstat(rows);
	before = function_calls(counted);
	open_window();
	t->work(n);
	close_window();
	ipis = function_calls(counted) - before;
	end_vmstat(rows);

	for (i = 0; i < n; i++) {
		__atomic_store_n(&users[i].end, 1, __ATOMIC_RELEASE);
		announce(&users[i].stop, 1);
		if (t->another)
			wait_child(child);
		else
			verify(!pthread_join(users[i].thread, NULL), "pthread_join");
	}
	if (t->work == page_out && metric("pswpout") < SWAPPED / 2) {
		if (last)
			printf("sme: %s is left out, because the pages did not go to swap\n", t->name);
		return last;
	}

	least = workaround ? t->least * n * operations / 32 : 0;
	most = workaround ? t->most * n * operations / 32 : 0;
	if (ipis < least - least / 4 && !last)
		return false;
	add_metric("ipi_call", ipis);
	report(t->name, operations, t->work == page_out ? "page" : t->work == free_tables ? "munmap" : "mprotect", "");
	/* The kernel may also send such IPIs for other reasons: as many as a quarter of the operations are accepted. */
	verify(ipis >= least - least / 4 && ipis <= most + operations / 4,
	       "%s: %ld IPIs for %ld operations, and not %ld to %ld", t->name, ipis, operations, least, most);
	return true;
}

int main(int argc, char **argv)
{
	const struct test *t;
	long i;

	parse_options(argc, argv, "flushes while other CPUs use SME", options);
	if (!have_sme())
		skip("the CPU, or the kernel, has no SME");
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 3)
		skip("3 CPUs are needed");
	workaround = works_around();
	printf("sme: erratum 4193714 is %sworked around\n", workaround ? "" : "not ");
	pin(0);
	users = (struct user *)map_memory(cpus * sizeof(*users), MAP_SHARED);
	page = (long *)map_memory(PAGE, MAP_PRIVATE);
	*page = 0;
	for (t = tests; t->name; t++)
		for (i = 1; !measure(t, i == ATTEMPTS); i++)
			printf("sme: %s is measured again\n", t->name);
	return 0;
}
