# SPDX-License-Identifier: GPL-2.0-only
"""Many runs as one: every number of vCPUs with every CPU and every set of workloads, on one machine or more.

A job is one run, whole: its stock and its Lull are booted in turns by one host, so that a ratio stays one run's. Jobs
share nothing but what is built, and the table at the end.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lull import __version__, cache, check, plan, process, timing
from lull.errors import EXIT_CODES, LullError
from lull.guest.qemu import Machine, host_mib
from lull.lab import Lab
from lull.progress import clock, progress, say
from lull.run import experiment
from lull.run.records import Results
from lull.sweep import engine as sweep_engine
from lull.sweep import job as sweep_job

FELL_SHORT = 1
HELD, FAILED, BROKE_OFF, WAITING = "held", "failed", "broke off", "waiting"
"""States of a job: everything held; its run is complete and a check failed; its run did not end; not run yet."""


class Unfinished(LullError):
    """Some jobs of a sweep have no results."""

    exit_code: ClassVar[int] = FELL_SHORT


@dataclass(frozen=True)
class Job:
    """One run of a sweep.

    Args:
        name: of its folder.
        machine: the guest's.
        workloads: names; none: the default selection.
        boots: what it boots.
        words: of ``lull run``, but for ``--out``.
    """

    name: str
    machine: Machine
    workloads: tuple[str, ...]
    boots: tuple[plan.Boot, ...]
    words: tuple[str, ...]

    @property
    def what(self) -> str:
        """What is its own, for people."""
        chosen = ", ".join(self.workloads) or "default workloads"
        return f"{self.machine.vcpus} vCPU{'s' * (self.machine.vcpus > 1)}, {self.machine.cpu}: {chosen}"


@dataclass(frozen=True)
class Choice:
    """What a sweep is made of.

    Args:
        vcpus, cpus, sets: of these each with each; a set is the names of workloads that share a run.
        kernels: as on the command line.
        repeat: boots of each kernel in a job.
        memory_mib, accel, append, model: as for a run.
        words: more words of each job's ``lull run``.
    """

    vcpus: tuple[int, ...]
    cpus: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    kernels: tuple[str, ...]
    repeat: int
    memory_mib: int
    accel: str
    append: str
    model: timing.Model | None
    words: tuple[str, ...]

    def jobs(self, lab: Lab) -> list[Job]:
        """The jobs, the largest guests first: what takes longest must not be begun last.

        Raises: UsageError for what a run would not take, either.
        """
        cells = sorted(itertools.product(self.vcpus, self.cpus, self.sets), key=lambda cell: -cell[0])
        return [self.job(lab, number, *cell) for number, cell in enumerate(cells, 1)]

    def job(self, lab: Lab, number: int, vcpus: int, cpu: str, workloads: tuple[str, ...]) -> Job:
        """The job of one cell."""
        machine = Machine(vcpus, self.memory_mib, cpu, self.accel)
        named = [plan.parse_spec(kernel, lab.base) for kernel in self.kernels]
        boots = plan.make_plan(plan.select_workloads(workloads, lab.workloads), named, lab.base, self.repeat)
        parts = [f"{number:03d}", f"vcpus-{vcpus}"]
        parts += [cpu] if len(self.cpus) > 1 else []
        parts += ["+".join(workloads)] if len(self.sets) > 1 else []
        words = ["--vcpus", str(vcpus), "--cpu", cpu]
        for option, values in (("--workload", workloads), ("--kernel", self.kernels)):
            words += [word for value in values for word in (option, value)]
        name = check.slug("-".join(parts))[:100]
        return Job(name, machine, workloads, tuple(boots), (*words, *self.words))


def default_workers(vcpus: int, memory_mib: int) -> int:
    """How many guests of that size a machine runs at once: each vCPU has a CPU, and half of the memory is left."""
    memory = host_mib()
    return max(1, min(len(os.sched_getaffinity(0)) // vcpus, memory // 2 // memory_mib))


def prepare(lab: Lab, choice: Choice, jobs: Sequence[Job]) -> str:
    """Make everything that jobs boot, so that none waits for a compiler. Returns the sweep's key."""
    images = dict.fromkeys(boot.image for job in jobs for boot in job.boots)
    guests = [lab.guest(image, jobs[0].machine, append=choice.append, timing=choice.model) for image in images]
    made = (f"{g.image} {g.initramfs} {g.disk} {g.plugin}" for g in guests)
    return plan.plan_key([], "sweep", repr(jobs), repr(choice.model), lab.qemu.version, *made)


def conduct(
    lab: Lab,
    choice: Choice,
    out: Path | None,
    *,
    workers: int | None,
    listen: sweep_engine.Address | None,
    as_json: bool,
) -> int:
    """Do the jobs that are left, and show all. Returns 0 when everything held, 1 when a check failed.

    Args:
        workers: jobs at once on this machine; None: as many as it is made for.
        listen: where other machines may join.

    Raises: Unfinished when a job has no results; and what making the kernels raises.
    """
    jobs = choice.jobs(lab)
    if workers is None:
        memory = max(boot.memory for job in jobs for boot in job.boots)
        workers = default_workers(max(choice.vcpus), max(memory, choice.memory_mib))
    key = prepare(lab, choice, jobs)
    with experiment.holding(out, key) as folder:
        record = Record(lab, jobs, folder)
        record.write()
        left = [job for job in jobs if record.state(job) not in (HELD, FAILED)]
        if left:
            perform(record, left, key, workers, listen, offline=lab.offline)
        from lull.sweep import report as sweep_report

        runs = sweep_report.join([sweep_job.place_of(folder, job.name) for job in jobs], folder)
        sweep_report.write(runs, record.entries(), folder)
        if as_json:
            print(record.text(), end="")
        else:
            sweep_report.show(runs, record.entries(), folder)
        states = [record.state(job) for job in jobs]
        if broken := len(states) - states.count(HELD) - states.count(FAILED):
            raise Unfinished(
                f"{broken} of {len(jobs)} jobs have no results",
                where=f"{folder}/{sweep_job.JOBS}: the logs of those that broke off",
                remedy="the same command tries them again, and nothing else",
            )
    return FELL_SHORT if FAILED in states else 0


def perform(
    record: Record, left: Sequence[Job], key: str, workers: int, listen: sweep_engine.Address | None, *, offline: bool
) -> None:
    """Have jobs performed, and record each as it ends."""
    folder = record.folder.absolute()
    orders = [sweep_job.Order(job.name, job.words, str(folder), sweep_job.HERE, key) for job in left]
    where = f", others join with 'lull sweep --join {listen}'" if listen else ""
    title = f"sweep: {len(left)} of {len(record.jobs)} jobs to do, {workers} at once here{where}"
    with progress.step(title) as step, sweep_engine.running(workers, listen, offline=offline) as engine:
        under_way: list[str] = []
        ended = 0
        for event in engine.perform(orders):
            if isinstance(event, str):
                under_way = [*dict.fromkeys([*under_way, event])]  # once more when a machine was lost
                say(f"  {event}: begun: {record.job(event).what}")
            elif event:
                ended += 1
                under_way = [name for name in under_way if name != event.name]
                if event.files:
                    sweep_job.take(event, folder)
                record.ended(event)
                say(f"  {event.name}: {record.says(record.job(event.name))} ({clock(event.seconds)})")
            step.update(f"{ended} of {len(left)} ended" + "".join(last_words(folder, under_way)))


def last_words(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """What each of the jobs under way said last, where that can be seen from here."""
    for name in names:
        said = process.tail(sweep_job.log_of(folder, name), 1)
        yield f"; {name}" + (f": {said}" if said and not said.startswith("$ ") else "")


class Record:
    """What became of each job: read from the jobs' folders, and sweep.json beside them.

    Args:
        lab: for its versions.
        jobs: all of the sweep.
        folder: the sweep's.
    """

    def __init__(self, lab: Lab, jobs: Sequence[Job], folder: Path) -> None:
        self.lab = lab
        self.jobs = jobs
        self.folder = folder
        self.ends: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, list[str]] = {}
        path = folder / "sweep.json"
        if path.exists():
            for entry in json.loads(path.read_text())["jobs"]:
                if entry["seconds"] is not None:
                    self.ends[entry["name"]] = {name: entry[name] for name in ("exit_code", "seconds")}

    def job(self, name: str) -> Job:
        """A job by name."""
        return next(job for job in self.jobs if job.name == name)

    def ended(self, done: sweep_job.Done) -> None:
        """Take down how a job ended."""
        self.ends[done.name] = {"exit_code": done.status, "seconds": round(done.seconds, 1)}
        self.write()

    def failures(self, job: Job) -> list[str]:
        """The checks of a complete run that failed."""
        if job.name not in self.failed:
            results = Results.load(sweep_job.place_of(self.folder, job.name) / "results.json")
            self.failed[job.name] = [c.name for c in results.checks if c.verdict == "failed"]
        return self.failed[job.name]

    def state(self, job: Job) -> str:
        """One of the states above."""
        if sweep_job.complete(self.folder, job.name):
            return FAILED if self.failures(job) else HELD
        return BROKE_OFF if job.name in self.ends else WAITING

    def exit_code(self, job: Job) -> int | None:
        """What its run ended with; of a complete one that is told by its results, whoever saw it end."""
        known = {HELD: 0, FAILED: FELL_SHORT, WAITING: None}
        state = self.state(job)
        return known[state] if state in known else int(self.ends[job.name]["exit_code"])

    def says(self, job: Job) -> str:
        """A job's state, and why."""
        state = self.state(job)
        if state == FAILED:
            return f"{state}: {', '.join(self.failures(job))}"
        if state == BROKE_OFF:
            code = self.exit_code(job) or 0
            reason = "its machine was lost" if code == sweep_engine.LOST else EXIT_CODES.get(code, "killed")
            return f"{state}: exit code {code}, {reason}; its log: {sweep_job.log_of(self.folder, job.name)}"
        return state

    def entries(self) -> list[dict[str, Any]]:
        """What sweep.json says of the jobs."""
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
        described = {
            "lull": __version__,
            "host": experiment.host(),
            "settings": self.lab.describe(),
            "jobs": self.entries(),
        }
        return json.dumps(described, indent=1) + "\n"

    def write(self) -> None:
        """Write sweep.json."""
        cache.write_atomic(self.folder / "sweep.json", self.text())


def show_plan(jobs: Sequence[Job], *, as_json: bool) -> None:
    """What would be done."""
    plan.show(
        (f"would run {job.name}, {len(job.boots)} boots: {process.shown(['lull', 'run', *job.words])}" for job in jobs),
        [{"job": job.name, "words": job.words, "boots": [boot.name for boot in job.boots]} for job in jobs],
        as_json=as_json,
    )
