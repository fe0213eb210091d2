/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unload - the rule `unload`: what a CPU announces about the address spaces that it
 * has loaded.
 *
 * A kernel that elides TLBIs for address spaces that are not loaded must know where
 * each is loaded. The lab kernel marks where a CPU is about to announce it.
 *
 * "Not loaded" promises two things. First, the CPU does not walk the tables any more.
 * Neither TTBR0 nor the ASID names them. Since these were written the CPU has executed
 * a context synchronisation event: until then the old values may be in force. After
 * that it has executed a DSB for loads and stores, which waits for the walks that had
 * begun (Arm ARM B2.3.12). An ISB completes no walk; a DSB before the ISB does not
 * help, because walks may begin after it.
 *
 * Second, it stays so: neither TTBR0 nor the ASID names the tables again before the CPU
 * has announced "loaded". Otherwise another CPU may elide a TLBI that this CPU needs.
 */
#ifndef LULL_UNLOAD_H
#define LULL_UNLOAD_H

#include "shadow.h"

/* A CPU is about to announce that it has the address space of @root loaded, or not loaded. */
void shadow_published(struct shadow *s, unsigned int cpu, uint64_t root, bool loaded,
		      uint64_t pc);

/* A CPU gets @c in TTBR0, or its ASID: report it if the CPU has announced @c as not loaded. */
void unload_check(struct shadow *s, unsigned int cpu, struct context *c, uint64_t pc);

#endif
