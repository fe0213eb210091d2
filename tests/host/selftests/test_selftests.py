# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests: what they say is read, and compared with stock and with the baseline."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support import DATA, LOCAL, lab_under_test, write_files

from lull import base as bases
from lull import paths, plan, selftests
from lull.check.data import KnownIssue
from lull.errors import BuildError, UsageError
from lull.selftests import SelftestSuite, Setting, suite_outcomes
from lull.selftests.suite_outcomes import DIFFERS, FAILING, NEWS, REPORTED, VARIES, Baseline, Found, SuiteOutcome

CONSOLE = (DATA / "selftests.log").read_text()
BASE = bases.load_base()


def test_what_tests_said_is_read() -> None:
    """A real console: tests, their cases, and the log of the kernel behind them."""
    outcome = suite_outcomes.of_tests(CONSOLE)
    assert outcome.verdicts["map_fixed_noreplace"] == "ok"
    assert outcome.verdicts["sudo -u nobody ./on-fault-limit"] == "ok"
    assert outcome.verdicts["test_vmalloc.sh smoke"] == "skipped"
    assert outcome.verdicts["seal_elf"] == "failed" and outcome.verdicts["seal_elf / test_seal_elf"] == "ok"
    assert outcome.verdicts["protection_keys"] == "ok"
    assert not outcome.reports and not outcome.trouble
    warned = CONSOLE.replace("--- messages\n", "--- messages\n[    4.000000] WARNING: CPU: 0 at mm/hugetlb.c:1\n")
    assert "mm/hugetlb.c:1" in suite_outcomes.of_tests(warned).reports[0]


def test_what_is_not_tap_is_read() -> None:
    """uffd-unit-tests has lines of its own; parts and addresses are told apart; what did not end is unfinished."""
    lines = [
        "# -----",
        "# running ./uffd-unit-tests",
        "# -----",
        "# Testing UFFDIO_API (with syscall)... done",
        "# Testing move on anon... skipped [reason: no]",
        "# Testing poison on shmem... failed [reason: at 0xfff]",
        "not ok 1 uffd-unit-tests # exit=1",
        "# -----",
        "# running ./cow",
        "# -----",
        "# # [RUN] vmsplice() ... with base page",
        "# ok 1 No leak",
        "# ok 2 No leak",
        "# ok 3 # SKIP no huge zeropage",
        "# not ok 4 at 0xffff8000",
    ]
    assert suite_outcomes.verdicts_in("\n".join(lines)) == {
        "uffd-unit-tests": "failed",
        "uffd-unit-tests / UFFDIO_API (with syscall)": "ok",
        "uffd-unit-tests / move on anon": "skipped",
        "uffd-unit-tests / poison on shmem": "failed",
        "cow": "unfinished",
        "cow / vmsplice() ... with base page: No leak": "ok",
        "cow / vmsplice() ... with base page: No leak (2)": "ok",
        "cow / vmsplice() ... with base page: SKIP no huge zeropage": "skipped",
        "cow / vmsplice() ... with base page: at *": "failed",
    }


@pytest.mark.parametrize(
    "said", ["run_vmtests.sh: not found\n", "1..0\n", CONSOLE[CONSOLE.index("# running") : CONSOLE.index("ok 7")]]
)
def test_nothing_is_not_compared_with_nothing(said: str) -> None:
    """A script that did not start, has no test, or broke off has no result that could be the same."""
    text = f"{suite_outcomes.BEGIN}\n{said}{suite_outcomes.MESSAGES}\n{suite_outcomes.END}\n"
    outcome = suite_outcomes.of_tests(text)
    judged = suite_outcomes.findings_of({("stock", "x"): [outcome], ("lull", "x"): [outcome]}, Baseline())
    assert any("did not come to its end" in line for line in judged[REPORTED])
    assert "KUnit" in suite_outcomes.of_kunit(said).trouble


def test_a_guest_that_died_is_told() -> None:
    """What ran to its end before counts; KUnit that is cut off is no result."""
    cut = CONSOLE[: CONSOLE.index("ok 7 mremap_test")] + "[    9.000000] Internal error: Oops: 96000004 [#1] SMP\n"
    outcome = suite_outcomes.of_tests(cut, "the guest kernel panicked")
    assert outcome.verdicts["mremap_test"] == "unfinished" and outcome.verdicts["mlock2-tests"] == "ok"
    assert "Internal error" in outcome.reports[0]
    judged = suite_outcomes.findings_of({("stock", "x"): [outcome]}, Baseline())
    assert any("the guest kernel panicked" in line for line in judged[REPORTED])
    kunit = (DATA / "kunit.log").read_text(errors="replace")
    assert set(suite_outcomes.of_kunit(kunit).verdicts.values()) <= {"ok", "skipped"}
    assert "did not all end" in suite_outcomes.of_kunit(kunit[: len(kunit) // 2]).trouble
    assert suite_outcomes.of_kunit(kunit[: len(kunit) // 2], "hung").trouble == "hung"


def outcomes(**verdicts: str) -> list[SuiteOutcome]:
    """One outcome."""
    return [SuiteOutcome(verdicts)]


def test_what_differs_fails() -> None:
    """Another verdict, or a test that is missing; not what fails on both and is named."""
    baseline = Baseline(failed={"b*": "why"}, varies={"v": "why"}, reports={"WARNING: known*": "why"})
    good = outcomes(a="ok", b1="failed", v="ok")
    found: Found = {("stock", "x"): good, ("lull", "x"): outcomes(a="ok", b1="failed", v="failed")}
    judged = suite_outcomes.findings_of(found, baseline)
    assert not any(judged[kind] for kind in FAILING)
    assert judged[VARIES] == ["v: failed on lull"]
    judged = suite_outcomes.findings_of({**found, ("lull", "x"): outcomes(a="skipped", b1="ok")}, baseline)
    assert judged[DIFFERS] == ["a: skipped on lull, ok on stock", "b1: ok on lull, failed on stock"]
    judged = suite_outcomes.findings_of({**found, ("lull", "x"): outcomes(b1="failed", c="ok")}, baseline)
    assert judged[DIFFERS] == ["a: missing on lull, ok on stock", "c: ok on lull, missing on stock"]
    cut: Found = {
        ("stock", "x"): [SuiteOutcome({"t": "ok", "t / a": "ok", "t / b": "ok"})],
        ("lull", "x"): [SuiteOutcome({"t": "unfinished", "t / a": "ok"})],
    }
    assert suite_outcomes.findings_of(cut, baseline)[DIFFERS] == ["t: unfinished on lull, ok on stock"]
    judged = suite_outcomes.findings_of({("stock", "x"): outcomes(a="failed", b1="skipped")}, baseline)
    assert judged[NEWS] == ["a: failed on stock", "b1: skipped on stock"]
    twice = {("stock", "x"): [*outcomes(a="ok"), *outcomes(a="failed")]}
    assert suite_outcomes.findings_of(twice, baseline)[NEWS] == ["a: failed or ok on stock"]
    told = [SuiteOutcome({"a": "ok"}, ["WARNING: known at 1\nCall trace", "WARNING: new"])]
    assert suite_outcomes.findings_of({("stock", "x"): told}, baseline)[REPORTED] == ["x on stock: WARNING: new"]


def test_tables_have_what_did_not_pass() -> None:
    """And count the rest."""
    found: Found = {
        ("stock", "x"): outcomes(a="ok", b="failed", c="unfinished"),
        ("lull", "x"): outcomes(a="ok", b="skipped", c="unfinished"),
        ("lull, HVO", "y"): outcomes(d="ok"),
    }
    assert suite_outcomes.grid({**found, ("stock", "y"): outcomes(d="ok")}).rows == (
        ("x", "1, 2, 0", "1, 1, 1", ""),
        ("y", "1, 0, 0", "", "1, 0, 0"),
        ("all", "2, 2, 0", "1, 1, 1", "1, 0, 0"),
    )
    table = suite_outcomes.details({k: v for k, v in found.items() if k[1] == "x"})
    assert table.rows == (("x", "b", "failed", "skipped"), ("x", "c", "unfinished", "unfinished"))


def test_what_is_printed_is_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The table is set in columns, without Markdown, and the verdict is the last line; the file has Markdown."""
    found: Found = {("stock", "x"): [SuiteOutcome({"a": "ok"})], ("lull", "x"): [SuiteOutcome({"a": "failed"})]}
    judged = suite_outcomes.findings_of(found, Baseline())
    suite_outcomes.print_outcomes(found, judged)
    printed = capsys.readouterr().out
    assert "|" not in printed and "*" not in printed
    assert printed.splitlines()[-1] == "verdict: something differs"
    assert f"{DIFFERS}: a: failed on lull, ok on stock" in printed
    assert "| x |" in suite_outcomes.markdown(found, judged)


def test_script_of_the_kernel() -> None:
    """Its two places are found, once; a script that has them not is refused."""
    text = 'run_test() {\n\t("$@" 2>&1) | tap_prefix\n}\necho "SUMMARY: PASS=${count_pass}"\n'
    changed = selftests.script(text)
    assert 'timeout --signal=KILL "$TEST_SECONDS" "$@" 2>&1' in changed
    assert changed.index("more_vmtests.sh") < changed.index("SUMMARY")
    with pytest.raises(BuildError, match="does not fit"):
        selftests.script(text + text)


def test_job_of_a_suite() -> None:
    """The setting first; KUnit has run when a job begins."""
    setting = Setting("a", "lull", ("echo a",))
    lines = selftests.job(setting, SelftestSuite("x", ("-t", "cow thp"), seconds=7))
    assert lines.index("echo a") < lines.index("run 1 debian bash -c") < lines.index("dmesg\n")
    assert "TEST_SECONDS=7 ./run_vmtests.sh -t" in lines
    assert selftests.job(setting, SelftestSuite("kunit")) == "echo a\n"
    assert "kunit.enable=1" in SelftestSuite("kunit").append and "kunit" not in SelftestSuite("x", ("-a",)).append


def test_struct_pages_are_given_back_too() -> None:
    """On kernels that can, under their policies."""
    lab = lab_under_test()
    specs = [plan.parse_spec(k, BASE) for k in ("stock", f"lull+{LOCAL}=off")]
    settings = selftests.settings_for(SelftestSuite("x", ("-a",), hvo=True), specs, lab)
    found = [(s.name, s.lines, s.append) for s in settings]
    policy = f"setting {LOCAL} off"
    assert found == [
        ("stock", (), ""),
        (f"lull+{LOCAL}=off", (policy,), ""),
        (f"lull+{LOCAL}=off, HVO", (policy, selftests.HVO), "hugetlb_free_vmemmap=on"),
    ]
    assert len(selftests.settings_for(SelftestSuite("x", ("-a",)), specs, lab)) == 2


def test_files_are_well_formed(tmp_path: Path) -> None:
    """Suites and baseline; one that is not is refused."""
    known = selftests.load_suites()
    assert {"kunit", "hugetlb", "migration"} <= set(known) and not known["kunit"].options
    baseline = suite_outcomes.load_baseline()
    assert all(reason for kind in vars(baseline).values() for reason in kind.values())
    broken = tmp_path / "selftests.toml"
    broken.write_text("[x]\ntimeout = 'long'\n")
    with pytest.raises(UsageError, match="not a file of selftests"):
        selftests.load_suites(broken)
    with pytest.raises(UsageError, match="not a baseline"):
        suite_outcomes.load_baseline(broken)


@pytest.mark.parametrize(("pattern", "name", "fits"), [("a (1)*", "a (1) b", True), ("a*c", "abcd", False)])
def test_patterns_of_the_baseline(pattern: str, name: str, fits: bool) -> None:
    """A star is anything; all else is itself."""
    assert suite_outcomes.matches(pattern, name) is fits


SEEN = {"verdict": "passed", "text": "1 frees of pages", "unseen": []}
INCONCLUSIVE = {"verdict": "inconclusive", "text": "it did not see frees of pages", "unseen": ["frees"]}
FREED = {"report": 1, "rule": "free", "kind": "table", "text": ["report 1: free/table: early", "  entry"]}
KNOWN = KnownIssue("early", "freed early", "free", "docs/findings.md#early", ("__p4d_free_tlb",))


@pytest.mark.parametrize(
    ("lines", "reports", "trouble"),
    [
        ([SEEN], [], ""),
        ([{**FREED, "changed": {"functions": ["__p4d_free_tlb"]}}, SEEN], [], ""),
        ([{**FREED, "changed": {"functions": ["other"]}}, SEEN], ["report 1: free/table: early\n  entry"], ""),
        ([INCONCLUSIVE], [], "it did not see frees of pages"),
        ([{"error": "no memory"}, SEEN], [], "no memory"),
        ([], [], "the plugin wrote no verdict"),
    ],
)
def test_what_the_checker_said(
    tmp_path: Path, lines: list[dict[str, object]], reports: list[str], trouble: str
) -> None:
    """New reports fail, and so does a checker that saw nothing; known issues do not."""
    (tmp_path / "reports.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = selftests.with_checker(SuiteOutcome({"a": "ok"}), tmp_path, [KNOWN], "6.12.117")
    assert (outcome.verdicts, list(outcome.reports), outcome.trouble) == ({"a": "ok"}, reports, trouble)
    died = selftests.with_checker(SuiteOutcome({}, (), "the guest hung"), tmp_path, [KNOWN], "6.12.117")
    assert died.trouble == "the guest hung"


def test_only_what_was_left_out_runs_too(tmp_path: Path) -> None:
    """more_vmtests.sh runs a program that this kernel has and whose run_vmtests.sh does not run."""
    script = f"""
    run_test() {{ echo "$CATEGORY: $*"; }}
    test_selected() {{ false; }}
    CATEGORY="mmap" run_test ./droppable
    [ -x ./protection_keys_64 ] && CATEGORY="pkey" run_test ./protection_keys_64
    . {paths.GUEST}/real/more_vmtests.sh
    """
    write_files(tmp_path, {"run_vmtests.sh": script, "mseal_test": "", "droppable": "", "protection_keys": ""})
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    said = subprocess.run(["bash", "./run_vmtests.sh"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == ["mmap: ./droppable", "sealing: ./mseal_test", "pkey: ./protection_keys"]
