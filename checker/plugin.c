// SPDX-License-Identifier: GPL-2.0-only
/*
 * plugin - the glue between QEMU and the checker.
 *
 * At translation each instruction is decoded once. The few that matter get a
 * call when they execute; all others only share additions to the vCPU's
 * instruction counter, which QEMU does in generated code.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

#include "count.h"
#include "decode.h"
#include "json.h"
#include "options.h"
#include "qemu_api.h"

#define XREGS 31

QEMU_EXPORT int qemu_plugin_version = API_VERSION;

struct vcpu {
	pthread_t thread;
	bool started;
	struct qemu_plugin_register *x[XREGS];
	GByteArray *buf;
};

static struct options options;
static struct counts counts;
static struct vcpu *vcpus;
static FILE *out;

/*
 * One cache line or more for each vCPU, or they would fight for it at every
 * block; and a power of two, so that QEMU finds an entry by shifting.
 */
struct score {
	uint64_t insns;
	char pad[120];
};

static qemu_plugin_u64 insns;

/*
 * Serialises markers, output and exit. refused: do not write a result, there
 * is none.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool refused;

/* A disk that is full must not look like a guest that did nothing. */
static void check_output(void)
{
	static bool told;

	if (!ferror(out) || told)
		return;
	told = true;
	fprintf(stderr, "lull: cannot write to '%s' (%s): the counts in it are incomplete\n",
		options.out, strerror(errno));
}

/* With the lock held. */
static void sample_insns(void)
{
	int started = qemu_plugin_num_vcpus();

	for (int cpu = 0; cpu < started; cpu++)
		count_set_insns(&counts, cpu, qemu_plugin_u64_get(insns, cpu));
}

/* Only from callbacks that said QEMU_PLUGIN_CB_R_REGS. */
static uint64_t read_x(unsigned int cpu, unsigned int reg)
{
	struct vcpu *v = &vcpus[cpu];
	uint64_t value = 0;

	if (reg >= XREGS)
		return 0;	/* xzr */
	g_byte_array_set_size(v->buf, 0);	/* QEMU appends */
	if (qemu_plugin_read_register(v->x[reg], v->buf) != 8) {
		fprintf(stderr, "lull: QEMU does not give x%u of vCPU %u\n", reg, cpu);
		abort();
	}
	for (int i = 7; i >= 0; i--)		/* arm64 system emulation: little-endian */
		value = value << 8 | v->buf->data[i];
	return value;
}

/* The word itself is the user data: decoding again is cheaper than keeping. */
static struct insn insn_of(void *userdata)
{
	return decode((uintptr_t)userdata);
}

static void on_event(unsigned int cpu, void *userdata)
{
	struct insn insn = insn_of(userdata);

	count_event(&counts, cpu, &insn, 0);
}

static void on_event_operand(unsigned int cpu, void *userdata)
{
	struct insn insn = insn_of(userdata);

	count_event(&counts, cpu, &insn, read_x(cpu, insn.rt));
}

static void on_marker(unsigned int cpu, void *userdata)
{
	uint64_t id = read_x(cpu, 0);

	pthread_mutex_lock(&lock);
	sample_insns();
	if (insn_of(userdata).kind == INSN_OPEN)
		count_open(&counts, id, out);
	else
		count_close(&counts, id, out);
	check_output();
	pthread_mutex_unlock(&lock);
}

static void watch(struct qemu_plugin_insn *handle, uint32_t word,
		  const struct insn *insn)
{
	void *data = (void *)(uintptr_t)word;

	switch (insn->kind) {
	case INSN_TLBI:
		if (tlbi_has_operand(&insn->tlbi)) {
			qemu_plugin_register_vcpu_insn_exec_cb(handle,
				on_event_operand, QEMU_PLUGIN_CB_R_REGS, data);
			break;
		}
		/* fall through */
	case INSN_DSB:
	case INSN_SGI:
		qemu_plugin_register_vcpu_insn_exec_cb(handle, on_event,
						       QEMU_PLUGIN_CB_NO_REGS, data);
		break;
	case INSN_OPEN:
	case INSN_CLOSE:
		qemu_plugin_register_vcpu_insn_exec_cb(handle, on_marker,
						       QEMU_PLUGIN_CB_R_REGS, data);
		break;
	case INSN_OTHER:
	case INSN_MARK:
	case INSN_MSR:
		break;
	}
}

static void add_insns(struct qemu_plugin_insn *handle, unsigned int n)
{
	if (n)
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(handle,
			QEMU_PLUGIN_INLINE_ADD_U64, insns, n);
}

/*
 * Counts instructions the vCPU begins to execute. All that stand before one
 * which may leave the block (by a fault, say) have certainly executed when it
 * is reached; so they are added there, together with it, and not before. This
 * is as exact as adding one at each, for less than half as many additions.
 *
 * QEMU runs what is registered for one instruction in the order of its
 * registration. A closing marker is added after the window took its sample,
 * an opening one before: neither is part of its window.
 */
static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool per_block = options.insns == INSNS_BLOCK;
	unsigned int owed = 0;

	(void)id;
	if (per_block)
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb,
			QEMU_PLUGIN_INLINE_ADD_U64, insns, n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *handle = qemu_plugin_tb_get_insn(tb, i);
		struct insn insn;
		uint32_t word = 0;

		qemu_plugin_insn_data(handle, &word, sizeof(word));
		insn = decode(word);
		if (insn.kind == INSN_CLOSE && !per_block) {
			add_insns(handle, owed);
			owed = 0;
			watch(handle, word, &insn);
			add_insns(handle, 1);
			continue;
		}
		owed++;
		if (!per_block && (i == n - 1 || may_leave_block(word) ||
				   options.insns == INSNS_EACH)) {
			add_insns(handle, owed);
			owed = 0;
		}
		watch(handle, word, &insn);
	}
}

/*
 * With thread=single one host thread runs all vCPUs, and QEMU shares blocks
 * between them into which it has written the number of one: everything would
 * be booked to the wrong vCPU. Nothing tells a plugin directly. This runs in
 * the thread of each vCPU before it executes anything.
 */
static void refuse_shared_thread(unsigned int cpu)
{
	static const char why[] =
		"several vCPUs share one host thread (thread=single or icount), "
		"so that QEMU books events to the wrong one; "
		"start QEMU with -accel tcg,thread=multi, or with one vCPU";

	for (unsigned int other = 0; other < counts.ncpus; other++) {
		struct json j = { .out = out };

		if (other == cpu || !vcpus[other].started ||
		    !pthread_equal(vcpus[other].thread, vcpus[cpu].thread))
			continue;
		refused = true;
		fprintf(stderr, "lull: %s\n", why);
		json_open(&j, '{');
		json_key(&j, "error");
		json_string(&j, why);
		json_close(&j, '}');
		json_end_line(&j);
		fflush(out);
		pthread_mutex_unlock(&lock);
		exit(EXIT_FAILURE);
	}
}

static void find_registers(struct vcpu *v, unsigned int cpu)
{
	GArray *all = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *d = (const void *)all->data;

	for (unsigned int i = 0; i < all->len; i++) {
		unsigned int reg;
		int end = 0;

		if (d[i].name && sscanf(d[i].name, "x%u%n", &reg, &end) == 1 &&
		    !d[i].name[end] && reg < XREGS)
			v->x[reg] = d[i].handle;
	}
	g_array_free(all, 1);
	for (unsigned int reg = 0; reg < XREGS; reg++) {
		if (v->x[reg])
			continue;
		refused = true;
		fprintf(stderr, "lull: vCPU %u has no register x%u: not a 64-bit Arm CPU? Choose another -cpu\n",
			cpu, reg);
		pthread_mutex_unlock(&lock);
		exit(EXIT_FAILURE);
	}
	if (!v->buf)
		v->buf = g_byte_array_new();
}

static void on_vcpu_init(qemu_plugin_id_t id, unsigned int cpu)
{
	(void)id;
	pthread_mutex_lock(&lock);
	vcpus[cpu].thread = pthread_self();
	vcpus[cpu].started = true;
	refuse_shared_thread(cpu);
	find_registers(&vcpus[cpu], cpu);
	pthread_mutex_unlock(&lock);
}

static void on_exit_qemu(qemu_plugin_id_t id, void *userdata)
{
	(void)id;
	(void)userdata;
	pthread_mutex_lock(&lock);
	if (!refused) {
		sample_insns();
		count_write_run(&counts, out);
		check_output();
	}
	pthread_mutex_unlock(&lock);
}

static bool supported(const qemu_info_t *info)
{
	if (info->version.min > API_VERSION || info->version.cur < API_VERSION ||
	    info->version.cur > API_LAST) {
		fprintf(stderr, "lull: this QEMU has plugin API version %d (minimum %d), the plugin needs %d to %d: use QEMU 9.2, 10.0, 10.1 or 10.2\n",
			info->version.cur, info->version.min, API_VERSION, API_LAST);
		return false;
	}
	if (!info->system_emulation || strcmp(info->target_name, "aarch64")) {
		fprintf(stderr, "lull: this is %s %s emulation, the plugin is for aarch64 system emulation: use qemu-system-aarch64\n",
			info->target_name,
			info->system_emulation ? "system" : "user");
		return false;
	}
	return true;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
				    const qemu_info_t *info,
				    int argc, char **argv)
{
	char error[256];

	if (!supported(info))
		return 1;
	if (!options_parse(&options, argc, argv, error, sizeof(error))) {
		fprintf(stderr, "lull: %s\n", error);
		return 1;
	}
	vcpus = calloc(info->system.max_vcpus, sizeof(*vcpus));
	if (!vcpus || !count_init(&counts, info->system.max_vcpus)) {
		fprintf(stderr, "lull: no memory for %d vCPUs\n",
			info->system.max_vcpus);
		return 1;
	}
	out = fopen(options.out, "we");
	if (!out) {
		fprintf(stderr, "lull: cannot write to '%s': %s\n",
			options.out, strerror(errno));
		return 1;
	}
	count_write_header(&counts, API_VERSION, out);
	check_output();

	insns.score = qemu_plugin_scoreboard_new(sizeof(struct score));
	insns.offset = offsetof(struct score, insns);
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
