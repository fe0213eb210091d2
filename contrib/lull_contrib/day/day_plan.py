# SPDX-License-Identifier: GPL-2.0-only
"""A session with the workloads of a plan, and the calibration: what is measured in each boot, and what it ends with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from lull import cache, guest, paths, plan
from lull.errors import UsageError
from lull.lab import Lab
from lull.progress import progress, say
from lull.run import experiment, loop
from lull_contrib import calibrate
from lull_contrib.calibrate import here as calibrate_here
from lull_contrib.day import bundle, native, ready, session
from lull_contrib.day.machine import Machine

MS, ROUNDS = 20, 15
"""The measurements of the calibration, as `lull calibrate` makes them."""


@dataclass(frozen=True)
class DayPlan:
    """What a session measures.

    Args:
        lab: the lab, with the base.
        machine: the machine.
        boots: the plan.
        out: the folder of the results.
        words: the options that make this plan.
    """

    lab: Lab
    machine: Machine
    boots: Sequence[plan.Boot]
    out: Path
    words: Sequence[str]

    def run(self, *, stop: bool = False) -> int:
        """Begin, or go on with what was begun; with ``stop`` end it. Returns the exit status."""
        state = session.load_state(self.machine)
        if state is None and stop:
            raise UsageError("no session is under way on this machine")
        if state is None and (self.out / "complete").exists():
            say(f"{self.out} is complete: send {self.out}.tar.gz, or name another folder with --out")
            return 0
        if state is None:
            pair = self.require()
            guest.build_programs(self.lab.toolchain)  # now, while nothing is changed
            state = session.begin(self.machine, pair, self.folder(), self.words)
            say(f"{len(self.boots) + 1} measurements, each after a reboot; then {self.out}.tar.gz is there to send")
        elif (state.folder, state.words) != (str(self.out), [*self.words]):
            raise UsageError(
                "a session with other options is under way on this machine",
                where=state.folder,
                remedy=f"systemctl start {session.NAME} goes on with it, and --across --stop with its options ends it:"
                f" --out {state.folder} {' '.join(state.words)}",
            )
        if stop:
            state = replace(state, ended=state.ended or "stopped by the user")
            with contextlib.suppress(OSError):  # a full disk: the session ends without it, too
                session.save(self.machine, state)
        session.go_on(self.machine, state, self.steps(), partial(self.end, state), self.command(), self.environment())
        return 0

    def require(self) -> ready.Pair:
        """The kernels to measure. Raises LullError for what stands against a new session; changes nothing."""
        pair = ready.require(self.machine, self.out, root=True, kept=(self.out, paths.REPOSITORY, cache.root()))
        ready.require_new(self.machine, session.UNIT, session.DEFAULT)
        native.check_programs([*self.boots])
        loop.check_plan(self.out, self.key())
        return pair

    def key(self) -> str:
        """The key of the plan."""
        return plan.plan_key(self.boots, "across", *self.words)

    def folder(self) -> Path:
        """The folder of the results, which has the key of the plan."""
        folder = loop.results_folder(self.out, self.key())
        cache.write_atomic(folder / "plan", self.key() + "\n", lasting=True)
        return folder

    def command(self) -> list[str]:
        """The command that goes on after a reboot."""
        return [str(paths.REPOSITORY / "lull"), "bench", "--here", "--across", "--out", str(self.out), *self.words]

    def environment(self) -> dict[str, str]:
        """The variables of its environment."""
        return {"LULL_CACHE": str(cache.root()), "PYTHONUNBUFFERED": "1"}

    def steps(self) -> list[session.Step]:
        """The boots of the plan, and the calibration on the Lull kernel, where TLBIs can be local."""
        found = [session.Step(boot.name, boot.image, partial(self.measure, boot)) for boot in self.boots]
        return [*found, session.Step(bundle.CALIBRATE, "lull", self.calibrate)]

    def measure(self, boot: plan.Boot, place: Path) -> session.Kept:
        """Run the workloads of a boot."""
        switches = native.Switches(self.lab.base)
        programs = guest.build_programs(self.lab.toolchain)
        with switches.restored(), progress.step(boot.name) as step:
            outcome = native.run_jobs(
                boot,
                programs,
                switches,
                place,
                self.cpus(),
                lambda text: step.update(plan.named(boot, text)),
                patient=True,
            )
        return asdict(experiment.measured_boot(boot, outcome, place, False))

    def calibrate(self, place: Path) -> session.Kept:
        """Measure the costs of the machine, and write the cost file."""
        here = calibrate_here.examine(None)
        measured, near, way = calibrate_here.measure(self.lab, here, MS, ROUNDS)
        found = calibrate_here.fitted(measured, near)
        cache.write_atomic(place / bundle.COSTS, calibrate_here.cost_file(found, here, way))
        return dict(calibrate.as_json(found))

    def end(self, state: session.State, folder: Path, ended: str) -> None:
        """Write the results and the file to send."""
        bundle.assemble(folder, self.boots, state.kernels, self.cpus(), ended)
        sent = bundle.pack(folder, self.boots)
        (folder / "complete").touch()
        say(f"{ended}: send {sent}; ./lull compare takes it, and {folder}/comparison.md has the tables")

    def cpus(self) -> int:
        """The CPUs of the machine."""
        return len(os.sched_getaffinity(0))
