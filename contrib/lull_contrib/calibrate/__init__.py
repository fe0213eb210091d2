# SPDX-License-Identifier: GPL-2.0-only
"""Fit the costs of a machine to what guest/calibrate.c measured on it, for `lull calibrate`.

Each step fits one cost. A cost that the measurements do not determine is stated as unknown.

The model is that of docs/timing.md. The time of an operation on one CPU, while no other CPU flushes, is

    insn * instructions + dsb * DSBs + tlbi * local TLBIs + waits * (tlbi + broadcast + latency)
        + (broadcast TLBIs - waits) * max(broadcast, time to issue one)

With N CPUs at once, the time of an operation is the larger of this and of N times the time for which its broadcasts
occupy the resource that all CPUs share.

The costs are determined as follows:

* **insn** and **dsb**: by system calls without a flush, and by DSBs with nothing to wait for.
* **broadcast**: by N CPUs that flush at once, when N is so large that they wait for nothing but each other.
* **tlbi**: by batches of TLBIs that are local, or that take longer to issue than to serve.
* **latency**: by what is left of the time of a flush.
* **walk**, which is no part of an operation's time: by loads that need page walks, and as many that need none.

On a stock kernel each TLBI is a broadcast. Where serving one takes longer than issuing it, only the sum of tlbi and
latency can be determined.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lull.timing import Costs
from lull_contrib.timing.scale import Counts

TOLERANCE = 0.15
"""The measurements determine a cost (``Estimate.told``) when the 95 % confidence interval extends at most this share of
the cost to either side."""
FLOOR = 0.01
"""The least relative error of a measurement: clocks, caches and alignment differ by more than this between boots."""
MIX = 0.15
"""On hardware, the time per instruction may differ by this share between a system call and what a flush adds to it."""
CROWDED = 1.3
"""CPUs wait for each other when an operation takes this many times as long as on one CPU alone."""
ASSUMED_TLBI = 10.0
"""Nanoseconds that are assumed for issuing a TLBI where the measurements do not determine it: some tens of cycles."""
PLAIN, FLUSH, BATCHES, DSB = "plain", "flush", ("batch-511", "batch-512"), "dsb"
CHAINS = ("lines", "pages")
"""The cases of loads: from cache lines, many to a page, and from lines each of which is in a page of its own."""


@dataclass(frozen=True)
class Measurement:
    """The measurement of one case of guest/calibrate.c.

    Args:
        case: the name of the case.
        cpus: processes that ran at once, each on a CPU of its own.
        operations: operations of a window, of all processes together.
        seconds: the seconds of a window, for each round.
        counts: what one operation executes on its CPU.
    """

    case: str
    cpus: int
    operations: float
    seconds: tuple[float, ...]
    counts: Counts

    @property
    def ns(self) -> float:
        """Nanoseconds of an operation on its CPU: the median of the rounds."""
        return statistics.median(self.seconds) * 1e9 * self.cpus / self.operations

    @property
    def error(self) -> float:
        """The standard error of ``ns``, from the spread of the rounds."""
        middle = statistics.median(self.seconds)
        apart = statistics.median(abs(s - middle) for s in self.seconds)
        # For normal values, the standard deviation is 1.4826 times the median absolute deviation, and the standard
        # error of the median of n values is 1.2533 times the standard deviation / sqrt(n).
        spread = 1.2533 * 1.4826 * apart / middle / math.sqrt(len(self.seconds))
        return self.ns * max(FLOOR, spread)


@dataclass(frozen=True)
class Estimate:
    """A cost, and how well it is known.

    Args:
        value: nanoseconds; an assumed value or a bound where the measurements do not determine the cost.
        error: the standard error in nanoseconds; infinite where nothing is known.
        how: a sentence on what the value comes from.
    """

    value: float
    error: float
    how: str

    @property
    def told(self) -> bool:
        """True if the measurements determine the cost to TOLERANCE."""
        return self.value > 0 and 2 * self.error <= TOLERANCE * self.value

    def sentence(self) -> str:
        """The sentence on the source of the cost in a cost file."""
        if self.told:
            return f"calibrated: {self.how}; ± {2 * self.error:.2g} ns"
        limit = f"at most {self.value + 2 * self.error:.3g} ns, " if math.isfinite(self.error) else ""
        return f"cannot be told here, {limit}stated as {self.value:.3g} ns: {self.how}"


@dataclass(frozen=True)
class Residual:
    """A measurement beside the time, in nanoseconds, that the fitted costs give for it."""

    where: str
    measurement: Measurement
    modelled: float

    @property
    def off(self) -> float:
        """The difference of the model from the measurement, as a share of the measurement."""
        return self.modelled / self.measurement.ns - 1


@dataclass(frozen=True)
class Fit:
    """The fitted costs, an estimate for each of them, and the residuals of the measurements."""

    costs: Costs
    estimates: dict[str, Estimate]
    residuals: tuple[Residual, ...]


def as_json(found: Fit) -> Mapping[str, Any]:
    """The fit, with each measurement."""
    return {
        "costs": asdict(found.costs),
        "told": {name: estimate.told for name, estimate in found.estimates.items()},
        "sources": {name: estimate.sentence() for name, estimate in found.estimates.items()},
        "measurements": [
            {"where": r.where, "ns": r.measurement.ns, "modelled": r.modelled, "counts": asdict(r.measurement.counts)}
            for r in found.residuals
        ],
    }


Cases = dict[str, Measurement]
"""Name of a case -> its measurement."""


def fit(broadcast: Sequence[Measurement], local: Sequence[Measurement] = (), mix: float = 0.0) -> Fit:
    """Fit the costs to measurements.

    Args:
        broadcast: measurements on a kernel whose flushes are broadcasts.
        local: measurements where flushes are local: on a Lull kernel with residency on.
        mix: the share by which the time per instruction may differ between pieces of code.

    Raises: ValueError when one of the cases ``plain``, ``flush`` and ``dsb`` is missing.
    """
    far, near = ({m.case: m for m in measured} for measured in (broadcast, local))
    missing = [case for case in (PLAIN, FLUSH, DSB) if case not in far]
    if missing:
        raise ValueError(f"the case {missing[0]} was not measured")
    insn, dsb = processor([c for c in (far, near) if c])
    basis = Basis(insn, dsb, far[PLAIN].counts.insns, mix)
    tlbi = basis.issued(near)
    shared = basis.occupied(far, tlbi)
    tlbi = tlbi if tlbi and tlbi.told else basis.issue_bound(far, shared) or tlbi
    tlbi, latency = basis.remainder(far, shared, tlbi)
    estimates = {"insn": insn, "tlbi": tlbi, "broadcast": shared, "latency": latency, "dsb": dsb}
    estimates |= walks([c for c in (far, near) if all(name in c for name in CHAINS)])
    costs = Costs(**{name: max(0.0, estimate.value) for name, estimate in estimates.items()})
    where = {"": broadcast, "local ": local}
    residuals = (
        Residual(prefix + m.case, m, modelled(m, costs, gap(cases)))
        for (prefix, measured), cases in zip(where.items(), (far, near), strict=True)
        for m in measured
        if m.case not in CHAINS
    )
    return Fit(costs, estimates, tuple(residuals))


def modelled(m: Measurement, costs: Costs, between: float) -> float:
    """Nanoseconds of an operation by the model.

    Args:
        m: the measurement with the operation's counts.
        between: instructions from one TLBI of a batch to the next.
    """
    counts = m.counts
    queued = max(0.0, counts.broadcasts - counts.waits)
    issue = costs.tlbi + between * costs.insn
    alone = costs.insn * (counts.insns - queued * between) + costs.dsb * counts.dsbs
    alone += costs.tlbi * (counts.tlbis - counts.broadcasts)
    alone += counts.waits * (costs.tlbi + costs.broadcast + costs.latency) + queued * max(costs.broadcast, issue)
    return max(alone, m.cpus * counts.broadcasts * costs.broadcast)


def gap(cases: Cases) -> float:
    """Instructions from one TLBI of a batch to the next; 0 when no batches of many TLBIs were measured."""
    found = batches(cases)
    return max(0.0, found[0].counts.insns - found[1].counts.insns) / found[2] if found else 0.0


def batches(cases: Cases) -> tuple[Measurement, Measurement, float] | None:
    """The batches of many and of few TLBIs, and by how many TLBIs they differ; None when these were not measured."""
    if not all(case in cases for case in BATCHES):
        return None
    many, few = (cases[case] for case in BATCHES)
    tlbis = many.counts.tlbis - few.counts.tlbis
    return (many, few, tlbis) if tlbis > 0 else None


def processor(passes: Sequence[Cases]) -> tuple[Estimate, Estimate]:
    """Estimate insn and dsb from two equations: system calls without a flush, and DSBs with nothing to wait for.

    Args:
        passes: the measurements on each kernel. Both kernels do the same in these cases: they are averaged.
    """
    plain, barrier = (mean([cases[name] for cases in passes if name in cases]) for name in (PLAIN, DSB))
    (a, b), (c, d) = ((m.counts.insns, m.counts.dsbs) for m in (plain, barrier))
    determinant = a * d - b * c
    insn = (plain.ns * d - barrier.ns * b) / determinant
    dsb = (barrier.ns * a - plain.ns * c) / determinant
    insn_error = math.hypot(plain.error * d, barrier.error * b) / determinant
    dsb_error = math.hypot(barrier.error * a, plain.error * c) / determinant
    how = f"{plain.ns:.4g} ns of a system call of {a:.4g} instructions, without a flush"
    return Estimate(insn, insn_error, how), Estimate(dsb, dsb_error, "DSB ISH in a loop, with nothing to wait for")


def walks(passes: Sequence[Cases]) -> dict[str, Estimate]:
    """Estimate walk; empty when no loads were measured.

    Args:
        passes: the measurements on each kernel with loads. Both kernels do the same in these cases: they are averaged.
    """
    if not passes:
        return {}
    lines, pages = (mean([cases[name] for cases in passes]) for name in CHAINS)
    how = f"a load from a page of its own takes {pages.ns:.3g} ns, one from a page of many {lines.ns:.3g}; or more, if "
    how += "the TLB holds a part of the pages"
    return {"walk": Estimate(max(0.0, pages.ns - lines.ns), math.hypot(pages.error, lines.error), how)}


def mean(same: Sequence[Measurement]) -> Measurement:
    """One measurement from several of the same case: all their rounds, per operation, and the mean of their counts."""
    rounds = tuple(s / m.operations for m in same for s in m.seconds)
    insns, dsb = (statistics.fmean(getattr(m.counts, name) for m in same) for name in ("insns", "dsbs"))
    return replace(same[0], operations=1, seconds=rounds, counts=replace(same[0].counts, insns=insns, dsbs=dsb))


@dataclass(frozen=True)
class Basis:
    """The costs of a CPU that does not flush, and the estimates of TLBI costs that build on them.

    Args:
        insn, dsb: the estimates of these costs.
        plain: instructions of the operation that insn was measured with.
        mix: as in ``fit``.
    """

    insn: Estimate
    dsb: Estimate
    plain: float
    mix: float

    def rest(self, m: Measurement) -> tuple[float, float]:
        """Nanoseconds of an operation minus those of its instructions and DSBs, and the standard error."""
        counts = m.counts
        error = math.hypot(
            m.error,
            self.insn.error * counts.insns,
            self.mix * self.insn.value * abs(counts.insns - self.plain),
            self.dsb.error * counts.dsbs,
        )
        return m.ns - self.insn.value * counts.insns - self.dsb.value * counts.dsbs, error

    def pair(self, cases: Cases) -> tuple[float, float, float] | None:
        """Nanoseconds that a TLBI adds to a batch, the same without those of its instructions, and the standard error.

        None when no batches of many TLBIs were measured.
        """
        found = batches(cases)
        if not found:
            return None
        many, few, tlbis = found
        own = self.insn.value * (many.counts.insns - few.counts.insns)
        error = math.hypot(many.error, few.error, self.mix * own)
        return (many.ns - few.ns) / tlbis, (many.ns - few.ns - own) / tlbis, error / tlbis

    def issued(self, near: Cases) -> Estimate | None:
        """Estimate tlbi from local TLBIs: those of a batch or that of a flush, whichever has the smaller error."""
        found: list[Estimate] = []
        pair = self.pair(near)
        if pair:
            found.append(Estimate(pair[1], pair[2], "local TLBIs of a batch"))
        if FLUSH in near and near[FLUSH].counts.tlbis:
            rest, error = self.rest(near[FLUSH])
            tlbis = near[FLUSH].counts.tlbis
            found.append(Estimate(rest / tlbis, error / tlbis, "what a local flush adds to its instructions and DSBs"))
        return min(found, key=lambda e: e.error, default=None)

    def occupied(self, far: Cases, tlbi: Estimate | None) -> Estimate:
        """Estimate broadcast: from CPUs that wait for each other, or else from batches, when tlbi is known.

        Where neither determines it, the estimate is an upper bound with an infinite error.
        """
        crowd = [m for m in far.values() if m.cpus > 1]
        unit = far[FLUSH].counts.broadcasts
        crowded = [m for m in crowd if m.ns > CROWDED * far[FLUSH].ns]
        if crowded:
            return proportional(crowded, unit)
        pair = self.pair(far)
        if pair and tlbi and tlbi.told:
            issuing = tlbi.value + gap(far) * self.insn.value
            if pair[0] - 2 * pair[2] > (1 + TOLERANCE) * issuing:
                return Estimate(pair[0], pair[2], "TLBIs of a batch, which take longer to serve than to issue")
        issuing = tlbi.value if tlbi and tlbi.told else 0.0
        limits = [self.rest(far[FLUSH])[0] / unit - issuing, *(m.ns / m.cpus / unit for m in crowd)]
        limits += [pair[0]] if pair else []
        many = max((m.cpus for m in crowd), default=1)
        how = f"the most it can be; {many} CPUs that flush at once do not wait for each other"
        return Estimate(max(0.0, min(limits)), math.inf, how)

    def issue_bound(self, far: Cases, shared: Estimate) -> Estimate | None:
        """Estimate tlbi from batches of broadcasts that take longer to issue than to serve; None without such."""
        pair = self.pair(far)
        if not pair or not shared.told or pair[0] - 2 * pair[2] <= (1 + TOLERANCE) * shared.value:
            return None
        return Estimate(pair[1], pair[2], "TLBIs of a batch, which take longer to issue than to serve")

    def remainder(self, far: Cases, shared: Estimate, tlbi: Estimate | None) -> tuple[Estimate, Estimate]:
        """Estimate tlbi and latency: the time of a flush by one CPU alone has both of them, and broadcast."""
        counts = far[FLUSH].counts
        rest, error = self.rest(far[FLUSH])
        both = rest / counts.waits - shared.value * counts.broadcasts / counts.waits
        # An unknown broadcast shifts time between itself and latency, but does not change their sum, which a flush
        # measures: do not add its infinite error.
        unsure = shared.error if math.isfinite(shared.error) else 0.0
        error = math.hypot(error / counts.waits, unsure * counts.broadcasts / counts.waits)
        together = f"tlbi and latency are {max(0.0, both):.3g} ns together"
        unknown = f"broadcast is not told; with what is stated for it {together}"
        if tlbi:
            tlbi = replace(tlbi, value=max(0.0, tlbi.value))
            left = Estimate(max(0.0, both - tlbi.value), math.hypot(error, tlbi.error), "what is left of a flush alone")
        else:
            stated = min(ASSUMED_TLBI, max(0.0, both))
            pair = self.pair(far)
            most = min(max(0.0, both) + 2 * error, pair[0] + 2 * pair[2] if pair else math.inf)
            tlbi = Estimate(stated, max(0.0, most - stated) / 2, f"assumed; {together}")
            left = Estimate(max(0.0, both - stated), math.hypot(error, most), f"{together} (± {2 * error:.2g})")
        return tlbi, left if shared.told else replace(left, error=math.inf, how=unknown)


def proportional(crowded: Sequence[Measurement], unit: float) -> Estimate:
    """Estimate broadcast from CPUs that only wait for each other: their time is proportional to their number.

    Args:
        crowded: measurements with different numbers of CPUs.
        unit: broadcasts of an operation.
    """
    x = [m.cpus * unit for m in crowded]
    squares = sum(v * v for v in x)
    slope = sum(v * m.ns for v, m in zip(x, crowded, strict=True)) / squares
    known = math.sqrt(sum((v * m.error) ** 2 for v, m in zip(x, crowded, strict=True))) / squares
    off = sum((m.ns - slope * v) ** 2 for v, m in zip(x, crowded, strict=True))
    scatter = math.sqrt(off / (len(x) - 1) / squares) if len(x) > 1 else 0.0
    numbers = ", ".join(str(m.cpus) for m in crowded)
    return Estimate(slope, max(known, scatter), f"flushes on {numbers} CPUs at once: this for each of the CPUs")
