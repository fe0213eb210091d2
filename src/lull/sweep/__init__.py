# SPDX-License-Identifier: GPL-2.0-only
"""`lull sweep`: a run for every number of vCPUs with every CPU and every set of workloads, on one host or several.

A job of a sweep is one whole `lull run`: one host boots its stock and Lull kernels in turn, so that each ratio is of
boots on the same host. Jobs share only the built kernels and the table at the end.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lull import __version__, cache, plan, process, timing
from lull.errors import EXIT_CODES, LullError
from lull.guest.qemu import Machine, host_mib
from lull.lab import Lab
from lull.progress import clock, progress, say
from lull.run.loop import holding
from lull.run.records import Results, host
from lull.sweep import engine as sweep_engine
from lull.sweep import job as sweep_job

FELL_SHORT = 1
HELD, FAILED, BROKE_OFF, WAITING = "held", "failed", "broke off", "waiting"
"""States of a job. HELD: its run is complete and every check held. FAILED: its run is complete and a check failed.
BROKE_OFF: its run ended before it was complete. WAITING: not run yet."""


class Unfinished(LullError):
    """Some jobs of a sweep have no results."""

    exit_code: ClassVar[int] = FELL_SHORT


@dataclass(frozen=True)
class SweepJob:
    """One run of a sweep.

    Args:
        name: the name of its folder.
        machine: the guest's hardware.
        workloads: names of the workloads; empty: the default selection.
        boots: the boots of the run.
        words: the arguments of ``lull run``, without ``--out``.
    """

    name: str
    machine: Machine
    workloads: tuple[str, ...]
    boots: tuple[plan.Boot, ...]
    words: tuple[str, ...]

    @property
    def what(self) -> str:
        """The line that tells this job from others: vCPUs, CPU, workloads."""
        chosen = ", ".join(self.workloads) or "default workloads"
        return f"{self.machine.vcpus} vCPU{'s' * (self.machine.vcpus > 1)}, {self.machine.cpu}: {chosen}"


@dataclass(frozen=True)
class SweepChoice:
    """What a sweep runs.

    Args:
        vcpus, cpus, sets: a job is made for each combination of these. A set has the names of workloads of one job.
        kernels: names of kernels, as on the command line.
        repeat: boots of each kernel in a job.
        memory_mib, accel, append, model: as for a run.
        words: further arguments of each job's ``lull run``.
    """

    vcpus: tuple[int, ...]
    cpus: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    kernels: tuple[str, ...]
    repeat: int
    memory_mib: int
    accel: str
    append: str
    model: timing.CostModel | None
    words: tuple[str, ...]

    def jobs(self, lab: Lab) -> list[SweepJob]:
        """The jobs, those with the most vCPUs first: they take longest, so they must not start last.

        Raises: UsageError for anything that `lull run` refuses.
        """
        cells = sorted(itertools.product(self.vcpus, self.cpus, self.sets), key=lambda cell: -cell[0])
        return [self.job(lab, number, *cell) for number, cell in enumerate(cells, 1)]

    def job(self, lab: Lab, number: int, vcpus: int, cpu: str, workloads: tuple[str, ...]) -> SweepJob:
        """The job number ``number``, of one combination."""
        machine = Machine(vcpus, self.memory_mib, cpu, self.accel)
        named = [plan.parse_spec(kernel, lab.base) for kernel in self.kernels]
        boots = plan.make_plan(plan.select_workloads(workloads, lab.workloads), named, lab.base, self.repeat)
        parts = [f"{number:03d}", f"vcpus-{vcpus}"]
        parts += [cpu] if len(self.cpus) > 1 else []
        parts += ["+".join(workloads)] if len(self.sets) > 1 else []
        words = ["--vcpus", str(vcpus), "--cpu", cpu]
        for option, values in (("--workload", workloads), ("--kernel", self.kernels)):
            words += [word for value in values for word in (option, value)]
        name = plan.slug("-".join(parts))[:100]
        return SweepJob(name, machine, workloads, tuple(boots), (*words, *self.words))


def default_workers(vcpus: int, memory_mib: int) -> int:
    """The number of such guests to run at once: each vCPU has a CPU, guests use half of the memory; at least one."""
    memory = host_mib()
    return max(1, min(len(os.sched_getaffinity(0)) // vcpus, memory // 2 // memory_mib))


def prepare(lab: Lab, choice: SweepChoice, jobs: Sequence[SweepJob]) -> str:
    """Build everything that jobs boot, so that no job waits for a compiler. Returns the key of the sweep's plan."""
    images = dict.fromkeys(boot.image for job in jobs for boot in job.boots)
    guests = [lab.guest(image, jobs[0].machine, append=choice.append, timing=choice.model) for image in images]
    made = (f"{g.image} {g.initramfs} {g.disk} {g.plugin}" for g in guests)
    return plan.plan_key([], "sweep", repr(jobs), repr(choice.model), lab.qemu.version, *made)


def conduct(
    lab: Lab,
    choice: SweepChoice,
    out: Path | None,
    *,
    workers: int | None,
    listen: sweep_engine.Address | None,
    as_json: bool,
) -> int:
    """Run the jobs that are not complete, and print and write the results of all.

    Returns the exit status: 0 when everything held, 1 when a check failed.

    Args:
        out: the folder of the results; None: a new one in ./results.
        workers: jobs to run at once on this machine; None: ``default_workers``.
        listen: the address where other machines may join; None: none may.
        as_json: print sweep.json instead of the tables.

    Raises: Unfinished when a job has no results; errors of building the kernels.
    """
    jobs = choice.jobs(lab)
    if workers is None:
        memory = max(boot.memory for job in jobs for boot in job.boots)
        workers = default_workers(max(choice.vcpus), max(memory, choice.memory_mib))
    key = prepare(lab, choice, jobs)
    with holding(out, key) as folder:
        job_states = JobStates(lab, jobs, folder)
        job_states.write()
        left = [job for job in jobs if job_states.state(job) not in (HELD, FAILED)]
        if left:
            perform(job_states, left, key, workers, listen, offline=lab.offline)
        from lull.sweep import comparison as sweep_comparison

        runs = sweep_comparison.join([sweep_job.place_of(folder, job.name) for job in jobs], folder)
        sweep_comparison.write(runs, job_states.entries(), folder)
        if as_json:
            print(job_states.text(), end="")
        else:
            sweep_comparison.show(runs, job_states.entries(), folder)
        states = [job_states.state(job) for job in jobs]
        if broken := len(states) - states.count(HELD) - states.count(FAILED):
            raise Unfinished(
                f"{broken} of {len(jobs)} jobs have no results",
                where=f"{folder}/{sweep_job.JOBS}: the logs of those that broke off",
                remedy="run the same command again: it repeats only these jobs",
            )
    return FELL_SHORT if FAILED in states else 0


def perform(
    job_states: JobStates,
    left: Sequence[SweepJob],
    key: str,
    workers: int,
    listen: sweep_engine.Address | None,
    *,
    offline: bool,
) -> None:
    """Run jobs, and record the end of each.

    Args:
        left: the jobs to run.
        key: the key of the sweep's plan.
        workers: jobs to run at once on this machine.
    """
    folder = job_states.folder.absolute()
    orders = [sweep_job.Order(job.name, job.words, str(folder), sweep_job.HERE, key) for job in left]
    where = f", others join with 'lull sweep --join {listen}'" if listen else ""
    title = f"sweep: {len(left)} of {len(job_states.jobs)} jobs to do, {workers} at once here{where}"
    with progress.step(title) as step, sweep_engine.running(workers, listen, offline=offline) as client:
        under_way: list[str] = []
        ended = 0
        for event in sweep_engine.perform(client, orders):
            if isinstance(event, str):
                under_way = [*dict.fromkeys([*under_way, event])]  # a job begins again when its machine was lost
                say(f"  {event}: begun: {job_states.job(event).what}")
            elif event:
                ended += 1
                under_way = [name for name in under_way if name != event.name]
                if event.files:
                    sweep_job.take(event, folder)
                job_states.ended(event)
                say(f"  {event.name}: {job_states.says(job_states.job(event.name))} ({clock(event.seconds)})")
            step.update(f"{ended} of {len(left)} ended" + "".join(last_words(folder, under_way)))


def last_words(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """The last line of the log of each running job; only its name when it runs on another machine."""
    for name in names:
        said = process.tail(sweep_job.log_of(folder, name), 1)
        yield f"; {name}" + (f": {said}" if said and not said.startswith("$ ") else "")


class JobStates:
    """The states of the jobs, read from their folders and from sweep.json, and written to sweep.json.

    Args:
        lab: the lab, whose versions are recorded.
        jobs: all jobs of the sweep.
        folder: the sweep's folder.
    """

    def __init__(self, lab: Lab, jobs: Sequence[SweepJob], folder: Path) -> None:
        self.lab, self.jobs, self.folder = lab, jobs, folder
        self.failed: dict[str, list[str]] = {}
        path = folder / "sweep.json"
        known = json.loads(path.read_text())["jobs"] if path.exists() else []
        self.ends: dict[str, dict[str, Any]] = {job["name"]: job for job in known if job["seconds"] is not None}

    def job(self, name: str) -> SweepJob:
        """The job of this name."""
        return next(job for job in self.jobs if job.name == name)

    def ended(self, done: sweep_job.JobEnd) -> None:
        """Record the end of a job, and write sweep.json."""
        self.ends[done.name] = {"exit_code": done.status, "seconds": round(done.seconds, 1)}
        self.write()

    def failures(self, job: SweepJob) -> list[str]:
        """The names of the checks that failed in the run of a complete job."""
        if job.name not in self.failed:
            results = Results.load(sweep_job.place_of(self.folder, job.name) / "results.json")
            self.failed[job.name] = [c.name for c in results.checks if c.verdict == "failed"]
        return self.failed[job.name]

    def state(self, job: SweepJob) -> str:
        """The state of a job: HELD, FAILED, BROKE_OFF or WAITING."""
        if sweep_job.complete(self.folder, job.name):
            return FAILED if self.failures(job) else HELD
        return BROKE_OFF if job.name in self.ends else WAITING

    def exit_code(self, job: SweepJob) -> int | None:
        """The exit code of a job's run. For a complete run it follows from the results. None: not run yet."""
        known = {HELD: 0, FAILED: FELL_SHORT, WAITING: None}
        state = self.state(job)
        return known[state] if state in known else int(self.ends[job.name]["exit_code"])

    def says(self, job: SweepJob) -> str:
        """A job's state, with the reason when it did not hold."""
        state = self.state(job)
        if state == FAILED:
            return f"{state}: {', '.join(self.failures(job))}"
        if state == BROKE_OFF:
            code = self.exit_code(job) or 0
            reason = "its machine was lost" if code == sweep_engine.LOST else EXIT_CODES.get(code, "killed")
            return f"{state}: exit code {code}, {reason}; its log: {sweep_job.log_of(self.folder, job.name)}"
        return state

    def entries(self) -> list[dict[str, Any]]:
        """The entries of the jobs in sweep.json."""
        return [
            {
                "name": job.name,
                "command": process.shown(["lull", "run", *job.words]),
                "vcpus": job.machine.vcpus,
                "cpu": job.machine.cpu,
                "workloads": sorted({j.workload.name for boot in job.boots for j in boot.jobs}),
                "boots": len(job.boots),
                "state": self.state(job),
                "failed": self.failures(job) if sweep_job.complete(self.folder, job.name) else [],
                "exit_code": self.exit_code(job),
                "seconds": self.ends.get(job.name, {}).get("seconds"),
                "results": str(sweep_job.place_of(Path(), job.name))
                if sweep_job.complete(self.folder, job.name)
                else "",
                "log": str(sweep_job.log_of(Path(), job.name)),
            }
            for job in self.jobs
        ]

    def text(self) -> str:
        """The text of sweep.json."""
        described = {"lull": __version__, "host": host(), "settings": self.lab.describe(), "jobs": self.entries()}
        return json.dumps(described, indent=1) + "\n"

    def write(self) -> None:
        """Write sweep.json."""
        cache.write_atomic(self.folder / "sweep.json", self.text())


def show_plan(jobs: Sequence[SweepJob], *, as_json: bool) -> None:
    """Print the jobs that ``conduct`` would run."""
    plan.show(
        (f"would run {job.name}, {len(job.boots)} boots: {process.shown(['lull', 'run', *job.words])}" for job in jobs),
        [{"job": job.name, "words": job.words, "boots": [boot.name for boot in job.boots]} for job in jobs],
        as_json=as_json,
    )
