// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fake kernel: speaks the guest's protocol on the second UART, reads /lull/job from the initramfs as QEMU
 * placed it, and for each job does what its word says. Everything the lab must survive, in a second.
 */
typedef unsigned long u64;

#define CONSOLE		0x09000000UL
#define RESULTS		0x09040000UL
#define INITRD		0x48000000UL	/* QEMU's virt machine: RAM + 128 MiB */
#define INITRD_MAX	(64UL << 20)

#define BROADCASTS	40

static void put(u64 uart, const char *text)
{
	for (; *text; text++)
		*(volatile unsigned int *)uart = (unsigned char)*text;
}

static void put_number(u64 uart, u64 number)
{
	char digits[24], *at = digits + sizeof(digits);

	*--at = 0;
	do {
		*--at = '0' + number % 10;
		number /= 10;
	} while (number);
	put(uart, at);
}

static void result(const char *head, u64 number, const char *tail)
{
	put(RESULTS, head);
	put_number(RESULTS, number);
	put(RESULTS, tail);
}

static void power_off(void)
{
	register u64 x0 asm("x0") = 0x84000008;	/* PSCI SYSTEM_OFF */

	asm volatile("hvc #0" : "+r" (x0) : : "memory");
	for (;;)
		;
}

static int starts(const char *text, const char *word)
{
	while (*word)
		if (*text++ != *word++)
			return 0;
	return 1;
}

#define SPINS	1000

/* The lab knows by its name that CPUs wait here: 2 * SPINS + 2 instructions. */
static void __attribute__((noinline)) queued_spin_lock_slowpath(void)
{
	asm volatile("mov x9, %0\n1: sub x9, x9, #1\ncbnz x9, 1b" : : "i" (SPINS) : "x9");
}

/* A window with BROADCASTS broadcast TLBIs for a user ASID, one for the kernel, 3 DSB ISH and 2 DSB ISHST. */
static void count(u64 job)
{
	register u64 id asm("x0") = job * 1000 + 1;
	u64 user = 5UL << 48 | 0x400, kernel = (1UL << 43) | 0x80;
	int i;

	asm volatile("hint #112" : : "r" (id));
	for (i = 0; i < BROADCASTS; i++)
		asm volatile("tlbi vale1is, %0" : : "r" (user));
	asm volatile("tlbi vaale1is, %0" : : "r" (kernel));
	asm volatile("dsb ish; dsb ish; dsb ish; dsb ishst; dsb ishst");
	queued_spin_lock_slowpath();
	asm volatile("hint #113" : : "r" (id));

	result("{\"job\":", job, ",");
	result("\"window\":", job * 1000 + 1, ",\"case\":\"\",\"operations\":10,\"unit\":\"flush\",\"seconds\":0.5,"
	       "\"metrics\":{\"faults\":7}}\n");
}

static int run(u64 job, const char *word)
{
	if (starts(word, "count")) {
		count(job);
		return 0;
	}
	if (starts(word, "panic")) {
		put(CONSOLE, "[    1.000000] Kernel panic - not syncing: fake trouble\n");
		power_off();
	} else if (starts(word, "memory")) {
		put(CONSOLE, "[    1.000000] Out of memory: Killed process 1 (fake)\n"
		    "[    1.100000] Kernel panic - not syncing: System is deadlocked on memory\n");
		power_off();
	} else if (starts(word, "garbage")) {
		put(RESULTS, "\001\377{]]what\n");
	} else if (starts(word, "halfway")) {
		power_off();
	} else if (starts(word, "hang")) {
		for (;;)
			asm volatile("wfi");
	} else if (starts(word, "missing")) {
		return 77;
	}
	return 1;
}

/* The archive is not compressed, and the job is its last file: "run N PROGRAM" at the start of lines. */
static const char *find_job(void)
{
	const char *at, *found = 0;

	for (at = (const char *)INITRD; at < (const char *)(INITRD + INITRD_MAX); at += 4)
		if (starts(at, "070701") && starts(at + 110, "lull/job"))
			found = at + 110 + 8;
	return found;
}

void fake_main(void)
{
	const char *at = find_job();
	u64 status = 0;

	put(CONSOLE, "[    0.000000] fake kernel\n");
	if (!at) {
		put(CONSOLE, "no job\n");
		power_off();
	}
	put(RESULTS, "{\"event\":\"ready\",\"kernel\":\"6.12.0-fake\"}\n");
	for (; !starts(at, "TRAILER!!!"); at++) {
		u64 job = 0;
		int ended;

		if (!starts(at, "\nrun "))
			continue;
		for (at += 5; *at >= '0' && *at <= '9'; at++)
			job = job * 10 + *at - '0';
		result("{\"event\":\"start\",\"job\":", job, "}\n");
		ended = run(job, at + 1);
		result("{\"event\":\"end\",\"job\":", job, ",");
		result("\"status\":", ended, "}\n");
		if (ended)
			status = ended;
	}
	result("{\"event\":\"done\",\"status\":", status, "}\n");
	power_off();
}
