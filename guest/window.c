// SPDX-License-Identifier: GPL-2.0-only
/*
 * A window around other programs. It opens before they start, side by side, and closes when all have ended.
 *
 *	window [case=NAME] [operations=N] [unit=WORD] [number=N] [seconds=N] -- COMMAND ARGS [--and COMMAND ARGS]...
 *
 * The commands open no windows of their own. If a command fails, window ends with the status of the first one that
 * failed, and reports nothing. If all commands say that they cannot run here, so does window.
 */
#include "lull.h"

#include <dirent.h>
#include <sys/time.h>

static const char *const rows[] = { "pgfault", "tlbi_elided", NULL };

#define MAX_COMMANDS	16

static struct command {
	char **words;
	pid_t pid;
} commands[MAX_COMMANDS];

static int n_commands;

/* Store the commands behind the first "--". Each ends with a NULL. */
static void split(char **words)
{
	bool begins = true;

	for (; *words; words++) {
		if (!strcmp(*words, "--and")) {
			*words = NULL;
			begins = true;
		} else if (begins) {
			verify(n_commands < MAX_COMMANDS, "more than %d commands", MAX_COMMANDS);
			commands[n_commands++].words = words;
			begins = false;
		}
	}
}

static volatile sig_atomic_t over;

static void time_is_over(int number)
{
	(void)number;
	over = true;
}

static void kill_children(void)
{
	DIR *all = opendir("/proc");
	struct dirent *one;

	verify(all, "no /proc");
	while ((one = readdir(all))) {
		char path[300], text[300];
		const char *rest;
		int parent, file;
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%s/stat", one->d_name);
		file = open(path, O_RDONLY);
		n = file < 0 ? 0 : read(file, text, sizeof(text) - 1);
		close(file);
		text[n > 0 ? n : 0] = 0;
		rest = strrchr(text, ')');	/* the end of a name, in which anything may be */
		if (rest && sscanf(rest, ") %*c %d", &parent) == 1 && parent == getpid())
			kill(atoi(one->d_name), SIGKILL);
	}
	closedir(all);
}

/* End the commands and all that they have started, whose parent this process becomes. */
static int end_all(void)
{
	do
		kill_children();
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
	return 0;
}

/* Wait for all commands, also after one has failed. Returns the exit status of this program. */
static int wait_all(void)
{
	int i, status, skipped = 0, worst = 0;

	for (i = 0; i < n_commands; i++) {
		const char *name = commands[i].words[0];

		while (waitpid(commands[i].pid, &status, 0) < 0) {
			verify(errno == EINTR, "no command %s", name);
			if (over)
				return end_all();
		}
		if (WIFSIGNALED(status))
			fprintf(stderr, "window: %s was killed by signal %d\n", name, WTERMSIG(status));
		else if (WEXITSTATUS(status))
			fprintf(stderr, "window: %s ended with status %d\n", name, WEXITSTATUS(status));
		else
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
			skipped++;
		else if (!worst)
			worst = WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
	}
	return worst ? worst : skipped == n_commands ? SKIPPED : 0;
}

int main(int argc, char **argv)
{
	const char *name = "", *unit = "run";
	long operations = 1, number = 1, seconds = 0;
	struct itimerval timer = { .it_interval.tv_sec = 1 };
	struct sigaction action = { .sa_handler = time_is_over };
	const struct option_spec table[] = {
		{ "case", .text = &name, .help = "name of the measurement" },
		{ "operations", .number = &operations, .help = "how many the commands do" },
		{ "unit", .text = &unit, .help = "what one is" },
		{ "number", .number = &number, .help = "which window of its job it is" },
		{ "seconds", .number = &seconds, .help = "after so many the commands are ended, which is no failure; 0: never" },
		{ 0 }
	};
	int own = 1, i, status;

	while (own < argc && strcmp(argv[own], "--"))
		own++;
	parse_options(own, argv, "a window around commands: window OPTIONS -- COMMAND ARGS [--and COMMAND ARGS]...",
		      table);
	if (own < argc)
		split(argv + own + 1);
	if (!n_commands)
		finish(USAGE, "no command: window OPTIONS -- COMMAND ARGS");
	if (seconds > 0) {
		must(prctl(PR_SET_CHILD_SUBREAPER, 1));
		must(sigaction(SIGALRM, &action, NULL));
		timer.it_value.tv_sec = seconds;
		must(setitimer(ITIMER_REAL, &timer, NULL));
	}
	window.number = number - 1;
	begin_vmstat(rows);
	open_window();
	for (i = 0; i < n_commands; i++) {
		commands[i].pid = fork_plain();
		if (!commands[i].pid) {
			must(setenv(WITHIN, "1", 1));
			execvp(commands[i].words[0], commands[i].words);
			die("%s", commands[i].words[0]);
		}
	}
	status = wait_all();
	if (status)
		finish(status, "nothing is reported");
	close_window();
	end_vmstat(rows);
	report(name, operations, unit, "");
	return 0;
}
