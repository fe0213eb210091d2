// SPDX-License-Identifier: GPL-2.0-only
/*
 * A window around other programs. It opens before they start, side by side, and closes when all have ended.
 *
 *	window [case=NAME] [operations=N] [unit=WORD] [number=N] -- COMMAND ARGS [--and COMMAND ARGS]...
 *
 * The commands open no windows of their own. If a command fails, window ends with the status of the first one that
 * failed, and reports nothing. If all commands say that they cannot run here, so does window.
 */
#include "lull.h"

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

/* Wait for all commands, also after one has failed. Returns the exit status of this program. */
static int wait_all(void)
{
	int i, status, skipped = 0, worst = 0;

	for (i = 0; i < n_commands; i++) {
		const char *name = commands[i].words[0];

		must(waitpid(commands[i].pid, &status, 0));
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
	long operations = 1, number = 1;
	const struct option_spec table[] = {
		{ "case", .text = &name, .help = "name of the measurement" },
		{ "operations", .number = &operations, .help = "how many the commands do" },
		{ "unit", .text = &unit, .help = "what one is" },
		{ "number", .number = &number, .help = "which window of its job it is" },
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
