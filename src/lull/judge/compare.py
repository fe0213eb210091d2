# SPDX-License-Identifier: GPL-2.0-only
"""The comparison of kernels as data: what tables, the report and the exit code are made of."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lull.judge import stats
from lull.run.records import COUNT_UNIT, Check, Record, Results

BASELINE = "stock"
CONTROL_SUFFIX = ".control"
CONTROL_CHECK = "A/A control"
# The control fails when chance alone does as much in fewer than this share of runs.
CONTROL_ALPHA = 0.01
# All ways to share out the repeats when they are few (7 + 7: 3432), else a random sample of this
# many.
MAX_SPLITS = 4000
SPLIT_SEED = 2018


@dataclass(frozen=True)
class Summary:
    """A series of repeats: its median, in the record's unit, with the median's interval."""

    repeats: int
    median: float
    interval: stats.Interval

    @classmethod
    def of(cls, values: Sequence[float], confidence: float = stats.CONFIDENCE) -> Summary:
        """Summarise ``values``. Raises ValueError when they are empty, NaN or infinite."""
        return cls(len(values), stats.median(values), stats.median_interval(values, confidence))

    @property
    def half_width(self) -> float | None:
        """The further end of the interval from the median, as a fraction of it; None at 0."""
        if self.median == 0:
            return 0.0 if self.interval.low == self.interval.high else None
        ends = (self.interval.high - self.median, self.median - self.interval.low)
        return max(ends) / abs(self.median)


@dataclass(frozen=True)
class Row:
    """One metric of one workload: the baseline against one other kernel.

    Args:
        kernel: the other kernel.
        workload, vcpus, metric, unit, operations, operation: as in the records.
        baseline, other: their values, of a whole window.
        effect: other against baseline.
        p_holm: the effect's p corrected for all comparisons made with this kernel; None without p.
    """

    kernel: str
    workload: str
    vcpus: int
    metric: str
    unit: str
    operations: int
    operation: str
    baseline: Summary
    other: Summary
    effect: stats.Effect
    p_holm: float | None = None

    def per_operation(self, value: float) -> float:
        """A window's value divided by its operations; as it is when the workload has none."""
        return value / self.operations if self.operations > 0 else value


@dataclass(frozen=True)
class GeoMean:
    """Geometric mean of a metric's ratios over the workloads, ``used`` of them.

    ``left_out`` counts the workloads with a zero, which have no ratio. ``ratio`` is None when
    nothing is left.
    """

    kernel: str
    metric: str
    vcpus: int
    ratio: float | None
    used: int
    left_out: int


@dataclass(frozen=True)
class Control:
    """The baseline against a second series of itself: any difference here is a false finding."""

    rows: tuple[Row, ...]
    check: Check


@dataclass(frozen=True)
class Comparison:
    """All of a run's comparisons.

    Args:
        baseline: the kernel the others are compared with.
        kernels: the others, in the order measured.
        rows: in the order of the records, kernel by kernel within one metric.
        geomeans: one per kernel, vcpus and metric.
        control: the A/A control.
        problems: what could not be compared, and why, a sentence each.
        confidence: of the intervals, as a fraction of 1.
    """

    baseline: str
    kernels: tuple[str, ...]
    rows: tuple[Row, ...]
    geomeans: tuple[GeoMean, ...]
    control: Control
    problems: tuple[str, ...]
    confidence: float = stats.CONFIDENCE


Key = tuple[str, int, str]  # workload, vcpus, metric


def compare(results: Results, baseline: str = BASELINE, confidence: float = stats.CONFIDENCE) -> Comparison:
    """Compare each other kernel of ``results`` with ``baseline``, and that with its control.

    Raises: ValueError for a value that is NaN or infinite, or a series recorded twice.
    """
    series = _series(results)
    control = baseline + CONTROL_SUFFIX
    kernels = tuple(name for name in series if name not in (baseline, control))
    rows: list[Row] = []
    problems: list[str] = []
    if baseline not in series:
        problems.append(f"{baseline} was not measured: there is nothing to compare with")
    else:
        for kernel in kernels:
            found, wrong = _rows(series, baseline, kernel, confidence)
            rows += found
            problems += wrong
    order = {key: place for place, key in enumerate(series.get(baseline, {}))}
    rows.sort(key=lambda row: order[row.workload, row.vcpus, row.metric])
    return Comparison(
        baseline,
        kernels,
        tuple(rows),
        tuple(_geomeans(rows)),
        _control(series, baseline, confidence),
        tuple(problems),
        confidence,
    )


def _series(results: Results) -> dict[str, dict[Key, Record]]:
    series: dict[str, dict[Key, Record]] = {}
    for record in results.records:
        key = (record.workload, record.vcpus, record.metric)
        of_kernel = series.setdefault(record.kernel, {})
        where = f"{record.kernel}, {record.workload} at {record.vcpus} vCPUs, {record.metric}"
        if key in of_kernel:
            raise ValueError(f"recorded twice: {where}")
        if not all(math.isfinite(value) for value in record.values):
            raise ValueError(f"not a finite number: {where}: {record.values}")
        of_kernel[key] = record
    return series


def _rows(
    series: dict[str, dict[Key, Record]], baseline: str, kernel: str, confidence: float
) -> tuple[list[Row], list[str]]:
    ours, theirs = series[baseline], series[kernel]
    rows: list[Row] = []
    problems: list[str] = []
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        a, b = ours.get(key), theirs.get(key)
        workload, vcpus, metric = key
        if a is None or b is None or not a.values or not b.values:
            continue
        if (a.unit, a.operations, a.operation) != (b.unit, b.operations, b.operation):
            problems.append(
                f"{kernel}: {workload} at {vcpus} vCPUs, {metric} is not the same measurement: "
                f"{b.operations} x {b.operation or 'window'} in {b.unit}, "
                f"{baseline} has {a.operations} x {a.operation or 'window'} in {a.unit}"
            )
            continue
        rows.append(
            Row(
                kernel,
                workload,
                vcpus,
                metric,
                a.unit,
                a.operations,
                a.operation,
                Summary.of(a.values, confidence),
                Summary.of(b.values, confidence),
                stats.effect(a.values, b.values, exact=a.unit == COUNT_UNIT, confidence=confidence),
            )
        )
    problems += _lacking(series, baseline, kernel)
    corrected = stats.holm([row.effect.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)], problems


def _lacking(series: dict[str, dict[Key, Record]], baseline: str, kernel: str) -> list[str]:
    """Workloads that one of two kernels lacks.

    A kernel under a run-time setting is measured with the workloads that show it and no others, and a counter that
    only one kernel has (``young_sync``) is nothing to compare: neither is a problem. Nor are kernels that are compared
    with each other, by workloads of their own.
    """
    workloads = {name: {key[0] for key, record in found.items() if record.values} for name, found in series.items()}
    measured = [workloads[baseline], workloads[kernel]]
    others = set().union(*(found for name, found in workloads.items() if name not in (baseline, kernel)))
    if not measured[0] & measured[1] and measured[1] <= others:
        return []
    missing = [(baseline, measured[1] - measured[0])]
    if "+" not in kernel and "-" not in kernel:
        missing.append((kernel, measured[0] - measured[1]))
    return [f"{kernel}: not measured on {name}: {', '.join(sorted(lacks))}" for name, lacks in missing if lacks]


def _geomeans(rows: Sequence[Row]) -> list[GeoMean]:
    groups: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.kernel, row.metric, row.vcpus].append(row)
    means = []
    for (kernel, metric, vcpus), group in groups.items():
        ratios = [row.effect.estimate for row in group if row.effect.kind == "ratio"]
        mean = stats.geometric_mean(ratios) if ratios else None
        means.append(GeoMean(kernel, metric, vcpus, mean, len(ratios), len(group) - len(ratios)))
    return means


def _control(series: dict[str, dict[Key, Record]], baseline: str, confidence: float) -> Control:
    """Judge the A/A control by how many of its comparisons came out as different.

    The comparisons depend on each other: a busy host slows every workload of a repeat, and one TLBI
    is counted by several metrics. So the share each verdict may miss cannot simply be added up.
    Instead the repeats of both series are shared out again in all ways (or a fixed sample), the
    same way for every comparison at once, and the differences counted each time. If the two series
    are alike, the way they were really shared out is one of many like it (a permutation test;
    Westfall and Young, *Resampling-Based Multiple Testing*, 1993).
    """
    name = baseline + CONTROL_SUFFIX
    if baseline not in series or name not in series:
        return Control((), Check(CONTROL_CHECK, "skipped", f"{name} was not measured"))
    rows, problems = _rows(series, baseline, name, confidence)
    if not rows:
        return Control((), Check(CONTROL_CHECK, "skipped", "; ".join(problems)))
    higher = sum(row.effect.verdict is stats.Verdict.HIGHER for row in rows)
    lower = sum(row.effect.verdict is stats.Verdict.LOWER for row in rows)
    groups: defaultdict[tuple[int, int], list[tuple[Record, Record]]] = defaultdict(list)
    for row in rows:
        key = (row.workload, row.vcpus, row.metric)
        a, b = series[baseline][key], series[name][key]
        groups[len(a.values), len(b.values)].append((a, b))
    chance, smallest = np.zeros(1), 1.0
    for (m, n), pairs in groups.items():
        splits = _splits(m, n)
        # Groups with unlike numbers of repeats are shared out independently of each other.
        counted = sum(
            _differences([*a.values, *b.values], splits, exact=a.unit == COUNT_UNIT, confidence=confidence)
            for a, b in pairs
        )
        chance = _sample(np.add.outer(chance, counted).ravel())
        smallest *= 2 / math.comb(m + n, m)
    expected = float(chance.mean())
    p = float((chance >= higher + lower).mean())
    detail = (
        f"{higher + lower} of {len(rows)} comparisons of {baseline} with itself differ "
        f"({higher} higher, {lower} lower); {expected:.1f} are expected by chance (p = {p:.2g})"
    )
    verdict = "failed" if p < CONTROL_ALPHA else "held"
    if smallest >= CONTROL_ALPHA:
        verdict = "skipped"
        detail += "; with so few repeats it could not have failed"
    return Control(tuple(rows), Check(CONTROL_CHECK, verdict, "; ".join([detail, *problems])))


Bools = NDArray[np.bool_]
Counts = NDArray[np.float64]


def _splits(m: int, n: int) -> Bools:
    """Ways to choose which n of m + n repeats are the second series: a row each, the real first."""
    real = np.arange(m + n) >= m
    if math.comb(m + n, n) <= MAX_SPLITS:
        chosen = np.array(list(itertools.combinations(range(m + n), n)))
        every = np.zeros((len(chosen), m + n), dtype=np.bool_)
        np.put_along_axis(every, chosen, True, axis=1)
        return every[::-1]
    random = np.random.default_rng(SPLIT_SEED)
    return np.vstack([real, random.permuted(np.tile(real, (MAX_SPLITS - 1, 1)), axis=1)])


def _differences(pooled: Sequence[float], splits: Bools, *, exact: bool, confidence: float) -> Counts:
    """1 for each split whose two series differ by the rule of ``stats.effect``, else 0."""
    values = np.asarray(pooled, dtype=np.float64)
    second = splits.astype(np.float64)
    n = int(splits[0].sum())
    m = splits.shape[1] - n
    lower = np.less.outer(values, values).astype(np.float64)
    above = (((1 - second) @ lower) * second).sum(axis=1)
    below = (((1 - second) @ lower.T) * second).sum(axis=1)
    pairs: Counts = np.maximum(above, below)
    # Counts without spread in either series differ for certain, however few there are.
    needed = stats.critical_pairs(m, n, confidence)
    if exact and min(m, n) > 1 and np.unique(values).size == 2:
        needed = min(needed, m * n)
    return np.where(pairs >= needed, 1.0, 0.0)


def _sample(values: Counts) -> Counts:
    """At most a million of the values, evenly taken from the sorted ones."""
    most = 1_000_000
    if values.size <= most:
        return values
    return np.sort(values)[np.linspace(0, values.size - 1, most).astype(np.int64)]
