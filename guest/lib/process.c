// SPDX-License-Identifier: GPL-2.0-only
/* Processes. */
#include "lull.h"

/* SIGCHLD handler. A child that failed has printed the reason, unless it was killed. */
static void child_ended(int number, siginfo_t *info, void *context)
{
	static const char killed[] = "a child was killed\n";
	bool exited = info->si_code == CLD_EXITED;

	(void)number;
	(void)context;
	if (exited && (info->si_status == 0 || info->si_status == SKIPPED))
		return;
	abandon_window();
	if (!exited && write(2, killed, sizeof(killed) - 1) < 0)
		_exit(FAILED);
	_exit(FAILED);
}

pid_t fork_plain(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = must(fork());
	if (!pid) {
		must(prctl(PR_SET_PDEATHSIG, SIGKILL));
		if (getppid() != parent)
			_exit(FAILED);	/* the parent ended before prctl() */
	}
	return pid;
}

pid_t fork_child(void)
{
	struct sigaction action = { .sa_sigaction = child_ended, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP };

	must(sigaction(SIGCHLD, &action, NULL));
	return fork_plain();
}

void wait_child(pid_t child)
{
	int status;

	must(waitpid(child, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		exit(SKIPPED);
	verify(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d ended with wait status 0x%x", child, status);
}

void pin(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	must(sched_setaffinity(0, sizeof(set), &set));
}
