/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plugin_time - modelled time (account.h) of the guest that is being counted.
 *
 * vCPUs must not run far ahead of each other: who waits for a lock, or is
 * given work by the scheduler, would do so at another time than on a machine.
 * While a window is open, one that is more than a quantum ahead of the front
 * is held, before a block of its instructions.
 *
 * It is held in a callback, where QEMU thinks that it executes. Another vCPU's
 * broadcast TLBI waits for all vCPUs to leave such code, and one that we hold
 * would never come by. So whoever is about to broadcast frees them all; and who is
 * held for long goes on for one block, in case QEMU wants something else of
 * it. Then it is held again, and has come no further than that block.
 */
#ifndef LULL_PLUGIN_TIME_H
#define LULL_PLUGIN_TIME_H

#include "count.h"
#include "decode.h"
#include "plugin.h"

/* Only with the option cost=. False with the reason in error. insns: the counter of instructions. */
bool time_install(qemu_plugin_u64 insns, char *error, size_t size);

/* A block of n instructions is translated. */
void time_block(struct qemu_plugin_tb *tb, size_t n);

/* A vCPU is about to execute a TLBI, a DSB or an SGI; the operand of the last. */
void time_event(unsigned int cpu, const struct insn *insn, uint64_t operand);

/* A window opens at a vCPU, or closes: its time is set. */
void time_open(unsigned int cpu);
void time_close(unsigned int cpu, struct counts *counts);

#endif
