/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bare - a program for QEMU's virt machine that runs without a kernel.
 *
 *	aarch64-linux-gnu-gcc -nostdlib -static -Wl,-Ttext=0x40100000 \
 *		[-DBODY='"file"'] [-DSECONDARY='"file"'] [-DCPUS=n] [-DEL2] bare.S
 *	qemu-system-aarch64 -M virt,gic-version=3 -cpu max -smp n -kernel a.out
 *
 * It includes BODY, which decides what is executed and when a window opens;
 * then powers off. With CPUS above 1 the macro start_cpus, used in BODY, starts
 * the others by PSCI; each includes SECONDARY and switches itself off, and
 * start_cpus waits until the last one is off. Nothing a secondary does can
 * therefore fall out of the window that BODY has open.
 *
 * The MMU is off. A synchronous exception skips the instruction that raised
 * it: HANDLER_INSNS instructions, the return included.
 *
 * BODY may use x0-x15 and the stack. Registers with meaning: x28 is a RAM
 * page, x27 is an odd one (a load from it faults, as memory is Device
 * memory while the MMU is off), x26 the UART's flag register.
 */
#ifndef CPUS
#define CPUS 1
#endif

#ifdef EL2	/* -M virtualization=on */
#define SUFFIX(reg)	reg##_EL2
#define CONDUIT		smc	#0
#else
#define SUFFIX(reg)	reg##_EL1
#define CONDUIT		hvc	#0
#endif

#define PSCI_CPU_OFF		0x84000002
#define PSCI_SYSTEM_OFF		0x84000008
#define PSCI_CPU_ON		0xc4000003
#define PSCI_AFFINITY_INFO	0xc4000004
#define AFFINITY_OFF		1

	.arch	armv8.7-a

	.macro	const64 reg, value
	movz	\reg, #((\value) & 0xffff)
	movk	\reg, #(((\value) >> 16) & 0xffff), lsl #16
	movk	\reg, #(((\value) >> 32) & 0xffff), lsl #32
	movk	\reg, #(((\value) >> 48) & 0xffff), lsl #48
	.endm

	.macro	psci function
	const64	x0, \function
	CONDUIT
	.endm

/* Two instructions; the window holds what stands between the markers. */
	.macro	open_window id
	mov	x0, #\id
	hint	#112
	.endm

	.macro	close_window id
	mov	x0, #\id
	hint	#113
	.endm

	.macro	set_up
	adr	x1, vectors
	msr	SUFFIX(VBAR), x1
	isb
	adr	x28, data
	add	x27, x28, #1
	const64	x26, 0x09000018
	.endm

#ifdef EL2
/*
 * What BODY has between as_guest and as_host is executed at EL1, with HCR_EL2 hcr, as guest vmid.
 * Its second stage maps the GiB that the program is in. Uses x1 and x16.
 */
	.macro	as_guest vmid, hcr
	adr	x1, stage2
	const64	x16, 0x400007fd		/* a block: normal memory, which may be read, written and executed */
	str	x16, [x1, #8]
	const64	x16, (\vmid) << 48
	orr	x1, x1, x16
	msr	vttbr_el2, x1
	const64	x1, 0x80023559		/* 39 bits, the first table at level 1 */
	msr	vtcr_el2, x1
	const64	x1, \hcr
	msr	hcr_el2, x1
	mov	x1, #0x3c5		/* EL1h, interrupts masked */
	msr	spsr_el2, x1
	adr	x1, 1f
	msr	elr_el2, x1
	eret
1:
	.endm

/* The call comes to the vector of the lower EL, which returns at EL2. */
	.macro	as_host
	hvc	#0
	.endm
#endif

	.macro	start_cpus
	mov	x20, #1
1:	mov	x1, x20
	adr	x2, secondary
	mov	x3, x20
	psci	PSCI_CPU_ON
	cbnz	x0, fail
	/* QEMU still says OFF for a moment: wait until it has been on */
2:	ldrb	w1, [x28, x20]
	cbz	w1, 2b
3:	mov	x1, x20
	mov	x2, #0
	psci	PSCI_AFFINITY_INFO
	cmp	x0, #AFFINITY_OFF
	b.ne	3b
	add	x20, x20, #1
	cmp	x20, #CPUS
	b.ne	1b
	.endm

	.text
	.globl	_start
_start:
	adr	x1, stack_end
	mov	sp, x1
	set_up
#ifdef BODY
#include BODY
#endif
	psci	PSCI_SYSTEM_OFF
fail:
	wfi
	b	fail

secondary:
	set_up
	mov	w1, #1
	strb	w1, [x28, x0]		/* x0: its number, from CPU_ON */
#ifdef SECONDARY
#include SECONDARY
#endif
	psci	PSCI_CPU_OFF
	b	fail

	.balign	2048
vectors:
	.rept	4
	b	fail
	.balign	128
	.endr
	/* current EL with SP_ELx: synchronous */
#define HANDLER_INSNS 4
	mrs	x16, SUFFIX(ELR)
	add	x16, x16, #4
	msr	SUFFIX(ELR), x16
	eret
	.balign	128
	.rept	3
	b	fail
	.balign	128
	.endr
	/* lower EL: synchronous */
#ifdef EL2
	mov	x16, #0x3c9		/* EL2h, interrupts masked */
	msr	spsr_el2, x16
	eret
#else
	b	fail
#endif
	.balign	128
	.rept	7
	b	fail
	.balign	128
	.endr

	.balign	4096
data:
	.space	4096
stack:
	.space	4096
stack_end:
#ifdef EL2
	.balign	4096
stage2:
	.space	4096
#endif
