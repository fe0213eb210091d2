# SPDX-License-Identifier: GPL-2.0-only
"""`lull x86` without a guest: its plan, the check of the clock, its table, and what is missing or wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lull import base, guest, plan
from lull.errors import GuestGarbage, LullError, MissingError, UsageError
from lull.guest.qemu import X86, Qemu, command
from lull.guest.runner import BootOutcome
from lull.lab import Lab
from lull.linux.toolchain import Toolchain
from lull.run.records import Measurement, Record, Results
from lull.selftests.ktap import Case
from lull_contrib import x86

FREED, BATCHED = x86.SUBJECTS
"""What saves instructions, and what saves IPIs."""
WORKLOADS = plan.load_workloads(base.load_base().workloads)


@pytest.mark.parametrize("feature", x86.SUBJECTS)
def test_the_kernels_take_turns_and_each_boot_begins_with_the_loop(feature: str) -> None:
    """Each repeat boots both kernels, in turns; the clock is checked before anything is measured by it."""
    subject = x86.SUBJECTS[feature]
    boots = x86.boots(feature, WORKLOADS, 3)
    assert [b.image for b in boots] == ["stock", feature, feature, "stock", "stock", feature]
    for boot in boots:
        names = [job.workload.name for job in boot.jobs]
        assert names[0] == x86.LOOP and set(names[1:]) == set(subject.cases)
    assert {name for boot in boots for job in boot.jobs for name in [job.workload.program]} == set(subject.programs)


@pytest.mark.parametrize("feature", x86.SUBJECTS)
def test_the_programs_exist(feature: str) -> None:
    """Each program that is compiled for x86-64 has its source."""
    assert set(x86.SUBJECTS[feature].programs) <= {source.stem for source in guest.sources()}


def loops(counted: int, executed: int = 99000) -> list[Measurement]:
    """Measurements of the two loops, whose difference is ``counted`` for ``executed`` instructions."""
    return [
        Measurement("stock", f"loop/{name}", operations, "", 0.0, {x86.METRIC: float(insns)})
        for name, operations, insns in (("short", 1000, 1040), ("long", 1000 + executed, 1040 + counted))
    ]


def test_a_clock_that_counts_instructions(tmp_path: Path) -> None:
    """The difference of the loops decides: what opening and closing a window costs does not count."""
    x86.check_clock(loops(99000), tmp_path)


@pytest.mark.parametrize(
    ("measurements", "says"),
    [
        (loops(99001), "advanced by 99001 while 99000 were executed"),
        (loops(36000), "does not count instructions"),
        ([], "did not measure loop"),
    ],
)
def test_a_clock_that_counts_something_else(tmp_path: Path, measurements: list[Measurement], says: str) -> None:
    """One instruction too many is enough: nothing is measured by such a clock."""
    with pytest.raises(LullError, match=says) as caught:
        x86.check_clock(measurements, tmp_path)
    assert caught.value.where and caught.value.remedy


def test_the_tsc_is_the_count_of_instructions(tmp_path: Path) -> None:
    """The metric of a window gets the name that the measurements know."""
    outcome = x86.instructions(BootOutcome(windows=[{"window": 1, "metrics": {"tsc": 7, "pgfree": 1}}]), tmp_path)
    assert outcome.windows[0]["metrics"] == {"insns_own": 7, "pgfree": 1}
    with pytest.raises(GuestGarbage, match="window 2 has no TSC"):
        x86.instructions(BootOutcome(windows=[{"window": 2}]), tmp_path)


def test_the_table() -> None:
    """Medians a page, their ratio, and how far boots are apart; a case that one kernel lacks has no row."""

    def record(kernel: str, workload: str, *values: float) -> Record:
        return Record(kernel, workload, 1, x86.METRIC, "count", values, 10, "page")

    records = [
        record("stock", "loop/short", 10.0),
        record("stock", "teardown_munmap/anon-4k", 1000.0, 1010.0, 1000.0),
        record("stock", "teardown_munmap/anon-64k", 500.0),
        record(FREED, "loop/short", 10.0),
        record(FREED, "teardown_munmap/anon-4k", 600.0, 600.0, 600.0),
    ]
    (grid,) = x86.grids(Results("1", "6.12", {}, records), FREED)
    assert grid.rows == (("teardown_munmap/anon-4k", "100", "60", "0.600", "1.00%"),)


def test_what_keeps_two_cpus_busy_has_ipis_and_no_instructions() -> None:
    """The clock counts the instructions of both; the kernel counts the IPIs, and none of them is no row."""
    records = [
        Record(kernel, workload, 2, metric, "count", [value], 10, "page")
        for kernel, value in (("stock", 10.0), (BATCHED, 1.0))
        for workload, metric in (
            ("swap_bench", x86.OWN),
            ("swap_bench_threads", x86.OWN),
            ("swap_bench_threads", x86.IPIS),
        )
    ]
    records.append(Record("stock", "swap_bench", 2, x86.IPIS, "count", [0.0], 10, "page"))
    records.append(Record(BATCHED, "swap_bench", 2, x86.IPIS, "count", [0.0], 10, "page"))
    instructions, ipis = x86.grids(Results("1", "7.3", {}, records), BATCHED)
    assert [row[0] for row in instructions.rows] == ["swap_bench"]
    assert [row[:4] for row in ipis.rows] == [("swap_bench_threads", "1", "0.1", "0.100")]


def test_the_verdict_on_kunit() -> None:
    """A case that failed or was skipped, or no case at all, fails."""
    good = Case("mm_teardown", "tails", "ok")
    assert x86.kunit_check("mm_teardown", [good]).verdict == "passed"
    assert x86.kunit_check("mm_teardown", []).verdict == "failed"
    skipped = replace(good, name="stats", verdict="skipped")
    assert "stats skipped" in x86.kunit_check("mm_teardown", [good, skipped]).detail


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without QEMU the command says which package to install, before anything is built."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LLVM", raising=False)
    with pytest.raises(MissingError) as caught:
        x86.measure(x86.X86Lab(Lab(), FREED), x86.boots(FREED, WORKLOADS, 1), tmp_path / "out")
    assert "apt-get install --no-install-recommends qemu-system-x86" in caught.value.remedy


def test_a_base_without_the_feature() -> None:
    """It is refused before anything is built."""
    lab = Lab()
    lab.base = replace(lab.base, features={})
    with pytest.raises(UsageError, match=f"has no feature {FREED}"):
        x86.X86Lab(lab, FREED)


def test_llvm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No one asks for clang and gets GCC's kernels in silence."""
    monkeypatch.setenv("LLVM", "1")
    with pytest.raises(UsageError, match="GCC only"):
        x86.X86Lab(Lab(), FREED)


def test_the_machine(tmp_path: Path) -> None:
    """One vCPU; the clock advances one nanosecond an instruction; no option of the arm64 board."""
    words = command(
        Qemu(Path("q"), "7.2"), X86(), kernel=tmp_path, initrd=tmp_path, append=x86.ARGUMENTS, results=tmp_path
    )
    line = " ".join(words)
    assert "-accel tcg,thread=single -icount shift=0,sleep=off -cpu max -smp 1,sockets=1 " in line
    assert "console=ttyS0" in line and "virt" not in line


def test_the_compiler() -> None:
    """The build of the kernel gets x86-64's ARCH, and makes its image."""
    compiler = Toolchain("", "gcc 12", arch="x86_64")
    assert "ARCH=x86_64" in compiler.make_variables()
    assert compiler.image == "arch/x86/boot/bzImage"
