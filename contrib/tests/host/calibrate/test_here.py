# SPDX-License-Identifier: GPL-2.0-only
"""lull calibrate on a machine: the program and its options, what is said of the machine, the file that is written."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import LOCAL, RUNS, Tool, host_program

from lull import guest, paths, process, timing
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import toolchain
from lull_contrib import calibrate
from lull_contrib.calibrate import here as calibrate_here
from lull_contrib.calibrate.here import Here, Repeats, Way, counted, executed, has_ranges, of_lines, way_of
from lull_contrib.timing.scale import Counts

HERE = Here("6.12.9-generic", ("0x41/0xd08",), 16, False, Repeats.NO, None)
NO, SYNC, EACH = Repeats


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, for the host."""
    return host_program("calibrate", tmp_path_factory.mktemp("calibrate"))


def play(program: Path, *words: str, **options: Any) -> CompletedProcess[str]:
    """Run it."""
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=60, **options)


def test_the_program_measures_each_case_in_each_round(program: Path) -> None:
    """All processes do what they are to do, and a window has as many operations as it says."""
    done = play(program, "loops=40", "rounds=2")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    cpus = len(os.sched_getaffinity(0))
    crowds = [2**n for n in range(1, 12) if 2**n < cpus] + [cpus] * (cpus > 1)
    sizes = {"plain": 80, "flush": 80, "batch-511": 6, "batch-512": 80, "dsb": 640, "lines": 640, "pages": 640}
    assert {line["case"]: line["operations"] for line in lines} == sizes | {f"flush-{n}": 80 * n for n in crowds}
    assert len(lines) == 2 * (len(sizes) + len(crowds))
    assert all(line["seconds"] > 0 for line in lines if line["unit"] == "mprotect")


def test_a_window_takes_about_its_milliseconds(program: Path) -> None:
    """As many operations as fit: ten times the time has more of them."""
    short, long = (
        {w["case"]: w["operations"] for w in map(json.loads, play(program, f"ms={ms}", "rounds=1").stdout.splitlines())}
        for ms in (2, 40)
    )
    cases = ("plain", "flush", "batch-511", "batch-512", "dsb", "lines", "pages")
    assert all(long[case] > 4 * short[case] for case in cases)


CROWD = """
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int others;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	CPU_ZERO(set);
	for (int cpu = 0; cpu < 4; cpu++)
		CPU_SET(cpu, set);
	return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	return 0;
}

pid_t fork(void)
{
	pid_t pid = ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();

	others = pid ? others + 1 : -1;
	return pid;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	others--;
	return ((pid_t (*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid"))(pid, status, options);
}

int mprotect(void *at, size_t size, int protection)
{
	struct timespec time = { .tv_nsec = 400000 * (1 + others) };

	nanosleep(&time, NULL);
	return syscall(SYS_mprotect, at, size, protection);
}
"""


def preloading(source: str, tmp_path: Path) -> dict[str, str]:
    """The environment in which a program has these functions in place of libc's."""
    library = tmp_path / "instead.so"
    words = ["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(words, input=source, text=True, check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


def test_a_window_of_many_cpus_takes_no_longer(program: Path, tmp_path: Path) -> None:
    """Where CPUs wait for each other they do fewer loops: here each more makes every mprotect longer by as much."""
    done = play(program, "ms=80", "rounds=1", env=preloading(CROWD, tmp_path))
    assert done.returncode == 0, done.stderr
    each = {
        w["case"]: w["operations"] / calibrate_here.cpus_of(w["case"])
        for w in map(json.loads, done.stdout.splitlines())
    }
    assert each["flush"] / 8 < each["flush-4"] < each["flush"] / 2


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("bogus=1", "unknown option 'bogus=1'"),
        ("ms=x", "not a number"),
        ("rounds=0", "1 or more"),
        ("ms=0", "1 or more"),
    ],
)
def test_the_program_refuses(program: Path, word: str, says: str) -> None:
    """Bad options, by name."""
    done = play(program, word)
    assert done.returncode == 2
    assert says in done.stderr


LIAR = """
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int mprotect(void *at, size_t size, int protection)
{
	if (protection & PROT_WRITE)
		madvise(at, size, MADV_DONTNEED);
	return syscall(SYS_mprotect, at, size, protection);
}
"""


def test_the_program_looks_at_what_it_wrote(program: Path, tmp_path: Path) -> None:
    """An mprotect that loses what is in the page does not go unseen."""
    done = play(program, "loops=8", "rounds=1", env=preloading(LIAR, tmp_path))
    assert done.returncode == 1
    assert "writes arrived" in done.stderr


@pytest.mark.parametrize(
    ("case", "ranges", "local", "kpti", "repeats", "counts"),
    [
        ("plain", False, False, True, SYNC, Counts(7, 0, 0, 0, 0)),
        ("dsb", False, False, True, SYNC, Counts(7, 0, 0, 0, 1)),
        ("flush", False, False, False, NO, Counts(7, 1, 1, 1, 2)),
        ("flush", False, False, True, None, Counts(7, 2, 2, 1, 2)),
        ("flush", True, False, False, SYNC, Counts(7, 2, 2, 2, 3)),
        ("flush", True, False, False, EACH, Counts(7, 2, 2, 2, 3)),
        ("flush", True, False, True, EACH, Counts(7, 4, 4, 3, 4)),
        ("flush", True, True, False, SYNC, Counts(7, 1, 0, 0, 2)),
        ("batch-511", False, False, False, NO, Counts(7, 511, 511, 1, 2)),
        ("batch-511", False, False, False, SYNC, Counts(7, 512, 512, 2, 3)),
        ("batch-511", False, False, False, EACH, Counts(7, 1022, 1022, 512, 513)),
        ("batch-511", True, False, False, NO, Counts(7, 3, 3, 1, 2)),
        ("batch-512", True, False, False, NO, Counts(7, 1, 1, 1, 2)),
        ("batch-512", False, False, False, NO, Counts(7, 1, 1, 1, 3)),
        ("batch-512", False, False, False, SYNC, Counts(7, 3, 3, 3, 5)),
        ("batch-512", False, True, False, NO, Counts(7, 1, 0, 0, 2)),
    ],
)
def test_what_linux_executes(
    case: str, ranges: bool, local: bool, kpti: bool, repeats: Repeats | None, counts: Counts
) -> None:
    """By its source; tests/guest/test_calibrate.py has it from the kernels."""
    here = Here("6.12", (), 4, kpti, repeats, ranges)
    assert executed(case, 7, here, ranges=ranges, local=local) == counts


def test_a_flush_of_an_asid_is_waited_for_once_on_new_kernels() -> None:
    """By the source of 7.2 and 7.3."""
    for release, waits in (("6.12.117", 2), ("7.2.13", 1), ("7.3.4+deb13-arm64", 1)):
        here = Here(release, (), 4, False, NO, False)
        assert executed("batch-512", 7, here, ranges=False, local=False) == Counts(7, 1, 1, 1, 1 + waits)


def lines(ns: dict[str, float], instructions: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """Two rounds of the program: 100 operations that take so many ns each."""
    return [
        {
            "case": case,
            "operations": 100,
            "seconds": each * 100e-9 * far,
            "metrics": {"instructions": 100 * instructions[case]} if instructions and case in instructions else {},
        }
        for far in (1.0, 1.02)
        for case, each in ns.items()
    ]


NS = {"plain": 1500.0, "flush": 4900.0, "batch-511": 1.7e6, "batch-512": 11000.0, "dsb": 21.0, "flush-4": 3400.0}


def test_ranges_are_seen() -> None:
    """By what 511 pages take longer than 512: much, or little; also where queued TLBIs are served while others wait."""
    assert not has_ranges(lines(NS))
    assert has_ranges(lines(NS | {"batch-511": 18000.0}))
    pipelined = NS | {"plain": 1500.0, "flush": 3100.0, "batch-512": 8000.0}
    assert not has_ranges(lines(pipelined | {"batch-511": 8000 + 510 * 15.0}))
    assert has_ranges(lines(pipelined | {"batch-511": 8000 + 2 * 1600.0}))


def test_the_log_tells_of_ranges_first() -> None:
    """Time only where it cannot be read; and the file says which it was."""
    for ranges in (True, False):
        way = way_of(lines(NS), replace(HERE, ranges=ranges))
        assert way == Way(calibrate_here.LAB, ranges, calibrate_here.LOG)
    way = way_of(lines(NS, {"plain": 3100}), HERE)
    assert way == Way(calibrate_here.PERF, False, calibrate_here.TIME)
    found = calibrate_here.fitted(of_lines(lines(NS), HERE, ranges=False, local=False), [])
    texts = [calibrate_here.cost_file(found, HERE, Way("x", r, t)) for r, t in ((True, "log"), (False, "time"))]
    assert "\n# TLBIs of ranges, by log.\n" in texts[0]
    assert "\n# No TLBIs of ranges, by time.\n" in texts[1]


def test_no_batches_whose_broadcasts_nobody_knows() -> None:
    """Where each TLBI may be repeated or each sync; local ones never are. The file says that they are left out."""
    here = replace(HERE, repeats=EACH)
    far = of_lines(lines(NS), here, ranges=False, local=False)
    assert [m.case for m in far] == ["plain", "flush", "dsb", "flush-4"]
    assert len(of_lines(lines(NS), here, ranges=False, local=True)) == len(NS)
    text = calibrate_here.cost_file(calibrate_here.fitted(far, []), here, Way("x", False, "log"))
    assert "batches of broadcasts are left out" in text
    assert tomllib.loads(text)["costs"]["broadcast"] == pytest.approx(1717, rel=0.01)


def test_instructions_are_perfs_or_the_labs() -> None:
    """What perf counted goes before what the lab did; many CPUs' operations are flushes."""
    known = counted("6.12.9", ranges=False, local=False)
    (plain, flush, *_, crowd) = of_lines(lines(NS), HERE, ranges=False, local=False)
    assert (plain.counts.insns, flush.counts.insns) == (known["plain"], known["flush"])
    assert crowd.counts == flush.counts
    assert (crowd.cpus, crowd.ns) == (4, pytest.approx(4 * 3400 * 1.01))
    own = {"plain": 3100, "flush": 3500}
    (plain, flush, *_, crowd) = of_lines(lines(NS, own), HERE, ranges=False, local=False)
    assert (plain.counts.insns, flush.counts.insns, crowd.counts.insns) == (3100, 3500, 3500)


def test_the_labs_counts_are_those_of_the_nearest_series() -> None:
    """An unknown one has the newest."""
    assert counted("99.1-rc3", ranges=True, local=True) == counted("7.3.1", ranges=True, local=True)
    assert counted("6.6.9", ranges=True, local=True) != counted("6.12.1", ranges=True, local=True)


def test_the_machine_is_examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Parts, KPTI, ranges and the workaround, as the log tells, if it can be read and is whole."""
    cpuinfo, meltdown = tmp_path / "cpuinfo", tmp_path / "meltdown"
    cpuinfo.write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n" * 2)
    meltdown.write_text("Not affected\n")
    monkeypatch.setattr(calibrate_here, "CPUINFO", cpuinfo)
    monkeypatch.setattr(calibrate_here, "MELTDOWN", meltdown)
    boot, detected = "[0.0] Booting Linux on physical CPU 0\n", "[0.1] CPU features: detected: "
    said: dict[str, tuple[bool, Repeats | None, bool | None]] = {
        boot + detected + "Broken broadcast TLBI completion\n": (False, SYNC, False),
        boot + detected + "Qualcomm erratum 1009, or ARM erratum 1286807, 2441009\n": (False, EACH, False),
        boot + detected + "Qualcomm erratum 1009, ARM erratum 1286807\n": (False, EACH, False),
        boot + detected + "TLB range maintenance instructions\n": (False, NO, True),
        boot + detected + "Kernel page table isolation (KPTI)\n": (True, NO, False),
        boot: (False, NO, False),
        "[9.9] the beginning is lost\n": (False, None, None),
    }
    for log, told in said.items():
        monkeypatch.setattr(process, "complete", lambda *a, log=log, **k: process.ProcessEnd(0, log))
        here = calibrate_here.examine(None)
        assert (here.parts, (here.kpti, here.repeats, here.ranges)) == (("0x41/0xd0c",), told)
    monkeypatch.setattr(process, "complete", lambda *a, **k: process.ProcessEnd(1, boot))
    meltdown.write_text("Mitigation: PTI\n")
    here = calibrate_here.examine(None)
    assert (here.kpti, here.repeats, here.ranges) == (True, None, None)
    assert calibrate_here.examine(EACH).repeats is EACH
    monkeypatch.setattr(process, "complete", lambda *a, **k: process.ProcessEnd(0, boot))
    assert calibrate_here.examine(SYNC).repeats is SYNC


def test_policies_are_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also when the program fails; a switch that cannot be set is an error that says who may."""
    monkeypatch.setattr(calibrate_here, "POLICIES", tmp_path)
    switch = tmp_path / LOCAL
    switch.write_text("off [sticky] on")
    with pytest.raises(RuntimeError), calibrate_here.policies({LOCAL: "off", RUNS: "off"}):
        assert switch.read_text() == "off"
        raise RuntimeError
    assert switch.read_text() == "sticky"
    assert not (tmp_path / RUNS).exists()

    def refuse(path: Path, text: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(UsageError, match=f"cannot set {LOCAL} to off"), calibrate_here.policies({LOCAL: "off"}):
        pass


def test_a_cost_file_is_one(tmp_path: Path) -> None:
    """It is read back with the costs and where they come from."""
    measured = of_lines(lines(NS), HERE, ranges=False, local=False)
    found = calibrate_here.fitted(measured, [])
    path = tmp_path / "server.toml"
    path.write_text(calibrate_here.cost_file(found, HERE, Way(calibrate_here.LAB, False, calibrate_here.TIME)))
    model = timing.load_model(str(path))
    assert model.costs.broadcast == pytest.approx(3434, rel=0.01)
    assert model.costs.insn == pytest.approx(found.costs.insn, rel=1e-3)
    assert "calibrated: flushes on 4 CPUs at once" in model.sources["broadcast"]
    assert "cannot be told" in model.sources["tlbi"]
    assert all("6.12.9-generic" in model.sources[name] for name in ("insn", "dsb", "latency"))
    assert model.cpus == 16
    assert "0x41/0xd08" in model.about
    assert "counted by the lab" in path.read_text()


def test_a_cost_file_has_page_walks(tmp_path: Path) -> None:
    """What loads from many pages take longer than loads from few; left out as not measured without them."""
    path = tmp_path / "server.toml"
    for ns, walk, says in ((NS | {"lines": 5.0, "pages": 30.0}, 25.25, "calibrated: a load"), (NS, 0, "not measured")):
        found = calibrate_here.fitted(of_lines(lines(ns), HERE, ranges=False, local=False), [])
        assert not {r.measurement.case for r in found.residuals} & set(calibrate.CHAINS)
        path.write_text(calibrate_here.cost_file(found, HERE, Way(calibrate_here.LAB, False, calibrate_here.TIME)))
        model = timing.load_model(str(path))
        assert model.costs.walk == pytest.approx(walk) and says in model.sources["walk"]


@pytest.mark.skipif(toolchain.host_is_arm64(), reason="this machine can be calibrated")
def test_another_machine_is_refused(tool: Tool) -> None:
    """With what to do instead."""
    done = tool("calibrate", "--out", "here.toml")
    assert done.returncode == 2
    assert "only an arm64 one" in done.stderr
    assert "--guest" in done.stderr
    assert not (tool.cwd / "here.toml").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "server.txt"], "a cost file is a .toml file"),
        (["--rounds", "0"], "1 or more"),
        (["--guest", "amper-32"], "did you mean ampere-32"),
        (["--guest", "ampere-32", "--out", "x.toml"], "leave it out"),
        (["--guest", "ampere-32", "--ms", "5"], "--ms is of measuring this machine"),
        (["--guest", "ampere-32", "--rounds", "5", "--dry-run"], "--rounds is of measuring this machine"),
        (["--guest", "ampere-32", "--repeats", "sync"], "--repeats is of measuring this machine"),
        (["--vcpus", "4"], "--vcpus is of a guest"),
        (["--repeats", "yes"], "invalid choice"),
    ],
)
def test_bad_options(tool: Tool, words: list[str], says: str) -> None:
    """Before anything is built."""
    done = tool("calibrate", *words)
    assert done.returncode == 2
    assert says in done.stderr


def test_the_whole_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Built, run, fitted and written as on an arm64 machine; the numbers of any other mean nothing."""
    monkeypatch.setattr(toolchain, "host_is_arm64", lambda: True)
    monkeypatch.setattr(guest, "sources", lambda: [paths.GUEST / "calibrate.c"])
    monkeypatch.setattr(calibrate_here, "POLICIES", tmp_path)
    here = calibrate_here.examine(None)
    measured, near, way = calibrate_here.measure(Lab(), here, ms=2, rounds=5)
    assert {m.case for m in measured} >= {
        calibrate.PLAIN,
        calibrate.FLUSH,
        calibrate.DSB,
        *calibrate.BATCHES,
        *calibrate.CHAINS,
    }
    assert near == []
    text = calibrate_here.cost_file(calibrate_here.fitted(measured, near), here, way)
    assert tomllib.loads(text)["costs"]["insn"] > 0
    (tmp_path / LOCAL).write_text("[off] on")
    _, near, _ = calibrate_here.measure(Lab(), here, ms=2, rounds=2)
    assert {m.counts.broadcasts for m in near} == {0}
