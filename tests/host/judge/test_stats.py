# SPDX-License-Identifier: GPL-2.0-only
"""Textbook answers, exact coverages, and what must hold for any data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lull.judge import stats
from lull.judge.stats import Verdict

positive = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=8)
counts = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("n", "coverage", "low", "high"),
    [
        # David and Nagaraja / Conover's table of order-statistic intervals for the median.
        (1, 0.0, 1, 1),
        (2, 0.5, 1, 2),
        (3, 0.75, 1, 3),
        (4, 0.875, 1, 4),
        (5, 0.9375, 1, 5),
        (6, 0.96875, 1, 6),
        (9, 0.9609375, 2, 8),
        (10, 0.978515625, 2, 9),
        (20, 0.9586105, 6, 15),
    ],
)
def test_median_interval_by_order_statistics(n: int, coverage: float, low: int, high: int) -> None:
    values = [float(v) for v in reversed(range(1, n + 1))]
    found = stats.median_interval(values)
    assert (found.low, found.high) == (low, high)
    assert found.coverage == pytest.approx(coverage, abs=1e-7)
    assert found.reached == (coverage >= 0.95)


def test_u_distribution_is_that_of_all_splits() -> None:
    for m, n in [(1, 1), (2, 3), (3, 3), (4, 2), (4, 5)]:
        us = [
            sum(rank - place for place, rank in enumerate(split)) for split in itertools.combinations(range(m + n), m)
        ]
        expected = [sum(u <= k for u in us) / len(us) for k in range(m * n + 1)]
        assert stats._u_below(m, n) == pytest.approx(expected)


def test_hodges_lehmann_textbook() -> None:
    """Hollander and Wolfe, example 4.1: permeability of chorioamnion to water.

    R's wilcox.test(x, y, conf.int = TRUE) gives 0.305 and -0.15 to 0.76 for x - y, p = 0.2544.
    """
    x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    y = [1.15, 0.88, 0.90, 0.74, 1.21]
    estimate, interval = stats.hodges_lehmann(x, y)
    assert estimate == pytest.approx(-0.305)
    assert interval.low == pytest.approx(-0.76)
    assert interval.high == pytest.approx(0.15)
    assert interval.reached
    assert stats.mann_whitney(x, y) == pytest.approx(0.2544, abs=5e-5)


@pytest.mark.parametrize(("m", "n", "coverage"), [(1, 1, 0.0), (2, 2, 1 - 2 / 6), (3, 3, 0.9), (4, 4, 1 - 2 / 70)])
def test_shift_interval_of_few_values(m: int, n: int, coverage: float) -> None:
    x = [float(v) for v in range(m)]
    y = [100.0 + v for v in range(n)]
    found = stats.effect(x, y).interval
    assert found.coverage == pytest.approx(coverage)
    assert found.reached == (coverage >= 0.95)
    assert found.low == 100 - (m - 1) and found.high == 100 + (n - 1)


def test_three_repeats_are_too_few_and_say_so() -> None:
    few = stats.effect([10, 11, 12], [20, 21, 22])
    assert few.verdict is Verdict.TOO_FEW
    assert few.interval.coverage == pytest.approx(0.9)
    assert few.p == pytest.approx(0.1)
    assert stats.effect([10, 11, 12], [20, 21, 22], confidence=0.9).verdict is Verdict.HIGHER
    assert stats.effect([1.0], [2.0]).verdict is Verdict.TOO_FEW
    assert stats.effect([10, 11, 12, 13], [20, 21, 22, 23]).verdict is Verdict.HIGHER


def test_counts_without_spread_need_no_interval() -> None:
    same = stats.effect([7, 7], [7, 7], exact=True)
    assert (same.verdict, same.p, same.estimate) == (Verdict.EQUAL, None, 1.0)
    assert stats.effect([0], [0], exact=True).verdict is Verdict.EQUAL
    less = stats.effect([100, 100], [10, 10], exact=True)
    assert (less.verdict, less.kind, less.estimate) == (Verdict.LOWER, "ratio", 0.1)
    assert (less.interval.low, less.interval.high, less.interval.coverage) == (0.1, 0.1, 1.0)
    gone = stats.effect([100, 100], [0, 0], exact=True)
    assert (gone.verdict, gone.kind, gone.estimate) == (Verdict.LOWER, "difference", -100)


def test_one_count_has_not_shown_that_it_repeats() -> None:
    assert stats.effect([100], [10], exact=True).verdict is Verdict.TOO_FEW
    assert stats.effect([100, 100, 101], [10, 10, 10], exact=True).verdict is Verdict.TOO_FEW


def test_equal_times_are_noise_not_equal() -> None:
    assert stats.effect([2.0] * 5, [2.0] * 5).verdict is Verdict.NOISE
    assert stats.effect([2.0] * 2, [2.0] * 2).verdict is Verdict.TOO_FEW


def test_zeros_fall_back_to_differences() -> None:
    found = stats.effect([0, 1, 0, 2, 0], [50, 51, 53, 52, 54])
    assert (found.kind, found.verdict) == ("difference", Verdict.HIGHER)
    assert found.estimate == 51
    assert stats.effect([0] * 5, [0] * 5).verdict is Verdict.NOISE


@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, math.inf]])
def test_refuses_what_is_not_a_series(bad: list[float]) -> None:
    for call in (
        lambda: stats.median(bad),
        lambda: stats.median_interval(bad),
        lambda: stats.variation(bad),
        lambda: stats.effect([1.0], bad),
        lambda: stats.effect(bad, [1.0], exact=True),
        lambda: stats.mann_whitney(bad, [1.0]),
        lambda: stats.welch([1.0, 2.0], bad),
        lambda: stats.brown_forsythe(bad, [1.0, 2.0, 3.0]),
        lambda: stats.geometric_mean(bad),
    ):
        with pytest.raises(ValueError, match=r"no values|finite"):
            call()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_refuses_an_impossible_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        stats.median_interval([1.0, 2.0], confidence)


def test_welch_known_answer() -> None:
    """Student's sleep data; R: t.test(extra ~ group) gives p = 0.07939."""
    one, two = SLEEP
    assert stats.welch(one, two) == pytest.approx(0.07939, abs=5e-6)
    assert stats.welch([1.0], two) is None
    assert stats.welch([1.0, 1.0], [2.0, 2.0]) is None


def test_brown_forsythe_is_anova_of_deviations() -> None:
    """By definition: one-way analysis of variance of the distances from each median."""
    one, two = [1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 0.0, 20.0, 5.0, -15.0]
    a, b = (np.abs(np.array(v) - np.median(v)) for v in (one, two))
    grand = np.concatenate([a, b]).mean()
    between = 5 * ((a.mean() - grand) ** 2 + (b.mean() - grand) ** 2)
    within = (((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()) / 8
    assert stats.brown_forsythe(one, two) == pytest.approx(stats._student(between / within, 8), rel=1e-12)
    assert stats.brown_forsythe([1.0, 2.0], two) is None
    assert stats.brown_forsythe([1.0] * 3, [2.0] * 3) is None
    assert stats.brown_forsythe([1.0, 1.0, 3.0, 3.0], [2.0, 2.0, 8.0, 8.0]) == 0.0
    assert stats.brown_forsythe([1.0, 1.0, 3.0, 3.0], [7.0, 7.0, 9.0, 9.0]) == 1.0


SLEEP = (
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
)
SQUARES = [float(i * i % 97) for i in range(1, 32)]


@pytest.mark.parametrize(
    ("one", "two", "mann_whitney", "welch", "levene"),
    [
        (
            *([101.2, 99.8, 100.4, 100.9, 98.7], [104.1, 103.3, 105.2, 102.9, 103.7, 119.6]),
            *(0.004329004329004329, 0.06402290077135313, 0.40324445421423216),
        ),
        (
            *([1.0, 2.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0, 7.0]),
            *(0.03968253968253968, 0.01954983436988713, 0.4713616805472941),
        ),
        (*SLEEP, 0.06932757543362658, 0.0793941401873583, 0.6243742854148876),
        (
            *(SQUARES, [float(20 + i * i * i % 89) for i in range(1, 41)]),
            *(0.04186848415947599, 0.03190274158835401, 0.32777134471789876),
        ),
        (
            *(SQUARES, [float(900 + i) for i in range(31)]),
            *(4.2971168086597284e-18, 5.881612605830564e-51, 1.269134623069205e-07),
        ),
        (
            *([i * 0.37 % 1 for i in range(1, 61)], [i * 0.71 % 1.3 for i in range(1, 61)]),
            *(0.09253224708431755, 0.06194157247161459, 0.01697401935522453),
        ),
    ],
)
def test_what_scipy_says(one: list[float], two: list[float], mann_whitney: float, welch: float, levene: float) -> None:
    """Recorded from SciPy 1.17.1: mannwhitneyu (exact, permutation, asymptotic), ttest_ind, levene."""
    assert stats.mann_whitney(one, two) == pytest.approx(mann_whitney, rel=1e-12)
    assert stats.mann_whitney(two, one) == pytest.approx(mann_whitney, rel=1e-12)
    assert stats.welch(one, two) == pytest.approx(welch, rel=1e-12)
    assert stats.brown_forsythe(one, two) == pytest.approx(levene, rel=1e-12)


@pytest.mark.parametrize(
    ("square", "freedom", "p"),
    [
        # Freedom 1 and 2 have closed forms: 1 - 2 atan(t) / pi, and 1 - t / sqrt(2 + t^2).
        *((t * t, 1.0, 2 * math.atan(1 / t) / math.pi) for t in (1e-6, 0.3, 1.0, 1.7, 2.0, 30.0, 1e6)),
        *((t * t, 2.0, 2 / (2 + t * t + t * math.sqrt(2 + t * t))) for t in (1e-6, 0.3, 1.0, 1.7, 2.0, 30.0, 1e6)),
        (0.0, 7.5, 1.0),
    ],
)
def test_student(square: float, freedom: float, p: float) -> None:
    assert stats._student(square, freedom) == pytest.approx(p, rel=1e-12)


def test_mann_whitney_with_ties_goes_through_all_splits() -> None:
    x, y = [1.0, 2.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0, 7.0]
    pooled = np.array(x + y)

    def u(one: np.ndarray, two: np.ndarray) -> float:
        d = np.subtract.outer(one, two)
        return float((d > 0).sum() + (d == 0).sum() / 2)

    every = []
    for chosen in itertools.combinations(range(10), 5):
        inside = np.isin(np.arange(10), chosen)
        every.append(u(pooled[inside], pooled[~inside]))
    tail = np.mean(np.array(every) <= u(np.array(x), np.array(y)))
    assert stats.mann_whitney(x, y) == pytest.approx(2 * tail)
    assert stats.mann_whitney([1.0, 1.0], [1.0]) == 1.0
    big = stats.mann_whitney([1.0] * 20 + [2.0] * 20, [1.0] * 10 + [2.0] * 30)
    assert 0.01 < big < 0.04


def test_holm() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([None, 0.04, None]) == [None, 0.04, None]
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]
    assert stats.holm([]) == []
    with pytest.raises(ValueError, match="probability"):
        stats.holm([0.1, 1.5])


def test_variation_and_geometric_mean() -> None:
    assert stats.variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    assert stats.variation([5.0]) is None
    assert stats.variation([-1.0, 1.0]) is None
    assert stats.geometric_mean([0.25, 4.0, 1.0, 16.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="above 0"):
        stats.geometric_mean([1.0, 0.0])


@given(positive, positive, st.floats(0.01, 100))
def test_ratio_does_not_depend_on_the_unit(x: list[float], y: list[float], scale: float) -> None:
    one = stats.effect(x, y, test=False)
    two = stats.effect([v * scale for v in x], [v * scale for v in y], test=False)
    assert two.estimate == pytest.approx(one.estimate, rel=1e-9)
    assert two.interval.low == pytest.approx(one.interval.low, rel=1e-9)
    assert two.interval.high == pytest.approx(one.interval.high, rel=1e-9)


@given(positive, positive)
def test_swapping_inverts_the_ratio(x: list[float], y: list[float]) -> None:
    there, back = stats.effect(x, y, test=False), stats.effect(y, x, test=False)
    assert there.estimate * back.estimate == pytest.approx(1)
    assert there.interval.low * back.interval.high == pytest.approx(1)
    assert there.interval.coverage == back.interval.coverage
    mirror = {Verdict.HIGHER: Verdict.LOWER, Verdict.LOWER: Verdict.HIGHER}
    assert back.verdict is mirror.get(there.verdict, there.verdict)


@settings(max_examples=60, deadline=None)
@given(counts, counts, st.booleans())
def test_whatever_the_counts(x: list[float], y: list[float], exact: bool) -> None:
    found = stats.effect(x, y, exact=exact)
    assert found.interval.low <= found.estimate <= found.interval.high
    assert 0 <= found.interval.coverage <= 1
    assert found.p is None or 0 <= found.p <= 1
    if found.verdict is Verdict.HIGHER:
        assert np.median(y) > np.median(x)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_median_lies_in_its_interval(values: list[float]) -> None:
    found = stats.median_interval(values)
    assert found.low <= stats.median(values) <= found.high


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12))
def test_holm_keeps_the_order_and_never_lowers(ps: list[float | None]) -> None:
    corrected = stats.holm(ps)
    pairs = [(p, c) for p, c in zip(ps, corrected, strict=True) if p is not None and c is not None]
    assert len(pairs) == sum(p is not None for p in ps)
    assert all(p <= c <= 1 for p, c in pairs)
    pairs.sort()
    assert [c for _, c in pairs] == sorted(c for _, c in pairs)


def test_interval_covers_as_often_as_it_says() -> None:
    """2000 simulated comparisons with a long tail and a true ratio of 1.3, fixed seed."""
    rng = np.random.default_rng(1)
    runs, covered = 2000, 0
    for _ in range(runs):
        x = rng.lognormal(0, 0.5, 6).tolist()
        y = (1.3 * rng.lognormal(0, 0.5, 6)).tolist()
        interval = stats.effect(x, y, test=False).interval
        covered += interval.low <= 1.3 <= interval.high
    stated = interval.coverage
    assert stated == pytest.approx(1 - 2 * 19 / 924)  # U <= 5 in 19 of 924 ways
    assert abs(covered / runs - stated) < 4 * math.sqrt(stated * (1 - stated) / runs)


def test_median_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    runs = 4000
    for n in (3, 7):
        found = [stats.median_interval(rng.exponential(1, n).tolist()) for _ in range(runs)]
        stated = found[0].coverage
        covered = np.mean([i.low <= math.log(2) <= i.high for i in found])
        assert abs(covered - stated) < 4 * math.sqrt(stated * (1 - stated) / runs)
