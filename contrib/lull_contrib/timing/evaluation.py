# SPDX-License-Identifier: GPL-2.0-only
"""Evaluate runs under modelled time: how an operation's time grows with CPUs, and how near published numbers are.

Two comparisons are judged. The simulation (module ``scale``), fed with the counts of a run, must give the run's time.
The model must give the published numbers that its costs were fitted to. Other published numbers test the model; their
difference is stated and not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from lull.base import load_base
from lull.judge.tables import number, ratio
from lull.judge.thresholds import STOCK
from lull.judge.thresholds import verdict as word
from lull.run.records import Check, Results
from lull.timing import FLUSH, METRIC, RATIO, SAVING, SECONDS, WAITING, CostModel, Costs, Figure
from lull_contrib.timing.scale import Counts, simulate

SWEEP = "mprotect_pinned"
"""The workload that does the same on each CPU, so that it can be simulated for any number of CPUs."""
(STICKY,), ALTERNATIVE, LULL = load_base().rival_policies(), "active_cpu", "lull"
KERNELS = (STOCK, STICKY, ALTERNATIVE, LULL)
TOLERANCE = 0.10
"""The difference, as a share, that a judged comparison may have."""
JUDGED = 8
"""The fewest CPUs with which the simulation is judged on STICKY and ALTERNATIVE. There, some processes have been
loaded on one CPU and broadcast nothing, others on many, and with few processes their average describes none of them."""
BEYOND = (64, 128, 256, 512)
"""Numbers of CPUs that are only simulated."""
ENOUGH = 500
"""The most operations of each CPU that are simulated. With so many, the first one, which waits for no other CPU, does
not matter."""
QUIET = 4
"""vCPUs for workloads that run on one CPU: other tasks find room on the others."""


@dataclass(frozen=True)
class Measured:
    """A workload on a kernel with one number of vCPUs.

    Args:
        vcpus: vCPUs of the guest.
        seconds: modelled seconds of an operation on the CPU that does it, in the repeat with the median time.
        spread: the smallest and the largest of these seconds among the repeats.
        counts: the counts of an operation, in the repeat with the median time.
        operations: operations of each CPU that works.
    """

    vcpus: int
    seconds: float
    spread: tuple[float, float]
    counts: Counts
    operations: int


@dataclass(frozen=True)
class Point:
    """The time of an operation of SWEEP on ``cpus`` CPUs.

    Args:
        measured: the run with so many CPUs or, beyond what was run, the run with the most CPUs.
        simulated: seconds, simulated from the counts of ``measured``.
    """

    kernel: str
    cpus: int
    measured: Measured
    simulated: float

    @property
    def modelled(self) -> float | None:
        """Modelled seconds; None when SWEEP was not run with so many CPUs."""
        return self.measured.seconds if self.measured.vcpus == self.cpus else None

    @property
    def off(self) -> float | None:
        """The difference of the simulation from the run, as a share of the run."""
        return None if self.modelled is None else self.simulated / self.modelled - 1


@dataclass(frozen=True)
class FigureOutcome:
    """A published number and the model's.

    Args:
        figure: the published number.
        modelled: the model's number for the figure's kernel; None: not measured.
        lull: the model's number for Lull, where the figure's kernel is stock; None: not measured, or no such number.
        how: what the model's numbers were computed from.
    """

    figure: Figure
    modelled: float | None
    lull: float | None
    how: str

    @property
    def residual(self) -> float | None:
        """The difference of the model's number from the published one, as a share of the latter."""
        return None if self.modelled is None else self.modelled / self.figure.published - 1


@dataclass(frozen=True)
class TimingEvaluation:
    """The results of an evaluation; ``checks`` are the comparisons that were judged, and failed checks of the runs."""

    model: CostModel
    points: tuple[Point, ...] = ()
    outcomes: tuple[FigureOutcome, ...] = ()
    checks: tuple[Check, ...] = ()


def shown(figure: Figure, value: float) -> str:
    """``value`` as text, in the unit of the figure."""
    if figure.measure == SAVING:
        return f"{value:.1%}"
    return ratio(value) if figure.measure == RATIO else number(value, "s")


def place(vcpus: Sequence[int], workload: str, cpus: int) -> int:
    """The number of vCPUs, among ``vcpus``, with which a workload is run whose figure used ``cpus`` CPUs.

    A workload on one CPU runs with the number nearest to QUIET, others with the largest that is at most ``cpus``.
    """
    if workload != SWEEP and cpus == 1:
        return min(vcpus, key=lambda several: (abs(several - QUIET), several))
    return max((several for several in vcpus if several <= cpus), default=min(vcpus))


def measured(results: Results, kernel: str, workload: str, vcpus: int, *, alone: bool) -> Measured | None:
    """A workload's time and counts in a run; None when the run does not have it.

    Args:
        alone: the workload works on one CPU, so that instructions of other CPUs, which idle, do not count. TLBIs and
            DSBs of other CPUs do count, because they are not known separately; in swap_bench they are 1 %.

    Raises: ValueError when the run has modelled time but no counts.
    """
    series = {record.metric: record for record in results.find(kernel=kernel, workload=workload, vcpus=vcpus)}
    time = series.get(METRIC)
    if time is None or not time.values or not time.operations:
        return None
    middle = time.values.index(median_low(time.values))

    def each(*names: str) -> float:
        """The count per operation of the first metric among ``names`` that the run has."""
        found = next((series[name] for name in names if name in series), None)
        if found is None:
            raise ValueError(f"{workload} on {kernel} has {METRIC} but no {names[0]}: it was not counted")
        return found.values[middle] / time.operations

    kinds = [name for name in series if name.startswith("dsb_")]
    waiting = [f"dsb_{kind}" for kind in WAITING if f"dsb_{kind}" in series]
    counts = Counts(
        insns=each("insns_own") if alone else each("insns_work", "insns"),
        tlbis=each("tlbi_broadcast") + each("tlbi_local"),
        broadcasts=each("tlbi_broadcast"),
        waits=sum(each(kind) for kind in waiting),
        dsbs=sum(each(kind) for kind in kinds),
    )
    working = vcpus if workload == SWEEP else 1
    seconds = [value * working / time.operations for value in time.values]
    operations = max(1, time.operations // working)
    return Measured(vcpus, seconds[middle], (min(seconds), max(seconds)), counts, operations)


def simulated(costs: Costs, found: Measured, cpus: int, *, waiting: bool = False) -> float:
    """Seconds of an operation on ``cpus`` CPUs, simulated from the counts of ``found``.

    Args:
        waiting: simulate a kernel that waits for each broadcast, even if the kernel that was counted does not.
    """
    counts = found.counts.waiting_for_each() if waiting else found.counts
    operations = min(found.operations, ENOUGH)
    return simulate(costs, counts, cpus, operations) / operations / 1e9


def evaluate(model: CostModel, runs: Mapping[int, Results]) -> TimingEvaluation:
    """Evaluate runs.

    Args:
        runs: number of vCPUs -> its results.

    Raises: ValueError for a run whose windows were not counted.
    """
    points = sweep(model.costs, runs)
    outcomes = tuple(_outcome(figure, Estimates(model, runs)) for figure in model.figures)
    ran = [check for results in runs.values() for check in results.checks if check.verdict == "failed"]
    ran_so = (point for point in points if point.modelled is not None)
    agree = [_agrees(point) for point in ran_so if point.kernel not in (STICKY, ALTERNATIVE) or point.cpus >= JUDGED]
    fitted = [_fits(outcome) for outcome in outcomes if outcome.figure.calibrated]
    return TimingEvaluation(model, points, outcomes, (*ran, *agree, *fitted))


def sweep(costs: Costs, runs: Mapping[int, Results]) -> tuple[Point, ...]:
    """The points of SWEEP on each kernel: with each number of CPUs that was run, and with those BEYOND.

    The latter are simulated from the counts of the run with the most CPUs.
    """
    points = []
    for kernel in KERNELS:
        found = [measured(runs[vcpus], kernel, SWEEP, vcpus, alone=False) for vcpus in sorted(runs)]
        ran = [one for one in found if one is not None]
        points += [Point(kernel, one.vcpus, one, simulated(costs, one, one.vcpus)) for one in ran]
        for cpus in BEYOND:
            if ran and cpus > ran[-1].vcpus:
                points.append(Point(kernel, cpus, ran[-1], simulated(costs, ran[-1], cpus)))
    return tuple(points)


class Estimates:
    """Estimates seconds of operations: from a run if there is one, else by simulation; ``how`` says which."""

    def __init__(self, model: CostModel, runs: Mapping[int, Results]) -> None:
        self.costs = model.costs
        self.runs = runs
        self.how: dict[str, None] = {}
        """The sources of the estimates that were asked for, in the order of asking."""

    def of(self, figure: Figure, kernel: str, wait: str) -> float | None:
        """Seconds of an operation of the figure's workload on ``kernel``; None when neither run nor simulation has it.

        Args:
            wait: ``each`` or ``batch``, as in Figure.
        """
        if not self.runs:
            return None
        cpus, same = figure.cpus, figure.workload == SWEEP
        vcpus = place(sorted(self.runs), figure.workload, cpus)
        alone = not same and cpus == 1
        found = measured(self.runs[vcpus], kernel, figure.workload, vcpus, alone=alone)
        if found is None or not (same or alone or vcpus == cpus or figure.measure == RATIO):
            return None
        if wait == "each" or (same and vcpus != cpus):
            self.how[f"simulated for {cpus} CPU{'s' * (cpus > 1)} from a run of {vcpus} vCPUs"] = None
            return simulated(self.costs, found, cpus, waiting=wait == "each")
        self.how[f"run of {vcpus} vCPUs"] = None
        return found.seconds


def _outcome(figure: Figure, estimates: Estimates) -> FigureOutcome:
    modelled = _value(figure, figure.kernel, figure.wait, estimates)
    how = "; ".join(estimates.how) or ("costs alone" if figure.measure == FLUSH else "not measured")
    other = None
    if figure.kernel == STOCK and figure.measure in (SECONDS, SAVING):
        other = _value(figure, LULL, "batch", estimates)
    return FigureOutcome(figure, modelled, other, how)


def _value(figure: Figure, kernel: str, wait: str, estimates: Estimates) -> float | None:
    """The model's number for a figure, on ``kernel``; None when it was not measured."""
    if figure.measure == FLUSH:
        # The instructions of flush_tlb_page(): DSB ISHST, TLBI, DSB ISH.
        flush = Counts(insns=0, tlbis=1, broadcasts=1, waits=1, dsbs=2)
        return simulate(estimates.costs, flush, 1, 1) / 1e9
    one = estimates.of(figure, kernel, wait)
    if one is None:
        return None
    if figure.measure == SECONDS:
        return one * figure.operations / (figure.cpus if figure.workload == SWEEP else 1)
    if figure.measure == SAVING:
        before = estimates.of(figure, STOCK, "each")
        return None if before is None else 1 - one / before
    stock = estimates.of(figure, STOCK, "batch")
    return None if stock is None else stock / one


def _agrees(point: Point) -> Check:
    name = f"simulation: {point.kernel} on {point.cpus} CPU{'s' * (point.cpus > 1)}"
    modelled, off = point.measured.seconds, point.simulated / point.measured.seconds - 1
    detail = f"{number(point.simulated, 's')} an mprotect, the run {number(modelled, 's')}: {off:+.1%}"
    return Check(name, word(abs(off) <= TOLERANCE), f"{detail}, at most {TOLERANCE:.0%} is allowed")


def _fits(outcome: FigureOutcome) -> Check:
    name = f"fitted: {outcome.figure.what}"
    if outcome.modelled is None or outcome.residual is None:
        return Check(name, "skipped", f"{outcome.figure.workload} was not measured")
    modelled, published = (shown(outcome.figure, value) for value in (outcome.modelled, outcome.figure.published))
    detail = f"{modelled}, published {published}: {outcome.residual:+.1%}"
    passed = abs(outcome.residual) <= TOLERANCE
    return Check(name, word(passed), f"{detail}, at most {TOLERANCE:.0%} is allowed")
