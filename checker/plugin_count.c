// SPDX-License-Identifier: GPL-2.0-only
/*
 * plugin_count - mode=count: the glue between QEMU and count.h.
 *
 * Each instruction is decoded once, when QEMU translates it. The few that count as
 * events get a callback when they execute. For all others QEMU's generated code adds to
 * the vCPU's counters of instructions and of atomics, one addition for several.
 */
#include <stddef.h>

#include "count.h"
#include "decode.h"
#include "plugin.h"
#include "plugin_time.h"

static struct counts counts;

/*
 * At least one cache line for each vCPU, because sharing one would slow every block; and
 * a power of two, so that QEMU finds an entry by shifting.
 */
struct score {
	uint64_t insns, spin, atomics;
	char pad[104];
};

static qemu_plugin_u64 insns, spin, atomics;

/* With functions=: the counters of struct functions, for each vCPU. */
static struct qemu_plugin_scoreboard *by_function;

/* Copy the counters of all vCPUs from QEMU into @counts. Call with the lock held. */
static void sample_insns(void)
{
	int started = qemu_plugin_num_vcpus();

	for (int cpu = 0; cpu < started; cpu++)
		count_set_insns(&counts, cpu, qemu_plugin_u64_get(insns, cpu),
				qemu_plugin_u64_get(spin, cpu),
				qemu_plugin_u64_get(atomics, cpu));
}

/* The user data is the instruction word: decoding it again is cheaper than storing the result. */
static struct insn insn_of(void *userdata)
{
	return decode((uintptr_t)userdata);
}

static void event(unsigned int cpu, struct insn *insn, uint64_t operand)
{
	struct issuer by = { 0 };

	if (insn->kind == INSN_TLBI && vcpus[cpu].hcr) {
		struct issuer_state state = read_issuer(cpu);

		by = issuer_of(&state, &insn->tlbi);
	}
	count_event(&counts, cpu, insn, operand, &by);
	/* QEMU obeys HCR_EL2.FB: such a TLBI waits for the other vCPUs, and costs what a broadcast costs. */
	if (by.forced)
		insn->tlbi.domain = DOMAIN_IS;
	time_event(cpu, insn, operand);
}

static void on_event(unsigned int cpu, void *userdata)
{
	struct insn insn = insn_of(userdata);

	event(cpu, &insn, 0);
}

static void on_event_operand(unsigned int cpu, void *userdata)
{
	struct insn insn = insn_of(userdata);

	event(cpu, &insn, read_x(cpu, insn.rt));
}

static void on_marker(unsigned int cpu, void *userdata)
{
	struct issuer_state state = read_issuer(cpu);
	uint64_t id = read_x(cpu, 0);

	pthread_mutex_lock(&lock);
	sample_insns();
	if (insn_of(userdata).kind == INSN_OPEN) {
		if (count_open(&counts, cpu, &state, id, out)) {
			time_open(cpu);
			if (by_function)
				functions_open(&counts.functions, qemu_plugin_scoreboard_find(by_function, cpu));
		}
	} else {
		if (count_is_open(&counts, id))
			time_close(cpu, &counts);
		if (by_function)
			count_set_functions(&counts, qemu_plugin_scoreboard_find(by_function, counts.opener));
		count_close(&counts, id, out);
	}
	check_output();
	pthread_mutex_unlock(&lock);
}

static void watch(struct qemu_plugin_insn *handle, uint32_t word,
		  const struct insn *insn)
{
	void *data = (void *)(uintptr_t)word;

	switch (insn->kind) {
	case INSN_TLBI:
		qemu_plugin_register_vcpu_insn_exec_cb(handle,
			tlbi_has_operand(&insn->tlbi) ? on_event_operand : on_event,
			QEMU_PLUGIN_CB_R_REGS, data);
		break;
	case INSN_DSB:
	case INSN_IC:
		qemu_plugin_register_vcpu_insn_exec_cb(handle, on_event,
						       QEMU_PLUGIN_CB_NO_REGS, data);
		break;
	case INSN_SGI:
		qemu_plugin_register_vcpu_insn_exec_cb(handle, on_event_operand,
						       QEMU_PLUGIN_CB_R_REGS, data);
		break;
	case INSN_OPEN:
	case INSN_CLOSE:
		qemu_plugin_register_vcpu_insn_exec_cb(handle, on_marker,
						       QEMU_PLUGIN_CB_R_REGS, data);
		break;
	case INSN_OTHER:
	case INSN_MARK:
	case INSN_MSR:
	case INSN_CALL:
	case INSN_SYNC:
		break;
	}
}

static void add_to(qemu_plugin_u64 counter, struct qemu_plugin_insn *handle, unsigned int n)
{
	if (n)
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(handle,
			QEMU_PLUGIN_INLINE_ADD_U64, counter, n);
}

/*
 * Instructions that were translated and are still to be added; spin: those of them in
 * skip= ranges. All of them are of one function.
 */
struct sums {
	unsigned int insns, spin;
	size_t function;
};

static void add_sums(struct qemu_plugin_insn *handle, struct sums *sums)
{
	add_to(insns, handle, sums->insns);
	add_to(spin, handle, sums->spin);
	if (by_function)
		add_to((qemu_plugin_u64){ by_function, sums->function * sizeof(uint64_t) }, handle, sums->insns);
	*sums = (struct sums){ 0 };
}

/* insns=block: add all instructions of a block where it starts. */
static void add_block(struct qemu_plugin_tb *tb, size_t n)
{
	unsigned int apart = 0;

	for (size_t i = 0; i < n; i++)
		apart += options_skips(&options, qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i)));
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, insns, n);
	if (apart)
		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
								  spin, apart);
}

/*
 * Counts the instructions that the vCPU begins to execute. When it reaches an instruction
 * that may leave the block (by a fault, for example), all instructions before it have
 * executed. So they are added there, together with it, and not before. This is as exact
 * as one addition at each instruction, with less than half as many additions.
 *
 * For one instruction QEMU runs callbacks and additions in the order of their
 * registration. A closing marker is added after the window took its sample, an opening
 * marker before: neither is part of its window.
 */
static void on_translate(EVENT(struct qemu_plugin_tb *tb))
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	bool per_block = options.insns == INSNS_BLOCK;
	struct sums sums = { 0 };

	if (per_block)
		add_block(tb, n);
	time_block(tb, n);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *handle = qemu_plugin_tb_get_insn(tb, i);
		struct insn insn;
		size_t function = 0;
		uint32_t word = 0;
		bool apart;

		qemu_plugin_insn_data(handle, &word, sizeof(word));
		insn = decode(word);
		apart = options_skips(&options, qemu_plugin_insn_vaddr(handle));
		if (by_function)
			function = functions_find(&counts.functions, qemu_plugin_insn_vaddr(handle));
		/* Another function begins: add the sums to the one before, which has executed. */
		if (function != sums.function)
			add_sums(handle, &sums);
		sums.function = function;
		if (insn.kind == INSN_CLOSE && !per_block) {
			add_sums(handle, &sums);
			watch(handle, word, &insn);
			sums = (struct sums){ 1, apart, function };
			add_sums(handle, &sums);
			continue;
		}
		sums.insns++;
		sums.spin += apart;
		if (!per_block && (i == n - 1 || may_leave_block(word) ||
				   options.insns == INSNS_EACH))
			add_sums(handle, &sums);
		add_to(atomics, handle, is_atomic(word));
		watch(handle, word, &insn);
	}
}

/* Make the counters of functions=. An entry has a power of two of bytes, as struct score. */
static bool install_functions(char *error, size_t size)
{
	size_t entry = sizeof(struct score);

	if (!functions_load(&counts.functions, options.functions, error, size))
		return false;
	while (entry < counts.functions.counters * sizeof(uint64_t))
		entry *= 2;
	by_function = qemu_plugin_scoreboard_new(entry);
	return true;
}

static bool install(char *error, size_t size)
{
	if (!count_init(&counts, ncpus)) {
		snprintf(error, size, "no memory for %u vCPUs", ncpus);
		return false;
	}
	if (options.functions && !install_functions(error, size))
		return false;
	count_write_header(&counts, api, out);
	insns.score = qemu_plugin_scoreboard_new(sizeof(struct score));
	insns.offset = offsetof(struct score, insns);
	spin.score = insns.score;
	spin.offset = offsetof(struct score, spin);
	atomics.score = insns.score;
	atomics.offset = offsetof(struct score, atomics);
	return time_install(insns, error, size);
}

static void finish(void)
{
	sample_insns();
	count_write_run(&counts, out);
}

/* A machine has EL2 in all of its vCPUs, or in none. */
static void vcpu(unsigned int cpu)
{
	counts.virtual = vcpus[cpu].hcr;
}

const struct mode count_mode = {
	.vcpu = vcpu, .install = install, .translate = on_translate, .finish = finish,
};
