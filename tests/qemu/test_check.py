# SPDX-License-Identifier: GPL-2.0-only
"""lull check as a user has it, on the fake kernel, under a fake QEMU that writes what a checking plugin would."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from support import AGING, FAKE, HVO, LOCAL, RUNS, Tool

from lull import base as bases
from lull import plan, report
from lull.check import ci
from lull.check import data as check_data
from lull.check import results as check_results
from lull.check import show as check_show
from lull.check import tables as check_tables
from lull.check import trials as check_trials
from lull.check import verdicts as check_verdicts
from lull.commands import check as check_command
from lull.lab import Lab
from lull.report import data as report_data
from lull.run import records
from lull.run.records import Results, from_json

Check = Callable[..., CompletedProcess[str]]


@pytest.fixture
def checked(fake: Callable[..., CompletedProcess[str]], tmp_path: Path) -> Check:
    """Run a check; what happens in it is ``what``; each start of QEMU is logged in ``tmp_path/starts``."""
    (tmp_path / "starts").mkdir()

    def run(*words: str, what: str = "passed") -> CompletedProcess[str]:
        return fake(
            "check",
            *words,
            LULL_QEMU=str(FAKE / "qemu"),
            LULL_FAKE_CHECK=what,
            LULL_FAKE_LOG=str(tmp_path / "starts"),
        )

    return run


def starts(tmp_path: Path) -> list[dict[str, Any]]:
    """What QEMU was started with."""
    files = sorted((tmp_path / "starts").iterdir(), key=lambda p: int(p.stem))
    return [json.loads(f.read_text()) for f in files]


def test_passed(checked: Check, tmp_path: Path) -> None:
    """Exit 0; every kernel of the base is checked, with its symbols, and the verdict is the last line."""
    out = tmp_path / "out put"
    done = checked("--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("stock on max, 4 vCPUs, boot 1: count")
    assert done.stdout.splitlines()[-1] == "verdict: passed in all 3 boots"
    said = done.stderr.splitlines()[0]
    assert re.fullmatch(r"this takes about \S+; building the kernels stock lull lab is \S+ of it", said)
    kept = json.loads((out / "check.json").read_text())
    assert [b["kernel"] for b in kept["boots"]] == ["stock", "lull", "lab"]
    assert {b["verdict"] for b in kept["boots"]} == {"passed"}
    assert "speculation=on" in starts(tmp_path)[0]["options"]
    assert any(word.startswith("symbols=") for word in starts(tmp_path)[0]["options"])


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("reports", 1, "verdict: reports in 1 of 1 boots"),
        ("inconclusive", 1, "did not see frees of pages"),
        ("mute", 1, "the plugin wrote no verdict"),
        ("error", 1, "the plugin's own trouble"),
        ("failing", 1, "count ended with status 1"),
        ("panic", 4, "crashed: the guest kernel panicked: fake trouble"),
        (
            "warning",
            1,
            "report 1: console/WARNING: WARNING: CPU: 1 PID: 7 at mm/memory.c:42 f+0x4/0x8\n  Call trace:\n",
        ),
    ],
)
def test_not_passed(checked: Check, tmp_path: Path, what: str, code: int, words: str) -> None:
    """Each way has its exit code, and says itself."""
    done = checked("--kernel", "stock", "--out", str(tmp_path / "out"), what=what)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout
    assert (tmp_path / "out/boots/r01-stock-max/console.log").exists()


def test_without_the_checker(checked: Check, tmp_path: Path) -> None:
    """Nothing is seen, and nothing has to be: what the kernel reports itself is judged."""
    words = ["--kernel", "stock", "--checker", "off"]
    done = checked(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: passed: the kernel reported nothing\n" in done.stdout
    assert starts(tmp_path)[0]["options"] == []
    done = checked(*words, what="warning")
    assert done.returncode == 1 and "verdict: reports in 1 of 1 boots" in done.stdout


def test_a_report_for_people(checked: Check) -> None:
    """Its first line says what, how often, and the manual's section follows."""
    done = checked("--kernel", "stock", what="reports")
    assert "report 1, seen 7 times: pending/local: a valid entry was taken away" in done.stdout
    assert "Arm ARM (DDI 0487) D8.17.8" in done.stdout


def test_what_tlbis_took(checked: Check, tmp_path: Path) -> None:
    """Each window's numbers are records, and tables of the report; with several machines the kernel says which."""
    out, two = tmp_path / "out", tmp_path / "two"
    done = checked("--kernel", "stock", "--out", str(out))
    results = Results.load(out / "results.json")
    lost = {
        r.metric: r.values for r in results.find(kernel="stock", workload="count") if r.metric != check_results.SECONDS
    }
    counted = {
        "held": 8,
        "kept": 6,
        "over_invalidated": 3,
        "over_invalidated_others": 2,
        "refills": 2,
        "refills_unchanged": 1,
    }
    assert lost == {"own": (5,), **{f"tlb_{name}": (value,) for name, value in counted.items()}}
    assert [(c.name, c.verdict) for c in results.checks] == [("checker: r01-stock-max", "passed")]
    assert "tlb_over_invalidated" not in done.stdout and f"without need: ./lull report {out}\n" in done.stdout
    tables = report.of_folders([out])
    assert re.search(
        r"tlb_over_invalidated.*<td[^>]*>0\.5<.*tlb_refills_unchanged.*<td[^>]*>0\.167<", tables, re.DOTALL
    )
    checked("--kernel", "stock", "--cpu", "max", "--cpu", "cortex-a76", "--out", str(two))
    assert {r.kernel for r in Results.load(two / "results.json").records} == {"stock on max", "stock on cortex-a76"}


def test_what_other_cpus_lost_is_a_threshold() -> None:
    """Of gather, where the base has it: missed if more than on stock, else reached; no threshold without gather."""

    def lost(features: list[str], entries: float) -> Results:
        window = {"workload": "sparse/munmap", "operations": 48, "unit": "page", "seconds": 1.0}
        boots = [
            result(
                kernel,
                "max",
                measurements=[{**window, "kernel": kernel, "metrics": {"tlb_over_invalidated_others": counted}}],
            )
            for kernel, counted in (("stock", 192.0), (f"lull+only={RUNS}", entries))
        ]
        lab = SimpleNamespace(base=SimpleNamespace(name="fake"), describe=lambda: {"features": features})
        return check_results.as_results(cast(Lab, lab), boots, check_trials.CheckOptions(4, 1024, "", True))

    name = f"{RUNS}: over-invalidated entries of other CPUs: sparse on lull+only={RUNS}"
    short = check_results.missed(lost([RUNS], 193))
    assert [c.name for c in short] == [name]
    assert short[0].detail == "munmap 193 (stock 192)"
    passed = lost([RUNS], 192)
    assert not check_results.missed(passed) and "passed" in [c.verdict for c in passed.checks if c.name == name]
    assert not [c for c in lost([AGING], 193).checks if c.name.startswith(RUNS)]


def test_windows_that_the_plugin_did_not_see(checked: Check) -> None:
    """Then its numbers are worth nothing."""
    done = checked("--kernel", "stock", what="windowless")
    assert done.returncode == 1
    assert "the plugin's windows do not fit together: KeyError(1001)" in done.stdout


def test_machines_and_settings(checked: Check, tmp_path: Path) -> None:
    """CPU, KPTI and speculation reach QEMU, the kernel and the plugin."""
    words = ["--kernel", "lab", "--cpu", "neoverse-n1+kpti", "--cpu", "max,sve=off+asid8", "--speculation", "off"]
    done = checked(*words, "--append", "extra=1")
    assert done.returncode == 0, done.stderr
    first, second = starts(tmp_path)
    assert first["cpu"] == "neoverse-n1" and first["append"].endswith(" kpti=1 extra=1")
    assert second["cpu"] == "max,sve=off" and second["append"].endswith(" lull_asid_bits=8 extra=1")
    assert "speculation=off" in first["options"]


def test_8_bit_asids_of_a_kernel_without_the_function(checked: Check, tmp_path: Path) -> None:
    """The fake kernel has no ASIDs: refused before anything is booted."""
    done = checked("--kernel", "stock", "--asid-bits", "8")
    assert done.returncode == 2
    assert "no 8-bit ASIDs with this kernel" in done.stderr and "to do: " in done.stderr
    assert not starts(tmp_path)


def test_the_erratum_of_sme_of_a_kernel_without_it(checked: Check, tmp_path: Path) -> None:
    """The same for the workaround that the fake kernel does not have."""
    done = checked("--kernel", "stock", "--cpu", "max+sme")
    assert done.returncode == 2
    assert "has 0 entries for erratum 4193714" in done.stderr and "to do: " in done.stderr
    assert not starts(tmp_path)


def test_mutants(checked: Check, tmp_path: Path) -> None:
    """Each with its parameters; caught, by the rule that is meant, or not; also in a guest that panics."""
    out = tmp_path / "out"
    done = checked("--mutants", "--repeat", "2", "--out", str(out))
    assert done.returncode == 1, done.stderr
    scores = {m["mutant"]: m for m in json.loads((out / "check.json").read_text())["mutants"]}
    counts = {name: (s["caught"], s["as_meant"], s["boots"]) for name, s in scores.items()}
    assert counts == {"caught": (2, 2, 2), "other": (2, 0, 2), "crashing": (2, 2, 2), "missed": (0, 0, 2)}
    assert scores["crashing"]["ends"] == ["crashed"]
    first = starts(tmp_path)[0]
    assert first["append"].endswith(" lull_asid_bits=8 lull_mutant=caught one=1 two")
    assert first["cpu"] == "cortex-a76" and first["words"][first["words"].index("-smp") + 1] == "6"
    assert done.stdout.splitlines()[-1] == "verdict: 2 of 4 mutants caught each time by the rule that is meant"


def test_one_mutant_caught(checked: Check) -> None:
    """Exit 0."""
    done = checked("--mutant", "crashing")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_image_of_the_users(checked: Check, tool: Tool, tmp_path: Path) -> None:
    """Any kernel with its symbols, which must be its own, and which the plugin reads; also compressed."""
    assert checked("--kernel", "stock", "--workload", "count").returncode == 0
    built = next(p for p in tool.cache.glob("build/stock-*") if p.is_dir())
    image, found = built / "Image", tmp_path / "my map"
    found.write_text((built / "System.map").read_text() + "0000000040200040 T pgd_free\n")
    done = checked(str(image), "--symbols", str(found), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "Image on max" in done.stdout
    assert f"symbols={found}" in starts(tmp_path)[-1]["options"]
    found.write_text("no symbols")
    assert checked(str(image), "--symbols", str(found)).returncode == 2


def test_a_finished_boot_is_not_repeated(checked: Check, tmp_path: Path) -> None:
    """The same command takes up where an interrupted one was."""
    out = tmp_path / "out"
    assert checked("--kernel", "stock", "--out", str(out)).returncode == 0
    (out / "complete").unlink()
    assert checked("--kernel", "stock", "--out", str(out)).returncode == 0
    assert len(starts(tmp_path)) == 1
    assert checked("--kernel", "stock", "--repeat", "2", "--out", str(out)).returncode == 2


@pytest.mark.parametrize(
    ("what", "words", "code"),
    [
        ("passed", [], 0),
        ("reports", [], 1),
        ("warning", [], 1),
        ("failing", [], 1),
        ("inconclusive", [], 125),
        ("error", [], 125),
        ("panic", [], 125),
        ("passed", ["--vcpus", "65"], 128),
        ("passed", ["--no-such-option"], 128),
    ],
)
def test_bisect(checked: Check, what: str, words: list[str], code: int) -> None:
    """What git bisect run takes for good, bad, to be skipped; and what ends it."""
    done = checked("--kernel", "stock", "--bisect", *words, what=what)
    assert done.returncode == code, done.stdout + done.stderr


def test_files_for_ci(checked: Check, tmp_path: Path) -> None:
    """A case for each boot, in KTAP and in JUnit's XML: what failed says why."""
    files = [f"--{form}={tmp_path / form}" for form in ("ktap", "junit")]
    checked("--kernel", "stock", "--kernel", "lull", *files)
    lines = (tmp_path / "ktap").read_text().splitlines()
    assert lines[:2] == ["KTAP version 1", "1..2"] and lines[2].startswith("# verdict: passed: ")
    assert [line for line in lines if not line.startswith("#")][2:] == [
        "ok 1 stock on max, 4 vCPUs, boot 1: count",
        "ok 2 lull on max, 4 vCPUs, boot 1: count",
    ]
    suite = ElementTree.parse(tmp_path / "junit").getroot()
    assert suite.attrib == {"name": "lull check", "tests": "2", "failures": "0", "skipped": "0", "errors": "0"}
    assert [case.attrib["classname"] for case in suite] == ["stock", "lull"] and float(suite[0].attrib["time"]) > 0
    checked("--kernel", "stock", *files, what="reports")
    assert "\nnot ok 1 stock on max, 4 vCPUs, boot 1: count\n" in (tmp_path / "ktap").read_text()
    (failure,) = ElementTree.parse(tmp_path / "junit").getroot().iter("failure")
    assert failure.attrib["message"].startswith("reports: ")
    done = checked("--junit", str(tmp_path))
    assert done.returncode == 2 and "is a folder" in done.stderr


def test_cases_of_ci() -> None:
    """A mutant is ok when it was caught by its rule; what XML or KTAP cannot have is not written; skipped is said."""
    mutant = check_data.Mutant("m", "", ("free/table",), "w")
    odd = {**NEW, "text": ["report 2: \x1b[31m#1 \0"]}
    job = plan.Job(1, plan.Workload("a", "a"), plan.Spec("mine", "mine"))
    skipped = result("stock", "max", status={"1": 77})
    skipped = replace(skipped, trial=replace(skipped.trial, boot=replace(skipped.trial.boot, jobs=(job,))))
    boots = [
        result("lab", "max", mutant, reports=[KNOWN]),
        result("lab", "max", mutant),
        result("x#", "max", reports=[odd]),
        skipped,
    ]
    found = ci.cases(boots, [records.Check(f"{RUNS}: entries", "failed", "5 of 4")])
    assert [case.verdict for case in found] == ["ok", "failed", "failed", "skipped", "failed"]
    ElementTree.fromstring(ci.junit(found))
    text = ci.ktap(found)
    assert "ok 4 stock on max # SKIP every program was skipped\n" in text and "not ok 3 x on max\n" in text
    assert len(re.findall(r"(?m)^(?:not )?ok \d", text)) == 5


def test_known_issues_of_the_user(checked: Check, tmp_path: Path) -> None:
    """In the form of checker/known-issues.toml; all else is still a report. A file that is wrong is refused."""
    file = tmp_path / "known.toml"
    file.write_text('[mine]\nabout = "ours"\nrule = "free"\nchanged = ["f"]\n')
    (mine,) = check_data.load_known_issues(file)
    own = {**NEW, "rule": "free", "changed": {"functions": ["f"]}}
    assert mine.describes(own, "7.3") and not mine.describes(NEW, "7.3")
    assert (
        "known issue mine: ours"
        in check_verdicts.judged(
            result("stock", "max").trial, "", replace(result("stock", "max").kept, reports=[own]), [mine]
        ).lines()
    )
    assert checked("--kernel", "stock", "--known", str(file)).returncode == 0
    file.write_text('[mine]\nabout = "ours"\n')
    done = checked("--kernel", "stock", "--known", str(file))
    assert done.returncode == 2 and "'rule' is missing" in done.stderr


def test_a_known_issue_that_is_fixed(checked: Check, tmp_path: Path) -> None:
    """Its reports fail the check of the kernel that has the fix: by --fixed, or a feature that fixes it."""
    file = tmp_path / "known.toml"
    file.write_text('[mine]\nabout = "ours"\nrule = "pending"\n')
    words = ["--known", str(file), "--kernel"]
    assert checked(*words, "stock", what="reports").returncode == 0
    assert checked(*words, "lull", what="reports").returncode == 1
    assert checked(*words, "stock", "--fixed", "mine", what="reports").returncode == 1
    done = checked(*words, "stock", "--fixed", "min")
    assert done.returncode == 2 and "did you mean mine?" in done.stderr


def test_json(checked: Check) -> None:
    """The whole of check.json."""
    done = checked("--kernel", "stock", "--json", what="reports")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["boots"][0]["reports"][0]["rule"] == "pending"
    assert found["verdict"] == "reports in 1 of 1 boots"


def result(kernel: str, machine: str, mutant: check_data.Mutant | None = None, **raw: Any) -> check_verdicts.BootResult:
    """A boot that ended well, but for what ``raw`` says."""
    end = {"verdict": "passed", "text": "1 frees of pages", "unseen": []}
    whole = from_json(check_verdicts.CheckedBoot, {"guest": "6.12.117", "end": end, **raw}, "boot")
    boot = plan.Boot("r01", 1, kernel, kernel)
    trial = check_trials.Trial(boot, check_data.parse_hardware(machine, check_data.load_machines()), mutant)
    return check_verdicts.judged(trial, f"{kernel} on {machine}", whole, KNOWN_ISSUES)


KNOWN_ISSUES = [check_data.KnownIssue("early", "freed early", "free", "docs/findings.md#early", ("__p4d_free_tlb",))]
KNOWN = {
    "report": 1,
    "rule": "free",
    "kind": "table",
    "count": 3,
    "text": ["report 1: free/table: early"],
    "changed": {"functions": ["__p4d_free_tlb"]},
}
NEW = {**KNOWN, "report": 2, "rule": "pending", "kind": "table"}


def test_known_issues_do_not_fail() -> None:
    """They are shown; anything beside them fails; in a mutant a report is a report."""
    known = result("stock", "max", reports=[KNOWN])
    assert known.verdict()[0] == "passed" and check_verdicts.exit_code([known]) == 0
    assert any("known issue early: freed early (docs/findings.md#early)" in line for line in known.lines())
    both = result("stock", "max", reports=[KNOWN, NEW])
    assert both.verdict()[0] == "reports" and check_verdicts.exit_code([both]) == 1
    assert "report 1, seen 3 times: free/table: early" in both.lines()
    assert known.lines()[-1].startswith("verdict: nothing new; 1 known issue: 1 frees of pages")
    assert check_verdicts.overall([known, known]) == "nothing new; 1 known issue in all 2 boots"
    mutant = check_data.Mutant("m", "", ("free/table",), "w")
    assert result("lab", "max", mutant, reports=[KNOWN]).caught(mutant.rules)
    worse = replace(mutant, rules=("free/table", "pending/table"), beside=("early",))
    assert not result("lab", "max", worse, reports=[KNOWN]).caught(worse.rules)
    assert result("lab", "max", worse, reports=[KNOWN, NEW]).caught(worse.rules)


def test_every_program_was_skipped() -> None:
    """A boot that passed in which nothing ran says nothing, unless another boot of the same check did run something."""
    jobs = tuple(plan.Job(n, plan.Workload(name, name), plan.Spec("mine", "mine")) for n, name in ((1, "a"), (2, "b")))

    def ended(*status: int) -> check_verdicts.BootResult:
        boot = result("mine", "max", status=dict(enumerate(status, 1)))
        return replace(boot, trial=replace(boot.trial, boot=replace(boot.trial.boot, jobs=jobs)))

    assert check_verdicts.exit_code([ended(77, 77)]) == 1
    assert check_verdicts.overall([ended(77, 77)]) == "inconclusive: every program was skipped"
    assert check_verdicts.exit_code([ended(77, 0)]) == check_verdicts.exit_code([ended(77, 77), ended(0, 0)]) == 0
    assert check_verdicts.exit_code([ended(77, 1)]) == 1


def test_what_is_not_checked_is_said() -> None:
    """Before the verdict, for each boot."""
    lines = result("stock", "max", unchecked=["pending/rmap (no tlb_flush_rmaps)", "free (no x)"]).lines()
    assert lines[-2:] == [
        "not checked, for lack of a symbol: pending/rmap (no tlb_flush_rmaps), free (no x)",
        "verdict: passed: 1 frees of pages",
    ]


def test_a_mutant_that_the_kernel_dies_of() -> None:
    """Caught by what the console says, if it says that; a panic of another kind is none."""
    read_only = "console/write to read-only memory"
    mutant = check_data.Mutant("m", "", (read_only, "bbm"), "w")
    trouble = {"kind": "crashed", "code": 4, "text": ""}
    died = "the guest kernel panicked: Unable to handle kernel write to read-only memory at virtual address ff"
    (score,) = check_verdicts.mutant_scores([result("lab", "max", mutant, trouble={**trouble, "what": died})])
    assert (score.passed, score.seen, score.meant) == (True, {read_only: 1}, read_only)
    other = result(
        "lab", "max", mutant, trouble={**trouble, "what": "the guest kernel panicked: Attempted to kill init!"}
    )
    assert not other.caught(mutant.rules) and check_verdicts.exit_code([other]) == 1
    assert not result("lab", "max", mutant).caught(mutant.rules)


def test_the_table() -> None:
    """A row for a machine, a column for a kernel; repeats in one cell."""
    results = [
        result("stock", "max"),
        result("lab", "max", reports=[KNOWN]),
        result("stock", "max+kpti", end=None),
        result("stock", "max+kpti"),
    ]
    (grid,) = check_show.grids(results)
    assert grid.header == ("machine", "stock", "lab")
    assert grid.rows == (("max", "passed", "nothing new; 1 known issue"), ("max+kpti", "inconclusive 1 of 2", ""))
    assert check_verdicts.overall(results) == "inconclusive in 1 of 4 boots"


def test_the_table_of_many_kernels() -> None:
    """A row for a kernel, with the names of known issues."""
    results = [result(f"kernel{n}", m, reports=[KNOWN] * (n == 1)) for n in range(5) for m in ("max", "max+kpti")]
    (grid,) = check_show.grids(results)
    assert grid.header == ("kernel", "max", "max+kpti")
    assert grid.rows[:2] == (("kernel0", "passed", "passed"), ("kernel1", *["nothing new; 1 known issue: early"] * 2))
    assert len(grid.rows) == 5


def test_the_table_names_what_was_skipped() -> None:
    """Passed is not all of it where a program could not run; the page that the report makes says the same."""
    boots = [check_tables.BootVerdict(f"kernel{n}", "max", "passed", ("early",), ("young",)) for n in range(5)]
    assert check_tables.grids(boots, [], [])[0].rows[4] == (
        "kernel4",
        "nothing new; 1 known issue: early; skipped: young",
    )
    assert check_tables.grids(boots[:2], [], [])[0].rows == (("max", *["nothing new; 1 known issue; 1 skipped"] * 2),)
    written = {"workloads": ["swap_bench lull", f"young lull+{AGING}=none"], "status": {"1": 0, "2": 77}}
    assert report_data.skipped(written) == ("young",)


def test_page_walks_for_what_was_lost() -> None:
    """Per operation, at what one costs; nothing is said of them without a cost, or where nothing was lost."""
    window = {"kernel": "stock", "workload": "w", "operations": 4, "unit": "page", "scale": "", "seconds": 1.0}
    results = [result("stock", "max", measurements=[{**window, "metrics": {"tlb_over_invalidated": 10}}])]
    assert [grid.title for grid in check_show.grids(results)] == ["check", "tlb_over_invalidated"]
    lost, walked = check_show.grids(results, walk=40)[1:]
    assert (lost.rows, walked.title, walked.rows) == (
        (("w", "page", "2.5"),),
        "seconds_walks",
        (("w", "page", "100ns"),),
    )
    (record,) = check_results.walks(check_results.records_of(results, 4), 40)
    assert (record.metric, record.unit, record.values) == ("seconds_walks", "s", (10 * 40 / 1e9,))
    none = [result("stock", "max", measurements=[{**window, "metrics": {"tlb_over_invalidated": 0}}])]
    assert [grid.title for grid in check_show.grids(none, walk=40)] == ["check"]


def test_a_crash_does_not_hide_a_report() -> None:
    """Both are said; the exit code is the report's."""
    trouble = {"kind": "crashed", "what": "it panicked", "code": 4, "text": ""}
    found = result("stock", "max", reports=[NEW], trouble=trouble, end=None)
    assert found.verdict() == ("reports", "1, seen 3 times; the guest crashed: it panicked")
    assert check_verdicts.exit_code([found]) == 1
    assert check_verdicts.exit_code([result("stock", "max", trouble=trouble, end=None)]) == 4


def test_the_default_plan() -> None:
    """On the real base: the workloads of a run and those to check with, lull's policies, lab, no control.

    Stock, lull and lab as usual; stock, lull and unsafe with the kernel parameter of HVO; unsafe and lull with a CPU
    that is isolated; stock and lull with memory that is plugged; lull without residency, with HVO and without; mglru.
    """
    base = bases.load_base()
    workloads = list(plan.load_workloads(base.workloads).values())
    pairs = [(w, s) for w in workloads for s in plan.specs_for(w, [], base)]
    hardware = check_data.matrix(check_data.load_machines(), None, None)
    trials = check_trials.plan_kernels(pairs, hardware, 2)
    assert len(trials) == (3 + 3 + 2 + 2 + 2 + 1) * 2 * len(hardware)
    assert len({t.boot.name for t in trials}) == len(trials)


def test_policies_that_are_wrong_on_purpose_are_checked_when_they_are_named() -> None:
    """Without a name, no check boots the kernel unsafe, or a policy that only the lab kernel has."""
    lab = Lab()
    parser = argparse.ArgumentParser()
    check_command.add_arguments(parser)

    def kernels(*words: str) -> set[str]:
        trials = check_command.kernel_trials(lab, parser.parse_args(["--workload", "hvo", *words]), [])
        return {job.spec.name for trial in trials for job in trial.boot.jobs}

    assert kernels() == {"lab", "lull", f"lull+only={HVO}"}
    assert kernels("--kernel", "unsafe", "--kernel", f"lab+{LOCAL}=sticky") == {f"lab+{LOCAL}=sticky", "unsafe"}
