# SPDX-License-Identifier: GPL-2.0-only
"""The statistics behind every comparison: rank methods, which assume no particular distribution.

Run times have long tails and counts have ties, so that medians, Hodges-Lehmann shifts and Mann-Whitney tests are used
throughout. Each interval states its real coverage. With few repeats no 95 % interval exists; then the widest possible
interval is given, with its lower coverage.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

CONFIDENCE = 0.95
# A test with ties tries all ways to divide the pooled values, if there are no more than this (8 + 8 values: 12 870).
EXACT_SPLITS = 20_000

DEPTH = 200
"""Terms of a continued fraction. 50 are enough for a thousand repeats."""


class Verdict(StrEnum):
    """The result of comparing a kernel with the baseline: whether its value is higher or lower."""

    HIGHER = "higher"
    LOWER = "lower"
    NOISE = "within noise"
    TOO_FEW = "too few repeats"
    EQUAL = "equal"


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Args:
        low, high: its ends.
        coverage: its real coverage, as a fraction of 1.
        reached: False when no interval of the requested confidence exists, and this is the widest one.
    """

    low: float
    high: float
    coverage: float
    reached: bool


@dataclass(frozen=True)
class Effect:
    """How another sample differs from the baseline.

    Args:
        kind: ``ratio`` (other / baseline); or ``difference`` (other - baseline, in the unit of the values) when a value
            is zero or negative, so that there is no ratio.
        estimate: the Hodges-Lehmann estimate of the ratio or difference.
        interval: its confidence interval.
        p: two-sided p of the Mann-Whitney test; None when no test was made.
        verdict: the result, decided by the interval.
    """

    kind: str
    estimate: float
    interval: Interval
    p: float | None
    verdict: Verdict


def checked(values: Sequence[float]) -> list[float]:
    """The values. Raises ValueError when there are none, or one is NaN or infinite."""
    if not values:
        raise ValueError("no values")
    if not all(map(math.isfinite, values)):
        raise ValueError(f"not a finite number among the values: {list(values)}")
    return list(map(float, values))


def median(values: Sequence[float]) -> float:
    """The median, in the unit of the values."""
    return statistics.median(checked(values))


def variation(values: Sequence[float]) -> float | None:
    """Coefficient of variation: sample standard deviation / |mean|.

    None with one value or a mean of 0.
    """
    mean = statistics.fmean(checked(values))
    return statistics.stdev(values) / abs(mean) if len(values) > 1 and mean else None


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Confidence interval of the median between two order statistics.

    The interval from the k-th smallest to the k-th largest of n values misses the median with probability 2 P(Bin(n,
    1/2) < k). The largest k for which this is at most 1 - confidence is used (David and Nagaraja, *Order Statistics*,
    section 7.1). The coverage is exact for any continuous distribution, and at least as large for counts. 95 % needs 6
    values: 5 give 93.75 %, 4 give 87.5 %, 3 give 75 %, 2 give 50 %, and 1 gives none.
    """
    n = len(checked(values))
    return _between(sorted(values), lambda k: sum(math.comb(n, i) for i in range(k)) / 2 ** (n - 1), confidence)


def hodges_lehmann(
    baseline: Sequence[float], other: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """The shift from baseline to other: the median of all pairwise differences, and its interval.

    The interval has the shifts that the exact Mann-Whitney test does not reject (Hollander, Wolfe and Chicken,
    *Nonparametric Statistical Methods*, section 4.3). With ties the coverage is at least the stated one. 95 % needs
    4 + 4 values, or 3 + 5; 3 + 3 give 90 %.

    Returns: (estimate, interval), in the unit of the values.
    """
    x, y = checked(baseline), checked(other)
    shifts = sorted(b - a for b in y for a in x)
    below = _u_below(len(x), len(y))
    return statistics.median(shifts), _between(shifts, lambda k: 2 * below[k - 1], confidence)


def effect(
    baseline: Sequence[float],
    other: Sequence[float],
    *,
    exact: bool = False,
    confidence: float = CONFIDENCE,
    test: bool = True,
) -> Effect:
    """Compare two samples of repeats.

    The ratio is estimated on logarithms. When a value is zero or negative, the difference is estimated instead. The
    verdict is ``higher`` or ``lower`` when the whole interval is above or below "no change" (ratio 1, difference 0).

    Args:
        baseline, other: a value for each repeat, in the same unit.
        exact: the values are exact counts. Two samples of counts without any spread need no interval: they are equal or
            they differ. This needs two repeats at least, unless the values are equal, because one value does not show
            that it repeats.
        confidence: the confidence of the interval, as a fraction of 1.
        test: also compute p; False saves time for callers that need only the verdict.

    Raises: ValueError when there are no values, or one is NaN or infinite.
    """
    x, y = checked(baseline), checked(other)
    ratio = min(*x, *y) > 0
    kind, unchanged = ("ratio", 1.0) if ratio else ("difference", 0.0)
    if exact and _alike(x) and _alike(y) and (x[0] == y[0] or min(len(x), len(y)) > 1):
        value = y[0] / x[0] if ratio else y[0] - x[0]
        certain = Interval(value, value, 1.0, True)
        verdict = Verdict.EQUAL if x[0] == y[0] else _side(certain, unchanged)
        return Effect(kind, value, certain, None, verdict)
    if ratio:
        shift, found = hodges_lehmann(list(map(math.log, x)), list(map(math.log, y)), confidence)
        estimate = math.exp(shift)
        interval = Interval(math.exp(found.low), math.exp(found.high), found.coverage, found.reached)
    else:
        estimate, interval = hodges_lehmann(baseline, other, confidence)
    p = mann_whitney(baseline, other) if test else None
    return Effect(kind, estimate, interval, p, _side(interval, unchanged))


def critical_pairs(m: int, n: int, confidence: float = CONFIDENCE) -> int:
    """The number of the m * n pairs of values that must be strictly higher for the verdict ``higher``.

    The interval of ``effect`` is above "no change" exactly when at least this many pairs are higher. With too few
    repeats the result is m * n + 1, which is never reached.
    """
    found = _between(range(1, m * n + 1), lambda k: 2 * _u_below(m, n)[k - 1], confidence)
    return int(found.high) if found.reached else m * n + 1


def mann_whitney(one: Sequence[float], two: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney test that both samples come from one distribution.

    The test is exact without ties and up to 2500 pairs. With ties it is a permutation test over all divisions of the
    pooled values, if there are at most EXACT_SPLITS. Otherwise it is the normal approximation with tie correction.
    """
    less, more = sorted((checked(one), checked(two)), key=len)
    m, n = len(less), len(more)
    ties = Counter(less + more)
    if len(ties) == 1:
        return 1.0
    # Twice the rank, which is a whole number for tied values, too.
    ranks, before = {}, 0
    for value in sorted(ties):
        ranks[value] = 2 * before + ties[value] + 1
        before += ties[value]
    total = sum(ranks[value] for value in less)
    u = total / 2 - m * (m + 1) / 2
    u = min(u, m * n - u)
    if len(ties) == m + n and m * n <= 2500:
        return min(1.0, 2 * _u_below(m, n)[int(u)])
    if m > 1 and math.comb(m + n, m) <= EXACT_SPLITS:
        sums = _rank_sums([ranks[value] for value in less + more], m)
        tails = (sum(ways for s, ways in sums.items() if (s - total) * side >= 0) for side in (1, -1))
        return min(1.0, 2 * min(tails) / sums.total())
    tied = sum(number**3 - number for number in ties.values())
    deviation = math.sqrt(m * n / 12 * (m + n + 1 - tied / ((m + n) * (m + n - 1))))
    return min(1.0, math.erfc((m * n / 2 - u - 0.5) / deviation / math.sqrt(2)))


def welch(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Two-sided p of Welch's t-test that the means are equal; the variances may differ.

    None when the test is not possible: a sample has fewer than two values, or neither sample has any spread.
    """
    x, y = checked(one), checked(two)
    if min(len(x), len(y)) < 2 or (_alike(x) and _alike(y)):
        return None
    a, b = statistics.variance(x) / len(x), statistics.variance(y) / len(y)
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    return _student((statistics.fmean(x) - statistics.fmean(y)) ** 2 / (a + b), freedom)


def brown_forsythe(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Two-sided p that the variances are equal, by Levene's test around the median (Brown and Forsythe, 1974).

    It is used instead of the F test, which mistakes a long tail for a difference in variance. None when a sample has
    fewer than three values, whose deviations from the median are all alike, or when neither sample has any spread.

    Two samples of distances are compared, so that the analysis of variance is Student's test with a common variance.
    """
    x, y = checked(one), checked(two)
    if min(len(x), len(y)) < 3 or (_alike(x) and _alike(y)):
        return None
    centres = statistics.median(x), statistics.median(y)
    x, y = ([abs(value - centre) for value in sample] for sample, centre in zip((x, y), centres, strict=True))
    apart = (statistics.fmean(x) - statistics.fmean(y)) ** 2
    if not apart or (_alike(x) and _alike(y)):
        return float(not apart)
    freedom = len(x) + len(y) - 2
    common = (statistics.pvariance(x) * len(x) + statistics.pvariance(y) * len(y)) / freedom
    return _student(apart / (common * (1 / len(x) + 1 / len(y))), freedom)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p values corrected for testing many differences at once (Holm, 1979), in the order given.

    The correction limits the probability of any false finding, whatever the dependence of the tests. None, which means
    that no test was made, stays None and does not count as a test.
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
    """The geometric mean of ratios. Raises ValueError when one of them is not above 0."""
    if min(checked(ratios)) <= 0:
        raise ValueError("a geometric mean needs ratios above 0")
    return statistics.geometric_mean(ratios)


def _alike(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _side(interval: Interval, unchanged: float) -> Verdict:
    if not interval.reached:
        return Verdict.TOO_FEW
    if interval.low > unchanged:
        return Verdict.HIGHER
    if interval.high < unchanged:
        return Verdict.LOWER
    return Verdict.NOISE


def _between(ordered: Sequence[float], missed: Callable[[int], float], confidence: float) -> Interval:
    """The interval from the k-th smallest to the k-th largest value, for the largest k of sufficient confidence.

    Args:
        ordered: the values in ascending order.
        missed: k -> the probability that the interval does not cover the true value.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is between 0 and 1, not {confidence}")
    allowed = 1 - confidence + 1e-12  # 1 - 0.95 is not exact in floating point
    k, last = 1, (len(ordered) + 1) // 2
    while k < last and missed(k + 1) <= allowed:
        k += 1
    return Interval(float(ordered[k - 1]), float(ordered[-k]), max(0.0, 1 - missed(k)), missed(k) <= allowed)


@lru_cache(maxsize=64)
def _u_below(m: int, n: int) -> tuple[float, ...]:
    """P(U <= u) for u from 0 to m * n, where U is the Mann-Whitney statistic of two samples that do not differ.

    The numbers of arrangements are coefficients of the Gaussian binomial, the product over i = 1..m of
    (1 - q^(n+i)) / (1 - q^i). They are whole numbers, so that the result is exact.
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


def _rank_sums(ranks: Sequence[int], m: int) -> Counter[int]:
    """Sum -> in how many ways m of the ranks have it."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(m))]
    for rank in ranks:
        for size in range(m, 0, -1):
            for total, number in ways[size - 1].items():
                ways[size][total + rank] += number
    return ways[m]


def _student(square: float, freedom: float) -> float:
    """Two-sided p of Student's t, from its square: I_x(freedom / 2, 1 / 2), where I is the incomplete beta function."""
    a, x, rest = freedom / 2, freedom / (freedom + square), square / (freedom + square)
    if x < (a + 1) / (a + 2.5):
        return _incomplete_beta(x, rest, a, 0.5)
    return 1 - _incomplete_beta(rest, x, 0.5, a) if rest else 1.0


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b), regularized, by its continued fraction (Abramowitz and Stegun, 26.5.8), from the end to the front.

    Args:
        x: above 0, and below (a + 1) / (a + b + 2), where the fraction converges fast.
        rest: 1 - x.
    """
    fraction = 1.0
    for m in range(DEPTH, -1, -1):
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 + odd / (1 + even / fraction)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(scale) / a / fraction
