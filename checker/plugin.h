/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plugin - what the two modes of the plugin share: QEMU's vCPUs, their registers, the
 * options and the output. plugin.c installs a mode; plugin_count.c is mode=count and
 * plugin_check.c mode=check.
 */
#ifndef LULL_PLUGIN_H
#define LULL_PLUGIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "issuer.h"
#include "options.h"
#include "qemu_api.h"

#define XREGS 31

struct vcpu {
	pthread_t thread;
	bool started;
	struct qemu_plugin_register *x[XREGS], *pc;
	struct qemu_plugin_register *mmfr1, *mmfr2;	/* ID_AA64MMFRn_EL1; NULL: QEMU does not give it */
	struct qemu_plugin_register *cpsr, *hcr, *vttbr; /* PSTATE, HCR_EL2, VTTBR_EL2; hcr is NULL without EL2 */
	GByteArray *buf;
};

extern struct options options;
extern struct vcpu *vcpus;
extern __thread unsigned int this_vcpu;	/* the vCPU of the calling thread */
extern unsigned int ncpus;
extern int api;			/* QEMU's version of the plugin interface */
extern qemu_plugin_id_t plugin_id;
extern FILE *out;

/* Serialises markers, the checker, output and exit. */
extern pthread_mutex_t lock;

/* Call these only for the current vCPU, in callbacks registered with QEMU_PLUGIN_CB_R_REGS, or while it translates. */
uint64_t read_x(unsigned int cpu, unsigned int reg);
uint64_t read_pc(unsigned int cpu);
uint64_t read_register(unsigned int cpu, struct qemu_plugin_register *reg);

/* What decides for whom the vCPU executes a TLBI; zero if it has no EL2. */
struct issuer_state read_issuer(unsigned int cpu);

/* Report a failed write once: output on a full disk must not look like a guest that did nothing. */
void check_output(void);

/* Write the reason to standard error and to the output, and end QEMU. Call with the lock held. */
void refuse(const char *why);

struct mode {
	/* A vCPU exists and has executed nothing yet; called with the lock held. May be NULL. */
	void (*vcpu)(unsigned int cpu);
	/* Called before the guest runs. Returns false with the reason in @error. */
	bool (*install)(char *error, size_t size);
	void (*translate)(EVENT(struct qemu_plugin_tb *tb));
	/* QEMU ends; called with the lock held. */
	void (*finish)(void);
};

extern const struct mode count_mode, check_mode;

#endif
