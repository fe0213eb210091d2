// SPDX-License-Identifier: GPL-2.0-only
/*
 * plugin_time - modelled time of the guest that is counted. See plugin_time.h.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "account.h"
#include "plugin_time.h"

/* All in host time. How long a vCPU is held before it may execute one block. */
#define HELD_NS		1000000
/* The same while another vCPU broadcasts. */
#define PASSING_NS	20000
/* How long others wait for a sleeping vCPU that was sent an interrupt. */
#define COMING_NS	2000000000
/* The same if it may have taken the interrupt already, just before it fell asleep. */
#define CALLED_NS	5000000

static struct account account;
static pthread_mutex_t time_lock = PTHREAD_MUTEX_INITIALIZER;

/* One for each vCPU. time_lock guards it and the variables down to @waits. */
static struct lane {
	pthread_cond_t freed;
	bool held;
	bool broadcasts;	/* it issues a broadcast TLBI, for which QEMU will stop all vCPUs */
	bool coming;		/* it slept and was sent an interrupt: others wait for it */
	struct timespec until;	/* with @coming: when it counts as asleep after all */
	bool off;		/* others gave up waiting, and it has executed nothing since */
	bool called;		/* it was sent an interrupt while it ran, or others wait for it because of that */
} *lanes;
static unsigned int broadcasting;
static bool holding;		/* a window is open */
/* Modelled time at which the window opened; instructions of vCPUs that should have been held. */
static uint64_t opened, astray;
static bool waits[DSB_FORMS];	/* DSBs that complete TLBIs */

/* At least one cache line for each vCPU, as in plugin_count.c. */
struct since {
	uint64_t insns;		/* instructions since on_step() last let the vCPU go on */
	char pad[120];
};

static qemu_plugin_u64 insns, since;
static uint64_t step;		/* instructions after which on_step() is called again */

static void free_those_in_time(void)
{
	for (unsigned int cpu = 0; cpu < ncpus; cpu++)
		if (lanes[cpu].held && account.cpus[cpu].time <= account.front + options.quantum)
			pthread_cond_signal(&lanes[cpu].freed);
}

static void free_all(void)
{
	for (unsigned int cpu = 0; cpu < ncpus; cpu++)
		if (lanes[cpu].held)
			pthread_cond_signal(&lanes[cpu].freed);
}

static void end_broadcast(unsigned int cpu)
{
	broadcasting -= lanes[cpu].broadcasts;
	lanes[cpu].broadcasts = false;
}

/* Add what a vCPU has executed since the last call to its time. Call with the lock held. */
static void look_at(unsigned int cpu)
{
	uint64_t now = qemu_plugin_u64_get(insns, cpu);

	end_broadcast(cpu);
	lanes[cpu].coming = lanes[cpu].off = lanes[cpu].called = false;
	account_run(&account, cpu);
	if (holding && account.cpus[cpu].time > account.front + options.quantum)
		astray += now - account.cpus[cpu].insns;
	account_insns(&account, cpu, now);
}

static struct timespec in(long ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ns;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void await(unsigned int cpu, long ns)
{
	lanes[cpu].coming = true;
	lanes[cpu].until = in(ns);
}

/*
 * vCPU @by sends an SGI. A target that sleeps counts as running from now on: if the host
 * is slow to wake it, others must not go on as if it were asleep.
 */
static void wake(unsigned int by, uint64_t operand)
{
	for (unsigned int cpu = 0; cpu < ncpus; cpu++) {
		if (!sgi_reaches(operand, by, cpu))
			continue;
		if (lanes[cpu].coming && !lanes[cpu].called)
			continue;
		/* One that fell asleep with an earlier interrupt under way counts as asleep for this one. */
		lanes[cpu].called = account.cpus[cpu].running && !lanes[cpu].coming;
		if (lanes[cpu].called || lanes[cpu].off)
			continue;
		account_wake(&account, cpu, by);
		await(cpu, COMING_NS);
	}
}

static bool past(const struct timespec *t)
{
	struct timespec now = in(0);

	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec > t->tv_nsec);
}

/* Treat vCPUs that have not come in time as asleep: they may be switched off. */
static void give_up_waiting(void)
{
	for (unsigned int cpu = 0; cpu < ncpus; cpu++) {
		if (!lanes[cpu].coming || !past(&lanes[cpu].until))
			continue;
		lanes[cpu].coming = false;
		lanes[cpu].off = !lanes[cpu].called;
		lanes[cpu].called = false;
		account_sleep(&account, cpu);
	}
}

/*
 * Hold a vCPU that is too far ahead. Returns true when it is in time. Returns false when it
 * may execute one block and must then call this again. Call with the lock held.
 */
static bool hold(unsigned int cpu)
{
	while (holding && account.cpus[cpu].time > account.front + options.quantum) {
		struct timespec until = in(broadcasting ? PASSING_NS : HELD_NS);
		int why;

		lanes[cpu].held = true;
		why = pthread_cond_timedwait(&lanes[cpu].freed, &time_lock, &until);
		lanes[cpu].held = false;
		if (why == ETIMEDOUT)
			give_up_waiting();
		if (why == ETIMEDOUT || broadcasting)
			return false;
	}
	return true;
}

static void on_step(unsigned int cpu, void *userdata)
{
	(void)userdata;
	pthread_mutex_lock(&time_lock);
	look_at(cpu);
	free_those_in_time();
	if (hold(cpu))
		qemu_plugin_u64_set(since, cpu, 0);
	pthread_mutex_unlock(&time_lock);
}

/*
 * A vCPU falls asleep. QEMU wakes threads for reasons of its own, so a vCPU that has
 * executed nothing since it was sent an interrupt is still awaited. An interrupt that was
 * sent just before may not have arrived yet, so the vCPU is awaited for a short time.
 */
static void on_sleep(EVENT(unsigned int cpu))
{
	bool executed, called;

	pthread_mutex_lock(&time_lock);
	executed = qemu_plugin_u64_get(insns, cpu) != account.cpus[cpu].insns;
	called = lanes[cpu].called;
	if (!lanes[cpu].coming || executed) {
		look_at(cpu);
		lanes[cpu].called = called;
		if (called)
			await(cpu, CALLED_NS);
		else
			account_sleep(&account, cpu);
		free_those_in_time();
	}
	pthread_mutex_unlock(&time_lock);
}

static void on_wake(EVENT(unsigned int cpu))
{
	pthread_mutex_lock(&time_lock);
	account_run(&account, cpu);
	pthread_mutex_unlock(&time_lock);
}

void time_event(unsigned int cpu, const struct insn *insn, uint64_t operand)
{
	bool broadcast = insn->kind == INSN_TLBI && insn->tlbi.domain != DOMAIN_LOCAL;

	if (!options.timed)
		return;
	pthread_mutex_lock(&time_lock);
	look_at(cpu);
	if (insn->kind == INSN_TLBI)
		account_tlbi(&account, cpu, broadcast);
	else if (insn->kind == INSN_DSB)
		account_dsb(&account, cpu, waits[insn->dsb]);
	else if (insn->kind == INSN_SGI)
		wake(cpu, operand);
	if (broadcast) {
		lanes[cpu].broadcasts = true;
		broadcasting++;
		free_all();
	} else {
		free_those_in_time();
	}
	/* The vCPU may be far ahead now: make on_step() run before its next block. */
	qemu_plugin_u64_set(since, cpu, step);
	pthread_mutex_unlock(&time_lock);
}

void time_open(unsigned int cpu)
{
	if (!options.timed)
		return;
	pthread_mutex_lock(&time_lock);
	give_up_waiting();
	for (unsigned int other = 0; other < ncpus; other++)
		if (account.cpus[other].running)
			account_insns(&account, other, qemu_plugin_u64_get(insns, other));
	look_at(cpu);
	opened = account_align(&account);
	astray = 0;
	holding = true;
	pthread_mutex_unlock(&time_lock);
}

void time_close(unsigned int cpu, struct counts *counts)
{
	if (!options.timed)
		return;
	pthread_mutex_lock(&time_lock);
	look_at(cpu);
	count_set_time(counts, (account.cpus[cpu].time - opened) / PS_PER_NS, astray);
	holding = false;
	free_all();
	pthread_mutex_unlock(&time_lock);
}

void time_block(struct qemu_plugin_tb *tb, size_t n)
{
	if (!options.timed)
		return;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, since, n);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_step, QEMU_PLUGIN_CB_NO_REGS,
						  QEMU_PLUGIN_COND_GE, since, step, NULL);
}

static bool make_lanes(void)
{
	pthread_condattr_t monotonic;

	lanes = calloc(ncpus, sizeof(*lanes));
	if (!lanes)
		return false;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	for (unsigned int cpu = 0; cpu < ncpus; cpu++)
		pthread_cond_init(&lanes[cpu].freed, &monotonic);
	return true;
}

bool time_install(qemu_plugin_u64 counter, char *error, size_t size)
{
	if (!options.timed)
		return true;
	if (!account_init(&account, ncpus, &options.costs) || !make_lanes()) {
		snprintf(error, size, "no memory for the time of %u vCPUs", ncpus);
		return false;
	}
	waits[DSB_ISH] = waits[DSB_OSH] = waits[DSB_SY] = true;
	waits[DSB_ISHNXS] = waits[DSB_OSHNXS] = waits[DSB_SYNXS] = true;
	qemu_plugin_register_vcpu_idle_cb(plugin_id, NO_DATA(on_sleep));
	qemu_plugin_register_vcpu_resume_cb(plugin_id, NO_DATA(on_wake));
	insns = counter;
	since.score = qemu_plugin_scoreboard_new(sizeof(struct since));
	since.offset = offsetof(struct since, insns);
	step = options.quantum / (options.costs.insn ? options.costs.insn : PS_PER_NS) / 4;
	step = step ? step : 1;
	return true;
}
