# SPDX-License-Identifier: GPL-2.0-only
"""The short run: what it is made of, the table it ends with, and what is said of its time beforehand."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import AGING, LOCAL

from lull import base as bases
from lull import cache, cli, eta, plan
from lull.judge import short, tables, verdict
from lull.run.records import Check, Record, Results

BASE = bases.load_base()


def booted(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    """The boots of a run with these options."""
    assert cli.main(["run", *words, "--dry-run", "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_no_options_are_the_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Stock and Lull as they boot, and no control; two boots each, or as many as are asked for.

    The workload that needs a kernel parameter has as many boots of its own.
    """
    boots = booted(capsys)
    assert sorted({str(b["image"]) for b in boots}) == ["lull", "stock"]
    assert len(boots) == 2 * 4
    assert sum("hugetlb_free_vmemmap" in str(b["boot"]) for b in boots) == 4
    jobs = {str(job) for b in boots for job in b["jobs"]}  # type: ignore[attr-defined]
    assert {job.split()[0] for job in jobs} == {"stock", "lull"}
    assert len(booted(capsys, "--repeat", "3")) == 3 * 4


@pytest.mark.parametrize("words", [("--full",), ("--kernel", "lull"), ("--workload", "young")])
def test_options_are_a_run_of_what_they_ask_for(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Five boots each, and the policies that the workloads name."""
    boots = booted(capsys, *words)
    assert len(boots) % 5 == 0
    named = {str(job).split()[0] for b in boots for job in b["jobs"]}  # type: ignore[attr-defined]
    assert words[0] == "--kernel" or f"lull+{AGING}=none" in named


def test_every_line_is_of_a_workload_in_the_short_run() -> None:
    """At most ten lines."""
    workloads = plan.load_workloads(BASE.suite_named("").workloads)
    chosen = {w.name for w in plan.short_selection(workloads)}
    assert {line.workload.partition("/")[0] for line in short.LINES} | {"exact"} == chosen
    assert len(short.LINES) <= 10
    for line in short.LINES:
        name, _, case = line.workload.partition("/")
        arguments = next(w.args for w in plan.short_selection(workloads) if w.name == name)
        assert not case or name == "hvo_one" or f"case={case}" in arguments, "the rest of it has no line"


def results() -> Results:
    """Three boots of one workload."""
    values = {"stock": (100.0, 102.0, 101.0), "lull": (0.0, 0.0, 50.0), "stock.control": (7.0, 7.0, 7.0)}
    metric = short.LINES[0].metric
    records = [Record(k, "swap_bench", 4, metric, "count", v, 100, "page") for k, v in values.items()]
    return Results("", "6.12", {}, records, settings={"thresholds": False})


def test_the_table_has_medians_of_an_operation() -> None:
    """And no line for what was not measured."""
    table = short.grid(results())
    assert [row[0] for row in table.rows] == ["swap_bench"]
    assert table.rows[0][2:] == (tables.number(1.01), tables.number(0))


def test_what_a_short_run_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """At most ten lines of table; what failed by name; the report; what to do next."""
    found = results()
    found.checks = [Check("verified: young on lull", "failed", "exit status 1"), Check("other", "passed", "")]
    verdict.show_short(found, Path("results/007"))
    printed = capsys.readouterr().out
    assert "failed: verified: young on lull: exit status 1" in printed
    assert "results/007/report.html" in printed
    assert "./lull run --full" in printed
    assert "other" not in printed


def test_thresholds_are_not_judged(tmp_path: Path) -> None:
    """Those of features want more than a short run measures; with them the same numbers are judged."""
    found = results()
    found.records = [replace(r, workload="mprotect_threaded") for r in found.records]
    verdict.judge(found, tmp_path)
    assert not [c for c in found.checks if c.name.startswith(LOCAL)]
    found.settings = {}
    verdict.judge(found, tmp_path)
    assert [c for c in found.checks if c.name.startswith(LOCAL)]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was ever done on this machine."""
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("empty_cache")
def test_time_is_what_it_was_before() -> None:
    """At first what it was elsewhere; then what it took here, of one, for as many as there are."""
    assert eta.expected([eta.Part("boot x", 3.0, 4), eta.Part("source", 10.0)]) == 22
    with eta.keeping(eta.Part("boot x", 3.0, 2)):
        time.sleep(0.5)
    assert 0.7 <= eta.expected([eta.Part("boot x", 3.0, 4)]) < 3
    with eta.keeping(eta.Part("source", 10.0, 0)):
        pass
    assert eta.expected([eta.Part("source", 10.0)]) == 10


@pytest.mark.usefixtures("empty_cache")
def test_what_fails_or_is_broken_is_not_kept() -> None:
    """A part that ended badly says nothing; a file that is none of ours is as good as none."""
    with pytest.raises(ValueError, match="no"), eta.keeping(eta.Part("tools", 5.0)):
        raise ValueError("no")
    assert eta.known() == {}
    cache.root().mkdir(parents=True)
    (cache.root() / "eta.json").write_text('["tools"]')
    assert eta.known() == {}


def test_boots_of_the_same_work_take_the_same_time() -> None:
    """However many there are; other workloads are another part."""
    workloads = plan.load_workloads(BASE.suite_named("").workloads)
    few, many = (plan.make_plan([workloads["young"]], [], BASE, n) for n in (1, 3))
    other = plan.make_plan([workloads["sparse"]], [], BASE, 1)
    assert eta.of_boots(few, 1).name == eta.of_boots(many, 3).name != eta.of_boots(other, 1).name
