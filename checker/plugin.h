/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plugin - what the two modes share of QEMU: its vCPUs, their registers, the
 * output. plugin.c installs a mode; plugin_count.c and plugin_check.c are one
 * each.
 */
#ifndef LULL_PLUGIN_H
#define LULL_PLUGIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"
#include "qemu_api.h"

#define XREGS 31

struct vcpu {
	pthread_t thread;
	bool started;
	struct qemu_plugin_register *x[XREGS], *pc;
	struct qemu_plugin_register *mmfr1, *mmfr2;	/* ID_AA64MMFRn_EL1; NULL: QEMU does not tell */
	GByteArray *buf;
};

extern struct options options;
extern struct vcpu *vcpus;
extern unsigned int ncpus;
extern int api;			/* QEMU's version of the plugin interface */
extern qemu_plugin_id_t plugin_id;
extern FILE *out;

/* Serialises markers, the checker, output and exit. */
extern pthread_mutex_t lock;

/* Only from callbacks that said QEMU_PLUGIN_CB_R_REGS, and for its own vCPU. */
uint64_t read_x(unsigned int cpu, unsigned int reg);
uint64_t read_pc(unsigned int cpu);
uint64_t read_register(unsigned int cpu, struct qemu_plugin_register *reg);

/* A disk that is full must not look like a guest that did nothing. */
void check_output(void);

/* Says why on standard error and in the output, and ends QEMU. With the lock held. */
void refuse(const char *why);

struct mode {
	/* A vCPU is there, and has executed nothing; with the lock held. May be NULL. */
	void (*vcpu)(unsigned int cpu);
	/* Before the guest runs; false with the reason in error. */
	bool (*install)(char *error, size_t size);
	void (*translate)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
	/* QEMU ends; with the lock held. */
	void (*finish)(void);
};

extern const struct mode count_mode, check_mode;

#endif
