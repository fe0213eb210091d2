// SPDX-License-Identifier: GPL-2.0-only
#include "calls.h"

#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <sys/ioctl.h>

/* Sizes and places within a slot, in pages of which a page table has 512. */
static const unsigned int pages_at[16] = { 0, 1, 2, 3, 8, 15, 16, 17, 32, 48, 64, 256, 511, 512, 513, 1024 };

/* ---- what the sequencer and the actors share ---- */

static struct order {
	struct call call;
	uint32_t given, done;	/* futexes: the number of the last order, and of the last that was carried out */
	pid_t process;		/* of a process that was forked; 0: not there */
} *orders;

static pid_t first;		/* the process of the threads */
static int file, hugetlb;	/* memfds of a slot's size; hugetlb: -1 if this kernel has none */
static __thread sigjmp_buf fault;
static int faults = -1;		/* the process's userfaultfd */

static void wait_on(uint32_t *word, uint32_t value, long ms)
{
	struct timespec limit = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	syscall(SYS_futex, word, FUTEX_WAIT, value, ms ? &limit : NULL, NULL, 0);
}

static void post(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t see(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- calls ---- */

static size_t slot_size(void)
{
	return 2 * HUGE;
}

/* The slots: two side by side, one under another table of the level above, one farther. */
static char *slot_at(unsigned int slot)
{
	static const unsigned int up[SLOTS] = { 0, 0, 1, 3 };

	return (char *)(1UL << 44) + up[slot] * (PAGE / 8 * HUGE) + (slot == 1 ? slot_size() : 0);
}

static char *at(const struct call *call)
{
	return slot_at(call->place % SLOTS) + pages_at[call->place >> 2 & 15] * PAGE;
}

/* No more than what is left of the slot. */
static size_t size_of(const struct call *call)
{
	size_t size = (pages_at[call->how >> 4] ?: 1) * PAGE;
	size_t left = slot_at(call->place % SLOTS) + slot_size() - at(call);

	return size < left ? size : left ?: PAGE;
}

static void on_fault(int number)
{
	(void)number;
	siglongjmp(fault, 1);
}

/* Of large sizes only some pages, without bit 3. */
static void touch(const struct call *call)
{
	volatile char *memory = at(call);
	volatile size_t i;

	if (sigsetjmp(fault, 1))
		return;
	for (i = 0; i < size_of(call); i += (call->how >> 4 > 10 && !(call->how & 8) ? 17 : 1) * PAGE) {
		if (call->op % OPS == READ)
			(void)memory[i];
		else
			memory[i] = call->how + i / PAGE;
	}
}

static void execute(const struct call *call)
{
	uint32_t *code = (uint32_t *)at(call);

	if (sigsetjmp(fault, 1))
		return;
	if (call->how & 1) {
		*code = 0xd65f03c0;	/* ret */
		__builtin___clear_cache((char *)code, (char *)(code + 1));
	}
	((void (*)(void))code)();
}

static void map(const struct call *call)
{
	static const int access[4] = { PROT_READ | PROT_WRITE, PROT_READ, PROT_READ | PROT_WRITE | PROT_EXEC, PROT_NONE };
	int op = call->op % OPS, flags = MAP_FIXED | MAP_NORESERVE | (call->how & 4 ? MAP_POPULATE : 0);
	int fd = op == MAP ? -1 : op == MAP_HUGE ? hugetlb : file;
	off_t offset = op == MAP ? 0 : (off_t)(at(call) - slot_at(call->place % SLOTS));

	flags |= op == MAP_FILE_SHARED || (op != MAP_FILE_PRIVATE && call->how & 8) ? MAP_SHARED : MAP_PRIVATE;
	if (op == MAP)
		flags |= MAP_ANONYMOUS;
	mmap(at(call), size_of(call), access[call->how & 3], flags, fd, offset);
}

static void protect(const struct call *call)
{
	static const int access[4] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_NONE, PROT_READ | PROT_EXEC };

	mprotect(at(call), size_of(call), access[call->how & 3]);
}

static void advise(const struct call *call)
{
	/* DONTNEED, FREE, COLD, PAGEOUT, HUGEPAGE, NOHUGEPAGE, COLLAPSE, POPULATE_READ and WRITE, REMOVE, MERGEABLE, ... */
	static const int advice[16] = { 4, 8, 20, 21, 14, 15, 25, 22, 23, 9, 12, 10, 18, 102, 103, 24 };

	madvise(at(call), size_of(call), advice[call->how & 15]);
}

/* To another slot. Bit 2: leave the old mapping in place, empty (MREMAP_DONTUNMAP). Bit 3: another page there. */
static void move(const struct call *call)
{
	char *to = slot_at((call->place + 1 + (call->how & 3)) % SLOTS) + (at(call) - slot_at(call->place % SLOTS));
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED | (call->how & 4 ? 4 : 0);

	mremap(at(call), size_of(call), size_of(call), flags, to + (call->how & 8 ? PAGE : 0));
}

/* Another process's way to a page: the kernel writes as a debugger would. */
static void poke(const struct call *call)
{
	char path[32], byte = call->how;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", first);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t i = 0; i < size_of(call) && i < 16 * PAGE; i += PAGE)
		if (pwrite(fd, &byte, 1, (off_t)(uintptr_t)at(call) + i) < 0)
			break;
	close(fd);
}

/* A userfaultfd: register, protect against writing, unprotect, copy, zero, move, unregister. Faults are never waited for. */
static void user_faults(const struct call *call)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_range range = { (uintptr_t)at(call), size_of(call) };
	struct uffdio_register with = { .range = range, .mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_writeprotect protection = { .range = range };
	struct uffdio_copy copy = { .dst = range.start, .src = (uintptr_t)slot_at((call->place + 1) % SLOTS), .len = range.len };
	struct uffdio_zeropage zero = { .range = range };

	if (faults < 0) {
		/* With SIGBUS in place of messages: nobody reads these. */
		api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
		faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
			return;
	}
	switch (call->how & 7) {
	case 0:
	case 1:
		with.mode = call->how & 8 ? UFFDIO_REGISTER_MODE_MISSING : UFFDIO_REGISTER_MODE_WP;
		ioctl(faults, UFFDIO_REGISTER, &with);
		break;
	case 2:
	case 3:
		protection.mode = call->how & 8 ? 0 : UFFDIO_WRITEPROTECT_MODE_WP;
		ioctl(faults, UFFDIO_WRITEPROTECT, &protection);
		break;
	case 4:
		ioctl(faults, UFFDIO_COPY, &copy);
		break;
	case 5:
		ioctl(faults, UFFDIO_ZEROPAGE, &zero);
		break;
	case 6: {
#ifdef UFFDIO_MOVE
		struct uffdio_move moved = { .dst = copy.dst, .src = copy.src, .len = copy.len };

		ioctl(faults, UFFDIO_MOVE, &moved);
#endif
		break;
	}
	default:
		ioctl(faults, UFFDIO_UNREGISTER, &range);
	}
}

static void act(unsigned int actor);

/* Fork the actor of variant 0 or 1 if it is not there; and start another program by vfork() and exec(). */
static void fork_actor(const struct call *call)
{
	unsigned int actor = THREADS + (call->how & 1) % (ACTORS - THREADS);
	pid_t pid;

	if (see((uint32_t *)&orders[actor].process))
		return;
	pid = fork();
	if (!pid) {
		faults = -1;
		__atomic_store_n(&orders[actor].process, getpid(), __ATOMIC_RELEASE);
		post(&orders[actor].done, see(&orders[actor].given));
		act(actor);
	}
}

static void start_program(unsigned int actor, const struct call *call)
{
	char *const words[] = { "calls", "--end", NULL };

	if (actor >= THREADS && call->how & 1) {
		__atomic_store_n(&orders[actor].process, 0, __ATOMIC_RELEASE);
		post(&orders[actor].done, see(&orders[actor].given));
		execv("/proc/self/exe", words);
		_exit(1);
	}
	if (!vfork()) {
		execv("/proc/self/exe", words);
		_exit(1);
	}
}

static void cut(const struct call *call)
{
	off_t offset = at(call) - slot_at(call->place % SLOTS);
	int fd = call->how & 4 && hugetlb >= 0 ? hugetlb : file;

	if (call->how & 1) {
		if (!ftruncate(fd, offset))
			return (void)!ftruncate(fd, slot_size());
	}
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size_of(call));
}

static void carry_out(unsigned int actor, const struct call *call)
{
	switch (call->op % OPS) {
	case MAP:
	case MAP_FILE_SHARED:
	case MAP_FILE_PRIVATE:
	case MAP_HUGE:
		return map(call);
	case UNMAP:
		return (void)munmap(at(call), size_of(call));
	case PROTECT:
		return protect(call);
	case ADVISE:
		return advise(call);
	case MOVE:
		return move(call);
	case READ:
	case WRITE:
		return touch(call);
	case EXECUTE:
		return execute(call);
	case FORK:
		return fork_actor(call);
	case EXIT:
		if (actor >= THREADS) {
			__atomic_store_n(&orders[actor].process, 0, __ATOMIC_RELEASE);
			post(&orders[actor].done, see(&orders[actor].given));
			_exit(0);
		}
		return;
	case START:
		return start_program(actor, call);
	case GO_TO_CPU:
		return pin(call->how);
	case POKE:
		return poke(call);
	case RECLAIM:
		return (void)put_file("/sys/fs/cgroup/calls/memory.reclaim", call->how & 1 ? "256K" : "8M");
	case FAULTS:
		return user_faults(call);
	case LOCK:
		return (void)(call->how & 1 ? munlock(at(call), size_of(call)) : mlock(at(call), size_of(call)));
	case CUT:
		return cut(call);
	case CLEAR_REFS:
		return (void)put_file("/proc/self/clear_refs", call->how & 1 ? "4" : "1");
	case COMPACT:
		return (void)put_file("/proc/sys/vm/compact_memory", "1");
	default:
		usleep(call->how * 16);
	}
}

/* Carry out orders for ever. */
static void act(unsigned int actor)
{
	struct order *order = &orders[actor];
	uint32_t given, done = see(&order->done);

	pin(actor);
	for (;;) {
		while ((given = see(&order->given)) == done)
			wait_on(&order->given, done, 0);
		carry_out(actor, &order->call);
		done = given;
		post(&order->done, done);
	}
}

static void *act_as(void *number)
{
	act((uintptr_t)number);
	return NULL;
}

/* ---- the sequencer ---- */

void set_up(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	static const int faulty[] = { SIGSEGV, SIGBUS, SIGILL };

	for (int i = 0; i < 3; i++)
		must(sigaction(faulty[i], &action, NULL));
	must(prctl(PR_SET_CHILD_SUBREAPER, 1));
	orders = must((struct order *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	if (mkdir("/sys/fs/cgroup/calls", 0755) == 0 || errno == EEXIST)
		put_file("/sys/fs/cgroup/calls/cgroup.procs", "0");
	put_file("/proc/sys/vm/nr_hugepages", "12");
	put_file("/sys/kernel/mm/transparent_hugepage/enabled", "always");
	put_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise");
	put_file("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "always");
	put_file("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/shmem_enabled", "advise");
}

static void begin(bool wanted[ACTORS])
{
	pthread_t thread;

	must(prctl(PR_SET_PDEATHSIG, SIGKILL));
	first = getpid();
	for (uintptr_t i = 1; i < THREADS; i++)
		verify(!wanted[i] || !pthread_create(&thread, NULL, act_as, (void *)i), "no thread");
	act(0);
}

static bool idle(const struct order *order)
{
	return see(&order->done) == see(&order->given);
}

/* Wait until an actor has carried out its orders, but not for one that hangs or was killed. */
static void wait_for(struct order *order)
{
	for (int i = 0; i < 10 && !idle(order); i++) {
		uint32_t done = see(&order->done);

		if (done != see(&order->given))
			wait_on(&order->done, done, 20);
	}
}

/* All processes of a program are of one group, also one that is being forked. */
static void end_all(pid_t group)
{
	must(kill(-group, SIGKILL));
	while (waitpid(-1, NULL, 0) > 0)
		;
}

void run_calls(const struct call *calls, unsigned int n)
{
	bool wanted[ACTORS] = { };
	pid_t threads;

	/* An actor that is not there acts as the thread with the same number modulo THREADS. */
	for (unsigned int i = 0; i < n; i++)
		wanted[(calls[i].actor & ~AT_ONCE) % ACTORS % THREADS] = true;
	memset(orders, 0, ACTORS * sizeof(*orders));
	file = must(memfd_create("calls", MFD_CLOEXEC));
	must(ftruncate(file, slot_size()));
	hugetlb = memfd_create("calls", MFD_CLOEXEC | MFD_HUGETLB);
	if (hugetlb >= 0 && ftruncate(hugetlb, slot_size()))
		hugetlb = -1;
	threads = must(fork());
	if (!threads)
		begin(wanted);
	must(setpgid(threads, threads));
	for (unsigned int i = 0; i < n; i++) {
		unsigned int actor = (calls[i].actor & ~AT_ONCE) % ACTORS;
		struct order *order;

		if (actor >= THREADS && !see((uint32_t *)&orders[actor].process))
			actor %= THREADS;
		order = &orders[actor];
		wait_for(order);
		if (!idle(order))
			break;		/* it hangs, or a signal has ended it */
		order->call = calls[i];
		post(&order->given, order->given + 1);
		if (!(calls[i].actor & AT_ONCE))
			wait_for(order);
	}
	for (int i = 0; i < ACTORS; i++)
		wait_for(&orders[i]);
	end_all(threads);
	close(file);
	close(hugetlb);
}

int repeat_calls(int argc, char **argv, const struct call *calls, unsigned int n)
{
	if (argc == 2 && !strcmp(argv[1], "--end"))
		return 0;
	set_up();
	for (int i = 0; i < 50; i++)
		run_calls(calls, n);
	return 0;
}
