# SPDX-License-Identifier: GPL-2.0-only
"""The guest programs on this machine itself, under the kernel it runs: no QEMU, no counting, real seconds.

What ``guest/init`` is in a guest, this is here: it sets policies, runs jobs one after the other, and writes the same
lines to the results channel, which is a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lull import __version__, guest, plan, process
from lull.base import Base
from lull.errors import GuestHang, LullError, UsageError
from lull.guest.runner import BootOutcome, Follower
from lull.judge.joint import ComparedRun
from lull.linux.switches import FOLDER, chosen
from lull.linux.toolchain import Toolchain
from lull.run import experiment
from lull.run.loop import Tell, holding
from lull.run.records import MeasuredBoot, Results, host

METRICS = "faults and /proc/vmstat counted by the kernel; seconds are this machine's"
STOCK = "stock"


class Switches:
    """The switches of the running kernel.

    Args:
        folder: where they are; a kernel without Lull has none.
        base: whose features they are.
    """

    def __init__(self, base: Base, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.off = {f.name: f.off for f in base.features.values() if f.policies and (folder / f.name).is_file()}
        self.found = self.read()

    def read(self) -> dict[str, str]:
        """Feature -> the policy it has now."""
        policies = {}
        for name in self.off:
            policies[name] = chosen(self.folder / name) or ""
            if not policies[name]:
                raise LullError("a switch says no policy", where=str(self.folder / name))
        return policies

    def write(self, name: str, policy: str) -> None:
        """Set one switch. Raises OSError when the kernel refuses."""
        (self.folder / name).write_text(policy)

    def writable(self) -> bool:
        """Whether we may change them: root may."""
        return all(os.access(self.folder / name, os.W_OK) for name in self.off)

    def choose(self, wanted: Mapping[str, str]) -> None:
        """Set what is not as wanted. Raises LullError: what followed would be measured under a wrong name."""
        now = self.read()
        for name, policy in wanted.items():
            if now[name] == policy:
                continue
            with contextlib.suppress(OSError):  # the kernel refuses a policy that it has not
                self.write(name, policy)
            if self.read()[name] != policy:
                raise LullError(f"cannot set {name} to {policy}", where=str(self.folder / name))

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """When the body is left, however it is left, the switches are as they were found."""
        try:
            yield
        finally:
            self.choose(self.found)

    def possible(self, spec: plan.Spec) -> bool:
        """Whether the running kernel can be what a kernel's name says.

        A kernel without Lull is ``stock``; one with it is ``lull`` as it was found, and ``stock`` with everything off.
        """
        if not self.found:
            return spec.image == STOCK
        change = spec.image == STOCK or bool(spec.settings)
        known = all(name in self.found for name, _ in spec.settings)
        return spec.image in (STOCK, "lull") and known and (self.writable() or not change)

    def wanted(self, spec: plan.Spec) -> dict[str, str]:
        """The policies under which the running kernel is what ``spec`` says."""
        return {**(self.off if spec.image == STOCK else self.found), **dict(spec.settings)}


HUNG = 124
"""The status of a job that did not end in time, as of timeout(1)."""


def run_jobs(
    boot: plan.Boot,
    programs: Path,
    switches: Switches,
    folder: Path,
    cpus: int,
    tell: Tell,
    *,
    patient: bool = False,
) -> BootOutcome:
    """Run the jobs of a plan's boot, each under its policies. They are left as the last one had them.

    Args:
        programs: the folder of the compiled guest programs.
        folder: takes results.jsonl, as a guest writes it, and console.log.
        cpus: of this machine; more may take longer.
        patient: a job that does not end in time has failed with the status HUNG, and the next one follows.

    Raises: GuestHang when a job does not end in time, unless ``patient``; GuestGarbage, LullError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    channel, log = folder / "results.jsonl", folder / "console.log"
    log.unlink(missing_ok=True)
    channel.write_text("")
    limits = plan.time_limits(boot, cpus)
    follower = Follower(channel, 0.0, limits, tell)

    def event(**fields: object) -> None:
        with open(channel, "a") as out:
            out.write(json.dumps(fields) + "\n")
        follower.poll()

    event(event="ready", kernel=os.uname().release)
    for job in boot.jobs:
        switches.choose(switches.wanted(job.spec))
        event(event="start", job=job.number)
        try:
            status = run_one(job, programs, channel, log, limits(job.number))
        except GuestHang:
            if not patient:
                raise
            status = HUNG
        event(event="end", job=job.number, status=status)
    event(event="done", status=0)
    return follower.outcome


def run_one(job: plan.Job, programs: Path, channel: Path, log: Path, seconds: float) -> int:
    """Run a job's program; returns its exit status as a shell has it. Raises GuestHang after ``seconds``."""
    name = job.workload.program
    environment = process.environment(
        {
            "LULL_RESULTS": str(channel.absolute()),
            "LULL_JOB": str(job.number),
            "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
        }
    )
    with open(log, "ab", buffering=0) as out:
        out.write(f"$ {process.shown([name, *job.workload.args])}\n".encode())
        with process.started(
            [programs / name, *job.workload.args], env=environment, stdin=process.DEVNULL, stdout=out, stderr=out
        ) as child:
            try:
                status = child.wait(seconds)
            except subprocess.TimeoutExpired:
                raise GuestHang(
                    f"{job.workload.name} did not end within {seconds:g} s",
                    where=str(log),
                    tail=process.tail(log),
                    remedy="leave it out: name others with --workload",
                ) from None
    return status if status >= 0 else 128 - status


def check_programs(boots: list[plan.Boot]) -> None:
    """Raise UsageError for a workload whose program is none of ours: Debian's are on a guest's disk."""
    ours = {source.stem for source in guest.sources()}
    for job in (job for boot in boots for job in boot.jobs):
        if job.workload.program not in ours:
            raise UsageError(f"{job.workload.name} needs a guest's disk", remedy="'./lull run --suite real' has one")


def measure(boots: list[plan.Boot], toolchain: Toolchain, switches: Switches, out: Path | None) -> ComparedRun:
    """Run the plan, or what is left of it, and judge it. Returns what it found, with its comparison."""
    check_programs(boots)
    programs = guest.build_programs(toolchain)
    cpus = len(os.sched_getaffinity(0))
    linux = os.uname().release
    settings: dict[str, Any] = {
        "linux": linux,
        "compiler": toolchain.version,
        "metrics": METRICS,
        "policies found": " ".join(f"{name}={policy}" for name, policy in switches.found.items()),
    }
    key = plan.plan_key(boots, "native", linux, programs.name, repr(switches.found), str(cpus))
    with holding(out, key) as folder, switches.restored():
        results = Results(__version__, "", host(), settings=settings)

        def one(boot: plan.Boot, place: Path, tell: Tell) -> MeasuredBoot:
            outcome = run_jobs(boot, programs, switches, place, cpus, tell)
            return experiment.measured_boot(boot, outcome, place, False)

        title = f"running {len(boots)} round{'s' * (len(boots) > 1)} on this machine, {cpus} CPU{'s' * (cpus > 1)}"
        return experiment.run_boots(results, boots, folder, title, cpus, "seconds", one)
