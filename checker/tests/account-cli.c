// SPDX-License-Identifier: GPL-2.0-only
/*
 * account-cli - for test_account.py: reads a line each of what happens
 * (a verb, a vCPU, a number, in hexadecimal) and says that vCPU's time, the
 * front, and how many busy intervals the interconnect has.
 *
 *	new NCPUS INSN TLBI BROADCAST LATENCY DSB
 *	run CPU 0, wake CPU BY, sleep CPU 0, insns CPU TOTAL, tlbi CPU BROADCAST, dsb CPU WAITS, align 0 0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "account.h"

static struct account account;

static int fresh(const char *line)
{
	struct costs costs;
	unsigned int n;

	if (sscanf(line, "new %x %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &n, &costs.insn,
		   &costs.tlbi, &costs.broadcast, &costs.latency, &costs.dsb) != 6)
		return 0;
	account_free(&account);
	return account_init(&account, n, &costs);
}

static int happens(const char *line)
{
	unsigned int cpu;
	uint64_t n;
	char verb[8];

	if (sscanf(line, "%7s %x %" SCNx64, verb, &cpu, &n) != 3 || cpu >= account.ncpus)
		return 0;
	if (!strcmp(verb, "run"))
		account_run(&account, cpu);
	else if (!strcmp(verb, "wake") && n < account.ncpus)
		account_wake(&account, cpu, n);
	else if (!strcmp(verb, "sleep"))
		account_sleep(&account, cpu);
	else if (!strcmp(verb, "insns"))
		account_insns(&account, cpu, n);
	else if (!strcmp(verb, "tlbi"))
		account_tlbi(&account, cpu, n);
	else if (!strcmp(verb, "dsb"))
		account_dsb(&account, cpu, n);
	else if (!strcmp(verb, "align"))
		account_align(&account);
	else
		return 0;
	printf("%" PRIx64 " %" PRIx64 " %zx\n", account.cpus[cpu].time, account.front, account.server.n);
	return 1;
}

int main(void)
{
	char line[128];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "new ", 4)) {
			if (!fresh(line))
				return 2;
			puts("new");
		} else if (!happens(line)) {
			return 2;
		}
		fflush(stdout);
	}
	account_free(&account);
	return 0;
}
