# SPDX-License-Identifier: GPL-2.0-only
"""The study's evaluation, on data simulated to say what the published one says, or its opposite."""

from __future__ import annotations

import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from support import AGING, LOCAL

from lull import cli
from lull.run.records import Record, Results
from lull_contrib import aging
from lull_contrib.aging import AGREES, DIFFERS, MISSING, POLICIES, PROGRAMS, UNCERTAIN, evaluate

Shape = tuple[float, float]  # mean in seconds, coefficient of variation

# As published: times relative to each other, and how much they vary.
AS_PUBLISHED: dict[str, dict[str, Shape]] = {
    "seq-read": {"sync": (1.0, 0.12), "nosync": (1.0, 0.38), "none": (0.90, 0.034)},
    "rand-read": {"sync": (1.0, 0.03), "nosync": (0.92, 0.01), "none": (1.0, 0.03)},
    "hot-read": {"sync": (1.0, 0.01), "nosync": (0.88, 0.02), "none": (0.97, 0.05)},
    "seq-write": {"sync": (1.0, 0.04), "nosync": (1.0, 0.04), "none": (1.0, 0.04)},
    "rand-write": {"sync": (1.0, 0.04), "nosync": (0.79, 0.04), "none": (0.49, 0.04)},
    "hot-write": {"sync": (1.0, 0.04), "nosync": (0.98, 0.04), "none": (0.54, 0.04)},
}


def simulate(shapes: Mapping[str, Mapping[str, Shape]], repeats: int = 31, vcpus: int = 4) -> Results:
    """Times with exactly the mean and variation asked for: scaled normal quantiles, shuffled."""
    rng = np.random.default_rng(1)
    records = []
    for program, policies in shapes.items():
        for policy, (mean, variation) in policies.items():
            quantiles = np.array([NormalDist().inv_cdf((place + 0.5) / repeats) for place in range(repeats)])
            if repeats > 1:
                quantiles /= quantiles.std(ddof=1)
            values = tuple(rng.permutation(mean * (1 + variation * quantiles)).tolist())
            kernel = policy if policy == aging.STOCK else f"lull+{AGING}={policy}"
            workload = f"aging/{program}"
            records.append(Record(kernel, workload, vcpus, aging.METRIC, "s", values, 9, "page"))
    return Results("0.1", "6.12", {}, records)


def mirrored() -> dict[str, dict[str, Shape]]:
    """Sync is best wherever none was, and the other way round."""
    names = {"sync": "none", "none": "sync", "nosync": "nosync"}
    found = {
        program: {names[policy]: shape for policy, shape in policies.items()}
        for program, policies in AS_PUBLISHED.items()
    }
    found["seq-write"] = {"sync": (1.0, 0.01), "nosync": (1.5, 0.01), "none": (2.0, 0.01)}
    return found


def test_spreads() -> None:
    results = simulate({"seq-read": {"none": (2.0, 0.1)}})
    spread = evaluate(results).spreads["seq-read", "none"]
    assert spread.mean == pytest.approx(2.0)
    assert spread.deviation == pytest.approx(0.2)
    assert spread.variation == pytest.approx(0.1)
    assert len(spread.values) == 31


def test_agrees_with_the_published_study() -> None:
    found = evaluate(simulate(AS_PUBLISHED))
    assert {f.claim.text: f.verdict for f in found.findings} == {claim.text: AGREES for claim in aging.PUBLISHED}
    here = {f.claim.text: f.here for f in found.findings}
    assert here["none 51 % faster than sync"].startswith("none takes -51 % time [-52 %")
    assert here["none varies 5 %, sync 1 %"] == "sync 1 %, none 5 %"
    assert here["nothing significant"] == "nothing"
    assert found.choice is not None
    assert (found.choice.policy, found.choice.verdict) == ("none", AGREES)
    assert {w.policy: (w.program, w.verdict) for w in found.worst} == {
        "sync": ("seq-read", AGREES),
        "nosync": ("seq-read", AGREES),
        "none": ("hot-read", AGREES),
    }
    assert {w.policy: w.variation for w in found.worst} == pytest.approx(aging.PUBLISHED_WORST)


def test_differs_when_the_opposite_is_found() -> None:
    found = evaluate(simulate(mirrored()))
    verdicts = {(f.claim.program, f.claim.text): f.verdict for f in found.findings}
    assert verdicts["seq-read", "none 8 % faster than sync"] == DIFFERS
    assert verdicts["rand-write", "none 51 % faster than sync"] == DIFFERS
    assert verdicts["hot-read", "none varies 5 %, sync 1 %"] == DIFFERS
    assert verdicts["seq-write", "nothing significant"] == DIFFERS
    assert found.choice is not None
    assert (found.choice.policy, found.choice.verdict) == ("sync", DIFFERS)


def test_noise_is_not_significant() -> None:
    same = {p: {policy: (1.0, 0.1) for policy in (*POLICIES, "stock")} for p in PROGRAMS}
    found = evaluate(simulate(same))
    for finding in found.findings:
        expected = AGREES if finding.claim.kind == "nothing" else UNCERTAIN
        assert finding.verdict == expected
    assert not any(d.holds for d in (*found.differences, *found.control))
    assert len(found.differences) == 18 and len(found.control) == 6
    assert found.choice is not None and found.choice.verdict == UNCERTAIN
    assert found.missing == ()


def test_a_smaller_mean_with_the_same_deviation_varies_more() -> None:
    shapes = {"seq-read": {"sync": (1.0, 0.05), "none": (0.2, 0.25)}}
    found = evaluate(simulate(shapes))
    (difference,) = found.differences
    assert difference.variances == pytest.approx(1.0)
    assert difference.vary_differently
    assert difference.variation_ratio == pytest.approx(5.0)
    verdicts = {f.claim.text: f.verdict for f in found.findings}
    assert verdicts["none varies 3.5x less than sync"] == DIFFERS


def test_both_tests_must_agree_and_holm_is_stricter() -> None:
    found = evaluate(simulate(AS_PUBLISHED))
    for d in found.differences:
        assert d.welch is not None and d.effect.p is not None and d.p_holm is not None
        assert d.p == max(d.welch, d.effect.p) <= d.p_holm
        assert d.holds == (d.welch < 0.01 and d.effect.p < 0.01)
        assert d.effect.interval.coverage >= 0.99
    smallest = min(d.p for d in found.differences if d.p is not None)
    assert min(d.p_holm for d in found.differences if d.p_holm is not None) == pytest.approx(18 * smallest)
    assert all(d.p_holm is None for d in found.control)


@pytest.mark.parametrize("repeats", [1, 2, 3, 4])
def test_few_repeats_find_nothing_and_claim_nothing(repeats: int) -> None:
    found = evaluate(simulate(AS_PUBLISHED, repeats))
    assert {f.verdict for f in found.findings} == {UNCERTAIN}
    assert not any(d.holds for d in found.differences)
    if repeats == 1:
        assert found.choice is None and found.worst == ()
        assert found.spreads["seq-read", "none"].deviation is None
    else:
        assert found.choice is not None and found.choice.verdict == UNCERTAIN
        assert {w.verdict for w in found.worst} == {UNCERTAIN}
    assert "emulated" in aging.results_markdown(simulate(AS_PUBLISHED, repeats))


def test_times_all_equal() -> None:
    same = {p: {policy: (1.0, 0.0) for policy in POLICIES} for p in PROGRAMS}
    found = evaluate(simulate(same))
    assert all(d.welch is None and not d.holds for d in found.differences)
    assert found.choice is not None
    assert aging.results_markdown(simulate(same))


def test_what_is_missing_is_said() -> None:
    shapes = {p: dict(policies) for p, policies in AS_PUBLISHED.items()}
    del shapes["seq-write"]
    del shapes["hot-read"]["none"]
    found = evaluate(simulate(shapes))
    verdicts = {(f.claim.program, f.claim.text): f.verdict for f in found.findings}
    assert verdicts["seq-write", "nothing significant"] == MISSING
    assert verdicts["hot-read", "nosync 9 % faster than none"] == MISSING
    assert verdicts["hot-read", "nosync 12 % faster than sync"] == AGREES
    assert found.choice is None
    assert f"aging/hot-read on lull+{AGING}=none" in found.missing
    assert "aging/seq-read on stock" in found.missing
    text = aging.results_markdown(simulate(shapes))
    assert "**Conclusion.** None" in text
    assert f"aging/seq-write on lull+{AGING}=sync" in text


def test_other_records_are_left_alone() -> None:
    results = simulate({"seq-read": {"none": (1.0, 0.1)}})
    results.records += [
        Record("lull", "aging/seq-read", 4, aging.METRIC, "s", (9.0,)),
        Record(f"lull+{AGING}=none", "young", 8, aging.METRIC, "s", (9.0,)),
        Record(f"lull+{AGING}=none", "aging/unknown", 8, aging.METRIC, "s", (9.0,)),
        Record(f"lull+{AGING}=none", "aging/seq-read", 4, "dsb_ish", "count", (7.0, 9.0)),
    ]
    found = evaluate(results)
    assert list(found.spreads) == [("seq-read", "none")]
    assert found.counts == {("seq-read", "none", "dsb_ish"): 8.0}
    assert "| seq-read | none | 8 |" in aging.results_markdown(results)


def test_kernels_without_residency_are_judged_if_there_are_any() -> None:
    results = simulate({"seq-read": {"none": (1.0, 0.1), "sync": (2.0, 0.1)}})
    off = [replace(r, kernel=r.kernel.replace("lull+", f"lull+{LOCAL}=off+")) for r in results.records]
    assert evaluate(Results("", "", {}, off)).spreads == evaluate(results).spreads
    slow = [replace(r, values=tuple(2 * value for value in r.values)) for r in off]
    both = evaluate(Results("", "", {}, [*results.records, *slow]))
    assert both.spreads == evaluate(Results("", "", {}, slow)).spreads
    assert f"aging/seq-read on lull+{LOCAL}=off+{AGING}=nosync" in both.missing


def test_refuses() -> None:
    one = simulate({"seq-read": {"none": (1.0, 0.1)}})
    more = simulate({"seq-read": {"sync": (1.0, 0.1)}}, vcpus=8)
    with pytest.raises(ValueError, match=r"several numbers of vCPUs: \[4, 8\]"):
        evaluate(Results("", "", {}, [*one.records, *more.records]))
    with pytest.raises(ValueError, match="recorded twice"):
        evaluate(Results("", "", {}, [*one.records, *one.records]))
    for bad, why in ((math.nan, "finite"), (0.0, "0 or less")):
        broken = Record(f"lull+{AGING}=none", "aging/seq-read", 4, aging.METRIC, "s", (1.0, bad))
        with pytest.raises(ValueError, match=why):
            evaluate(Results("", "", {}, [broken]))
    nothing = Results("", "", {}, [])
    assert aging.results_markdown(nothing) == "The `aging` workload was not measured.\n"
    with pytest.raises(ValueError, match="nothing to draw"):
        aging.picture_svg(nothing)


def test_markdown() -> None:
    shapes = {p: {**policies, "stock": policies["nosync"]} for p, policies in AS_PUBLISHED.items()}
    text = aging.results_markdown(simulate(shapes), address="aging.svg")
    assert "](aging.svg)" in text
    assert "31 repeats" in text
    assert "| rand-write | none 51 % faster than sync | none takes -51 % time [" in text
    assert "| nosync | seq-read | 38 % [" in text
    assert "none here (100 % of the resampled studies choose it), none as published: agrees" in text
    for table in (block for block in text.split("\n\n") if block.startswith("|")):
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1
    assert aging.results_markdown(simulate(shapes), address="aging.svg") == text


def test_picture() -> None:
    results = simulate(AS_PUBLISHED)
    text = aging.picture_svg(results)
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    words = {"".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("text")}
    assert {*PROGRAMS, *POLICIES, "emulated seconds"} <= words
    dots = sum(node.tag.endswith("}use") for node in root.iter())
    assert dots >= 31 * 18
    assert len(text) < 200_000
    assert aging.picture_svg(results) == text


def test_matplotlib_is_loaded_only_to_draw() -> None:
    code = "import sys, lull_contrib.aging; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables of a run are printed, and written with the picture; a run without the workload has none."""
    (tmp_path / "results.json").write_text(simulate(AS_PUBLISHED).to_json())
    assert cli.main(["aging", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Worst variation" in printed and "none 51 % faster than sync" in printed
    assert "](aging.svg)" in (tmp_path / "aging.md").read_text() and (tmp_path / "aging.svg").is_file()
    (tmp_path / "results.json").write_text(Results("", "", {}, []).to_json())
    assert cli.main(["aging", str(tmp_path)]) == cli.main(["aging", "nowhere"]) == 2
    assert capsys.readouterr().err.count("holds no results") == 2
