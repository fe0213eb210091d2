# SPDX-License-Identifier: GPL-2.0-only
"""Conduct what checks a timing model: a run for each number of vCPUs, then everything that they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lull import cache, plan
from lull.base import Base
from lull.errors import UsageError
from lull.guest.qemu import Machine
from lull.judge.goals import STOCK
from lull.lab import Lab
from lull.plan import Boot, Workload
from lull.run import experiment
from lull.run.records import Results
from lull.timing import Model
from lull.timing import evaluation as timing_eval
from lull.timing import report as timing_report
from lull.timing.evaluation import KERNELS, LULL, SWEEP, place


def plans(
    model: Model, base: Base, workloads: dict[str, Workload], vcpus: Sequence[int], repeat: int
) -> dict[int, list[Boot]]:
    """The boots for each number of vCPUs: the sweep's workload with each, a figure's with the one that serves it best.

    A figure's workload that is not of this suite is left out; so is a kernel that the base does not have.

    Raises: UsageError when that leaves nothing, or a figure names a kernel that does not exist.
    """
    wanted: dict[int, dict[str, set[str]]] = {number: {} for number in vcpus}
    if SWEEP in workloads:
        for number in vcpus:
            wanted[number][SWEEP] = {kernel for kernel in KERNELS if plan.is_known(kernel, base)}
    for figure in model.figures:
        if figure.workload in workloads:
            number = place(vcpus, figure.workload, figure.cpus)
            both = {kernel for kernel in (STOCK, LULL) if plan.is_known(kernel, base)}
            wanted[number].setdefault(figure.workload, set()).update(both, {figure.kernel})
    if not any(wanted.values()):
        raise UsageError(f"neither {SWEEP} nor a workload of {model.name}'s figures is in this suite")
    return {number: _boots(kernels, base, workloads, repeat) for number, kernels in wanted.items() if kernels}


def _boots(wanted: dict[str, set[str]], base: Base, workloads: dict[str, Workload], repeat: int) -> list[Boot]:
    """Boots of each image in each repeat; no second series of stock, as what is modelled has next to no noise."""
    order = [*KERNELS, *sorted({kernel for kernels in wanted.values() for kernel in kernels} - set(KERNELS))]
    pairs = [
        (workloads[name], plan.parse_spec(kernel, base))
        for name, kernels in wanted.items()
        for kernel in order
        if kernel in kernels
    ]
    images = dict.fromkeys(spec.image for _, spec in pairs)
    return plan.interleave(pairs, [(image, image) for image in images], repeat)


def conduct(lab: Lab, model: Model, planned: dict[int, list[Boot]], out: Path | None, *, as_json: bool) -> int:
    """Run everything, or what is left of it, evaluate and report. Returns 1 when a check failed."""
    key = cache.key_of(repr(model), *(plan.plan_key(boots, str(number)) for number, boots in planned.items()))
    with experiment.holding(out, key) as folder:
        runs: dict[int, Results] = {}
        for number, boots in planned.items():
            runs[number], _ = experiment.measure(
                lab, replace(Machine(), vcpus=number), boots, folder / f"vcpus-{number}", model=model
            )
        found = timing_eval.evaluate(model, runs)
        timing_report.write(found, folder)
    if as_json:
        print(timing_report.as_json(found), end="")
    else:
        timing_report.show(found, folder)
    return 1 if any(check.verdict == "failed" for check in found.checks) else 0


def tell(planned: dict[int, list[Boot]], *, as_json: bool) -> None:
    """Say what would be booted."""
    lines = [
        f"would boot {boot.image:6} ({boot.name}), {number} vCPUs: "
        + ", ".join(f"{job.workload.name} [{job.spec.name}]" for job in boot.jobs)
        for number, boots in planned.items()
        for boot in boots
    ]
    data = [{"vcpus": n, **boot} for n, boots in planned.items() for boot in plan.as_json(boots)]
    plan.show(lines, data, as_json=as_json)
