# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps on the fake kernel: jobs side by side, failing, interrupted, and by two machines."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import FAKE, REAL_CACHE, Tool, lab_under_test

from lull import extras
from lull.errors import FetchError
from lull.run.records import Results
from lull.sweep import engine as sweep_engine

Fake = Callable[..., CompletedProcess[str]]
SWEEP = ("sweep", "--repeat", "1", "--workers", "2")


@pytest.fixture
def engine(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's packages from the real cache, fetched once."""
    with monkeypatch.context() as patch:
        patch.setenv("LULL_CACHE", str(REAL_CACHE))
        try:
            extras.fetched(sweep_engine.EXTRA, offline=lab_under_test().offline)
        except FetchError as error:
            pytest.skip(error.text())
    (tool.cache / "python").symlink_to(REAL_CACHE / "python")


@pytest.fixture
def sweep(fake: Fake, engine: None) -> Fake:
    """Run a sweep on the fake kernel, two jobs at once."""

    def run(*words: str, **options: str) -> CompletedProcess[str]:
        return fake(*SWEEP, *words, **options)

    return run


@pytest.fixture
def begin(tool: Tool, fake: Fake, fake_tree: Path, engine: None) -> Callable[..., subprocess.Popen[str]]:
    """Start one, to be interrupted or joined."""
    common = ["--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree), "--offline"]
    return lambda *words: tool.start(*SWEEP, *common, *words)


def jobs_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The jobs of sweep.json by name."""
    return {job["name"]: job for job in json.loads((folder / "sweep.json").read_text())["jobs"]}


def until(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something to become true."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it took too long"
        time.sleep(0.02)


def test_jobs_side_by_side(sweep: Fake, tmp_path: Path) -> None:
    """Two at once on one machine, each a run; one table with every ratio, and nothing is done twice."""
    out = tmp_path / "out put"
    done = sweep("--vcpus", "1,2,3", "--out", str(out), "--append", "a b")
    assert done.returncode == 0, done.stderr
    jobs = jobs_of(out)
    assert [(job["vcpus"], job["state"], job["exit_code"]) for job in jobs.values()] == [
        (vcpus, "held", 0) for vcpus in (3, 2, 1)
    ]
    starts = [line.split(":")[0].strip() for line in done.stderr.splitlines() if ": begun: " in line]
    first_end = next(n for n, line in enumerate(done.stderr.splitlines()) if ": held (" in line)
    assert sorted(starts) == sorted(jobs)
    assert sum(": begun: " in line for line in done.stderr.splitlines()[:first_end]) == 2
    for job in jobs.values():
        results = Results.load(out / job["results"] / "results.json")
        assert {record.vcpus for record in results.records} == {job["vcpus"]}
    table = (out / "comparison.md").read_text()
    assert [line for line in table.splitlines() if line.endswith("| 4 | 0.4 | 0.100 ? |")] == [
        f"| count | {vcpus} | 4 | 0.4 | 0.100 ? |" for vcpus in (1, 2, 3)
    ]
    assert (out / "complete").exists()

    written = {path: path.stat().st_mtime_ns for path in (out / "jobs").rglob("*")}
    again = sweep("--vcpus", "1,2,3", "--out", str(out), "--append", "a b", "--json")
    assert again.returncode == 0, again.stderr
    assert list(jobs_of(out).values()) == json.loads(again.stdout)["jobs"] == list(jobs.values())
    assert written == {path: path.stat().st_mtime_ns for path in (out / "jobs").rglob("*")}
    assert sweep("--vcpus", "1,2", "--out", str(out)).returncode == 2, "another plan"


def test_a_job_that_fails(sweep: Fake, tmp_path: Path) -> None:
    """A panic breaks one job off, a check fails in another: both are named, the rest is there, and exit code 1."""
    words = ["--kernel", "stock", "--vcpus", "1", "--workload", "panic", "--workload", "fail", "--workload", "count"]
    out = tmp_path / "out"
    done = sweep(*words, "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert "1 of 3 jobs have no results" in done.stderr
    panic, fail, count = jobs_of(out).values()
    assert (panic["state"], panic["exit_code"], panic["results"]) == ("broke off", 4, "")
    assert "fake trouble" in (out / panic["log"]).read_text()
    assert (fail["state"], fail["exit_code"]) == ("failed", 1)
    assert "verified: fail on stock" in fail["failed"]
    assert (count["state"], count["exit_code"]) == ("held", 0)
    assert "the guest kernel panicked; its log: " in done.stderr
    assert not (out / "complete").exists()
    log = (out / panic["log"]).read_text()
    again = sweep(*words, "--out", str(out))
    assert again.returncode == 1
    assert "1 of 3 jobs to do" in again.stderr, "what has results, good or bad, is not run again"
    assert len((out / panic["log"]).read_text()) > len(log)


@pytest.mark.parametrize("kill", [pytest.param(signal.SIGINT, marks=pytest.mark.whole), signal.SIGKILL])
def test_resumed(
    sweep: Fake, begin: Callable[..., subprocess.Popen[str]], tool: Tool, tmp_path: Path, kill: signal.Signals
) -> None:
    """Killed in the middle: no run is left (ended with it, or waited for), and the same command does the rest."""
    out = tmp_path / "out"
    words = ["--vcpus", "1,2,3", "--repeat", "2", "--out", str(out)]
    child = begin(*words)
    until(lambda: list(out.glob("jobs/*/complete")) or child.poll() is not None)
    child.send_signal(kill)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == (130 if kill == signal.SIGINT else -kill), errors
    if kill == signal.SIGINT:
        assert "resumes" in errors
        assert not runs_of(out), "nothing is left behind"
    assert not (out / "complete").exists()
    first = next(out.glob("jobs/*/complete")).parent
    written = (first / "results.json").stat().st_mtime_ns
    again = sweep(*words)
    assert again.returncode == 0, again.stderr
    assert f"{first.name}: begun" not in again.stderr
    assert (first / "results.json").stat().st_mtime_ns == written
    assert [job["state"] for job in jobs_of(out).values()] == ["held"] * 3
    assert not runs_of(out)


def runs_of(out: Path) -> list[str]:
    """Processes whose command line names a sweep's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if any(word.startswith(f"{out}/") for word in words):
                found.append(" ".join(words))
    return found


@pytest.fixture
def address() -> str:
    """An address that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def machines(tool: Tool) -> list[Tool]:
    """Two more machines: each with a cache of its own, which has what the first one's has."""
    found = []
    for name in ("one", "two"):
        cache = tool.cache.with_name(f"{tool.cache.name}-{name}")
        shutil.copytree(tool.cache, cache, symlinks=True)
        found.append(Tool(cache, tool.cwd, {**tool.environment, "LULL_CACHE": str(cache)}))
    return found


@pytest.mark.whole
def test_two_more_machines(
    begin: Callable[..., subprocess.Popen[str]], machines: list[Tool], address: str, tmp_path: Path
) -> None:
    """One gives, two join and do all, without its files; the job of the one that leaves is the other's."""
    out = tmp_path / "out"
    giver = begin("--vcpus", "1,2", "--repeat", "2", "--listen", address, "--workers", "0", "--out", str(out))
    join = ("sweep", "--join", address, "--workers", "1", "--offline")
    helpers = [machine.start(*join) for machine in machines]
    try:
        until(lambda: giver.poll() is not None or all(begun(machine) for machine in machines))
        assert giver.poll() is None, "".join(giver.communicate())
        helpers[0].terminate()
        _, errors = giver.communicate(timeout=100)
        assert giver.returncode == 0, errors
        assert [job["state"] for job in jobs_of(out).values()] == ["held", "held"]
        assert errors.count(": begun: ") == 3, "one of two jobs was begun again"
        for job in jobs_of(out).values():
            assert (out / job["results"] / "boots/r02-lull/console.log").exists()
            assert str(machines[1].cache) in (out / job["log"]).read_text()
        assert helpers[1].wait(timeout=30) == 0
        assert not begun(machines[1]), "what was sent is removed"
        assert (helpers[0].wait(timeout=30), runs_of(machines[0].cache)) == (130, [])
    finally:
        for child in (giver, *helpers):
            child.kill()
            child.communicate()


def begun(machine: Tool) -> list[Path]:
    """The boots of a machine that joined, outside of the sweep's folder."""
    return list(machine.cache.glob("sweep/*/jobs/*/boots/*"))
