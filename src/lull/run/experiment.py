# SPDX-License-Identifier: GPL-2.0-only
"""`lull run`: boot the kernels in turns, measure, judge, and write results.json after each boot."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lull import __version__, cache, eta, plan, process, timing
from lull.errors import MALFORMED, GuestGarbage
from lull.guest import clock
from lull.guest.qemu import Machine, machine_metrics
from lull.guest.runner import SKIPPED, BootOutcome
from lull.lab import Lab
from lull.progress import progress
from lull.requirements import require
from lull.run import loop
from lull.run.loop import Step, Tell, holding
from lull.run.measurements import breakdowns, held_up, measured, records_of, uneven
from lull.run.records import Check, MeasuredBoot, Measurement, Results, host

if TYPE_CHECKING:
    from lull.judge.joint import ComparedRun

TIMED = 2.0
"""How much longer guests may take whose clock is slow."""
IN_STEP = "timing: vCPUs kept in step"
"""The check that a busy host fails."""


def job_checks(boots: Sequence[plan.Boot], ended: dict[str, dict[int, int]]) -> list[Check]:
    """One check per workload and kernel: it ran and verified its own work in every repeat."""
    states: dict[str, list[str]] = defaultdict(list)
    for boot in boots:
        for job in boot.jobs:
            status = ended.get(boot.name, {}).get(job.number)
            name = f"{job.workload.name} on {job.spec.name if job.spec.settings else boot.label}"
            states[name].append(
                "passed" if status == 0 else "skipped" if status == SKIPPED else f"exit status {status} in {boot.name}"
            )
    checks = []
    for name, found in states.items():
        bad = [f for f in found if f not in ("passed", "skipped")]
        verdict = "failed" if bad else "skipped" if "skipped" in found else "passed"
        checks.append(Check(f"verified: {name}", verdict, "; ".join(bad) or f"{len(found)} runs"))
    return checks


def step_checks(measurements: Sequence[Measurement]) -> list[Check]:
    """Whether modelled time can be trusted: vCPUs were kept in step, in every workload and boot."""
    timed = [m.metrics for m in measurements if timing.METRIC in m.metrics]
    if not timed:
        return []
    most = max(metrics[timing.ASTRAY] / (metrics["insns"] or 1) for metrics in timed)
    detail = f"at most {100 * most:.2g} % of a workload's instructions ran ahead of slower vCPUs"
    return [Check(IN_STEP, "passed" if most <= timing.MOST_ASTRAY else "failed", detail)]


def draw(run: ComparedRun) -> None:
    """Draw the page of a run into its folder."""
    from lull import report  # Jinja2, and matplotlib when it draws

    with progress.step("drawing the report"):
        report.write(run)


def print_outcome(run: ComparedRun, *, as_json: bool, short: bool = False) -> int:
    """Print what a run found. Returns 0 when everything passed, 1 when something fell short."""
    checks = run.results.checks
    if as_json:
        print(run.results.to_json(), end="")
    else:
        from lull.judge import verdict

        if short:
            verdict.show_short(run.results, run.folder)
        else:
            verdict.print_run(run)
        found = Counter(check.verdict for check in checks)
        print(f"verdict: {found['passed']} checks passed, {found['failed']} failed, {found['skipped']} not judged")
    return 1 if any(c.verdict == "failed" for c in checks) else 0


@dataclass(frozen=True)
class How:
    """How a plan is measured, beyond its machine.

    Args:
        append: kernel parameters of every guest.
        model: modelled time, too, under these costs.
        short: do not judge the features' thresholds, which want more than a short run measures.
        functions: count the instructions of each function of the kernel, too.
    """

    append: str = ""
    model: timing.CostModel | None = None
    short: bool = False
    functions: bool = False


def measure(lab: Lab, machine: Machine, boots: Sequence[plan.Boot], out: Path | None, how: How) -> ComparedRun:
    """Run the plan, or what is left of it, and judge it. Returns what it found, with its comparison."""
    model = how.model
    if model:
        require("modelled time", [clock.FDTPUT])
        machine = replace(machine, slower=timing.clock_slowdown(machine.vcpus))
    images = list(dict.fromkeys(b.image for b in boots))
    booting = eta.of_boots(boots, loop.left(boots, out) if out else len(boots))
    eta.make(lab, images, [booting, eta.END])
    guests = {
        image: lab.guest(image, machine, append=how.append, timing=model, functions=how.functions) for image in images
    }
    names = {image: lab.listing(image).names if how.functions else () for image in images}
    metrics = machine_metrics(machine.accel)
    if model:  # a program that sleeps does so by a slow clock
        metrics = (
            "TLBIs, DSBs, IPIs and instructions counted exactly; seconds are modelled by the costs of " + model.name
        )
        guests = {image: replace(guest_, limit_factor=TIMED * guest_.limit_factor) for image, guest_ in guests.items()}
    described = lab.describe()
    description = {
        **described,
        "machine": asdict(machine),
        "append": how.append,
        # Half of the guests of a guest are stock, and the local TLBIs of the others are broadcasts.
        "thresholds": not how.short and "guests" not in described,
        "metrics": metrics,
        **({"timing": asdict(model)} if model else {}),
    }
    # All that a number depends on: the paths are those of content-keyed entries.
    made = (f"{g.image} {g.initramfs} {g.disk} {g.plugin}" for g in guests.values())
    key = plan.plan_key(boots, repr(machine), how.append, lab.qemu.version, *made)
    with holding(out, key) as folder:
        for image in images:
            shutil.copyfile(lab.kernel(image).path / "config", folder / f"config-{image}")
        results = Results(__version__, lab.base.name, host(), settings=description)

        def one(boot: plan.Boot, place: Path, tell: Tell) -> MeasuredBoot:
            outcome = lab.launch(guests[boot.image], boot, place, tell)
            return measured_boot(boot, outcome, place, machine.accel == "tcg", names[boot.image])

        title = f"running {len(boots)} guest{'s' * (len(boots) > 1)}, {machine.vcpus} vCPU{'s' * (machine.vcpus > 1)}"
        seconds = "seconds_emulated" if machine.accel == "tcg" else "seconds"
        costs = model.costs if model else None
        return run_boots(results, boots, folder, title, machine.vcpus, seconds, one, booting, costs=costs)


def run_boots(
    results: Results,
    boots: Sequence[plan.Boot],
    folder: Path,
    title: str,
    vcpus: int,
    seconds: str,
    one: Callable[[plan.Boot, Path, Tell], MeasuredBoot],
    part: eta.Part | None = None,
    further: Sequence[Check] = (),
    costs: timing.Costs | None = None,
) -> ComparedRun:
    """Do the boots of a plan, and judge the run; results.json is written after each boot.

    Args:
        results: takes records and checks.
        folder, title, part: as in ``loop.do_boots``.
        vcpus: of every boot.
        seconds: the metric that the programs' seconds are.
        one: boots once, with the logs in the folder that it is given.
        further: checks that the caller made.
        costs: of modelled time.
    """
    measurements: list[Measurement] = []
    statuses: dict[str, dict[int, int]] = {}

    def write(boot: plan.Boot, kept: MeasuredBoot, place: Path) -> None:
        measurements.extend(kept.measurements)
        statuses[boot.name] = kept.status
        results.records = records_of(measurements, vcpus, seconds)
        results.records += held_up(results.records, costs) if costs and costs.receive else []
        results.functions = breakdowns(measurements)
        results.checks = job_checks(boots[: len(statuses)], statuses) + step_checks(measurements) + [*further]
        results.commands = list(dict.fromkeys(process.commands))
        for workload, (fewest, most) in uneven(measurements).items():
            results.settings[f"per operation: {workload}"] = f"a boot did {fewest} to {most}"
        results.settings["boots"] = f"{len(statuses)} of {len(boots)}"
        cache.write_atomic(folder / "results.json", results.to_json())

    steps = [Step(boot, MeasuredBoot, partial(one, boot), partial(write, boot)) for boot in boots]
    loop.do_boots(steps, folder, title, part=part)
    from lull.judge import joint, verdict

    comparison = verdict.judge(results, folder)
    path = folder / joint.FILE
    cache.write_atomic(path, results.to_json())
    return joint.ComparedRun(str(folder), path, results, comparison)


def measured_boot(
    boot: plan.Boot, outcome: BootOutcome, folder: Path, counted: bool, names: Sequence[str] = ()
) -> MeasuredBoot:
    """What is kept of a boot: its measurements, and how its jobs ended; ``names`` as in ``measured``.

    Raises: GuestGarbage.
    """
    try:
        measurements = measured(boot, outcome, counted, names)
    except MALFORMED as error:
        raise GuestGarbage(
            f"{boot.name}: what the guest reported and what was counted do not fit together: {error!r}",
            where=str(folder),
        ) from error
    return MeasuredBoot(
        guest=outcome.kernel, attempts=outcome.attempts, status=outcome.status, measurements=measurements
    )
