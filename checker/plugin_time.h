/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plugin_time - modelled time (account.h) of the guest in count mode.
 *
 * No vCPU may run far ahead of the others in modelled time. Otherwise a vCPU would wait
 * for a lock, or get work from the scheduler, at another time than on a machine. So
 * while a window is open, a vCPU that is more than a quantum ahead of the front is held
 * before its next block of instructions.
 *
 * A vCPU is held in a callback, where QEMU takes it as executing. For a broadcast TLBI
 * QEMU waits until all vCPUs have left translated code, which a held vCPU never does.
 * So a vCPU that is about to broadcast frees all held vCPUs. A vCPU that was held for
 * long also goes on, in case QEMU wants something else of it. A freed vCPU executes one
 * block and is then held again.
 */
#ifndef LULL_PLUGIN_TIME_H
#define LULL_PLUGIN_TIME_H

#include "count.h"
#include "decode.h"
#include "plugin.h"

/*
 * Does nothing without the option cost=. @insns: the counter of instructions. Returns
 * false with the reason in @error.
 */
bool time_install(qemu_plugin_u64 insns, char *error, size_t size);

/* A block of n instructions is translated. */
void time_block(struct qemu_plugin_tb *tb, size_t n);

/* A vCPU is about to execute a TLBI, a DSB or an SGI; @operand is that of an SGI. */
void time_event(unsigned int cpu, const struct insn *insn, uint64_t operand);

/* A vCPU opens a window, or closes it; closing sets the window's time in @counts. */
void time_open(unsigned int cpu);
void time_close(unsigned int cpu, struct counts *counts);

#endif
