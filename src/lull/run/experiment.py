# SPDX-License-Identifier: GPL-2.0-only
"""Conduct a plan: boot after boot, each kept as soon as it is complete, so that a killed run resumes."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lull import __version__, cache, plan, process, timing, took
from lull.errors import GuestGarbage, UsageError
from lull.guest.qemu import Machine, machine_metrics
from lull.guest.runner import BootOutcome, Guest, launch_retrying
from lull.lab import Lab
from lull.progress import clock, progress, say
from lull.run.records import COUNT_UNIT, Check, Record, Results

Tell = Callable[[str], None]
"""Shows what a boot is doing."""
Kept = dict[str, Any]
"""What is kept of a boot: its measurements, and how its jobs ended."""
DONE = "boot.json"
"""The file it is kept in: a boot that has one is complete."""
TIMED = 2.0
"""How much longer guests may take whose clock is slow."""
SKIPPED = 77
"""Exit status of a guest program that this kernel or machine cannot run."""
IN_STEP = "timing: vCPUs kept in step"
"""The check that a busy host fails."""


def results_folder(named: Path | None, key: str) -> Path:
    """Where a run writes: the folder named, or in ./results the unfinished run of the same plan, or a new one.

    Raises UsageError when the folder holds another plan's run.
    """
    if named:
        check_free(named)
        if held_plan(named) not in (None, key):
            raise UsageError(f"{named} holds a run of another plan", remedy="name another folder with --out")
        named.mkdir(parents=True, exist_ok=True)
        return named
    top = Path("results")
    runs = sorted(p for p in top.glob("[0-9][0-9][0-9]") if p.is_dir())
    if runs and held_plan(runs[-1]) == key and not (runs[-1] / "complete").exists():
        return runs[-1]
    number = int(runs[-1].name) + 1 if runs else 1
    while True:  # another run may take a number at the same moment
        try:
            (top / f"{number:03d}").mkdir(parents=True)
            return top / f"{number:03d}"
        except FileExistsError:
            number += 1


def check_free(folder: Path) -> None:
    """Raise UsageError when ``folder`` holds something that is no run of ours. Cheap: done before anything is built."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", remedy="name a new or empty folder with --out")
    if folder.exists() and held_plan(folder) is None and any(folder.iterdir()):
        raise UsageError(f"{folder} holds other files", remedy="name a new or empty folder with --out")


def held_plan(folder: Path) -> str | None:
    """The key of the plan a results folder was begun with."""
    try:
        return (folder / "plan").read_text().strip()
    except OSError:
        return None


@contextlib.contextmanager
def holding(out: Path | None, key: str) -> Iterator[Path]:
    """The results folder of the plan ``key``, held against other runs; complete when the body ends well."""
    with cache.disk_errors(out or Path("results")):
        folder = results_folder(out, key)
    with cache.disk_errors(folder), cache.lock(folder / "lock", lambda: say(f"another run writes {folder}; waiting")):
        if held_plan(folder) not in (None, key):
            raise UsageError(f"{folder} was taken by another run meanwhile", remedy="run again")
        cache.write_atomic(folder / "plan", key + "\n")
        yield folder
        (folder / "complete").touch()


def host() -> dict[str, Any]:
    """The machine, for results.json; no names of it."""
    return {
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "model": cpu_model(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPUs by name or, on arm64, where they have none, by implementer and part; empty when neither is said."""
    try:
        lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
    except OSError:
        return ""
    found: dict[str, list[str]] = defaultdict(list)
    for name, _, value in lines:
        found[name.strip()].append(value.strip())
    if "model name" in found:
        return found["model name"][0]
    parts = dict.fromkeys(zip(found["CPU implementer"], found["CPU part"], strict=False))
    return ", ".join(f"implementer {implementer} part {part}" for implementer, part in parts)


def measured(boot: plan.Boot, outcome: BootOutcome, counted: bool) -> list[dict[str, Any]]:
    """The measurements of a boot: one per job and case, with kernel, workload and every metric.

    The windows of a case are one measurement, their sum; several say what a quiet one is, too. What CPUs execute
    without waiting for each other is called work.
    """
    jobs = {job.number: job for job in boot.jobs}
    silent = [n for n, status in outcome.status.items() if status == 0 and n not in {w["job"] for w in outcome.windows}]
    if silent:
        raise ValueError(f"{jobs[silent[0]].workload.name} ended well and reported nothing")
    cases: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for window in outcome.windows:
        cases[window["job"], window["case"]].append(window)
    found: list[dict[str, Any]] = []
    for (number, name), windows in cases.items():
        job, window = jobs[number], windows[0]
        if len({w["operations"] for w in windows}) > 1:
            raise ValueError(f"the windows of {job.workload.name} {name} are not of one size")
        kernel = job.spec.name if job.spec.settings else boot.label
        case = f"/{name}" if name else ""
        each = [{**w.get("metrics", {}), **(outcome.counts[w["window"]] if counted else {})} for w in windows]
        metrics = {metric: float(sum(counts[metric] for counts in each)) for metric in each[0]}
        if len(windows) > 1 and "insns_own" in metrics:
            metrics["insns_quiet"] = float(len(windows) * quiet([counts["insns_own"] for counts in each]))
        if "insns_spin" in metrics:
            metrics["insns_work"] = metrics["insns"] - metrics["insns_spin"]
        if "modelled_ns" in metrics:
            metrics[timing.METRIC] = metrics.pop("modelled_ns") / 1e9
        found.append(
            {
                "kernel": kernel,
                "workload": f"{job.workload.name}{case}",
                "operations": sum(w["operations"] for w in windows),
                "unit": window.get("unit", ""),
                "scale": window.get("scale", ""),
                "seconds": float(sum(w.get("seconds", 0.0) for w in windows)),
                "metrics": metrics,
            }
        )
    return found


def quiet(instructions: Sequence[int]) -> int:
    """What a window takes when nothing else happens: the lowest tenth, without the few that are lower still.

    A tick, a load average brought up to date, an interrupt only ever add, and come by the clock: the slower the host,
    the more windows have one.
    """
    return sorted(instructions)[len(instructions) // 10]


def records_of(measurements: Sequence[dict[str, Any]], vcpus: int, seconds: str) -> list[Record]:
    """Measurements of all boots as records: values in the order of the run."""
    values: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    operations: dict[tuple[str, str], tuple[int, str]] = {}
    for m in measurements:
        operations[m["kernel"], m["workload"]] = (m["operations"], m["unit"])
        if timing.METRIC not in m["metrics"]:  # by a clock that was made slower
            values[m["kernel"], m["workload"], seconds, "s"].append(m["seconds"])
        for metric, value in m["metrics"].items():
            unit = "s" if metric == timing.METRIC else COUNT_UNIT
            values[m["kernel"], m["workload"], metric, unit].append(value)
    return [
        Record(kernel, workload, vcpus, metric, unit, tuple(series), *operations[kernel, workload])
        for (kernel, workload, metric, unit), series in values.items()
    ]


def job_checks(boots: Sequence[plan.Boot], ended: dict[str, dict[int, int]]) -> list[Check]:
    """One check per workload and kernel: it ran and verified its own work in every repeat."""
    states: dict[str, list[str]] = defaultdict(list)
    for boot in boots:
        for job in boot.jobs:
            status = ended.get(boot.name, {}).get(job.number)
            name = f"{job.workload.name} on {job.spec.name if job.spec.settings else boot.label}"
            states[name].append(
                "held" if status == 0 else "skipped" if status == SKIPPED else f"exit status {status} in {boot.name}"
            )
    checks = []
    for name, found in states.items():
        bad = [f for f in found if f not in ("held", "skipped")]
        verdict = "failed" if bad else "skipped" if "skipped" in found else "held"
        checks.append(Check(f"verified: {name}", verdict, "; ".join(bad) or f"{len(found)} runs"))
    return checks


def step_checks(measurements: Sequence[dict[str, Any]]) -> list[Check]:
    """Whether modelled time can be trusted: vCPUs were kept in step, in every workload and boot."""
    timed = [m["metrics"] for m in measurements if timing.METRIC in m["metrics"]]
    if not timed:
        return []
    most = max(metrics[timing.ASTRAY] / (metrics["insns"] or 1) for metrics in timed)
    detail = f"at most {100 * most:.2g} % of a workload's instructions ran ahead of slower vCPUs"
    return [Check(IN_STEP, "held" if most <= timing.MOST_ASTRAY else "failed", detail)]


def conduct(
    lab: Lab,
    machine: Machine,
    boots: Sequence[plan.Boot],
    out: Path | None,
    *,
    append: str,
    as_json: bool,
    model: timing.Model | None = None,
    short: bool = False,
) -> int:
    """Run the plan and report. Returns 0 when everything held, 1 when something fell short."""
    results, folder = measure(lab, machine, boots, out, append=append, model=model, short=short)
    return told(results, folder, as_json=as_json, short=short)


def told(results: Results, folder: Path, *, as_json: bool, short: bool = False) -> int:
    """Print what a run found, and draw its page. Returns 0 when everything held, 1 when something fell short."""
    from lull import report  # Jinja2, and matplotlib when it draws

    with progress.step("drawing the report"):
        report.write(folder)
    if as_json:
        print(results.to_json(), end="")
    else:
        from lull.judge import verdict

        if short:
            verdict.show_short(results, folder)
        else:
            verdict.show(results, folder)
        print(verdict_line(results.checks))
    return 1 if any(c.verdict == "failed" for c in results.checks) else 0


def verdict_line(checks: Sequence[Check]) -> str:
    """The verdict on everything: the last line of a run."""
    found = Counter(check.verdict for check in checks)
    return f"verdict: {found['held']} checks held, {found['failed']} failed, {found['skipped']} not judged"


def measure(
    lab: Lab,
    machine: Machine,
    boots: Sequence[plan.Boot],
    out: Path | None,
    *,
    append: str = "",
    model: timing.Model | None = None,
    short: bool = False,
) -> tuple[Results, Path]:
    """Run the plan, or what is left of it, and judge it.

    Args:
        model: modelled time, too, under these costs.
        short: do not judge the features' goals, which want more than a short run measures.

    Returns: what it found, and the folder that it is in.
    """
    if model and machine.accel != "tcg":
        raise UsageError("modelled time needs --accel tcg", remedy="leave one out: kvm has seconds of its own")
    if model:
        machine = replace(machine, slower=timing.clock_slowdown(machine.vcpus))
    # Everything is made before the first boot, so that no build disturbs a measurement.
    images = list(dict.fromkeys(b.image for b in boots))
    making = took.makings(lab, images)
    left = len(boots) - (left_over(boots, out) if out else 0)
    parts = [*(thing.part for thing in making), took.of_boots(boots, left), took.END]
    if not progress.quiet:
        say(f"this takes about {clock(took.expected(parts))}")
    for thing in making:
        with took.keeping(thing.part):
            thing.make(lab)
    guests = {image: lab.guest(image, machine, append=append, timing=model) for image in images}
    if model:  # who sleeps does so by a slow clock
        guests = {image: replace(guest_, limit_factor=TIMED * guest_.limit_factor) for image, guest_ in guests.items()}
    description = {
        **lab.describe(),
        "machine": asdict(machine),
        "append": append,
        "goals": not short,
        "metrics": modelled_metrics(model) if model else machine_metrics(machine.accel),
        **({"timing": asdict(model)} if model else {}),
    }
    # All that a number depends on: the paths are those of content-keyed entries.
    made = (f"{g.image} {g.initramfs} {g.disk} {g.plugin}" for g in guests.values())
    key = plan.plan_key(boots, repr(machine), append, lab.qemu.version, *made)
    with holding(out, key) as folder:
        for image in images:
            shutil.copyfile(lab.kernel(image).path / "config", folder / f"config-{image}")
        results = Results(__version__, lab.base.name, host(), settings=description)
        counted = machine.accel == "tcg"

        def one(boot: plan.Boot, place: Path, tell: Tell) -> Kept:
            return one_boot(lab, with_memory(guests[boot.image], boot), boot, place, tell, counted)

        title = f"running {len(boots)} guest{'s' * (len(boots) > 1)}, {machine.vcpus} vCPU{'s' * (machine.vcpus > 1)}"
        run_boots(results, boots, folder, title, machine.vcpus, seconds_metric(machine), one)
    return results, folder


def run_boots(
    results: Results,
    boots: Sequence[plan.Boot],
    folder: Path,
    title: str,
    vcpus: int,
    seconds: str,
    one: Callable[[plan.Boot, Path, Tell], Kept],
) -> None:
    """Run what is left of the plan, and judge it; results.json is written after each boot.

    Args:
        results: takes records and checks.
        folder: of the run, held; each boot has a folder in it.
        title: of the step that is shown.
        vcpus: of every boot.
        seconds: the metric that the programs' seconds are.
        one: runs a boot in its folder, see ``kept``.
    """
    measurements: list[dict[str, Any]] = []
    ended: dict[str, dict[int, int]] = {}
    left = left_over(boots, folder)
    started = time.monotonic()
    with progress.step(title) as step, took.keeping(took.of_boots(boots, len(boots) - left)):
        for number, boot in enumerate(boots, 1):

            def tell(text: str, number: int = number, boot: plan.Boot = boot) -> None:
                step.update(f"{number}/{len(boots)} {boot.name}: {job_name(boot, text)}")

            tell("booting")
            outcome = one(boot, folder / "boots" / boot.name, tell)
            measurements += outcome["measurements"]
            ended[boot.name] = {int(k): v for k, v in outcome["status"].items()}
            results.records = records_of(measurements, vcpus, seconds)
            results.checks = job_checks(boots[:number], ended) + step_checks(measurements)
            results.commands = list(dict.fromkeys(process.commands))
            results.settings["boots"] = f"{number} of {len(boots)}"
            cache.write_atomic(folder / "results.json", results.to_json())
        step.update(account(len(boots), left, time.monotonic() - started))
    from lull.judge import verdict

    verdict.judge(results, folder)
    cache.write_atomic(folder / "results.json", results.to_json())


def left_over(boots: Sequence[plan.Boot], folder: Path) -> int:
    """How many of these boots an interrupted command has completed."""
    return sum((folder / "boots" / boot.name / DONE).exists() for boot in boots)


def account(boots: int, left: int, seconds: float) -> str:
    """What was booted now, and what was there before (``left`` of ``boots``)."""
    count = boots - left
    note = f"{count} boot{'s' * (count != 1)} in {clock(seconds)}"
    return f"{note}, {left} kept from before" if left else note


def modelled_metrics(model: timing.Model) -> str:
    """What is measured under modelled time, for people."""
    return f"TLBIs, DSBs, IPIs and instructions counted exactly; seconds are modelled by the costs of {model.name}"


def with_memory(guest_: Guest, boot: plan.Boot) -> Guest:
    """The guest with as much memory as the boot's workloads need."""
    most = max(guest_.machine.memory_mib, boot.memory)
    return replace(guest_, machine=replace(guest_.machine, memory_mib=most))


def seconds_metric(machine: Machine) -> str:
    """Seconds under emulation are called that."""
    return "seconds_emulated" if machine.accel == "tcg" else "seconds"


def job_name(boot: plan.Boot, text: str) -> str:
    """``job 3`` as the name of the workload it runs."""
    for job in boot.jobs:
        if text == f"job {job.number}":
            return job.workload.name + (f" [{job.spec.name}]" if job.spec.settings else "")
    return text


def one_boot(lab: Lab, guest_: Guest, boot: plan.Boot, folder: Path, tell: Tell, counted: bool) -> Kept:
    """One boot of a guest, see ``kept``."""
    limits = plan.time_limits(boot, guest_.machine.vcpus)

    def launch() -> BootOutcome:
        return launch_retrying(guest_, lab.job_script(boot), folder, job_seconds=limits, tell=tell, say=say)

    return kept(boot, folder, counted, launch)


def kept(boot: plan.Boot, folder: Path, counted: bool, launch: Callable[[], BootOutcome]) -> Kept:
    """One boot's measurements, by ``launch`` now or read from what an interrupted run left. Raises GuestGarbage."""
    done = folder / DONE
    if done.exists():
        found: Kept = json.loads(done.read_text())
        return found
    outcome = launch()
    try:
        measurements = measured(boot, outcome, counted)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise GuestGarbage(
            f"{boot.name}: what the guest reported and what was counted do not fit together: {error!r}",
            where=str(folder),
        ) from error
    found = {
        "boot": boot.name,
        "kernel": outcome.kernel,
        "attempts": outcome.attempts,
        "status": outcome.status,
        "measurements": measurements,
    }
    cache.write_atomic(done, json.dumps(found, indent=1) + "\n")
    return found
