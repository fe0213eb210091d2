# SPDX-License-Identifier: GPL-2.0-only
"""What runs under modelled time say: how an operation's time grows with CPUs, and how near the published numbers are.

Two things are computed twice, and judged: what was run with 8 and more vCPUs must come out of the simulation
(lull.timing.scale) from its own counts, and what the costs were fitted to must come out of the runs. Other published
numbers test the model: how far off those are is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from lull.judge.goals import STOCK
from lull.judge.goals import verdict as word
from lull.judge.tables import number, ratio
from lull.run.records import Check, Results
from lull.timing import FLUSH, METRIC, RATIO, SAVING, SECONDS, WAITING, Costs, Figure, Model
from lull.timing.scale import Counts, simulate

SWEEP = "mprotect_pinned"
"""The workload that does the same on each CPU, so that it can be simulated for any number of them."""
STICKY, LULL = "lull+residency=sticky", "lull"
KERNELS = (STOCK, STICKY, LULL)
TOLERANCE = 0.10
JUDGED = 8
"""CPUs from which on the simulation must agree on STICKY, too: of some processes it knows one CPU, of others many, and
few of them are not like their average."""
BEYOND = (64, 128, 256, 512)
"""CPUs that are only simulated."""
ENOUGH = 500
"""Operations of each CPU that are simulated: the first of them, before which nobody waits, is one of many."""
QUIET = 4
"""vCPUs for what runs on one CPU: enough for everything else to be elsewhere."""


@dataclass(frozen=True)
class Measured:
    """A workload on a kernel, at one number of vCPUs: the repeat in the middle.

    Args:
        vcpus: of the guest.
        seconds: of an operation, as the CPU sees it that does it: the repeat in the middle.
        spread: the least and the most of the repeats.
        counts: of an operation, in that repeat.
        operations: of each CPU that works.
    """

    vcpus: int
    seconds: float
    spread: tuple[float, float]
    counts: Counts
    operations: int


@dataclass(frozen=True)
class Point:
    """An operation of SWEEP: modelled where that was run, and simulated from the counts of ``measured``."""

    kernel: str
    cpus: int
    measured: Measured
    simulated: float

    @property
    def modelled(self) -> float | None:
        """Seconds, when it was run with so many CPUs."""
        return self.measured.seconds if self.measured.vcpus == self.cpus else None

    @property
    def off(self) -> float | None:
        """The simulation's distance from the run, as a share."""
        return None if self.modelled is None else self.simulated / self.modelled - 1


@dataclass(frozen=True)
class Outcome:
    """A published number beside the model's: of the kernel it was published for, and of Lull. None: not measured."""

    figure: Figure
    modelled: float | None
    lull: float | None
    how: str

    @property
    def residual(self) -> float | None:
        """The model's distance from what was published, as a share."""
        return None if self.modelled is None else self.modelled / self.figure.published - 1


@dataclass(frozen=True)
class Evaluation:
    """Everything that is said of the runs."""

    model: Model
    points: tuple[Point, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    checks: tuple[Check, ...] = ()


def shown(figure: Figure, value: float) -> str:
    """A number of the figure's kind, for people."""
    if figure.measure == SAVING:
        return f"{value:.1%}"
    return ratio(value) if figure.measure == RATIO else number(value, "s")


def place(vcpus: Sequence[int], workload: str, cpus: int) -> int:
    """Which of the numbers of vCPUs a workload is looked at with, of which a figure says that it used ``cpus``."""
    if workload != SWEEP and cpus == 1:
        return min(vcpus, key=lambda several: (abs(several - QUIET), several))
    return max((several for several in vcpus if several <= cpus), default=min(vcpus))


def measured(results: Results, kernel: str, workload: str, vcpus: int, *, alone: bool) -> Measured | None:
    """What a run says of a workload; None when it does not have it.

    Args:
        alone: it works on one CPU: the instructions of others, which idle, are not its own. What they have of TLBIs
            and DSBs is not told apart; in swap_bench it is a hundredth.
    """
    series = {record.metric: record for record in results.find(kernel=kernel, workload=workload, vcpus=vcpus)}
    time = series.get(METRIC)
    if time is None or not time.values or not time.operations:
        return None
    middle = time.values.index(median_low(time.values))

    def each(*names: str) -> float:
        """How many an operation has, of the first of ``names`` that was counted."""
        found = next((series[name] for name in names if name in series), None)
        if found is None:
            raise ValueError(f"{workload} on {kernel} has {METRIC} and no {names[0]}: was it counted?")
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
    """Seconds of an operation on ``cpus`` CPUs, from what was counted.

    Args:
        waiting: for each broadcast, whatever the kernel that was counted does.
    """
    counts = found.counts.waiting_for_each() if waiting else found.counts
    operations = min(found.operations, ENOUGH)
    return simulate(costs, counts, cpus, operations) / operations / 1e9


def evaluate(model: Model, runs: Mapping[int, Results]) -> Evaluation:
    """Evaluate the runs, by their number of vCPUs. Raises ValueError for one whose windows were not counted."""
    points = sweep(model.costs, runs)
    outcomes = tuple(_outcome(figure, Estimates(model, runs)) for figure in model.figures)
    ran = [check for results in runs.values() for check in results.checks if check.verdict == "failed"]
    ran_so = (point for point in points if point.modelled is not None)
    agree = [_agrees(point) for point in ran_so if point.kernel != STICKY or point.cpus >= JUDGED]
    fitted = [_fits(outcome) for outcome in outcomes if outcome.figure.calibrated]
    return Evaluation(model, points, outcomes, (*ran, *agree, *fitted))


def sweep(costs: Costs, runs: Mapping[int, Results]) -> tuple[Point, ...]:
    """SWEEP on each kernel, with as many CPUs as were run, and beyond from the counts of the most."""
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
    """Seconds of an operation on a kernel, from a run where there is one, else from the simulation; and how."""

    def __init__(self, model: Model, runs: Mapping[int, Results]) -> None:
        self.costs = model.costs
        self.runs = runs
        self.how: dict[str, None] = {}
        """What the estimates that were asked for come from, in their order."""

    def of(self, figure: Figure, kernel: str, wait: str) -> float | None:
        """Seconds; None when it was not run, and cannot be simulated."""
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


def _outcome(figure: Figure, estimates: Estimates) -> Outcome:
    modelled = _value(figure, figure.kernel, figure.wait, estimates)
    how = "; ".join(estimates.how) or ("costs alone" if figure.measure == FLUSH else "not measured")
    other = None
    if figure.kernel == STOCK and figure.measure in (SECONDS, SAVING):
        other = _value(figure, LULL, "batch", estimates)
    return Outcome(figure, modelled, other, how)


def _value(figure: Figure, kernel: str, wait: str, estimates: Estimates) -> float | None:
    """What the model says a figure is."""
    if figure.measure == FLUSH:
        # As flush_tlb_page() does it: DSB ISHST, TLBI, DSB ISH.
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


def _fits(outcome: Outcome) -> Check:
    name = f"fitted: {outcome.figure.what}"
    if outcome.modelled is None or outcome.residual is None:
        return Check(name, "skipped", f"{outcome.figure.workload} was not measured")
    modelled, published = (shown(outcome.figure, value) for value in (outcome.modelled, outcome.figure.published))
    detail = f"{modelled}, published {published}: {outcome.residual:+.1%}"
    held = abs(outcome.residual) <= TOLERANCE
    return Check(name, word(held), f"{detail}, at most {TOLERANCE:.0%} is allowed")
