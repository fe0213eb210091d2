/* SPDX-License-Identifier: GPL-2.0-only */
/* The header that makes QEMU load us as it loads Linux (Documentation/arch/arm64/booting.rst), and a stack. */
	.section .head, "ax"
	b	start
	.long	0
	.quad	0			/* text_offset */
	.quad	_end - _head		/* image_size */
	.quad	0			/* flags */
	.quad	0, 0, 0
	.long	0x644d5241		/* "ARM\x64" */
	.long	0
	.globl	_head
	.set	_head, . - 64
	.ascii	"Linux version 0 "	/* as every kernel has it */
start:
	ldr	x1, =stack_top
	mov	sp, x1
	bl	fake_main
1:	wfi
	b	1b

	.bss
	.balign	16
	.skip	16384
stack_top:
