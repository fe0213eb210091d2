// SPDX-License-Identifier: GPL-2.0-only
#include "storm.h"

void fill(char *memory, size_t size, long seed)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		*(volatile long *)(memory + at) = expected(at, seed);
}

void check(const char *memory, size_t size, long seed, const char *what)
{
	size_t at;

	for (at = 0; at < size; at += PAGE) {
		long holds = *(volatile const long *)(memory + at);	/* read once: a second read might be right */

		verify(holds == expected(at, seed), "%s: page %zu, at %p, holds 0x%lx, not 0x%lx", what, at / PAGE,
		       memory + at, holds, expected(at, seed));
	}
}

void check_zero(const char *memory, size_t size, const char *what)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		verify(*(volatile const long *)(memory + at) == 0, "%s: page %zu is not empty", what, at / PAGE);
}

char *fresh(size_t size)
{
	static char *next;

	if (!next)
		next = (char *)(0x2000UL << 20);
	next = (char *)(((uintptr_t)next + 2 * HUGE - 1) & ~(HUGE - 1));
	next += size;
	return next - size;
}

char *map_at(char *place, size_t size, int flags, int fd)
{
	char *memory = must((char *)mmap(place, size, PROT_READ | PROT_WRITE,
					 flags | (fd < 0 ? MAP_ANONYMOUS : 0) | MAP_FIXED_NOREPLACE, fd, 0));

	verify(memory == place, "the kernel does not know MAP_FIXED_NOREPLACE");
	return memory;
}

char *small(size_t size, long seed)
{
	char *memory = map_at(fresh(size), size, MAP_PRIVATE, -1);

	use_small_pages(memory, size);
	fill(memory, size, seed);
	return memory;
}

__thread sigjmp_buf way_back;
__thread char *volatile dared;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (dared && info->si_addr == dared)
		siglongjmp(way_back, 1);
	dprintf(2, "%s: signal %d, code %d, at %p: a fault that ought not to be\n",
		program_invocation_short_name, number, info->si_code, info->si_addr);
	abandon_window();
	_exit(FAILED);
}

void expect_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	must(sigaction(SIGSEGV, &action, NULL));
	must(sigaction(SIGBUS, &action, NULL));
}

void attempt(struct access *access)
{
	if (sigsetjmp(way_back, 0)) {
		dared = NULL;
		access->faulted = true;
		return;
	}
	access->faulted = false;
	dared = access->at;
	if (access->write)
		*(volatile long *)access->at = access->value;
	else
		access->value = *(volatile long *)access->at;
	dared = NULL;
}
