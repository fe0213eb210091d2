// SPDX-License-Identifier: GPL-2.0-only
#include "storm_actors.h"

long seconds = 10, seed, hotplug, patience = 60, sme;
const char *actors_wanted, *until;
struct shared *shared;
struct progress *mine;
long cpus;

uint64_t sequence(long of, long number)
{
	uint64_t random = (of * 1000003UL + number + 1) * 0x9e3779b97f4a7c15UL | 1;

	next_random(&random);
	return random;
}

/* Use SME. From then on, this thread is one that uses SME to Linux. */
static void use_sme(void)
{
	static const int once = 1;
	char from[SME_ROW], to[SME_ROW] = "";
	long copies = 0;

	memset(from, 0x88, sizeof(from));
	sme_copy(from, to, &once, &copies);
	verify(copies == 1 && !memcmp(to, from, 16), "SME did not copy a row of ZA");
}

void hop(uint64_t *random, pid_t who)
{
	cpu_set_t set;
	int i;

	for (i = 0; i < 8; i++) {
		CPU_ZERO(&set);
		CPU_SET(any(random, cpus), &set);
		if (!sched_setaffinity(who, sizeof(set), &set))
			break;
		if (errno != EINVAL)
			die("sched_setaffinity");
	}
	if (sme && !who)
		use_sme();
}

/* ---- CPUs that go and come ---- */

void plug(uint64_t random)
{
	bool gone[CPU_SETSIZE] = { };
	long cpu;

	while (!stopped()) {
		cpu = 1 + any(&random, cpus - 1);
		step(gone[cpu] ? "a CPU comes back" : "a CPU goes");
		if (gone[cpu]) {
			verify(set_online(cpu, true), "CPU %ld does not come back", cpu);
			gone[cpu] = false;
		} else if (set_online(cpu, false)) {
			count(OFFLINED);
			gone[cpu] = true;
		}
		nap(&random, 50000);
	}
	for (cpu = 1; cpu < cpus; cpu++)
		verify(!gone[cpu] || set_online(cpu, true), "CPU %ld does not come back", cpu);
}

/* ---- who is who ---- */

static struct process {
	char name[80];
	pid_t pid;		/* 0: it has ended */
	long steps;
	struct timespec moved;	/* time of the last step */
} processes[MAX_PROCESSES];

static int running;

bool named(const char *list, const char *name)
{
	size_t length = strlen(name);
	const char *word;

	for (word = list; (word = strstr(word, name)); word += length)
		if ((word == list || word[-1] == ',') && (word[length] == ',' || !word[length]))
			return true;
	return false;
}

long since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - then->tv_sec;
}

static void start(const struct actor *actor, int number)
{
	struct process *p = &processes[running];

	verify(running < MAX_PROCESSES, "too many processes");
	/* The prefix of each of the actor's messages: the options that repeat this run. */
	snprintf(p->name, sizeof(p->name), "%s seed=%ld: %s-%d", program_invocation_short_name, seed, actor->name,
		 number);
	clock_gettime(CLOCK_MONOTONIC, &p->moved);
	p->pid = fork_plain();
	if (!p->pid) {
		program_invocation_short_name = p->name;
		mine = &shared->progress[running];
		mine->doing = "starting";
		expect_faults();
		actor->run(sequence(seed, running));
		exit(0);
	}
	running++;
}

/* Return the last word of the name of an actor's process. */
static const char *short_name(const struct process *p)
{
	return strrchr(p->name, ' ') + 1;
}

static void say_progress(const struct timespec *began)
{
	int i;

	printf("%ld s:", since(began));
	for (i = 0; i < running; i++)
		printf(" %s %ld", short_name(&processes[i]), processes[i].steps);
	printf("\n");
}

/*
 * Verify that each actor makes steps, or has ended with success. If a CPU fails to load its address space again, an
 * actor faults without end, or does not wake up. Returns the number of actors that are left.
 */
static int look_after(int *unable)
{
	int i, status, left = 0;

	for (i = 0; i < running; i++) {
		struct process *p = &processes[i];
		long steps = __atomic_load_n(&shared->progress[i].steps, __ATOMIC_RELAXED);

		if (!p->pid)
			continue;
		left++;
		if (steps != p->steps)
			clock_gettime(CLOCK_MONOTONIC, &p->moved);
		p->steps = steps;
		verify(since(&p->moved) < patience, "seed %ld: %s has made no step for %ld s; the last was: %s", seed,
		       short_name(p), patience, shared->progress[i].doing);
		if (must(waitpid(p->pid, &status, WNOHANG)) != p->pid)
			continue;
		p->pid = 0;
		left--;
		if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
			++*unable;	/* the actor has printed the reason */
		else
			verify(status == 0, "seed %ld: %s ended with wait status 0x%x, after: %s", seed, short_name(p),
			       status, shared->progress[i].doing);
	}
	return left;
}

/* Return true if each event named in until= has happened. On a slow host some events may take long. */
static bool all_happened(const struct storm *storm)
{
	int i;

	for (i = 0; until && i < storm->n_tallies; i++)
		if (named(until, storm->tallies[i]) && !__atomic_load_n(&shared->tally[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* Wait until all actors have ended. */
static void await_all(const struct storm *storm)
{
	struct timespec began;
	long told = 0;
	int unable = 0;

	clock_gettime(CLOCK_MONOTONIC, &began);
	while (look_after(&unable)) {
		usleep(50000);
		if (since(&began) >= 8 * seconds || (since(&began) >= seconds && all_happened(storm)))
			__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
		if (since(&began) >= told + 3) {
			told = since(&began);
			say_progress(&began);
		}
	}
	if (unable == running)
		skip("no actor can run here");
}

/* "a, b and c" */
static const char *actor_names(const struct storm *storm)
{
	static char names[256];
	const struct actor *last = NULL, *actor;
	size_t length = 0;

	for (actor = storm->actors; actor < storm->actors + storm->n; actor++)
		if (!actor->wanted)
			last = actor;
	for (actor = storm->actors; actor <= last; actor++)
		if (!actor->wanted)
			length += snprintf(names + length, sizeof(names) - length, "%s%s",
					   !length ? "" : actor == last ? " and " : ", ", actor->name);
	return names;
}

void check_wishes(const struct storm *storm)
{
	const char *word;
	int i, known = 0;

	cpus = sysconf(_SC_NPROCESSORS_CONF);
	for (i = 0; i < storm->n; i++)
		known += !storm->actors[i].wanted && named(actors_wanted, storm->actors[i].name);
	for (word = actors_wanted; (word = strchr(word, ',')); word++)
		known--;
	if (known != 1)
		finish(USAGE, "actors=%s: there are %s, with commas between", actors_wanted, actor_names(storm));
	for (known = 0, i = 0; until && i < storm->n_tallies; i++)
		known += named(until, storm->tallies[i]);
	for (word = until; word && (word = strchr(word, ',')); word++)
		known--;
	if (until && known != 1)
		finish(USAGE, "until=%s: not all of these are tallies", until);
	if (hotplug && (cpus < 2 || access("/sys/devices/system/cpu/cpu1/online", W_OK)))
		skip("hotplug=1: no CPU can go offline here");
	if (sme && !have_sme())
		skip("sme=1: the CPU, or the kernel, has no SME");
}

static void start_all(const struct storm *storm)
{
	const struct actor *actor;
	int i, n;

	for (actor = storm->actors; actor < storm->actors + storm->n; actor++) {
		n = actor->processes ? actor->processes : cpus;
		for (i = 0; i < n; i++)
			if (actor->wanted ? *actor->wanted : named(actors_wanted, actor->name))
				start(actor, i);
	}
}

void run_storm(const struct storm *storm)
{
	struct timespec now;
	long steps = 0;
	int i;

	if (!seed) {
		clock_gettime(CLOCK_REALTIME, &now);
		seed = (now.tv_sec ^ now.tv_nsec) & 0xffffff;
	}
	shared = (struct shared *)map_memory(sizeof(*shared), MAP_SHARED);
	printf("%s seed=%ld: %ld s on %ld CPUs\n", program_invocation_short_name, seed, seconds, cpus);

	begin_vmstat(storm->rows);
	open_window();
	start_all(storm);
	await_all(storm);
	close_window();
	end_vmstat(storm->rows);

	for (i = 0; i < running; i++)
		steps += shared->progress[i].steps;
	for (i = 0; i < storm->n_tallies; i++)
		add_metric(storm->tallies[i], shared->tally[i]);
	for (i = 0; i < window.metrics; i++)
		printf("%s%s %ld", i ? ", " : "did: ", window.name[i], window.value[i]);
	printf("\n");
	report("", steps, "step", "");
}
