// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stress test of residency: for some seconds, everything that moves address spaces between CPUs or changes them
 * happens at once. Each process verifies its own memory. mm_storm exercises one reason to flush at a time; this program
 * searches for faults in combinations that nobody has thought of.
 *
 *	spawn		fork, vfork, exec, exit, and threads that are killed
 *	threads		processes of 1 to 6 threads that move between CPUs and change memory that another thread has
 *			just used
 *	outside		pages out, writes to, or debugs the memory of another process, which runs or sleeps
 *	idle		changes memory of processes that sleep, and that then wake up on another CPU
 *	hotplug		takes CPUs offline and online; only with hotplug=1
 *	sweep		changes residency's policy; only with sweep=1
 *
 * Each actor is one or two processes, which wait for their children. Actors also access memory where a fault must
 * occur, and reuse addresses on purpose. So a TLB entry that should have been removed shows as the contents of an older
 * mapping, or as a missing fault.
 */
#include "storm_actors.h"

#include <sys/ptrace.h>
#include <sys/uio.h>

static long sweep;

static const struct option_spec options[] = {
	STORM_OPTIONS,
	{ "sweep", &sweep, NULL, "1: residency's policy changes meanwhile" },
	{ }
};

static const char *const rows[] = {
	"pswpin", "pswpout", "tlbi_elided", "tlbi_stale", NULL
};

enum {
	FORKS = OFFLINED + 1, EXECS, GROUP_EXITS, KILLS,
	LIVES, PROTECTED, UNMAPPED, MOVED, DISCARDED, COPIED, FAULTS_HERE, FAULTS_THERE,
	PAGEOUTS, WRITTEN, POKED, WOKEN, SWITCHED, TALLIES
};

static const char *const tallies[] = {
	"offlined", "forks", "execs", "group_exits", "kills",
	"lives", "protected", "unmapped", "moved", "discarded", "copied", "faults_here", "faults_there",
	"pageouts", "written", "poked", "woken", "switched"
};

/* ---- spawn ---- */

#define SNAPSHOT	(64 * PAGE)

/* exit_group() or exec by a thread, or a signal that kills, interrupts the other threads at any point. */
static void *busy(void *number)
{
	uint64_t random = sequence(getpid(), (long)number);
	size_t size = 16 * PAGE;
	char *memory = map_memory(size, MAP_PRIVATE);
	long holds;

	for (;;) {
		holds = stamp(&random);
		fill(memory, size, holds);
		hop(&random, 0);
		check(memory, size, holds, "what a thread wrote on another CPU");
		must(madvise(memory, size, MADV_DONTNEED));
		check_zero(memory, size, "what a thread discarded");
	}
	return NULL;
}

static void start_busy(int n)
{
	pthread_t thread;
	long i;

	for (i = 0; i < n; i++)
		verify(!pthread_create(&thread, NULL, busy, (void *)i), "no thread");
}

/* Execute this program again. With @depth, the new program does the same. Nothing may be mapped at @old. */
static void exec_self(long holds, long depth, char *old)
{
	char words[3][32];

	snprintf(words[0], sizeof(words[0]), "%ld", holds);
	snprintf(words[1], sizeof(words[1]), "%ld", depth);
	snprintf(words[2], sizeof(words[2]), "%lu", (unsigned long)old);
	execl("/proc/self/exe", program_invocation_short_name, "--answer", words[0], words[1], words[2], NULL);
}

/* The child uses the parent's address space, which two CPUs have loaded at once if the child starts quickly enough. */
__attribute__((noinline))
static pid_t vfork_exec(long holds, char *old)
{
	pid_t pid = vfork();

	if (!pid) {
		exec_self(holds, 0, old);
		_exit(127);
	}
	return must(pid);
}

static void wait_status(pid_t pid, int wanted, const char *what)
{
	int status;

	must(waitpid(pid, &status, 0));
	verify(status == wanted, "%s %d ended with wait status 0x%x, not 0x%x", what, pid, status, wanted);
}

/* The program after exec: verify memory where the old program had some, then exec the next one. */
static int answer(char **words)
{
	long holds = atol(words[0]), depth = atol(words[1]);
	struct access old = { .at = (char *)strtoul(words[2], NULL, 10) };
	uint64_t random = sequence(holds, depth);

	expect_faults();
	attempt(&old);
	verify(old.faulted, "a new program reads 0x%lx where the old one had memory", old.value);
	map_at(old.at, 16 * PAGE, MAP_PRIVATE, -1);
	check_zero(old.at, 16 * PAGE, "what a new program mapped");
	fill(old.at, 16 * PAGE, holds);
	cpus = sysconf(_SC_NPROCESSORS_CONF);
	hop(&random, 0);
	check(old.at, 16 * PAGE, holds, "what a new program wrote");
	if (!depth)
		return 0;
	if (one_in(&random, 2))
		wait_status(vfork_exec(holds + 1, old.at), 0, "a program that a program started");
	exec_self(holds + 2, depth - 1, old.at);
	die("exec");
}

static void *leave_group(void *status)
{
	usleep(500);
	_exit((int)(long)status);
}

static void *exec_thread(void *old)
{
	exec_self(1, 0, old);
	die("exec by a thread");
}

/* A child that ends while its threads run, in each of the ways in which that can happen. */
static void end_crowd(uint64_t *random, char *memory)
{
	enum { EXIT, EXEC, KILL, WAYS } way = any(random, WAYS);
	long threads = 1 + any(random, 3), status = any(random, 100);
	pid_t pid = fork_plain();
	pthread_t thread;

	if (!pid) {
		start_busy(threads);
		if (way != KILL)
			verify(!pthread_create(&thread, NULL, way == EXIT ? leave_group : exec_thread,
					       way == EXIT ? (void *)status : memory), "no thread");
		busy((void *)threads);
	}
	if (way == KILL) {
		nap(random, 20000);
		must(kill(pid, SIGKILL));
		count(KILLS);
	} else {
		count(way == EXIT ? GROUP_EXITS : EXECS);
	}
	wait_status(pid, way == KILL ? SIGKILL : way == EXIT ? (int)status << 8 : 0, "a process with threads");
}

/*
 * Children verify the memory that they inherited while the parent continues to write. Some are killed while they use
 * it.
 */
static void snapshots(uint64_t *random, char *memory, long *holds)
{
	pid_t pid[4];
	size_t i, n = 1 + any(random, 4);
	long seen;

	for (i = 0; i < n; i++) {
		uint64_t of_child = next_random(random);

		seen = *holds;
		pid[i] = fork_plain();
		if (!pid[i]) {
			hop(&of_child, 0);
			nap(&of_child, 3000);
			check(memory, SNAPSHOT, seen, "what a child inherited");
			if (one_in(&of_child, 2)) {
				fill(map_memory(256 * PAGE, MAP_PRIVATE), 256 * PAGE, seen);
				fill(memory, SNAPSHOT, seen + 1);
				check(memory, SNAPSHOT, seen + 1, "what a child wrote");
			}
			_exit(0);
		}
		*holds = stamp(random);
		fill(memory, SNAPSHOT, *holds);
		if (one_in(random, 2))
			hop(random, 0);
		count(FORKS);
	}
	check(memory, SNAPSHOT, *holds, "what a parent wrote");
	for (i = 0; i < n; i++)
		wait_status(pid[i], 0, "a child");
	check(memory, SNAPSHOT, *holds, "what a parent wrote while its children did");
}

static void fork_exec(uint64_t *random, char *memory)
{
	long holds = stamp(random), depth = any(random, 4);
	pid_t pid = fork_plain();

	if (!pid) {
		exec_self(holds, depth, memory);
		die("exec");
	}
	wait_status(pid, 0, "a new program");
	count(EXECS);
}

static void spawn(uint64_t random)
{
	long holds = stamp(&random);
	char *memory = small(SNAPSHOT, holds);

	while (!stopped()) {
		hop(&random, 0);
		check(memory, SNAPSHOT, holds, "what a parent wrote on another CPU");
		switch (any(&random, 5)) {
		case 0:
			step("children of threads end");
			end_crowd(&random, memory);
			break;
		case 1:
			step("vfork and exec");
			wait_status(vfork_exec(stamp(&random), memory), 0, "a new program");
			count(EXECS);
			break;
		case 2:
			step("fork and exec");
			fork_exec(&random, memory);
			break;
		default:
			step("fork and exit");
			snapshots(&random, memory, &holds);
		}
	}
}

/* ---- threads ---- */

#define CROWD	6		/* threads at most */
#define BLOCKS	4		/* mappings that a thread has at a time */
#define PLACES	8		/* addresses for mappings: two in each page table */
#define PLACE	(HUGE / 2)
#define SPIN	(1 << 13)	/* polls of a mailbox before yielding: about a millisecond */

struct block {
	char *at;		/* NULL: none */
	size_t size;
	long holds;
};

/*
 * A thread, and its private data. Another thread may hold this one as a witness, and make it access the other thread's
 * memory. First the witness uses the entry on its own CPU; after the change, its access must fault. A thread that is
 * held stays on its CPU.
 */
static struct worker {
	pthread_t thread;
	bool quit;
	uint64_t random;
	char *region;
	struct block block[BLOCKS];
	enum { AWAY, FREE, HELD, ASKED } state;
	struct access asked;
} crowd[CROWD];

static void serve(struct worker *self)
{
	if (__atomic_load_n(&self->state, __ATOMIC_ACQUIRE) != ASKED)
		return;
	attempt(&self->asked);
	__atomic_store_n(&self->state, HELD, __ATOMIC_RELEASE);
}

/* Wait a moment for another thread, which may wait for this one. */
static void give_way(struct worker *self, int turn)
{
	serve(self);
	if (turn % SPIN < SPIN - 16)
		return;		/* most often: keep running, so that the CPU keeps its entries */
	if (turn % SPIN < SPIN - 1)
		sched_yield();
	else
		usleep(200);	/* sleep long enough for the CPU to park */
}

static bool take_state(struct worker *w, int from, int to)
{
	return __atomic_compare_exchange_n(&w->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Return a thread that will try accesses, or NULL if none is free. */
static struct worker *hold_witness(struct worker *self)
{
	int i, first = any(&self->random, CROWD);

	for (i = 0; i < CROWD; i++) {
		struct worker *other = &crowd[(first + i) % CROWD];

		if (other != self && take_state(other, FREE, HELD))
			return other;
	}
	return NULL;
}

/* Serve the thread that holds this one. As long as this thread is held, or has a request, it does nothing else. */
static void be_witness(struct worker *self)
{
	int turn = 0;

	while (__atomic_load_n(&self->state, __ATOMIC_ACQUIRE) != FREE)
		give_way(self, turn++);
}

static void let_go(struct worker *witness)
{
	if (witness)
		__atomic_store_n(&witness->state, FREE, __ATOMIC_RELEASE);
}

static void attempt_there(struct worker *self, struct worker *witness, struct access *access)
{
	int turn;

	witness->asked = *access;
	__atomic_store_n(&witness->state, ASKED, __ATOMIC_RELEASE);
	for (turn = 0; __atomic_load_n(&witness->state, __ATOMIC_ACQUIRE) == ASKED; turn++)
		give_way(self, turn);
	*access = witness->asked;
}

/* Let the witness use a page, so that its CPU has the entry. */
static void use_there(struct worker *self, struct worker *witness, char *at, long value)
{
	struct access access = { .at = at, .write = true, .value = value };

	if (!witness)
		return;
	attempt_there(self, witness, &access);
	verify(!access.faulted, "a write at %p by another thread faulted", at);
}

static void must_fault(struct worker *self, struct worker *witness, char *at, bool write, const char *what)
{
	struct access here = { .at = at, .write = write, .value = -1 }, there = here;

	if (witness) {
		attempt_there(self, witness, &there);
		verify(there.faulted, "%s: %s at %p by another thread did not fault", what, write ? "a write" : "a read", at);
		count(FAULTS_THERE);
	}
	attempt(&here);
	verify(here.faulted, "%s: %s at %p did not fault", what, write ? "a write" : "a read", at);
	count(FAULTS_HERE);
}

/* Verify that the witness, too, reads @value at @at. */
static void must_read(struct worker *self, struct worker *witness, char *at, long value, const char *what)
{
	struct access access = { .at = at };

	if (!witness)
		return;
	attempt_there(self, witness, &access);
	verify(!access.faulted && access.value == value, "%s: another thread %s 0x%lx at %p, not 0x%lx", what,
	       access.faulted ? "faults for" : "reads", access.value, at, value);
}

static char *free_place(struct worker *self)
{
	char *place;
	int i;

again:
	place = self->region + any(&self->random, PLACES) * PLACE;
	for (i = 0; i < BLOCKS; i++)
		if (self->block[i].at == place)
			goto again;
	return place;
}

static void refill(struct worker *self, struct block *b)
{
	b->holds = stamp(&self->random);
	fill(b->at, b->size, b->holds);
}

static void protect(struct worker *self, struct worker *witness, struct block *b, char *at, long value)
{
	must(mprotect(b->at, b->size, PROT_READ));
	must_fault(self, witness, at, true, "mprotect(PROT_READ)");
	must_read(self, witness, at, value, "mprotect(PROT_READ)");
	check(b->at, b->size, b->holds, "a page made read-only");
	if (one_in(&self->random, 4)) {
		must(mprotect(b->at, b->size, PROT_NONE));
		must_fault(self, witness, at, false, "mprotect(PROT_NONE)");
	}
	must(mprotect(b->at, b->size, PROT_READ | PROT_WRITE));
	use_there(self, witness, at, value);
	check(b->at, b->size, b->holds, "a page made writable again");
	count(PROTECTED);
}

static void unmap(struct worker *self, struct worker *witness, struct block *b, char *at)
{
	must(munmap(b->at, b->size));
	must_fault(self, witness, at, false, "munmap");
	b->at = NULL;
	count(UNMAPPED);
}

static void move(struct worker *self, struct worker *witness, struct block *b, char *at, long value)
{
	char *to = free_place(self), *from = b->at;

	b->at = must((char *)mremap(from, b->size, b->size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	must_fault(self, witness, at, one_in(&self->random, 2), "mremap");
	must_read(self, witness, to + (at - from), value, "mremap");
	check(to, b->size, b->holds, "a page that was moved");
	count(MOVED);
}

static void discard(struct worker *self, struct worker *witness, struct block *b, char *at)
{
	must(madvise(b->at, b->size, MADV_DONTNEED));
	must_read(self, witness, at, 0, "MADV_DONTNEED");
	check_zero(b->at, b->size, "a page that was discarded");
	refill(self, b);
	must_read(self, witness, at, expected(at - b->at, b->holds), "written after MADV_DONTNEED");
	count(DISCARDED);
}

/* fork() by one of several threads: no thread may continue to write to the pages that the child sees. */
static void copy(struct worker *self, struct worker *witness, struct block *b, char *at)
{
	long seen = b->holds, next = stamp(&self->random);
	uint64_t of_child = next_random(&self->random);
	pid_t pid = fork_plain();

	if (!pid) {
		check(b->at, b->size, seen, "what the child of a thread inherited");
		hop(&of_child, 0);
		check(b->at, b->size, seen, "what the child of a thread inherited, on another CPU");
		_exit(0);
	}
	/* The witness writes to memory that is no longer shared, or reads memory that is still shared. */
	if (one_in(&self->random, 2))
		use_there(self, witness, at, expected(at - b->at, next));
	else
		must_read(self, witness, at, expected(at - b->at, seen), "fork");
	b->holds = next;
	fill(b->at, b->size, next);
	must_read(self, witness, at, expected(at - b->at, next), "copy-on-write");
	wait_status(pid, 0, "the child of a thread");
	check(b->at, b->size, next, "what a thread wrote after fork");
	count(COPIED);
}

static void page_out(struct worker *self, struct worker *witness, struct block *b, char *at, long value)
{
	must(madvise(b->at, b->size, MADV_PAGEOUT));
	must_read(self, witness, at, value, "MADV_PAGEOUT");
	check(b->at, b->size, b->holds, "a page that was paged out");
	count(PAGEOUTS);
}

/* Make one change to one mapping, of which another thread uses a page. */
static void work(struct worker *self)
{
	struct block *b = &self->block[any(&self->random, BLOCKS)];
	struct worker *witness;
	long value;
	char *at;

	be_witness(self);
	if (one_in(&self->random, 3))
		hop(&self->random, 0);
	if (one_in(&self->random, 8))
		nap(&self->random, 2000);
	if (!b->at) {
		step("mmap");
		b->size = (1 + any(&self->random, 16)) * PAGE;
		b->at = map_at(free_place(self), b->size, MAP_PRIVATE, -1);
		check_zero(b->at, b->size, "a new page");
		refill(self, b);
		return;
	}
	check(b->at, b->size, b->holds, "what a thread wrote");
	witness = hold_witness(self);
	at = b->at + any(&self->random, b->size / PAGE) * PAGE;
	value = expected(at - b->at, b->holds);
	use_there(self, witness, at, value);
	switch (any(&self->random, 7)) {
	case 0:
		step("munmap");
		unmap(self, witness, b, at);
		break;
	case 1:
		step("mremap");
		move(self, witness, b, at, value);
		break;
	case 2:
		step("MADV_DONTNEED");
		discard(self, witness, b, at);
		break;
	case 3:
		step("fork by a thread");
		copy(self, witness, b, at);
		break;
	case 4:
		step("MADV_PAGEOUT");
		page_out(self, witness, b, at, value);
		break;
	default:
		step("mprotect");
		protect(self, witness, b, at, value);
	}
	let_go(witness);
}

static void *run_worker(void *argument)
{
	struct worker *self = argument;

	__atomic_store_n(&self->state, FREE, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&self->quit, __ATOMIC_RELAXED))
		work(self);
	do
		be_witness(self);
	while (!take_state(self, FREE, AWAY));
	return NULL;
}

/* So many threads, this one among them. Those that end leave their memory to who comes after them. */
static void set_crowd(int from, int to)
{
	int i, turn = 0;

	for (i = from; i < to; i++) {
		crowd[i].quit = false;
		verify(!pthread_create(&crowd[i].thread, NULL, run_worker, &crowd[i]), "no thread");
	}
	for (i = to; i < from; i++)
		__atomic_store_n(&crowd[i].quit, true, __ATOMIC_RELAXED);
	for (i = to; i < from; i++)
		while (pthread_tryjoin_np(crowd[i].thread, NULL))
			give_way(&crowd[0], turn++);
}

/*
 * Take an address space from one thread to many and back, on one CPU and on all, and then verify what all threads have
 * written.
 */
static void live(uint64_t random)
{
	const int sizes[] = { 1, 2 + any(&random, 2), CROWD, 2 + any(&random, 4), 1 };
	int i, j, now = 1;
	size_t k;

	for (i = 0; i < CROWD; i++) {
		crowd[i].random = sequence(random >> 8, i);
		crowd[i].region = fresh(PLACES * PLACE);
	}
	crowd[0].state = FREE;
	for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		set_crowd(now, sizes[k]);
		now = sizes[k];
		for (i = 4 + any(&random, 12); i && !stopped(); i--)
			work(&crowd[0]);
	}
	for (i = 0; i < CROWD; i++)
		for (j = 0; j < BLOCKS; j++)
			if (crowd[i].block[j].at)
				check(crowd[i].block[j].at, crowd[i].block[j].size, crowd[i].block[j].holds,
				      "what a thread left");
	count(LIVES);
}

static void threads(uint64_t random)
{
	while (!stopped()) {
		uint64_t of_child = next_random(&random);
		pid_t pid = fork_plain();

		if (!pid) {
			live(of_child);
			_exit(0);
		}
		wait_status(pid, 0, "a process of threads");
	}
}

/* ---- outside and idle ---- */

#define VICTIMS		4
#define MAX_KEPT	128	/* pages */

/* A process that another changes. */
struct victim {
	pid_t pid;
	int pidfd, down[2], up[2];
	bool runs;		/* runs while it is paged out; otherwise it sleeps */
	size_t size;		/* in each of the two areas: */
	char *own;		/* memory that only the victim writes, and that is only paged out */
	char *kept;		/* memory that others write while the victim waits */
	struct orders {		/* shared */
		long round;
		long holds;	/* what the victim must find in @kept */
		long next;	/* what the victim must write there */
		bool end;
	} *orders;
};

static void be_victim(struct victim *v, uint64_t random)
{
	long round = 0, holds = stamp(&random);

	fill(v->own, v->size, holds);
	fill(v->kept, v->size, v->orders->holds);
	drain_lru();
	tell(v->up[1]);
	for (;;) {
		while (v->runs && __atomic_load_n(&v->orders->round, __ATOMIC_ACQUIRE) == round) {
			check(v->own, v->size, holds, "a page that is paged out as it is used");
			holds = stamp(&random);
			fill(v->own, v->size, holds);
			if (one_in(&random, 4))
				hop(&random, 0);
		}
		hear(v->down[0]);
		round = v->orders->round;
		if (v->orders->end)
			_exit(0);
		check(v->kept, v->size, v->orders->holds, "what was written from outside");
		check(v->own, v->size, holds, "what was not written from outside");
		fill(v->kept, v->size, v->orders->next);
		drain_lru();
		tell(v->up[1]);
	}
}

static void start_victim(struct victim *v, bool runs, long pages, uint64_t *random)
{
	uint64_t of_child = next_random(random);

	v->runs = runs;
	v->size = pages * PAGE;
	v->orders = (struct orders *)map_memory(PAGE, MAP_SHARED);
	v->orders->holds = stamp(random);
	v->own = small(v->size, 0);
	v->kept = small(v->size, 0);
	must(pipe(v->down));
	must(pipe(v->up));
	v->pid = fork_child();
	if (!v->pid)
		be_victim(v, of_child);
	/* MADV_PAGEOUT skips pages that two processes map. */
	must(munmap(v->own, v->size));
	must(munmap(v->kept, v->size));
	v->pidfd = syscall(SYS_pidfd_open, v->pid, 0);
	if (v->pidfd < 0)
		skip("cannot run here: this kernel has no pidfd_open()");
	hear(v->up[0]);
}

static void page_out_from_outside(struct victim *v, char *memory)
{
	struct iovec range = { memory, v->size };

	if (syscall(SYS_process_madvise, v->pidfd, &range, 1, MADV_PAGEOUT, 0) < 0) {
		if (errno == ENOSYS || errno == EINVAL)
			skip("cannot run here: this kernel has no process_madvise(MADV_PAGEOUT)");
		die("process_madvise");
	}
	count(PAGEOUTS);
}

/* Write to pages of another address space through the kernel's own mapping. The kernel copies pages that are shared. */
static void write_from_outside(struct victim *v, long holds)
{
	static long words[MAX_KEPT];
	struct iovec here[MAX_KEPT], there[MAX_KEPT];
	size_t i, n = v->size / PAGE;

	for (i = 0; i < n; i++) {
		words[i] = expected(i * PAGE, holds);
		here[i] = (struct iovec){ &words[i], sizeof(long) };
		there[i] = (struct iovec){ v->kept + i * PAGE, sizeof(long) };
	}
	if (must(process_vm_writev(v->pid, here, n, there, n, 0)) != (ssize_t)(n * sizeof(long)))
		die("process_vm_writev wrote too little");
	v->orders->holds = holds;
	count(WRITTEN);
}

static void poke(struct victim *v, long holds)
{
	size_t at;
	int status;

	must(ptrace(PTRACE_SEIZE, v->pid, 0, 0));
	must(ptrace(PTRACE_INTERRUPT, v->pid, 0, 0));
	must(waitpid(v->pid, &status, 0));
	verify(WIFSTOPPED(status), "a victim did not stop: wait status 0x%x", status);
	for (at = 0; at < v->size; at += PAGE) {
		errno = 0;
		verify(ptrace(PTRACE_PEEKDATA, v->pid, v->kept + at, 0) == expected(at, v->orders->holds) && !errno,
		       "a debugger reads something else");
		must(ptrace(PTRACE_POKEDATA, v->pid, v->kept + at, expected(at, holds)));
	}
	must(ptrace(PTRACE_DETACH, v->pid, 0, 0));
	v->orders->holds = holds;
	count(POKED);
}

/* Do one of the things that can happen to a process while it does not run. */
static void change(struct victim *v, bool debug, uint64_t *random)
{
	if (!v->runs && one_in(random, 2))
		wait_asleep(v->pid);
	if (one_in(random, 2)) {
		step("process_madvise");
		page_out_from_outside(v, v->kept);
	}
	if (one_in(random, 2))
		page_out_from_outside(v, v->own);
	if (one_in(random, 2)) {
		step("process_vm_writev");
		write_from_outside(v, stamp(random));
	}
	if (debug && one_in(random, 2)) {
		step("ptrace");
		poke(v, stamp(random));
	}
	hop(random, v->pid);
}

static void end_victim(struct victim *v)
{
	v->orders->end = true;
	__atomic_fetch_add(&v->orders->round, 1, __ATOMIC_RELEASE);
	tell(v->down[1]);
	wait_child(v->pid);
	must(munmap(v->orders, PAGE));
	close(v->pidfd);
	close(v->down[0]), close(v->down[1]), close(v->up[0]), close(v->up[1]);
}

/*
 * Residency may note for good that several CPUs have walked the tables of an address space. So a victim ends now and
 * then, and a new one takes its place.
 */
static void replace_victim(struct victim *v, uint64_t *random)
{
	long pages = v->size / PAGE;

	step("another victim");
	end_victim(v);
	start_victim(v, v->runs, pages, random);
}

/*
 * All victims are changed, then all are woken, then all answer: their address spaces are loaded on several CPUs at
 * once.
 */
static void torment(struct victim *victims, int n, bool debug, uint64_t *random)
{
	int i;

	while (!stopped()) {
		hop(random, 0);
		for (i = 0; i < n; i++)
			change(&victims[i], debug, random);
		step("victims verify");
		for (i = 0; i < n; i++) {
			victims[i].orders->next = stamp(random);
			__atomic_fetch_add(&victims[i].orders->round, 1, __ATOMIC_RELEASE);
			tell(victims[i].down[1]);
		}
		for (i = 0; i < n; i++) {
			hear(victims[i].up[0]);
			victims[i].orders->holds = victims[i].orders->next;
			count(WOKEN);
		}
		if (one_in(random, 8))
			replace_victim(&victims[any(random, n)], random);
	}
	for (i = 0; i < n; i++)
		end_victim(&victims[i]);
}

static void outside(uint64_t random)
{
	struct victim victims[2];

	start_victim(&victims[0], false, MAX_KEPT, &random);
	start_victim(&victims[1], true, MAX_KEPT, &random);
	torment(victims, 2, true, &random);
}

static void idle(uint64_t random)
{
	struct victim victims[VICTIMS];
	int i;

	for (i = 0; i < VICTIMS; i++)
		start_victim(&victims[i], false, 8, &random);
	torment(victims, VICTIMS, false, &random);
}

/* ---- what changes under all of them ---- */

static void sweep_policies(uint64_t random)
{
	static const char *const policies[] = { "off", "on", "sticky" };
	char before[32];
	long n;

	verify(chosen_word(POLICY, before), "%s: no policy", POLICY);
	n = put_file(POLICY, "sticky") ? 3 : 2;		/* only the lab kernel has sticky */
	while (!stopped()) {
		const char *policy = policies[any(&random, n)];

		step("another policy");
		if (!put_file(POLICY, policy))
			die("the policy %s is refused", policy);
		count(SWITCHED);
		nap(&random, 100000);
	}
	if (!put_file(POLICY, before))
		die("the policy %s of before is refused", before);
}

/* ---- who is who ---- */

static const struct actor actors[] = {
	{ "spawn", spawn, 1, NULL },
	{ "threads", threads, 2, NULL },
	{ "outside", outside, 1, NULL },
	{ "idle", idle, 1, NULL },
	{ "hotplug", plug, 1, &hotplug },
	{ "sweep", sweep_policies, 1, &sweep },
};

static const struct storm residency = {
	actors, sizeof(actors) / sizeof(*actors), rows, tallies, TALLIES
};

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--answer"))
		return answer(argv + 2);
	actors_wanted = "spawn,threads,outside,idle";
	parse_options(argc, argv, "everything at once that moves and changes address spaces", options);
	check_wishes(&residency);
	if (sweep && access(POLICY, W_OK))
		skip("sweep=1: this kernel has no %s", POLICY);
	run_storm(&residency);
	return 0;
}
