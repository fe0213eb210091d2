# SPDX-License-Identifier: GPL-2.0-only
"""Costs from what guest/calibrate.c measured: a fit in steps, each of one cost, and no answer where there is none.

The model is that of docs/timing.md. Of an operation of a CPU that is alone it makes

    insn * instructions + dsb * DSBs + tlbi * local TLBIs + waits * (tlbi + broadcast + latency)
        + (broadcast TLBIs - waits) * the greater of broadcast and of what issuing one takes

and of one of N CPUs at once the same, or N times what its broadcasts occupy of what they share, whichever is more.

What follows from that: **insn** and **dsb** are told by system calls without a flush and by DSBs with nothing pending;
**broadcast** by N CPUs, once they wait for nothing else; **tlbi** by batches whose TLBIs are local, or take longer to
issue than to serve; **latency** by what is left of a flush. On a stock kernel, where each TLBI is a broadcast and
serving it takes longer than issuing it, tlbi and latency are told as a sum only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lull.timing import Costs
from lull.timing.scale import Counts

TOLERANCE = 0.15
"""A cost is told when it is known to this share of itself, with 95 % confidence."""
FLOOR = 0.01
"""What no median of rounds is trusted beyond: clocks, caches and alignment differ by more from boot to boot."""
MIX = 0.15
"""How much a nanosecond per instruction may differ between a system call and what a flush adds to it, on hardware."""
CROWDED = 1.3
"""CPUs wait for each other when an operation takes so many times what it takes alone."""
ASSUMED_TLBI = 10.0
"""Stated for issuing a TLBI where it cannot be told: some tens of cycles."""
PLAIN, FLUSH, BATCHES, DSB = "plain", "flush", ("batch-511", "batch-512"), "dsb"


@dataclass(frozen=True)
class Measurement:
    """A case of the program.

    Args:
        case: its name.
        cpus: processes at once, each on a CPU.
        operations: of all of them together, in a window.
        seconds: of a window, one for each round.
        counts: of an operation on its CPU.
    """

    case: str
    cpus: int
    operations: float
    seconds: tuple[float, ...]
    counts: Counts

    @property
    def ns(self) -> float:
        """What an operation takes on its CPU: the median of the rounds."""
        return statistics.median(self.seconds) * 1e9 * self.cpus / self.operations

    @property
    def error(self) -> float:
        """The standard error of ``ns``, from how far apart the rounds are."""
        middle = statistics.median(self.seconds)
        apart = statistics.median(abs(s - middle) for s in self.seconds)
        # A median of n normal values, whose deviation is 1.4826 of what they are apart in the median.
        spread = 1.2533 * 1.4826 * apart / middle / math.sqrt(len(self.seconds))
        return self.ns * max(FLOOR, spread)


@dataclass(frozen=True)
class Estimate:
    """A cost as far as it is known.

    Args:
        value: in ns; what is stated where it cannot be told.
        error: its standard error, in ns; infinite where nothing is known.
        how: a sentence.
    """

    value: float
    error: float
    how: str

    @property
    def told(self) -> bool:
        """Whether the measurements tell it."""
        return self.value > 0 and 2 * self.error <= TOLERANCE * self.value

    def sentence(self) -> str:
        """Where the cost comes from, for its file."""
        if self.told:
            return f"calibrated: {self.how}; ± {2 * self.error:.2g} ns"
        limit = f"at most {self.value + 2 * self.error:.3g} ns, " if math.isfinite(self.error) else ""
        return f"cannot be told here, {limit}stated as {self.value:.3g} ns: {self.how}"


@dataclass(frozen=True)
class Residual:
    """What a measurement is by the fitted costs."""

    where: str
    measurement: Measurement
    modelled: float

    @property
    def off(self) -> float:
        """How far off the model is, as a share of what was measured."""
        return self.modelled / self.measurement.ns - 1


@dataclass(frozen=True)
class Fit:
    """Costs, how far each is known, and how well they say what was measured."""

    costs: Costs
    estimates: dict[str, Estimate]
    residuals: tuple[Residual, ...]


Cases = dict[str, Measurement]


def fit(broadcast: Sequence[Measurement], local: Sequence[Measurement] = (), mix: float = 0.0) -> Fit:
    """The costs that say what was measured.

    Args:
        broadcast: measured on a kernel whose flushes are broadcasts.
        local: the same where they are local: on a Lull kernel, with residency on.
        mix: how much a nanosecond per instruction may differ between pieces of code, as a share.

    Raises: ValueError when a case is missing that nothing can be told without.
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
    costs = Costs(**{name: max(0.0, estimate.value) for name, estimate in estimates.items()})
    where = {"": broadcast, "local ": local}
    residuals = (
        Residual(prefix + m.case, m, modelled(m, costs, gap(cases)))
        for (prefix, measured), cases in zip(where.items(), (far, near), strict=True)
        for m in measured
    )
    return Fit(costs, estimates, tuple(residuals))


def modelled(m: Measurement, costs: Costs, between: float) -> float:
    """What an operation of a measurement takes by the model, in ns.

    Args:
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
    """Instructions from one TLBI of a batch to the next, where batches were measured that have many."""
    if not all(case in cases for case in BATCHES):
        return 0.0
    many, few = (cases[case].counts for case in BATCHES)
    tlbis = many.tlbis - few.tlbis
    return max(0.0, many.insns - few.insns) / tlbis if tlbis > 0 else 0.0


def processor(passes: Sequence[Cases]) -> tuple[Estimate, Estimate]:
    """insn and dsb: two equations, of system calls without a flush and of DSBs with nothing to wait for.

    Several passes measured the same; they are averaged.
    """
    plain, barrier = (mean([cases[name] for cases in passes if name in cases]) for name in (PLAIN, DSB))
    (a, b), (c, d) = ((m.counts.insns, m.counts.dsbs) for m in (plain, barrier))
    determinant = a * d - b * c
    insn = (plain.ns * d - barrier.ns * b) / determinant
    dsb = (barrier.ns * a - plain.ns * c) / determinant
    return (
        Estimate(insn, math.hypot(plain.error * d, barrier.error * b) / determinant, f"{plain.ns:.4g} ns of a system "
                 f"call of {a:.4g} instructions, without a flush"),
        Estimate(dsb, math.hypot(barrier.error * a, plain.error * c) / determinant, "DSB ISH in a loop, with nothing "
                 "to wait for"),
    )  # fmt: skip


def mean(same: Sequence[Measurement]) -> Measurement:
    """One measurement for several of the same case: all rounds, each for one operation, and the mean of the counts."""
    rounds = tuple(s / m.operations for m in same for s in m.seconds)
    insns, dsb = (statistics.fmean(getattr(m.counts, name) for m in same) for name in ("insns", "dsbs"))
    return replace(same[0], operations=1, seconds=rounds, counts=replace(same[0].counts, insns=insns, dsbs=dsb))


@dataclass(frozen=True)
class Basis:
    """What is known of a CPU by itself, and what follows from it for TLBIs.

    Args:
        insn, dsb: costs.
        plain: instructions that insn was measured with.
        mix: see ``fit``.
    """

    insn: Estimate
    dsb: Estimate
    plain: float
    mix: float

    def rest(self, m: Measurement) -> tuple[float, float]:
        """What is left of an operation without its instructions and DSBs, in ns, and its error."""
        counts = m.counts
        error = math.hypot(
            m.error,
            self.insn.error * counts.insns,
            self.mix * self.insn.value * abs(counts.insns - self.plain),
            self.dsb.error * counts.dsbs,
        )
        return m.ns - self.insn.value * counts.insns - self.dsb.value * counts.dsbs, error

    def pair(self, cases: Cases) -> tuple[float, float, float] | None:
        """A TLBI of a batch, in ns: what it adds, the same without its instructions, the error; None without any."""
        if not all(case in cases for case in BATCHES):
            return None
        many, few = (cases[case] for case in BATCHES)
        tlbis = many.counts.tlbis - few.counts.tlbis
        if tlbis <= 0:
            return None
        own = self.insn.value * (many.counts.insns - few.counts.insns)
        error = math.hypot(many.error, few.error, self.mix * own)
        return (many.ns - few.ns) / tlbis, (many.ns - few.ns - own) / tlbis, error / tlbis

    def issued(self, near: Cases) -> Estimate | None:
        """tlbi, by TLBIs that are local: those of a batch or, where that is less sure, the one of a flush."""
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
        """broadcast: by CPUs that wait for each other; else by batches, when it is known what issuing takes."""
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
        """tlbi, by batches of broadcasts that take longer to issue than to serve."""
        pair = self.pair(far)
        if not pair or not shared.told or pair[0] - 2 * pair[2] <= (1 + TOLERANCE) * shared.value:
            return None
        return Estimate(pair[1], pair[2], "TLBIs of a batch, which take longer to issue than to serve")

    def remainder(self, far: Cases, shared: Estimate, tlbi: Estimate | None) -> tuple[Estimate, Estimate]:
        """tlbi and latency: a flush by a CPU alone waits for both, and for its broadcast."""
        counts = far[FLUSH].counts
        rest, error = self.rest(far[FLUSH])
        both = rest / counts.waits - shared.value * counts.broadcasts / counts.waits
        # What cannot be told of broadcast is in its sum with latency as a flush sees it: no error of that sum.
        unsure = shared.error if math.isfinite(shared.error) else 0.0
        error = math.hypot(error / counts.waits, unsure * counts.broadcasts / counts.waits)
        together = f"tlbi and latency are {max(0.0, both):.3g} ns together"
        unknown = f"broadcast is not told; with what is stated for it {together}"
        if tlbi:
            tlbi = replace(tlbi, value=max(0.0, tlbi.value))
            left = Estimate(max(0.0, both - tlbi.value), math.hypot(error, tlbi.error), "what is left of a flush alone")
            return tlbi, left if shared.told else replace(left, error=math.inf, how=unknown)
        stated = min(ASSUMED_TLBI, max(0.0, both))
        pair = self.pair(far)
        most = max(0.0, both) + 2 * error
        if pair is not None:
            most = min(most, pair[0] + 2 * pair[2])
        latency = Estimate(max(0.0, both - stated), math.hypot(error, most), f"{together} (± {2 * error:.2g})")
        if not shared.told:
            latency = replace(latency, error=math.inf, how=unknown)
        return Estimate(stated, max(0.0, most - stated) / 2, f"assumed; {together}"), latency


def proportional(crowded: Sequence[Measurement], unit: float) -> Estimate:
    """What one broadcast occupies, by CPUs that wait for nothing else: they take so much for each of them.

    Args:
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
