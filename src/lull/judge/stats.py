# SPDX-License-Identifier: GPL-2.0-only
"""The statistics behind every comparison: rank methods, which ask nothing of the distribution.

Run times have long tails and counts have ties, so medians, Hodges-Lehmann shifts and Mann-Whitney
tests are used throughout. Each interval carries the coverage it really has: with few repeats no
95 % interval exists, and then the widest one is given, with its own, lower, coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
# A test with ties goes through all ways to split the pooled values up to this many (8 + 8: 12 870).
EXACT_SPLITS = 20_000

Floats = NDArray[np.float64]


class Verdict(StrEnum):
    """What a comparison says of the other kernel, seen from the baseline."""

    HIGHER = "higher"
    LOWER = "lower"
    NOISE = "within noise"
    TOO_FEW = "too few repeats"
    EQUAL = "equal"

    @property
    def differs(self) -> bool:
        """Whether a difference was found."""
        return self in (Verdict.HIGHER, Verdict.LOWER)


@dataclass(frozen=True)
class Interval:
    """A confidence interval [low, high] with the coverage it has, as a fraction of 1.

    ``reached`` is False when no interval of the confidence asked for exists; then it is the widest
    one.
    """

    low: float
    high: float
    coverage: float
    reached: bool


@dataclass(frozen=True)
class Effect:
    """How another series differs from the baseline.

    Args:
        kind: ``ratio`` (other / baseline), or ``difference`` (other - baseline, in the unit of the
            values) when a value is zero or negative and has no ratio.
        estimate: the Hodges-Lehmann estimate of it.
        interval: its confidence interval.
        p: two-sided Mann-Whitney p, or None for counts with no spread, which need no test.
        verdict: the finding, by the interval.
    """

    kind: str
    estimate: float
    interval: Interval
    p: float | None
    verdict: Verdict


def checked(values: Sequence[float]) -> Floats:
    """The values as an array. Raises ValueError when there are none or one is NaN or infinite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError("no values")
    if not np.isfinite(array).all():
        raise ValueError(f"not a finite number among the values: {array.tolist()}")
    return array


def median(values: Sequence[float]) -> float:
    """The median, in the unit of the values."""
    return float(np.median(checked(values)))


def variation(values: Sequence[float]) -> float | None:
    """Coefficient of variation: sample standard deviation / |mean|.

    None with one value or a mean of 0.
    """
    array = checked(values)
    mean = float(array.mean())
    if array.size < 2 or mean == 0:
        return None
    return float(array.std(ddof=1)) / abs(mean)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Confidence interval of the median between two order statistics.

    The k-th smallest and k-th largest of n values miss the median with probability 2 P(Bin(n, 1/2)
    < k); the largest k that keeps it within 1 - confidence is taken (David and Nagaraja, *Order
    Statistics*, section 7.1). The coverage is exact for any continuous distribution and at least
    that for counts. For 95 % it takes 6 values: 5 give 93.75 %, 4 87.5 %, 3 75 %, 2 50 %, 1 none.
    """
    array = np.sort(checked(values))
    return _between(array, lambda k: 2 * float(stats.binom.cdf(k - 1, array.size, 0.5)), confidence)


def hodges_lehmann(
    baseline: Sequence[float], other: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """The shift from baseline to other: median of all pairwise differences, and its interval.

    The interval is the Mann-Whitney test inverted with its exact distribution (Hollander, Wolfe and
    Chicken, *Nonparametric Statistical Methods*, section 4.3): the shifts the test would not
    reject. With ties the coverage is at least the one given. For 95 % it takes 4 + 4 values, or 3 +
    5; 3 + 3 give 90 %.

    Returns: (estimate, interval), in the unit of the values.
    """
    x, y = checked(baseline), checked(other)
    shifts = np.sort(np.subtract.outer(y, x).ravel())
    below = _u_below(x.size, y.size)
    return float(np.median(shifts)), _between(shifts, lambda k: 2 * below[k - 1], confidence)


def effect(
    baseline: Sequence[float],
    other: Sequence[float],
    *,
    exact: bool = False,
    confidence: float = CONFIDENCE,
    test: bool = True,
) -> Effect:
    """Compare two series of repeats.

    The ratio is estimated on logarithms; when a value is zero or negative the difference is,
    instead. The verdict is ``higher`` or ``lower`` when the whole interval lies above or below no
    change.

    Args:
        baseline, other: a value per repeat, of the same unit.
        exact: the values are exact counts. Two series of counts that each repeat without any spread
            need no interval: they are equal or they differ. One value alone has not shown that it
            repeats.
        confidence: of the interval, as a fraction of 1.
        test: also compute p (callers that need the verdict only save the time).

    Raises: ValueError for no values, NaN or infinity.
    """
    x, y = checked(baseline), checked(other)
    ratio = bool((x > 0).all() and (y > 0).all())
    kind, unchanged = ("ratio", 1.0) if ratio else ("difference", 0.0)
    if exact and np.ptp(x) == 0 and np.ptp(y) == 0 and (x[0] == y[0] or min(x.size, y.size) > 1):
        value = float(y[0] / x[0] if ratio else y[0] - x[0])
        certain = Interval(value, value, 1.0, True)
        verdict = Verdict.EQUAL if x[0] == y[0] else _side(certain, unchanged)
        return Effect(kind, value, certain, None, verdict)
    if ratio:
        shift, found = hodges_lehmann(np.log(x).tolist(), np.log(y).tolist(), confidence)
        estimate = math.exp(shift)
        interval = Interval(math.exp(found.low), math.exp(found.high), found.coverage, found.reached)
    else:
        estimate, interval = hodges_lehmann(baseline, other, confidence)
    p = mann_whitney(baseline, other) if test else None
    return Effect(kind, estimate, interval, p, _side(interval, unchanged))


def critical_pairs(m: int, n: int, confidence: float = CONFIDENCE) -> int:
    """How many of the m n pairs must be strictly higher for the verdict ``higher``.

    The rank form of ``effect``: its interval lies above no change exactly then. m n + 1
    (never) when there are too few repeats.
    """
    found = _between(np.arange(1, m * n + 1, dtype=np.float64), lambda k: 2 * _u_below(m, n)[k - 1], confidence)
    return int(found.high) if found.reached else m * n + 1


def mann_whitney(one: Sequence[float], two: Sequence[float]) -> float:
    """Two-sided p that both series come from one distribution.

    Exact without ties; with ties a permutation test over all splits when these are few, else the
    normal approximation with tie correction.
    """
    x, y = checked(one), checked(two)
    pooled = np.concatenate([x, y])
    distinct = np.unique(pooled).size
    if distinct == 1:
        return 1.0
    if distinct == pooled.size and x.size * y.size <= 2500:
        return float(stats.mannwhitneyu(x, y, method="exact").pvalue)
    if min(x.size, y.size) > 1 and math.comb(pooled.size, x.size) <= EXACT_SPLITS:
        every = stats.PermutationMethod(n_resamples=EXACT_SPLITS)
        return float(stats.mannwhitneyu(x, y, method=every).pvalue)
    return float(stats.mannwhitneyu(x, y, method="asymptotic").pvalue)


def welch(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Two-sided p that the means are equal, the variances need not be (Welch's t-test).

    None when there is nothing to test against: fewer than two values, or no spread in either
    series.
    """
    x, y = checked(one), checked(two)
    if min(x.size, y.size) < 2 or (np.ptp(x) == 0 and np.ptp(y) == 0):
        return None
    return float(stats.ttest_ind(x, y, equal_var=False).pvalue)


def brown_forsythe(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Two-sided p that the variances are equal.

    Levene's test around the median (Brown and Forsythe, 1974), chosen over the F test, which takes
    a long tail for a difference in variance. None with fewer than three values in a series (their
    deviations from the median are then all alike) or no spread in either.
    """
    x, y = checked(one), checked(two)
    if min(x.size, y.size) < 3 or (np.ptp(x) == 0 and np.ptp(y) == 0):
        return None
    return float(stats.levene(x, y, center="median").pvalue)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p values corrected for testing many differences at once (Holm, 1979), in the order given.

    Controls the chance of any false finding, however the tests depend on each other. None (no test
    was made) stays None and does not count as a test.
    """
    tested = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    if not all(0 <= p <= 1 for p, _ in tested):
        raise ValueError(f"not a probability among {list(ps)}")
    corrected: list[float | None] = [None] * len(ps)
    worst = 0.0
    for done, (p, place) in enumerate(tested):
        worst = max(worst, min(1.0, p * (len(tested) - done)))
        corrected[place] = worst
    return corrected


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of ratios. Raises ValueError when one is not above 0."""
    array = checked(ratios)
    if (array <= 0).any():
        raise ValueError("a geometric mean needs ratios above 0")
    return float(stats.gmean(array))


def _side(interval: Interval, unchanged: float) -> Verdict:
    if not interval.reached:
        return Verdict.TOO_FEW
    if interval.low > unchanged:
        return Verdict.HIGHER
    if interval.high < unchanged:
        return Verdict.LOWER
    return Verdict.NOISE


def _between(ordered: Floats, missed: Callable[[int], float], confidence: float) -> Interval:
    """The k-th smallest to the k-th largest, for the largest k that misses often enough."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is between 0 and 1, not {confidence}")
    allowed = 1 - confidence + 1e-12  # 1 - 0.95 is a little off
    k, last = 1, (ordered.size + 1) // 2
    while k < last and missed(k + 1) <= allowed:
        k += 1
    return Interval(float(ordered[k - 1]), float(ordered[-k]), max(0.0, 1 - missed(k)), missed(k) <= allowed)


@lru_cache(maxsize=64)
def _u_below(m: int, n: int) -> tuple[float, ...]:
    """P(U <= u), u from 0 to m n, of the Mann-Whitney statistic when nothing differs.

    Counts are coefficients of the Gaussian binomial: the product over i = 1..m of
    (1 - q^(n+i)) / (1 - q^i). Whole numbers, so exact.
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for u in range(m * n, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, m * n + 1):
            counts[u] += counts[u - i]
    total, seen, below = math.comb(m + n, m), 0, []
    for count in counts:
        seen += count
        below.append(seen / total)
    return tuple(below)
