# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests of HugeTLB pages: on Lull they end as on stock, with struct pages given back and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import REAL_CACHE, SUMMARY, lab_under_test

from lull import selftests
from lull.errors import UsageError
from lull.selftests import Outcome, Setting, Suite

MUST_PASS = {
    "hugepage-mmap",
    "map_hugetlb",
    "map_hugetlb_32m",
    "hugepage-vmemmap",
    "hugetlb-madvise",
    "hugetlb_dio",
    "hugetlb_fault_after_madv",
    "hugetlb_madv_vs_map",
    "hugetlb-soft-offline",
}
"""What passes on stock; the others need what the lab's kernels leave out, or fail (hugetlb-read-hwpoison)."""

CONSOLE = """booting
--- suite 1\r
TAP version 13\r
# Mapping 256 Mbytes\r
ok 1 Read correct data\r
not ok 2 - leaks # here\r
ok 3 swap # SKIP there is none\r
--- messages 1\r
[    3.000000] Soft offlining pfn 0x102901\r
--- end 1\r
--- suite 2\r
--- messages 2\r
[    4.000000] WARNING: CPU: 0 PID: 1 at mm/hugetlb.c:1\r
[    4.000001] Call trace:\r
--- end 2\r
"""


def test_what_a_guest_said_is_read() -> None:
    """Cases, exit codes, and what the kernel reported meanwhile."""
    found = selftests.read(CONSOLE, {1: 1, 2: 0})
    assert found[1].cases == (("Read correct data", "ok"), ("leaks", "failed"), ("swap", "skipped"))
    assert found[1].verdict == "failed" and not found[1].reports
    assert found[2].verdict == "failed" and "mm/hugetlb.c:1" in found[2].reports[0]


def test_what_differs_from_stock_is_told() -> None:
    """Another exit code, another case, or a report of the kernel; not what stock fails, too."""
    good, bad = Outcome(0, (("a", "ok"),), (), ""), Outcome(1, (("a", "failed"),), (), "")
    found = {("stock", "x"): good, ("stock", "y"): bad, ("lull", "x"): good, ("lull", "y"): bad}
    assert selftests.differing(found) == []
    found["lull", "x"] = Outcome(4, (), (), "")
    found["lull", "y"] = Outcome(1, (("a", "skipped"),), (), "")
    assert selftests.differing(found) == [("lull", "x"), ("lull", "y")]
    found["stock", "x"] = found["lull", "x"] = Outcome(0, (("a", "ok"),), ("WARNING: ",), "")
    assert selftests.differing(found) == [("stock", "x"), ("lull", "x"), ("lull", "y")]
    rows = dict((row[0], row[1:]) for row in selftests.grid(found).rows)
    assert rows["y"] == ("failed (0 of 1 cases)", "failed (0 of 1 cases), differs")


def test_each_suite_has_its_pool() -> None:
    """And what it asks for, before it runs; the setting comes first."""
    setting = Setting("a", "lull", ("echo a",))
    job = selftests.script(setting, [Suite("x", "x", ("1", "two words"), 7), Suite("y", "y", before=("echo y",))])
    assert "echo 7 >/proc/sys/vm/nr_hugepages\necho '--- suite 1'\nrun 1 ./x 1 'two words' 2>&1\n" in job
    assert f"echo {selftests.PAGES} >/proc/sys/vm/nr_hugepages\necho y\n" in job
    assert job.index("echo a") < job.index("run 1 ./x") < job.index("echo y") < job.index("run 2 ./y")


def test_suites_are_known(tmp_path: Path) -> None:
    """The file is well formed, and one that is not is refused."""
    known = {suite.name: suite for suite in selftests.load()}
    assert set(known) > MUST_PASS and known["hugetlb-soft-offline"].pages == 8
    broken = tmp_path / "selftests.toml"
    broken.write_text("[x]\npages = 'many'\n")
    with pytest.raises(UsageError, match="not a file of selftests"):
        selftests.load(broken)


@pytest.mark.guest
def test_suites_end_as_on_stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    """Nothing differs, and what is to pass does so: the baseline is no excuse for a lab that cannot run anything."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
    found = selftests.conduct(lab_under_test(), selftests.load(), tmp_path)
    table = selftests.grid(found)
    SUMMARY.extend(f"{table.title}: {', '.join(row)}" for row in (table.header, *table.rows))
    differ = selftests.differing(found)
    assert not differ, "\n\n".join(f"{pair}:\n{found[pair].output}{''.join(found[pair].reports)}" for pair in differ)
    assert {suite for (_, suite), outcome in found.items() if outcome.verdict != "passed"}.isdisjoint(MUST_PASS)
