// SPDX-License-Identifier: GPL-2.0-only
/*
 * threads - vCPUs at work on the checker at the same time, each in a thread of its own, with the
 * lock where plugin_check.c has it and without it where that has none. Built with the thread
 * sanitizer, which reports each race. Writes the verdict.
 *
 *	threads ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linux.h"
#include "shadow.h"
#include "sync_point.h"

#define CPUS	4
#define BASE	0x40000000ull
#define SIZE	(4ull << 20)
#define PAGE	0x1000ull
#define USER	0x68000000000f43ull	/* a page of user space, writable */

enum { RESERVED, SWAPPER, ROOT, PMD, PTE, DATA };	/* pages of memory from BASE on */

static struct shadow shadow;
static struct linux_guest guest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int rounds;

static uint64_t at(unsigned int page)
{
	return BASE + page * PAGE;
}

static void poke(uint64_t pa, uint64_t value)
{
	__atomic_store_n((uint64_t *)(shadow.spaces.ram.host + (pa - BASE)), value, __ATOMIC_RELAXED);
}

static void store(unsigned int cpu, uint64_t pa, uint64_t value)
{
	poke(pa, value);
	if (!page_is_followed(&shadow.spaces, pa))
		return;
	pthread_mutex_lock(&lock);
	shadow_store(&shadow, cpu, pa, 8, 1);
	pthread_mutex_unlock(&lock);
}

static void msr(unsigned int cpu, enum sysreg reg, uint64_t value)
{
	pthread_mutex_lock(&lock);
	shadow_msr(&shadow, cpu, reg, value, 2);
	pthread_mutex_unlock(&lock);
}

static void sp_el0(unsigned int cpu, uint64_t value)
{
	if (shadow_sp_el0(&shadow, cpu, value))
		return;
	pthread_mutex_lock(&lock);
	shadow_user(&shadow, cpu, 3);
	pthread_mutex_unlock(&lock);
}

static void dsb(unsigned int cpu, enum dsb_form form)
{
	if (shadow_dsb_quick(&shadow, cpu, form))
		return;
	pthread_mutex_lock(&lock);
	shadow_dsb(&shadow, cpu, form);
	pthread_mutex_unlock(&lock);
}

static void tlbi(unsigned int cpu, const char *name, uint64_t operand)
{
	struct tlbi t;

	for (unsigned int i = 0; i < TLBI_FORMS; i++) {
		if (!tlbi_form(i, &t) || strcmp(t.name, name))
			continue;
		pthread_mutex_lock(&lock);
		shadow_tlbi(&shadow, cpu, &t, operand, 4);
		pthread_mutex_unlock(&lock);
	}
}

static void enter(unsigned int cpu, enum linux_hook hook)
{
	if (linux_idle(&guest, cpu, hook))
		return;
	pthread_mutex_lock(&lock);
	if (hook == HOOK_SCHEDULE)
		shadow_sleeps(&shadow, cpu, 5);
	else if (hook == HOOK_UNLOCK)
		shadow_unlock(&shadow, cpu, 6);
	else
		shadow_written(&shadow, cpu, at(DATA) >> 12, 1, SYNC_ALL, 7);
	pthread_mutex_unlock(&lock);
}

/* One descriptor is changed, flushed or not, and the task goes on; other CPUs have the same tables. */
static void work(unsigned int cpu, unsigned int *seed)
{
	uint64_t va = PAGE * (1 + rand_r(seed) % 4), slot = at(PTE) + 8 * (va / PAGE);
	uint64_t page = at(DATA + rand_r(seed) % 2), what = rand_r(seed);

	sp_el0(cpu, 1ull << 63 | (1 + cpu));
	store(cpu, slot, what & 1 ? 0 : page | USER);
	enter(cpu, HOOK_UNLOCK);
	if (what & 2) {
		dsb(cpu, DSB_ISHST);
		tlbi(cpu, "vale1is", 1ull << 48 | va / PAGE);
	}
	enter(cpu, HOOK_START_WRITEBACK);
	dsb(cpu, what & 4 ? DSB_ISH : DSB_NSH);
	if (!(what & 0x38))
		store(cpu, at(PMD), what & 1 ? 0 : at(PTE) | 3);
	if (!(what & 0x1c0)) {
		msr(cpu, REG_TTBR0, at(RESERVED));
		shadow_sync(&shadow, cpu);
		msr(cpu, REG_TTBR0, at(ROOT));
	}
	pthread_mutex_lock(&lock);
	shadow_access(&shadow, cpu, va, NO_PA, false, 8);
	if (!(what & 0xe00))
		shadow_free(&shadow, cpu, page >> 12, 0, 9);
	pthread_mutex_unlock(&lock);
	enter(cpu, HOOK_SCHEDULE);
	sp_el0(cpu, 0x1000);
}

static void *vcpu(void *number)
{
	unsigned int cpu = (uintptr_t)number, seed = cpu;

	msr(cpu, REG_TCR, 1ull << 22 | 5ull << 32 | 1ull << 36 | 25 | 25 << 16 | 2ull << 30);
	msr(cpu, REG_TTBR1, at(SWAPPER) | 1ull << 48);
	msr(cpu, REG_SCTLR, 1);
	msr(cpu, REG_TTBR0, at(ROOT));
	for (unsigned int i = 0; i < rounds; i++)
		work(cpu, &seed);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ram ram = { .base = BASE, .size = SIZE, .host = calloc(1, SIZE) };
	FILE *nobody = fopen("/dev/null", "w");
	pthread_t threads[CPUS];
	char error[128];

	rounds = argc > 1 ? atoi(argv[1]) : 0;
	if (!rounds || !ram.host || !nobody || !shadow_init(&shadow, CPUS, true, stdout, nobody) ||
	    !shadow_ram(&shadow, &ram) || !linux_init(&guest, &shadow, NULL, error, sizeof(error)))
		return 2;
	poke(at(ROOT), at(PMD) | 3);
	poke(at(PMD), at(PTE) | 3);
	for (uintptr_t cpu = 0; cpu < CPUS; cpu++)
		if (pthread_create(&threads[cpu], NULL, vcpu, (void *)cpu))
			return 2;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		pthread_join(threads[cpu], NULL);
	shadow_verdict(&shadow);
	shadow_free_all(&shadow);
	fclose(nobody);
	free(ram.host);
	return 0;
}
