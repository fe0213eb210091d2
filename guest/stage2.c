// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two small virtual machines, by KVM alone, for the checker. Their vCPUs store to all of their memory. Meanwhile the
 * tables of stage 2 that map it are changed in every way that there is:
 *
 *	discard		one page goes, and a whole table of them; the same of a block
 *	protect		the process may not write a page for a moment
 *	fork		a child shares all pages for a moment: each is copied when it is written
 *	pageout		pages go to swap
 *	log		pages are write-protected, and each page that is written meanwhile must be in the log
 *	split, join	blocks become tables when they are logged, and blocks again when they are not
 *	slot		the memory is taken away, and comes back
 *	pass		other machines come and go, so that VMIDs are given anew where they have 8 bits
 *
 * The first machine clears its log by KVM_CLEAR_DIRTY_LOG and splits blocks when the log begins, the second one by
 * KVM_GET_DIRTY_LOG and when they are written. Each has two vCPUs, which go from CPU to CPU and meet on one.
 *
 * A guest stores with translation of stage 1 off, and never ends. It is waited for: before each change every page is mapped.
 */
#include "lull.h"

static long rounds = 1, passing = 20;

static const struct option_spec options[] = {
	{ "rounds", &rounds, NULL, "how often each change is made, for each machine" },
	{ "passing", &passing, NULL, "further machines, which come and go" },
	{ }
};

#ifdef __aarch64__
#include <linux/kvm.h>
#include <stddef.h>
#include <sys/ioctl.h>

#define MACHINES	2
#define VCPUS		2
#define SIZE		(2 * HUGE)	/* of a machine's memory: two tables, or two blocks */
#define DATA		(1UL << 30)	/* where the memory is, in the machine's addresses; its program is at 0 */
#define PATIENCE	120		/* seconds */
#define REGISTER(name)	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(regs.name))

#ifndef KVM_CAP_ARM_EAGER_SPLIT_CHUNK_SIZE
#define KVM_CAP_ARM_EAGER_SPLIT_CHUNK_SIZE	228
#endif

/* x1: the first address, x2: the end, x6: from page to page. */
static const uint32_t program[] = {
	0xaa0103e4,	/* again:	mov x4, x1 */
	0xf9000083,	/* next:	str x3, [x4] */
	0x8b060084,	/*		add x4, x4, x6 */
	0xeb02009f,	/*		cmp x4, x2 */
	0x54ffffa3,	/*		b.lo next */
	0x91000463,	/*		add x3, x3, #1 */
	0x17fffffa,	/*		b again */
};

static struct machine {
	int fd;
	bool manual;			/* its log is cleared by KVM_CLEAR_DIRTY_LOG */
	char *memory;
	uint64_t *log;
	struct kvm_userspace_memory_region slot;
	struct vcpu {
		int fd;
		struct kvm_run *run;
		pthread_t thread;
	} vcpus[VCPUS];
} machines[MACHINES];

static long ends;
static int kvm;

static void kicked(int number)
{
	(void)number;
}

static void *run_vcpu(void *argument)
{
	struct vcpu *self = argument;

	while (!seen(&ends)) {
		/* EFAULT: the process may not write the page now. An access of what is no memory has no effect. */
		if (ioctl(self->fd, KVM_RUN, 0))
			verify(errno == EINTR || errno == EAGAIN || errno == EFAULT, "KVM_RUN: %s", strerror(errno));
		else
			verify(self->run->exit_reason == KVM_EXIT_MMIO, "KVM_RUN: exit %u", self->run->exit_reason);
	}
	return NULL;
}

static void set_register(const struct vcpu *c, uint64_t id, uint64_t value)
{
	struct kvm_one_reg one = { .id = id, .addr = (uintptr_t)&value };

	must(ioctl(c->fd, KVM_SET_ONE_REG, &one));
}

static void set_slot(struct machine *m, uint64_t size, uint32_t flags)
{
	m->slot.memory_size = size;
	m->slot.flags = flags;
	must(ioctl(m->fd, KVM_SET_USER_MEMORY_REGION, &m->slot));
}

static void make_machine(struct machine *m, void *code)
{
	struct kvm_userspace_memory_region first = { .slot = 1, .memory_size = PAGE, .userspace_addr = (uintptr_t)code };
	struct kvm_enable_cap split = { .cap = KVM_CAP_ARM_EAGER_SPLIT_CHUNK_SIZE, .args = { HUGE } };
	struct kvm_enable_cap manual = { .cap = KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
					 .args = { KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET } };

	m->fd = must(ioctl(kvm, KVM_CREATE_VM, 0));
	if (m->manual) {
		must(ioctl(m->fd, KVM_ENABLE_CAP, &manual));
		ioctl(m->fd, KVM_ENABLE_CAP, &split);	/* since 6.5 */
	}
	must(ioctl(m->fd, KVM_SET_USER_MEMORY_REGION, &first));
}

static void make_vcpu(struct machine *m, long i)
{
	struct vcpu *c = &m->vcpus[i];
	struct kvm_vcpu_init init;

	c->fd = must(ioctl(m->fd, KVM_CREATE_VCPU, i));
	c->run = must((struct kvm_run *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0));
	must(ioctl(m->fd, KVM_ARM_PREFERRED_TARGET, &init));
	must(ioctl(c->fd, KVM_ARM_VCPU_INIT, &init));
	set_register(c, REGISTER(pc), 0);
	set_register(c, REGISTER(regs[1]), DATA + 8 * i);
	set_register(c, REGISTER(regs[2]), DATA + SIZE);
	set_register(c, REGISTER(regs[3]), 1);
	set_register(c, REGISTER(regs[6]), PAGE);
}

static void start(struct machine *m, void *code)
{
	char *all = map_memory(SIZE + HUGE, MAP_PRIVATE | MAP_NORESERVE);

	m->memory = (char *)(((uintptr_t)all + HUGE - 1) & -HUGE);
	m->log = (uint64_t *)map_memory(SIZE / PAGE / 8, MAP_PRIVATE);
	make_machine(m, code);
	m->slot.guest_phys_addr = DATA;
	m->slot.userspace_addr = (uintptr_t)m->memory;
	set_slot(m, SIZE, 0);
	for (long i = 0; i < VCPUS; i++) {
		make_vcpu(m, i);
		verify(!pthread_create(&m->vcpus[i].thread, NULL, run_vcpu, &m->vcpus[i]), "no thread for a vCPU");
	}
}

/* A machine without memory: its first store is an access of a device. */
static void come_and_go(void *code)
{
	struct machine m = { 0 };

	make_machine(&m, code);
	make_vcpu(&m, 0);
	must(ioctl(m.vcpus[0].fd, KVM_RUN, 0));
	verify(m.vcpus[0].run->exit_reason == KVM_EXIT_MMIO, "KVM_RUN: exit %u", m.vcpus[0].run->exit_reason);
	must(munmap(m.vcpus[0].run, PAGE));
	must(close(m.vcpus[0].fd));
	must(close(m.fd));
}

/* Put the vCPUs on other CPUs. Those of a machine meet in each third place. */
static void move(void)
{
	static long moves;

	moves++;
	for (long i = 0; i < MACHINES * VCPUS; i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((moves + (moves % 3 ? i : i / VCPUS)) % sysconf(_SC_NPROCESSORS_ONLN), &set);
		verify(!pthread_setaffinity_np(machines[i / VCPUS].vcpus[i % VCPUS].thread, sizeof(set), &set),
		       "a vCPU cannot be moved");
	}
}

/* Wait until both vCPUs have stored to every page, since now: the last page changes twice. */
static void await(const struct machine *m)
{
	double end = clock_seconds() + PATIENCE;

	move();
	for (int i = 0; i < 2 * VCPUS; i++) {
		const long *last = (long *)(m->memory + SIZE - PAGE) + i / 2;
		long before = seen(last);

		while (seen(last) == before) {
			verify(clock_seconds() < end, "vCPU %d does not store", i / 2);
			usleep(1000);
		}
	}
}

/* New memory in place of the old, which was in use. */
static void renew(const struct machine *m, bool blocks)
{
	char *fresh = map_memory(SIZE, MAP_PRIVATE);

	/* A kernel without huge pages refuses. */
	if (madvise(fresh, SIZE, blocks ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) && errno != EINVAL)
		die("madvise");
	must(mremap(fresh, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, m->memory));
	await(m);
}

static void discard(const struct machine *m, size_t offset, size_t size)
{
	must(madvise(m->memory + offset, size, MADV_DONTNEED));
	await(m);
}

/* Read the log, and have it begin anew. */
static void read_log(const struct machine *m)
{
	struct kvm_dirty_log get = { .dirty_bitmap = m->log };
	struct kvm_clear_dirty_log clear = { .num_pages = SIZE / PAGE, .dirty_bitmap = m->log };

	must(ioctl(m->fd, KVM_GET_DIRTY_LOG, &get));
	if (m->manual)
		must(ioctl(m->fd, KVM_CLEAR_DIRTY_LOG, &clear));
}

/* Log what the guest writes. At last all pages are write-protected, and those of a block become one with the next store. */
static void log_writes(struct machine *m)
{
	set_slot(m, SIZE, KVM_MEM_LOG_DIRTY_PAGES);
	read_log(m);
	await(m);
	read_log(m);
	for (size_t page = 0; page < SIZE / PAGE; page++)
		verify(m->log[page / 64] >> page % 64 & 1, "page %zu was written, and is not in the log", page);
	set_slot(m, SIZE, 0);
	await(m);
}

static void share(const struct machine *m)
{
	pid_t child = fork_plain();

	if (!child) {
		*(volatile char *)m->memory = 0;	/* copied for the child */
		_exit(0);
	}
	wait_child(child);
	await(m);
}

static void change(struct machine *m, bool blocks)
{
	long huge;

	renew(m, blocks);
	discard(m, HUGE, HUGE);
	discard(m, HUGE, PAGE);
	must(mprotect(m->memory, PAGE, PROT_READ));
	must(mprotect(m->memory, PAGE, PROT_READ | PROT_WRITE));
	huge = vmstat("thp_fault_alloc");
	renew(m, blocks);
	verify(!blocks || huge < 0 || vmstat("thp_fault_alloc") > huge, "the memory has no blocks");
	log_writes(m);
	share(m);
	if (madvise(m->memory, HUGE, MADV_PAGEOUT) && errno != EINVAL)
		die("madvise");
	await(m);
	set_slot(m, 0, 0);
	must(madvise(m->memory, SIZE, MADV_DONTNEED));
	set_slot(m, SIZE, 0);
	await(m);
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = kicked };
	char *code;

	parse_options(argc, argv, "tables of stage 2 change while virtual machines run", options);
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		skip("no /dev/kvm");
	if (PAGE > 16384)
		skip("needs pages of 4 or 16 KiB");
	code = map_memory(PAGE, MAP_PRIVATE);
	memcpy(code, program, sizeof(program));
	must(sigaction(SIGUSR1, &act, NULL));
	for (long i = 0; i < MACHINES; i++) {
		machines[i].manual = !i;
		start(&machines[i], code);
	}
	open_window();
	for (long i = 0; i < rounds * MACHINES; i++) {
		change(&machines[i % MACHINES], false);
		change(&machines[i % MACHINES], true);
	}
	for (long i = 0; i < passing; i++)
		come_and_go(code);
	close_window();
	__atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
	for (long i = 0; i < MACHINES * VCPUS; i++) {
		struct vcpu *c = &machines[i / VCPUS].vcpus[i % VCPUS];

		c->run->immediate_exit = 1;
		pthread_kill(c->thread, SIGUSR1);
		pthread_join(c->thread, NULL);
	}
	report("", rounds * MACHINES * 2 + passing, "change", "");
	return 0;
}
#else
int main(int argc, char **argv)
{
	parse_options(argc, argv, "tables of stage 2 change while virtual machines run", options);
	skip("virtual machines of arm64 only");
}
#endif
