/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unload - what a CPU says about the address spaces that it has loaded.
 *
 * A kernel that leaves TLBIs out where an address space is not loaded must know
 * where it is. The lab kernel marks when a CPU tells the others.
 *
 * "Not loaded" promises two things. First, that the CPU walks the tables no
 * more: neither TTBR0 nor the ASID names them; it has executed a context
 * synchronisation event since that was written, for until then the old values
 * may be in force; and then a DSB for loads and stores, which waits for the
 * walks that had begun (Arm ARM B2.3.12). An ISB completes no walk, and a DSB
 * before it waits for walks that may begin again.
 *
 * Second, that it stays so: neither TTBR0 nor the ASID names them again before
 * the CPU has said "loaded". Others may have left out a TLBI meanwhile, or
 * may do so now.
 */
#ifndef LULL_UNLOAD_H
#define LULL_UNLOAD_H

#include "shadow.h"

/* A CPU is about to say that it has a root loaded, or not. */
void shadow_published(struct shadow *s, unsigned int cpu, uint64_t root, bool loaded,
		      uint64_t pc);

/* A CPU gets the context in TTBR0, or its ASID: has it said that it has it not? */
void unload_check(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

#endif
