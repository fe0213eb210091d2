# SPDX-License-Identifier: GPL-2.0-only
"""What is said of runs under modelled time: made-up runs, right ones and wrong ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from support import LOCAL

from lull import base as bases
from lull import cli, picture, plan, timing
from lull.errors import UsageError
from lull.guest import qemu
from lull.judge import compare, tables
from lull.judge.joint import ComparedRun
from lull.lab import Lab
from lull.run import experiment
from lull.run.records import Check, Record, Results
from lull.timing import CostModel, Costs
from lull_contrib.timing import evaluation as timing_eval
from lull_contrib.timing import evaluation_output
from lull_contrib.timing import runs as timing_run
from lull_contrib.timing.evaluation import LULL, STICKY, SWEEP, FigureOutcome, TimingEvaluation
from lull_contrib.timing.scale import Counts, simulate

AMPERE = timing.load_model("ampere-32")
KUNPENG = timing.load_model("kunpeng-920")
LOOPS = 40
COUNTED = {
    "stock": Counts(insns=2500, tlbis=1, broadcasts=1, waits=1.005, dsbs=2.01),
    STICKY: Counts(insns=2600, tlbis=1, broadcasts=0.25, waits=1, dsbs=2),
    LULL: Counts(insns=2800, tlbis=1, broadcasts=0, waits=0.005, dsbs=2),
}
PAGES = {
    "stock": Counts(insns=25_060, tlbis=1.008, broadcasts=1.004, waits=0.062, dsbs=1.071),
    LULL: Counts(insns=25_160, tlbis=0.039, broadcasts=0, waits=0.023, dsbs=0.07),
}


def records(kernel: str, workload: str, vcpus: int, working: int, counts: Counts, ns: float) -> list[Record]:
    """A workload's records: LOOPS operations on each of ``working`` CPUs took ``ns``."""
    operations = LOOPS * working
    metrics = {
        "insns": counts.insns * 3,  # of CPUs that idle or wait, too
        "insns_work": counts.insns,
        "insns_own": counts.insns,
        "tlbi_broadcast": counts.broadcasts,
        "tlbi_local": counts.tlbis - counts.broadcasts,
        "dsb_ish": counts.waits,
        "dsb_ishst": counts.dsbs - counts.waits,
    }
    made = [
        Record(kernel, workload, vcpus, m, "count", (n * operations,), operations, "op") for m, n in metrics.items()
    ]
    return [*made, Record(kernel, workload, vcpus, timing.METRIC, "s", (ns / 1e9,), operations, "op")]


def sweep(costs: Costs, *vcpus: int, late: float = 1.0) -> dict[int, Results]:
    """Runs of SWEEP as the plugin would report them under ``costs``, ``late`` times as long."""
    runs = {}
    for number in vcpus:
        runs[number] = Results("0.1", "6.12", {})
        for kernel, counts in COUNTED.items():
            ns = late * simulate(costs, counts, number, LOOPS)
            runs[number].records += records(kernel, SWEEP, number, number, counts, ns)
    return runs


def swap(costs: Costs) -> dict[int, Results]:
    """A run of swap_bench, likewise, on one of four CPUs."""
    found = Results("0.1", "6.12", {})
    for kernel, counts in PAGES.items():
        found.records += records(kernel, "swap_bench", 4, 1, counts, simulate(costs, counts, 1, LOOPS))
    return {4: found}


def wrong(model: CostModel, **costs: float) -> CostModel:
    """The model with other costs."""
    return replace(model, costs=replace(model.costs, **costs))


def checks(found: TimingEvaluation) -> dict[str, Check]:
    """By name."""
    return {check.name: check for check in found.checks}


def outcome(found: TimingEvaluation, what: str) -> FigureOutcome:
    """Of the figure whose text begins so."""
    (one,) = [outcome for outcome in found.outcomes if outcome.figure.what.startswith(what)]
    return one


FITTED = "fitted: mprotect-threaded 10000, a copy on each of 32 CPUs"


def test_the_right_costs_give_what_they_were_fitted_to() -> None:
    """From a run with as many CPUs as published, and from the simulation of that many."""
    for numbers, how in (((8, 32), "run of 32 vCPUs"), ((2, 8), "simulated for 32 CPUs from a run of 8 vCPUs")):
        found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, *numbers))
        assert {check.verdict for check in found.checks} == {"passed"}
        fitted = outcome(found, "mprotect-threaded")
        assert fitted.how == how
        assert fitted.modelled == pytest.approx(2.1696, rel=0.01)
        assert fitted.lull == pytest.approx(20_000 * COUNTED[LULL].local(AMPERE.costs) / 1e9, rel=0.01)


def test_what_the_costs_were_not_fitted_to_is_stated() -> None:
    """Far off or not: no check, a residual."""
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 8))
    local = outcome(found, "the same, broadcasts avoided")
    assert local.residual is not None and local.residual < -0.5
    assert not [name for name in checks(found) if "avoided" in name]
    assert outcome(found, "sort-compute").how == "not measured"


@pytest.mark.parametrize("factor", [0.5, 0.85, 1.15, 2])
def test_a_wrong_broadcast_fails(factor: float) -> None:
    """The plugin keeps time by the wrong cost, too: the simulation agrees with it, the published number does not."""
    model = wrong(AMPERE, broadcast=factor * AMPERE.costs.broadcast)
    found = timing_eval.evaluate(model, sweep(model.costs, 8, 32))
    assert checks(found)[FITTED].verdict == "failed"
    assert f"{factor - 1:+.1%}"[:3] in checks(found)[FITTED].detail
    assert all(check.verdict == "passed" for name, check in checks(found).items() if name != FITTED)


def test_a_run_that_does_not_fit_its_counts_fails() -> None:
    """With any number of CPUs; on sticky, whose processes differ, with 8 and more. What lies within a tenth holds."""
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 4, 8, late=1.2))
    assert checks(found)["simulation: stock on 8 CPUs"].verdict == "failed"
    assert "-16.7%" in checks(found)["simulation: stock on 8 CPUs"].detail
    assert checks(found)["simulation: stock on 4 CPUs"].verdict == "failed"
    assert f"simulation: {timing_eval.STICKY} on 8 CPUs" in checks(found)
    assert f"simulation: {timing_eval.STICKY} on 4 CPUs" not in checks(found)
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 8, late=1.05))
    assert {check.verdict for check in found.checks} == {"passed"}


def test_beyond_what_was_run_there_is_only_the_simulation() -> None:
    """From the counts of the most CPUs; as far as 512."""
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 1, 64))
    stock = {point.cpus: point for point in found.points if point.kernel == "stock"}
    assert sorted(stock) == [1, 64, 128, 256, 512]
    assert stock[64].modelled is not None and stock[128].modelled is None and stock[128].off is None
    assert stock[512].measured.vcpus == 64
    assert stock[512].simulated == pytest.approx(512 * AMPERE.costs.broadcast / 1e9, rel=0.01)


def test_swapping_is_computed_for_a_kernel_that_waits() -> None:
    """Before: a wait for each page, from the counts of a kernel that does not; after: as it was run; and Lull."""
    found = timing_eval.evaluate(KUNPENG, swap(KUNPENG.costs))
    assert {check.verdict for check in found.checks} == {"passed"} and len(found.checks) == 2
    before, after = (
        outcome(found, "swap_bench, a wait for each page"),
        outcome(found, "swap_bench, a wait for each batch"),
    )
    assert before.how == "simulated for 1 CPU from a run of 4 vCPUs" and after.how == "run of 4 vCPUs"
    assert before.modelled == pytest.approx(13.46, rel=0.01)
    assert after.modelled is not None and before.modelled is not None
    saving = outcome(found, "swap_bench, the share")
    assert saving.modelled == pytest.approx(1 - after.modelled / before.modelled)
    assert saving.modelled == pytest.approx(0.155, abs=0.015)
    assert before.lull == after.lull == pytest.approx(2_560_000 * PAGES[LULL].local(KUNPENG.costs) / 1e9)


@pytest.mark.parametrize(
    ("costs", "failed"),
    [
        ({"insn": 0.21}, ["fitted: swap_bench, a wait for each page"]),
        ({"broadcast": 1000}, ["fitted: a flush: DSB ISHST, TLBI VALE1IS, DSB ISH"]),
    ],
)
def test_wrong_costs_of_swapping_fail(costs: dict[str, float], failed: list[str]) -> None:
    """Each by the figure that it was fitted to."""
    model = wrong(KUNPENG, **costs)
    found = timing_eval.evaluate(model, swap(model.costs))
    assert [name for name, check in checks(found).items() if check.verdict == "failed"] == failed


def test_what_was_not_run_is_skipped() -> None:
    """No number is made up; nothing to draw is an error."""
    found = timing_eval.evaluate(KUNPENG, {4: Results("0.1", "6.12", {})})
    assert checks(found)["fitted: swap_bench, a wait for each page"].verdict == "skipped"
    assert outcome(found, "swap_bench, the share").modelled is None
    with pytest.raises(ValueError, match="nothing to draw"):
        evaluation_output.picture_svg(found)


def test_a_time_without_counts_is_refused() -> None:
    """The window was not counted: no count is taken for 0."""
    runs = sweep(AMPERE.costs, 8)
    runs[8].records = [record for record in runs[8].records if record.metric != "tlbi_local"]
    with pytest.raises(ValueError, match="has seconds_modelled but no tlbi_local"):
        timing_eval.evaluate(AMPERE, runs)


def test_the_repeat_in_the_middle_speaks() -> None:
    """Its seconds and its counts, not those of different repeats."""
    results = sweep(AMPERE.costs, 8)[8]
    results.records = [
        replace(record, values=(record.values[0], 9 * record.values[0], 0.0)) for record in results.records
    ]
    found = timing_eval.measured(results, "stock", SWEEP, 8, alone=False)
    once = timing_eval.measured(sweep(AMPERE.costs, 8)[8], "stock", SWEEP, 8, alone=False)
    assert found and once and (found.seconds, found.counts) == (once.seconds, once.counts)
    assert found.spread == (0, pytest.approx(9 * once.seconds))


def test_what_failed_in_a_run_fails_the_whole() -> None:
    """A workload that did not verify itself, vCPUs out of step."""
    runs = sweep(AMPERE.costs, 8)
    runs[8].checks = [Check("timing: vCPUs kept in step", "failed", "9 %"), Check("A/A control", "passed", "")]
    found = timing_eval.evaluate(AMPERE, runs)
    assert checks(found)["timing: vCPUs kept in step"].verdict == "failed"
    assert "A/A control" not in checks(found)


def test_tables_say_what_is_what() -> None:
    """Published beside modelled; what is simulated alone has no modelled number; notes under the table."""
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 8, 32))
    text = evaluation_output.markdown(found, "timing.svg")
    assert "![Time of an mprotect against CPUs, modelled and simulated](timing.svg)" in text
    assert "| broadcast | calibrated: 2.1696 s / 640 000" in text
    assert re.search(
        r"\| mprotect-threaded .*\| fitted \| run of 32 vCPUs \| 2\.17s \| 2\.1\d+s \| [+-]0\.\d% \| ", text
    )
    assert re.search(r"\| the same, stock to .*\| test \|", text)
    assert re.search(r"\| 512 \|  \| 1\.7\d+ms \|  \|  \|", text)
    assert "More than 32 CPUs were only simulated" in text
    assert "sort-compute, stock to broadcasts avoided: 256 shells there" in text
    assert "Not modelled: caches" in text


def test_the_picture_is_the_same_and_fits_any_page(tmp_path: Path) -> None:
    """No background, no black text; a line per kernel and kind, which has its kernel's name at its end."""
    found = timing_eval.evaluate(AMPERE, sweep(AMPERE.costs, 1, 8))
    text = evaluation_output.picture_svg(found)
    assert text == evaluation_output.picture_svg(found)
    assert "#ffffff" not in text and "#000000" not in text
    for kernel, (colour, _) in picture.looks(list(COUNTED)).items():
        last = [point for point in found.points if point.kernel == kernel][-1]
        name = kernel.removeprefix(f"lab+{LOCAL}=")
        assert f"> {name} {tables.number(last.simulated, 's')}</text>" in text
        assert len(re.findall(rf"fill: none; stroke: {colour}", text)) == 1
        assert len(re.findall(rf"fill: none; stroke-dasharray: [^\"]* stroke: {colour}", text)) == 1
    assert "modelled: a run of so many vCPUs" in text and "simulated from the run's counts" in text
    evaluation_output.write(found, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["timing.json", "timing.md", "timing.svg"]
    raw = json.loads((tmp_path / "timing.json").read_text())
    assert raw["model"]["costs"]["broadcast"] == 3390
    assert {point["cpus"] for point in raw["points"] if point["modelled"] is None} == {64, 128, 256, 512}
    assert raw["figures"][0]["residual"] == pytest.approx(0, abs=0.01)


def test_where_each_workload_runs() -> None:
    """The sweep with every number; what runs on one CPU with four; a figure of many with as many as there are."""
    base, workloads = bases.load_base(), plan.load_workloads(bases.load_base().workloads)
    planned = timing_run.plans(AMPERE, base, workloads, [1, 8, 16], 2)
    assert {number: len(boots) for number, boots in planned.items()} == {1: 8, 8: 8, 16: 8}
    jobs = {(boot.name, job.workload.name, job.spec.name) for boot in planned[16] for job in boot.jobs}
    assert ("r02-lab", SWEEP, STICKY) in jobs and ("r01-stock", "sort_compute", "stock") in jobs
    assert not [job for boot in planned[8] for job in boot.jobs if job.workload.name == "sort_compute"]
    planned = timing_run.plans(KUNPENG, base, workloads, [1, 8, 16], 1)
    assert [number for number, boots in planned.items() if "swap_bench" in repr(boots)] == [1]
    assert timing_eval.place([2, 4, 8], "swap_bench", 1) == 4
    with pytest.raises(UsageError, match="in this suite"):
        timing_run.plans(KUNPENG, base, {}, [4], 1)


@pytest.mark.parametrize(("factor", "status"), [(1, 0), (1.3, 1)])
def test_conduct(
    factor: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run for each number, in a folder of its own; exit 1 when a cost is wrong; the same command resumes."""
    model = wrong(AMPERE, broadcast=factor * AMPERE.costs.broadcast)
    ran: list[tuple[int, str]] = []

    def measure(lab: Lab, machine: experiment.Machine, boots: object, out: Path, how: experiment.How) -> ComparedRun:
        ran.append((machine.vcpus, out.name))
        assert how.model is model
        results = sweep(model.costs, machine.vcpus)[machine.vcpus]
        return ComparedRun("", out, results, compare.compare(results))

    monkeypatch.setattr(experiment, "measure", measure)
    base = bases.load_base()
    planned = timing_run.plans(model, base, plan.load_workloads(base.workloads), [2, 8], 1)
    for _ in range(2):
        assert timing_run.do_timing(cast(Lab, None), model, planned, tmp_path / "out", as_json=False) == status
    assert ran == 2 * [(2, "vcpus-2"), (8, "vcpus-8")]
    assert (tmp_path / "out/timing.json").exists() and (tmp_path / "out/complete").exists()
    text = capsys.readouterr().out
    assert "ampere-32: published and modelled" in text and f"{tmp_path}/out/timing.json" in text.replace("\n", "")
    with pytest.raises(UsageError, match="another plan"):
        timing_run.do_timing(cast(Lab, None), KUNPENG, planned, tmp_path / "out", as_json=False)


def test_numbers_of_vcpus() -> None:
    """Ascending, each once; anything else is refused."""
    assert qemu.numbers_of_vcpus("8,1,8") == [1, 8]
    for text in ("", "1,x", "1;2", "0,1", "-4"):
        with pytest.raises(UsageError):
            qemu.numbers_of_vcpus(text)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["ampere-33"], 2, "did you mean ampere-32?"),
        (["--vcpus", "4,"], 2, "not numbers with commas"),
        (["--repeat", "0", "--dry-run"], 2, "at least one is needed"),
        (["kunpeng-920", "--vcpus", "4", "--dry-run"], 0, "would boot stock  (r01-stock), 4 vCPUs: mprotect_pinned"),
    ],
)
def test_the_command(words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it refuses, and what it would do."""
    assert cli.main(["timing", *words]) == status
    done = capsys.readouterr()
    assert message in done.out + done.err
