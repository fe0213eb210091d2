# SPDX-License-Identifier: GPL-2.0-only
"""`lull timing`: run the workloads that test a timing model, with each number of vCPUs, and evaluate them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lull import cache, plan
from lull.base import Base
from lull.errors import UsageError
from lull.guest.qemu import Machine
from lull.judge.thresholds import STOCK
from lull.lab import Lab
from lull.plan import Boot, Workload
from lull.progress import print_result
from lull.run import experiment
from lull.run.loop import holding
from lull.run.records import Results
from lull.timing import CostModel
from lull_contrib.timing import evaluation as timing_eval
from lull_contrib.timing import evaluation_output
from lull_contrib.timing.evaluation import KERNELS, LULL, SWEEP, place


def plans(
    model: CostModel, base: Base, workloads: dict[str, Workload], vcpus: Sequence[int], repeat: int
) -> dict[int, list[Boot]]:
    """Number of vCPUs -> its boots.

    The workload SWEEP runs with each number, and the workload of a figure with the number that ``place`` chooses. Left
    out are workloads that are not in ``workloads``, and those of KERNELS that the base does not have.

    Raises: UsageError when nothing is left, or a figure names a kernel that does not exist.
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
        raise UsageError(
            f"neither {SWEEP} nor a workload of {model.name}'s figures is in this suite",
            remedy="choose another one with --suite",
        )
    return {number: _boots(kernels, base, workloads, repeat) for number, kernels in wanted.items() if kernels}


def _boots(wanted: dict[str, set[str]], base: Base, workloads: dict[str, Workload], repeat: int) -> list[Boot]:
    """The boots of each image in each repeat. There is no A/A control, because modelled time has almost no noise."""
    order = [*KERNELS, *sorted({kernel for kernels in wanted.values() for kernel in kernels} - set(KERNELS))]
    pairs = [
        (workloads[name], plan.parse_spec(kernel, base))
        for name, kernels in wanted.items()
        for kernel in order
        if kernel in kernels
    ]
    images = dict.fromkeys(spec.image for _, spec in pairs)
    return plan.interleave(pairs, [(image, image) for image in images], repeat)


def do_timing(lab: Lab, model: CostModel, planned: dict[int, list[Boot]], out: Path | None, *, as_json: bool) -> int:
    """Do all runs, or those that an interrupted command left, evaluate them, and print and write the results.

    Args:
        planned: number of vCPUs -> its boots (``plans``).
        out: the folder of the results; None: a new one in ./results.
        as_json: print timing.json instead of the tables.

    Returns: the exit status: 1 when a check failed, else 0.
    """
    key = cache.key_of(repr(model), *(plan.plan_key(boots, str(number)) for number, boots in planned.items()))
    with holding(out, key) as folder:
        runs: dict[int, Results] = {}
        for number, boots in planned.items():
            place, machine = folder / f"vcpus-{number}", replace(Machine(), vcpus=number)
            runs[number] = experiment.measure(lab, machine, boots, place, experiment.How(model=model)).results
        found = timing_eval.evaluate(model, runs)
        evaluation_output.write(found, folder)
    if as_json:
        print(evaluation_output.as_json(found), end="")
    else:
        evaluation_output.print_evaluation(found, folder)
    return 1 if any(check.verdict == "failed" for check in found.checks) else 0


def tell(planned: dict[int, list[Boot]], *, as_json: bool) -> None:
    """Print the boots that ``conduct`` would do."""
    lines = [
        f"would boot {boot.image:6} ({boot.name}), {number} vCPUs: "
        + ", ".join(f"{job.workload.name} [{job.spec.name}]" for job in boot.jobs)
        for number, boots in planned.items()
        for boot in boots
    ]
    data = [{"vcpus": n, **boot} for n, boots in planned.items() for boot in plan.as_json(boots)]
    print_result(lines, data, as_json=as_json)
