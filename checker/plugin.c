// SPDX-License-Identifier: GPL-2.0-only
/*
 * plugin - loads a mode of the plugin, and what the modes share. See plugin.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "plugin.h"

QEMU_EXPORT int qemu_plugin_version = API_VERSION;

struct options options;
struct vcpu *vcpus;
__thread unsigned int this_vcpu;
unsigned int ncpus;
int api;
qemu_plugin_id_t plugin_id;
FILE *out;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct mode *mode;

/* refuse() was called: do not write a result at exit. */
static bool refused;

void check_output(void)
{
	static bool told;

	if (!ferror(out) || told)
		return;
	told = true;
	fprintf(stderr, "lull: cannot write to '%s' (%s): the file is incomplete\n",
		options.out, strerror(errno));
}

uint64_t read_register(unsigned int cpu, struct qemu_plugin_register *reg)
{
	struct vcpu *v = &vcpus[cpu];
	uint64_t value = 0;

	g_byte_array_set_size(v->buf, 0);	/* QEMU appends */
	qemu_plugin_read_register(reg, v->buf);
	if (v->buf->len != 8 && v->buf->len != 4) {
		fprintf(stderr, "lull: QEMU does not give a register of vCPU %u\n", cpu);
		abort();
	}
	for (int i = v->buf->len - 1; i >= 0; i--)	/* arm64 system emulation: little-endian */
		value = value << 8 | v->buf->data[i];
	return value;
}

uint64_t read_x(unsigned int cpu, unsigned int reg)
{
	return reg < XREGS ? read_register(cpu, vcpus[cpu].x[reg]) : 0;	/* xzr */
}

uint64_t read_pc(unsigned int cpu)
{
	return read_register(cpu, vcpus[cpu].pc);
}

struct issuer_state read_issuer(unsigned int cpu)
{
	struct vcpu *v = &vcpus[cpu];

	if (!v->hcr)
		return (struct issuer_state){ 0 };
	return (struct issuer_state){
		.el = read_register(cpu, v->cpsr) >> 2 & 3,
		.hcr = read_register(cpu, v->hcr),
		.vttbr = read_register(cpu, v->vttbr),
	};
}

void refuse(const char *why)
{
	refused = true;
	fprintf(stderr, "lull: %s\n", why);
	json_error(out, why);
	pthread_mutex_unlock(&lock);
	exit(EXIT_FAILURE);
}

/*
 * With thread=single one host thread runs all vCPUs. QEMU then shares translated blocks
 * between them that contain the number of one vCPU, so that events would be booked to the
 * wrong vCPU. QEMU does not tell a plugin about this mode. So this function, which runs in
 * the thread of each vCPU before the vCPU executes anything, compares the threads.
 */
static void refuse_shared_thread(unsigned int cpu)
{
	for (unsigned int other = 0; other < ncpus; other++)
		if (other != cpu && vcpus[other].started &&
		    pthread_equal(vcpus[other].thread, vcpus[cpu].thread))
			refuse("several vCPUs share one host thread (thread=single or icount), "
			       "so that QEMU books events to the wrong one; "
			       "start QEMU with -accel tcg,thread=multi, or with one vCPU");
}

static void find_registers(struct vcpu *v, unsigned int cpu)
{
	const struct {
		const char *name;
		struct qemu_plugin_register **handle;
	} others[] = {
		{ "pc", &v->pc }, { "cpsr", &v->cpsr },
		{ "ID_AA64MMFR1_EL1", &v->mmfr1 }, { "ID_AA64MMFR2_EL1", &v->mmfr2 },
		{ "HCR_EL2", &v->hcr }, { "VTTBR_EL2", &v->vttbr },
	};
	GArray *all = qemu_plugin_get_registers();
	unsigned int size = g_array_get_element_size(all);

	for (unsigned int i = 0; i < all->len; i++) {
		const qemu_plugin_reg_descriptor *d = (const void *)(all->data + i * size);
		unsigned int reg;
		int end = 0;

		for (size_t other = 0; other < sizeof(others) / sizeof(others[0]); other++)
			if (d->name && !strcmp(d->name, others[other].name))
				*others[other].handle = d->handle;
		if (d->name && sscanf(d->name, "x%u%n", &reg, &end) == 1 &&
		    !d->name[end] && reg < XREGS)
			v->x[reg] = d->handle;
	}
	g_array_free(all, 1);
	for (unsigned int reg = 0; reg < XREGS; reg++) {
		char why[96];

		if (v->x[reg] && v->pc)
			continue;
		snprintf(why, sizeof(why), "vCPU %u has no register x%u: not a 64-bit Arm CPU? Choose another -cpu",
			 cpu, reg);
		refuse(why);
	}
	if (!v->cpsr || !v->vttbr)
		v->hcr = NULL;
	if (!v->buf)
		v->buf = g_byte_array_new();
}

static void on_vcpu_init(EVENT(unsigned int cpu))
{
	pthread_mutex_lock(&lock);
	vcpus[cpu].thread = pthread_self();
	vcpus[cpu].started = true;
	this_vcpu = cpu;
	refuse_shared_thread(cpu);
	find_registers(&vcpus[cpu], cpu);
	if (mode->vcpu)
		mode->vcpu(cpu);
	pthread_mutex_unlock(&lock);
}

static void on_exit_qemu(WITH_ID(void *userdata))
{
	(void)userdata;
	pthread_mutex_lock(&lock);
	if (!refused) {
		mode->finish();
		check_output();
	}
	pthread_mutex_unlock(&lock);
}

static bool supported(const qemu_info_t *info)
{
	if (info->version.min > API_VERSION || info->version.cur < API_VERSION ||
	    info->version.cur > API_LAST) {
		fprintf(stderr, "lull: this QEMU has plugin API version %d (minimum %d), this build of the plugin needs %d to %d: use QEMU %s\n",
			info->version.cur, info->version.min, API_VERSION, API_LAST, API_QEMU);
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
	api = info->version.cur;
	plugin_id = id;
	ncpus = info->system.max_vcpus;
	mode = options.mode == MODE_CHECK ? &check_mode : &count_mode;
	vcpus = calloc(ncpus, sizeof(*vcpus));
	if (!vcpus) {
		fprintf(stderr, "lull: no memory for %u vCPUs\n", ncpus);
		return 1;
	}
	out = fopen(options.out ?: "/dev/null", "we");
	if (!out) {
		fprintf(stderr, "lull: cannot write to '%s': %s\n",
			options.out, strerror(errno));
		return 1;
	}
	if (!mode->install(error, sizeof(error))) {
		fprintf(stderr, "lull: %s\n", error);
		return 1;
	}
	check_output();
	qemu_plugin_register_vcpu_init_cb(id, NO_DATA(on_vcpu_init));
	qemu_plugin_register_vcpu_tb_trans_cb(id, NO_DATA(mode->translate));
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
