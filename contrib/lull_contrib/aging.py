# SPDX-License-Identifier: GPL-2.0-only
"""Evaluate three ways to clear the accessed bit by the rules of the study of 2018 (system E), and compare with it.

Six programs use more memory than they may have resident, so that reclaim clears accessed bits all the time: with TLBI
and DSB (policy sync), with TLBI alone (nosync, as Linux does), and with neither (none). The study reported differences
in mean time at p < 0.01, looked at the variation of a program's time, and chose the way whose worst variation over the
programs is smallest. This module applies the same rules to a run's repeats, and shows both results side by side.

The study leaves some definitions open. Here "variation" is the coefficient of variation (standard deviation / mean),
and "n % faster" means n % less time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from lull import picture
from lull.base import load_base
from lull.judge import stats
from lull.judge.tables import Grid, grid_markdown, number, ratio
from lull.run.records import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "seconds_emulated"
PROGRAMS = ("seq-read", "rand-read", "hot-read", "seq-write", "rand-write", "hot-write")
POLICIES = ("sync", "nosync", "none")
STOCK = "stock"
COLOURS = dict(zip((STOCK, *POLICIES), picture.COLOURS, strict=False))
ALPHA = 0.01
RESAMPLES = 4000
# With fewer repeats, a bootstrap gives a far too narrow interval for a deviation, so that nothing is judged by it.
FEW = 10
SEED = 2018

AGREES, DIFFERS, UNCERTAIN, MISSING = "agrees", "differs", "not significant here", "not measured"


@dataclass(frozen=True)
class Claim:
    """A published difference in one program.

    Args:
        program: one of PROGRAMS.
        kind: ``time`` (``better`` takes less time), ``variation`` (``better`` varies less), or ``nothing`` (no two
            policies differ in time).
        better, worse: the policies; empty for ``nothing``.
        text: the claim in words.
        figure: the published size: for ``time`` the share of time saved, for ``variation`` the factor; None when none
            was published.
    """

    program: str
    kind: str
    better: str
    worse: str
    text: str
    figure: float | None = None


PUBLISHED = (
    Claim("seq-read", "time", "none", "sync", "none 8 % faster than sync", 0.08),
    Claim("seq-read", "variation", "none", "sync", "none varies 3.5x less than sync", 3.5),
    Claim("seq-read", "variation", "sync", "nosync", "nosync (38 %) varies more than sync"),
    Claim("seq-read", "variation", "none", "nosync", "nosync (38 %) varies more than none"),
    Claim("rand-read", "time", "nosync", "sync", "nosync 8 % faster than sync", 0.08),
    Claim("rand-read", "time", "nosync", "none", "nosync 8 % faster than none", 0.08),
    Claim("rand-read", "variation", "nosync", "sync", "nosync varies about 3x less than sync", 3.0),
    Claim("rand-read", "variation", "nosync", "none", "nosync varies about 3x less than none", 3.0),
    Claim("hot-read", "time", "nosync", "sync", "nosync 12 % faster than sync", 0.12),
    Claim("hot-read", "time", "nosync", "none", "nosync 9 % faster than none", 0.09),
    Claim("hot-read", "variation", "sync", "none", "none varies 5 %, sync 1 %", 5.0),
    Claim("seq-write", "nothing", "", "", "nothing significant"),
    Claim("rand-write", "time", "none", "sync", "none 51 % faster than sync", 0.51),
    Claim("rand-write", "time", "none", "nosync", "none 38 % faster than nosync", 0.38),
    Claim("hot-write", "time", "none", "sync", "none 46 % faster than sync", 0.46),
    Claim("hot-write", "time", "none", "nosync", "none 45 % faster than nosync", 0.45),
)
PUBLISHED_WORST = {"none": 0.05, "nosync": 0.38, "sync": 0.12}
PUBLISHED_CHOICE = "none"


@dataclass(frozen=True)
class Spread:
    """The times of one program under one policy.

    ``values``, ``mean`` and ``deviation`` are emulated seconds, and ``variation`` is the coefficient of variation. With
    one repeat deviation and variation are None.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    variation: float | None

    @classmethod
    def of(cls, values: Sequence[float], where: str) -> Spread:
        """The statistics of ``values``. Raises ValueError without values, or for one that is NaN, infinite or <= 0."""
        if min(stats.checked(values)) <= 0:
            raise ValueError(f"{where}: a time of 0 or less: {list(values)}")
        deviation = stdev(values) if len(values) > 1 else None
        return cls(tuple(values), fmean(values), deviation, stats.variation(values))

    @property
    def relative(self) -> list[float]:
        """The values as multiples of their mean."""
        return [value / self.mean for value in self.values]


Spreads = Mapping[tuple[str, str], Spread]
"""By program and policy."""


@dataclass(frozen=True)
class Difference:
    """The difference between two policies in one program: ``other`` compared with ``first``.

    Args:
        effect: ratio other / first of the times, with its 99 % interval and Mann-Whitney p.
        welch: p of Welch's t-test that the means are equal.
        p: the larger of these two p: a difference holds when both tests find it. None when a test was not made.
        p_holm: p corrected for all differences of the study; None for the control.
        variation_ratio: ratio other / first of the coefficients of variation; None when one is 0 or unknown.
        variances: p of the Brown-Forsythe test that the variances are equal.
        variations: p of the same test on the times divided by their means: that the variations are equal.
    """

    program: str
    first: str
    other: str
    effect: stats.Effect
    welch: float | None
    p: float | None
    p_holm: float | None
    variation_ratio: float | None
    variances: float | None
    variations: float | None

    @property
    def holds(self) -> bool:
        """True if both tests find that the times differ, at ALPHA."""
        return self.p is not None and self.p < ALPHA

    @property
    def vary_differently(self) -> bool:
        """True if the variations differ, at ALPHA."""
        return self.variations is not None and self.variations < ALPHA


@dataclass(frozen=True)
class ClaimFinding:
    """A published claim, the result here, and whether the two agree."""

    claim: Claim
    here: str
    verdict: str


@dataclass(frozen=True)
class Worst:
    """The largest variation of a policy over the programs, with its 99 % bootstrap interval."""

    policy: str
    program: str
    variation: float
    interval: stats.Interval
    published: float
    verdict: str


@dataclass(frozen=True)
class Choice:
    """The policy whose worst variation is smallest; ``share``: the share of resampled studies that also choose it."""

    policy: str
    share: float
    verdict: str


@dataclass(frozen=True)
class Evaluation:
    """The results of the evaluation.

    Args:
        spreads: the times by (program, policy), for every pair that was measured; ``stock`` counts as a policy.
        differences: the three policies compared pairwise in each program.
        control: stock compared with nosync, which does the same: no difference is expected.
        findings: each published claim beside the result here.
        worst, choice: the conclusion by the study's rule; empty and None when a program or policy was not measured.
        counts: medians of other metrics, by (program, policy, metric), per window.
        missing: the programs and kernels that were not measured.
    """

    spreads: Spreads
    differences: tuple[Difference, ...]
    control: tuple[Difference, ...]
    findings: tuple[ClaimFinding, ...]
    worst: tuple[Worst, ...]
    choice: Choice | None
    counts: Mapping[tuple[str, str, str], float]
    missing: tuple[str, ...]


def kernels_of(results: Results) -> dict[str, str]:
    """Policy -> the kernel that stands for it.

    One with another feature off is preferred: residency elides TLBIs in which the policies differ; the study's kernel
    did not have it.
    """
    switch = next(f.name for f in load_base().features.values() if set(f.policies) == set(POLICIES))
    names = {record.kernel for record in results.records if record.workload.startswith("aging/")}
    stems = [name.rpartition("=")[0] for name in names if re.fullmatch(rf"lull(\+\w+=off)?\+{switch}=\w+", name)]
    return {policy: f"{max(stems, key=len, default=f'lull+{switch}')}={policy}" for policy in POLICIES}


def evaluate(results: Results) -> Evaluation:
    """Evaluate the ``aging/*`` records of ``results``.

    Raises: ValueError for values that are NaN or infinite, for records with different numbers of vCPUs, or for one that
        is there twice.
    """
    spreads: dict[tuple[str, str], Spread] = {}
    counts: dict[tuple[str, str, str], float] = {}
    kernels = kernels_of(results)
    policies = {kernel: policy for policy, kernel in kernels.items()} | {STOCK: STOCK}
    vcpus = set()
    for record in results.records:
        name, _, program = record.workload.partition("/")
        policy = policies.get(record.kernel)
        if name != "aging" or program not in PROGRAMS or policy is None or not record.values:
            continue
        vcpus.add(record.vcpus)
        if len(vcpus) > 1:
            raise ValueError(f"aging was measured at several numbers of vCPUs: {sorted(vcpus)}")
        if record.metric != METRIC:
            counts[program, policy, record.metric] = stats.median(record.values)
        elif (program, policy) in spreads:
            raise ValueError(f"recorded twice: {record.kernel}, {record.workload}, {METRIC}")
        else:
            spreads[program, policy] = Spread.of(record.values, f"{program}, {policy}")
    found = _differences(spreads, combinations(POLICIES, 2))
    differences = tuple(replace(d, p_holm=p) for d, p in zip(found, stats.holm([d.p for d in found]), strict=True))
    control = tuple(_differences(spreads, [("nosync", STOCK)]))
    findings = tuple(_finding(claim, spreads, differences) for claim in PUBLISHED)
    asked = product(PROGRAMS, (*POLICIES, STOCK))
    missing = tuple(
        f"aging/{name} on {kernels.get(policy, policy)}" for name, policy in asked if (name, policy) not in spreads
    )
    return Evaluation(spreads, differences, control, findings, *_worst(spreads), counts, missing)


def results_markdown(results: Results, address: str = "") -> str:
    """The evaluation as a chapter for docs/measurements.md.

    Args:
        results: a run with the ``aging`` workload.
        address: the address of the picture, relative to the document; empty: no picture.

    Raises: ValueError as ``evaluate``.
    """
    found = evaluate(results)
    if not found.spreads:
        return "The `aging` workload was not measured.\n"
    repeats = sorted({len(spread.values) for spread in found.spreads.values()})
    parts = [
        f"Times are *emulated* seconds, {' or '.join(map(str, repeats))} repeats. A difference "
        "holds when Welch's t-test and the Mann-Whitney test both give "
        f"p < {ALPHA}; *Holm* says whether it still does after correction for all differences "
        "tested. The published study used 31 repeats on a machine with 8 CPUs."
    ]
    if address:
        parts.append(f"![Emulated seconds of each repeat, by program and policy]({address})")
    parts += [grid_markdown(grid) for grid in grids(found)]
    if found.choice is None:
        parts.append("**Conclusion.** None: not every program was measured twice under every policy.")
    if found.missing:
        parts.append("Not measured: " + ", ".join(found.missing) + ".")
    return "\n\n".join(parts) + "\n"


def grids(found: Evaluation) -> list[Grid]:
    """The tables of the evaluation; an empty list when nothing was measured."""
    if not found.spreads:
        return []
    made = [_finding_grid(found.findings), *_worst_grid(found), _spread_grid(found)]
    note = "a / b: time of a as a multiple of that of b, variation likewise; variances, and the variations (each time "
    note += "divided by its mean), are compared by the Brown-Forsythe test"
    made.append(_difference_grid("Differences", found.differences, note))
    if found.control:
        note = "stock does what nosync does, so nothing should differ here"
        made.append(_difference_grid("Control", found.control, note))
    return made + ([_count_grid(found)] if found.counts else [])


def picture_svg(results: Results) -> str:
    """The picture, an ``<svg>`` element for use in HTML; the same for the same data.

    A panel for each program has a box plot for each policy, and a dot for the emulated seconds of each repeat.

    Raises: ValueError as ``evaluate``, and when the workload was not measured.
    """
    found = evaluate(results)
    if not found.spreads:
        raise ValueError("the aging workload was not measured: there is nothing to draw")
    with picture.drawing(6.6, 6.6, clear=True) as (figure, text):
        panels = figure.subplots(3, 2).ravel()
        for panel, program in zip(panels, PROGRAMS, strict=True):
            _panel(panel, program, found)
        for panel in panels[::2]:
            panel.set_ylabel("emulated seconds")
        return text()


def _panel(panel: Axes, program: str, found: Evaluation) -> None:
    rng = np.random.default_rng([SEED, PROGRAMS.index(program)])
    shown = (*POLICIES, STOCK)
    grey = {"color": picture.GREY}
    for place, policy in enumerate(shown):
        spread = found.spreads.get((program, policy))
        if spread is None:
            continue
        panel.boxplot(
            spread.values,
            positions=[place],
            widths=0.5,
            showfliers=False,
            boxprops=grey,
            whiskerprops=grey,
            capprops=grey,
            medianprops={**grey, "linewidth": 1.5},
        )
        aside = place + rng.uniform(-0.12, 0.12, len(spread.values))
        panel.plot(aside, spread.values, "o", ms=3.5, alpha=0.6, mew=0, color=COLOURS[policy])
    panel.set_title(program, fontsize=10)
    panel.set_xticks(range(len(shown)), shown)
    panel.set_xlim(-0.6, len(shown) - 0.4)
    panel.set_ylim(bottom=0)


def _differences(spreads: Spreads, pairs: Iterable[tuple[str, str]]) -> list[Difference]:
    found = []
    for program, (first, other) in product(PROGRAMS, pairs):
        a, b = spreads.get((program, first)), spreads.get((program, other))
        if a is None or b is None:
            continue
        effect = stats.effect(a.values, b.values, confidence=1 - ALPHA)
        welch = stats.welch(a.values, b.values)
        p = None if welch is None or effect.p is None else max(welch, effect.p)
        variation = b.variation / a.variation if a.variation and b.variation else None
        variances = stats.brown_forsythe(a.values, b.values)
        variations = stats.brown_forsythe(a.relative, b.relative)
        found.append(Difference(program, first, other, effect, welch, p, None, variation, variances, variations))
    return found


def _finding(claim: Claim, spreads: Spreads, differences: Sequence[Difference]) -> ClaimFinding:
    here = [d for d in differences if d.program == claim.program]
    if claim.kind == "nothing":
        if len(here) < math.comb(len(POLICIES), 2):
            return ClaimFinding(claim, "", MISSING)
        if not all(d.effect.interval.reached for d in here):
            return ClaimFinding(claim, "too few repeats to tell", UNCERTAIN)
        held = [f"{d.other} / {d.first} {ratio(d.effect.estimate)}" for d in here if d.holds]
        return ClaimFinding(claim, "; ".join(held) or "nothing", DIFFERS if held else AGREES)
    better = spreads.get((claim.program, claim.better))
    worse = spreads.get((claim.program, claim.worse))
    between = [d for d in here if {d.first, d.other} == {claim.better, claim.worse}]
    if better is None or worse is None or not between:
        return ClaimFinding(claim, "", MISSING)
    (difference,) = between
    if claim.kind == "time":
        effect = stats.effect(worse.values, better.values, confidence=1 - ALPHA, test=False)
        text = f"{claim.better} takes {_change(effect.estimate)} time"
        if effect.interval.reached:
            text += f" [{_change(effect.interval.low)}, {_change(effect.interval.high)}]"
        return ClaimFinding(claim, text, _verdict(difference.holds, better.mean < worse.mean))
    if better.variation is None or worse.variation is None:
        return ClaimFinding(claim, "one repeat does not vary", UNCERTAIN)
    text = f"{claim.better} {_percent(better.variation)}, {claim.worse} {_percent(worse.variation)}"
    return ClaimFinding(claim, text, _verdict(difference.vary_differently, better.variation < worse.variation))


def _verdict(significant: bool, same_direction: bool) -> str:
    if not significant:
        return UNCERTAIN
    return AGREES if same_direction else DIFFERS


def _worst(spreads: Spreads) -> tuple[tuple[Worst, ...], Choice | None]:
    """Apply the study's rule, and estimate how certain its choice is.

    For the estimate the repeats of each series are drawn again with replacement, RESAMPLES times, and the rule is
    applied to each such study (percentile bootstrap; Efron, 1979).
    """
    rng = np.random.default_rng(SEED)
    variations: list[tuple[str, str, float]] = []
    again = []
    for policy in POLICIES:
        of_policy = []
        for program in PROGRAMS:
            spread = spreads.get((program, policy))
            if spread is None or spread.variation is None:
                return (), None
            variations.append((policy, program, spread.variation))
            drawn = rng.choice(spread.values, (RESAMPLES, len(spread.values)))
            of_policy.append(drawn.std(axis=1, ddof=1) / np.abs(drawn.mean(axis=1)))
        again.append(np.max(of_policy, axis=0))
    chosen = np.argmin(again, axis=0)
    fewest = min(len(spread.values) for key, spread in spreads.items() if key[1] in POLICIES)
    found = []
    for place, policy in enumerate(POLICIES):
        value, program = max((v, p) for name, p, v in variations if name == policy)
        low, high = np.quantile(again[place], [ALPHA / 2, 1 - ALPHA / 2])
        interval = stats.Interval(float(low), float(high), 1 - ALPHA, True)
        published = PUBLISHED_WORST[policy]
        verdict = AGREES if low <= published <= high else DIFFERS
        if fewest < FEW:
            verdict = UNCERTAIN
        found.append(Worst(policy, program, value, interval, published, verdict))
    best = min(found, key=lambda worst: worst.variation)
    share = float((chosen == POLICIES.index(best.policy)).mean())
    sure = share >= 1 - ALPHA and fewest >= FEW
    verdict = _verdict(sure, best.policy == PUBLISHED_CHOICE)
    return tuple(found), Choice(best.policy, share, verdict)


def _spread_grid(found: Evaluation) -> Grid:
    rows = []
    for program in PROGRAMS:
        cells = [program]
        for policy in (*POLICIES, STOCK):
            spread = found.spreads.get((program, policy))
            cell = number(spread.mean, "s") if spread else ""
            if spread and spread.deviation is not None and spread.variation is not None:
                cell += f" ± {number(spread.deviation, 's')} ({_percent(spread.variation)})"
            cells.append(cell)
        rows.append(tuple(cells))
    note = "mean, standard deviation and coefficient of variation; emulated seconds"
    return Grid("Time and its variation", ("program", *POLICIES, STOCK), tuple(rows), 1, (note,))


def _difference_grid(title: str, differences: Sequence[Difference], note: str) -> Grid:
    rows = []
    for d in differences:
        change = ratio(d.effect.estimate)
        if d.effect.interval.reached:
            change += f" [{ratio(d.effect.interval.low)}, {ratio(d.effect.interval.high)}]"
        holm = "" if d.p_holm is None else "yes" if d.p_holm < ALPHA else "no"
        times = (change, _p(d.welch), _p(d.effect.p), "yes" if d.holds else "no", holm)
        varies = "" if d.variation_ratio is None else ratio(d.variation_ratio)
        rows.append((d.program, f"{d.other} / {d.first}", *times, _p(d.variances), varies, _p(d.variations)))
    header = ["program", "a / b", "time, 99 % interval", "p Welch", "p Mann-Whitney", "holds"]
    header += ["Holm", "p variances", "variation", "p variations"]
    return Grid(title, tuple(header), tuple(rows), 2, (note,))


def _finding_grid(findings: Sequence[ClaimFinding]) -> Grid:
    rows = tuple((f.claim.program, f.claim.text, f.here, f.verdict) for f in findings)
    note = (
        "agrees: the same direction as published at p < 0.01, or no difference where none was published. differs: the "
        "opposite direction, or a difference where none was published. Sizes depend on the machine: compare only "
        "directions"
    )
    return Grid("Published and found", ("program", "published", "here", "verdict"), rows, 4, (note,))


def _worst_grid(found: Evaluation) -> list[Grid]:
    """The table of the conclusion; none when a program was not measured at least twice under every policy."""
    if found.choice is None:
        return []
    rows = tuple(
        (
            w.policy,
            w.program,
            f"{_percent(w.variation)} [{_percent(w.interval.low)}, {_percent(w.interval.high)}]",
            _percent(w.published),
            w.verdict,
        )
        for w in found.worst
    )
    notes = (
        "in brackets: 99 % bootstrap interval; agrees: the published figure lies in the interval",
        "Conclusion by the published rule (choose the policy whose worst variation is smallest): "
        f"{found.choice.policy} here ({_percent(found.choice.share)} of the resampled studies choose it), "
        f"{PUBLISHED_CHOICE} as published: {found.choice.verdict}.",
    )
    return [Grid("Worst variation", ("policy", "in", "worst variation", "published", "verdict"), rows, 2, notes)]


SHOWN = ("young_sync", "young_nosync", "young_none", "pswpout", "tlbi_broadcast_user", "dsb_ish", "dsb_ishst", "insns")
"""The metrics in which the policies differ; results.json has all metrics."""


def _count_grid(found: Evaluation) -> Grid:
    measured = {metric for _, _, metric in found.counts}
    metrics = [metric for metric in SHOWN if metric in measured]
    rows = []
    for program, policy in product(PROGRAMS, (*POLICIES, STOCK)):
        values = [found.counts.get((program, policy, metric)) for metric in metrics]
        if any(value is not None for value in values):
            rows.append((program, policy, *("" if v is None else number(v) for v in values)))
    return Grid("Counts", ("program", "policy", *metrics), tuple(rows), 2, ("the median of a whole window",))


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if abs(fraction) < 0.995 else f"{100 * fraction:.0f} %"


def _change(ratio_: float) -> str:
    return ("+" if ratio_ >= 1 else "") + _percent(ratio_ - 1)


def _p(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"
