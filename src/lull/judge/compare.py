# SPDX-License-Identifier: GPL-2.0-only
"""Compare the kernels of a run with its baseline. Tables, the report and the exit status are made from the result."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from lull.judge import stats
from lull.run.records import COUNT_UNIT, Check, Record, Results

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BASELINE, CONTROL = "stock", "stock.control"
CONTROL_CHECK = "A/A control"
# The control fails when chance alone gives as many differences in fewer than this share of runs.
CONTROL_ALPHA = 0.01
# All ways to divide the repeats into two samples are tried when there are no more than this (7 + 7 repeats: 3432), else
# a random sample of this many.
MAX_SPLITS = 4000
SPLIT_SEED = 2018


@dataclass(frozen=True)
class Summary:
    """A sample, of repeats: their number, their median in the record's unit, and the median's confidence interval."""

    repeats: int
    median: float
    interval: stats.Interval

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Summarise ``values``. Raises ValueError when they are empty, NaN or infinite."""
        return cls(len(values), stats.median(values), stats.median_interval(values))

    @property
    def half_width(self) -> float | None:
        """The distance of the median from the further end of its interval, as a share of the median.

        None when the median is 0 and the interval is not.
        """
        if self.median == 0:
            return 0.0 if self.interval.low == self.interval.high else None
        ends = (self.interval.high - self.median, self.median - self.interval.low)
        return max(ends) / abs(self.median)


@dataclass(frozen=True)
class Row:
    """One metric of one workload: another kernel compared with the baseline.

    Args:
        kernel: the other kernel.
        workload, vcpus, metric, unit, operations, operation: as in the records.
        baseline, other: the values of both kernels, each of a whole window.
        effect: the other kernel compared with the baseline.
        p_holm: the effect's p, corrected for all comparisons of this kernel; None when the effect has no p.
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
        """``value``, of a window, per operation; unchanged when the workload has no operations."""
        return value / self.operations if self.operations > 0 else value


@dataclass(frozen=True)
class GeoMean:
    """The geometric mean of a metric's ratios over the workloads.

    Args:
        ratio: the mean; None when no workload has a ratio.
        used: the number of workloads in it.
        left_out: the number of workloads without a ratio, because a value is 0.
    """

    kernel: str
    metric: str
    vcpus: int
    ratio: float | None
    used: int
    left_out: int


@dataclass(frozen=True)
class Control:
    """The A/A control: the baseline compared with a second sample of itself, so that any difference is false."""

    rows: tuple[Row, ...]
    check: Check


@dataclass(frozen=True)
class Comparison:
    """All comparisons of a run.

    Args:
        kernels: the kernels that are compared with BASELINE, in the order of the records.
        rows: the comparisons, in the order of the records, and by kernel within one metric.
        geomeans: the geometric means, one for each kernel, number of vCPUs and metric.
        control: the A/A control.
        problems: sentences on what could not be compared, and why.
    """

    kernels: tuple[str, ...]
    rows: tuple[Row, ...]
    geomeans: tuple[GeoMean, ...]
    control: Control
    problems: tuple[str, ...]


Key = tuple[str, int, str]  # workload, vcpus, metric
Samples = dict[str, dict[Key, Record]]  # the records of each kernel


def compare(results: Results) -> Comparison:
    """Compare the kernels of ``results`` with BASELINE, and the baseline with its control.

    Raises: ValueError for a value that is NaN or infinite, or a sample that is there twice.
    """
    samples = _samples(results)
    kernels = tuple(name for name in samples if name not in (BASELINE, CONTROL))
    rows: list[Row] = []
    problems: list[str] = []
    if BASELINE not in samples:
        problems.append(f"{BASELINE} was not measured: there is nothing to compare with")
    else:
        for kernel in kernels:
            found, wrong = _rows(samples, kernel)
            rows += found
            problems += wrong
    order = {key: place for place, key in enumerate(samples.get(BASELINE, {}))}
    rows.sort(key=lambda row: order[row.workload, row.vcpus, row.metric])
    return Comparison(kernels, tuple(rows), tuple(_geomeans(rows)), _control(samples), tuple(problems))


def _samples(results: Results) -> Samples:
    samples: Samples = {}
    for record in results.records:
        key = (record.workload, record.vcpus, record.metric)
        of_kernel = samples.setdefault(record.kernel, {})
        where = f"{record.kernel}, {record.workload} at {record.vcpus} vCPUs, {record.metric}"
        if key in of_kernel:
            raise ValueError(f"recorded twice: {where}")
        if not all(math.isfinite(value) for value in record.values):
            raise ValueError(f"not a finite number: {where}: {record.values}")
        of_kernel[key] = record
    return samples


def _rows(samples: Samples, kernel: str) -> tuple[list[Row], list[str]]:
    ours, theirs = samples[BASELINE], samples[kernel]
    rows: list[Row] = []
    problems: list[str] = []
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        a, b = ours.get(key), theirs.get(key)
        workload, vcpus, _ = key
        if a is None or b is None or not a.values or not b.values:
            continue
        if (a.unit, a.operations, a.operation) != (b.unit, b.operations, b.operation):
            problems.append(
                f"{kernel}: {workload} at {vcpus} vCPUs is not the same measurement: "
                f"{b.operations} x {b.operation or 'window'} in {b.unit}, "
                f"{BASELINE} has {a.operations} x {a.operation or 'window'} in {a.unit}"
            )
            continue
        effect = stats.effect(a.values, b.values, exact=a.unit == COUNT_UNIT)
        both = Summary.of(a.values), Summary.of(b.values)
        rows.append(Row(kernel, *key, a.unit, a.operations, a.operation, *both, effect))
    problems = [*dict.fromkeys(problems), *_lacking(samples, kernel)]
    corrected = stats.holm([row.effect.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)], problems


def _lacking(samples: Samples, kernel: str) -> list[str]:
    """A sentence for each of the two kernels that lacks workloads which the other was measured with.

    Not a problem are: workloads that a kernel under a run-time setting lacks, because such a kernel is measured only
    with the workloads that show the setting; workloads that the baseline lacks, if another kernel without settings was
    measured with them, which is their baseline; and kernels that share no workload with the baseline, if all their
    workloads were also measured on some other kernel, because they are compared with that one.
    """
    workloads = {name: {key[0] for key, record in found.items() if record.values} for name, found in samples.items()}
    measured = [workloads[BASELINE], workloads[kernel]]
    others = set().union(*(found for name, found in workloads.items() if name not in (BASELINE, kernel)))
    if not measured[0] & measured[1] and measured[1] <= others:
        return []
    plain = [found for name, found in workloads.items() if name != kernel and not has_settings(name)]
    missing = [(BASELINE, measured[1] - set().union(*plain))]
    if not has_settings(kernel):
        missing.append((kernel, measured[0] - measured[1]))
    return [f"{kernel}: not measured on {name}: {', '.join(sorted(lacks))}" for name, lacks in missing if lacks]


def has_settings(kernel: str) -> bool:
    """Return true for the name of a kernel under run-time settings (``lull+young=sync``, ``lull-young``)."""
    return "+" in kernel or "-" in kernel


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


def _control(samples: Samples) -> Control:
    """Judge the A/A control by the number of its comparisons that find a difference.

    The comparisons are not independent: a busy host slows every workload of a repeat, and one TLBI is counted by
    several metrics. Their error probabilities can therefore not be added up. Instead this is a permutation test
    (Westfall and Young, *Resampling-Based Multiple Testing*, 1993): the repeats of both samples are divided into two
    samples in all ways, or in a fixed selection of them, alike for all comparisons at once, and the differences
    are counted for each. If the two real samples are alike, their number of differences is typical of these counts.
    """
    if BASELINE not in samples or CONTROL not in samples:
        return Control((), Check(CONTROL_CHECK, "skipped", f"{CONTROL} was not measured"))
    rows, problems = _rows(samples, CONTROL)
    if not rows:
        return Control((), Check(CONTROL_CHECK, "skipped", "; ".join(problems)))
    higher = sum(row.effect.verdict is stats.Verdict.HIGHER for row in rows)
    lower = sum(row.effect.verdict is stats.Verdict.LOWER for row in rows)
    import numpy as np

    groups: defaultdict[tuple[int, int], list[tuple[Record, Record]]] = defaultdict(list)
    for row in rows:
        key = (row.workload, row.vcpus, row.metric)
        a, b = samples[BASELINE][key], samples[CONTROL][key]
        groups[len(a.values), len(b.values)].append((a, b))
    chance, smallest = np.zeros(1), 1.0
    for (m, n), pairs in groups.items():
        splits = _splits(m, n)
        # Comparisons with other numbers of repeats are divided independently of this group.
        counted = sum(_differences([*a.values, *b.values], splits, exact=a.unit == COUNT_UNIT) for a, b in pairs)
        chance = _sample(np.add.outer(chance, counted).ravel())
        smallest *= 2 / math.comb(m + n, m)
    expected = float(chance.mean())
    p = float((chance >= higher + lower).mean())
    detail = (
        f"{higher + lower} of {len(rows)} comparisons of {BASELINE} with itself differ "
        f"({higher} higher, {lower} lower); {expected:.1f} are expected by chance (p = {p:.2g})"
    )
    verdict = "failed" if p < CONTROL_ALPHA else "passed"
    if smallest >= CONTROL_ALPHA:
        verdict = "skipped"
        detail += "; with so few repeats it could not have failed"
    return Control(tuple(rows), Check(CONTROL_CHECK, verdict, "; ".join([detail, *problems])))


Bools: TypeAlias = "NDArray[np.bool_]"
Counts: TypeAlias = "NDArray[np.float64]"


def _splits(m: int, n: int) -> Bools:
    """Choices of n among m + n repeats as the second sample: a row for each choice, the real one first."""
    import numpy as np

    real = np.arange(m + n) >= m
    if math.comb(m + n, n) <= MAX_SPLITS:
        chosen = np.array(list(itertools.combinations(range(m + n), n)))
        every = np.zeros((len(chosen), m + n), dtype=np.bool_)
        np.put_along_axis(every, chosen, True, axis=1)
        return every[::-1]
    random = np.random.default_rng(SPLIT_SEED)
    return np.vstack([real, random.permuted(np.tile(real, (MAX_SPLITS - 1, 1)), axis=1)])


def _differences(pooled: Sequence[float], splits: Bools, *, exact: bool) -> Counts:
    """1 for each split whose two samples differ by the rule of ``stats.effect``, else 0."""
    import numpy as np

    values = np.asarray(pooled, dtype=np.float64)
    second = splits.astype(np.float64)
    n = int(splits[0].sum())
    m = splits.shape[1] - n
    lower = np.less.outer(values, values).astype(np.float64)
    above = (((1 - second) @ lower) * second).sum(axis=1)
    below = (((1 - second) @ lower.T) * second).sum(axis=1)
    pairs: Counts = np.maximum(above, below)
    # stats.effect() calls two samples of exact counts without any spread different from two repeats each on.
    needed = stats.critical_pairs(m, n)
    if exact and min(m, n) > 1 and np.unique(values).size == 2:
        needed = min(needed, m * n)
    return np.where(pairs >= needed, 1.0, 0.0)


def _sample(values: Counts) -> Counts:
    """The values, or a million of them taken evenly from the sorted values."""
    import numpy as np

    most = 1_000_000
    if values.size <= most:
        return values
    return np.sort(values)[np.linspace(0, values.size - 1, most).astype(np.int64)]
