# SPDX-License-Identifier: GPL-2.0-only
"""Modelled time in real guests: what the costs say comes out, whatever the host does meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REAL_CACHE, Tool

from lull import timing
from lull.records import Results

pytestmark = pytest.mark.guest
VCPUS = 8
LOOPS = 2000
"""Of mprotect_pinned, guest/workloads.toml."""


@pytest.fixture(autouse=True)
def real_cache(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    """Kernels are built into, and taken from, the user's cache."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))


def seconds(real: Tool, out: Path, costs: str) -> dict[str, float]:
    """Modelled seconds of mprotect_pinned by kernel; vCPUs were kept in step, and nothing else is called seconds."""
    kernels = ["--kernel", "stock", "--kernel", "lull"]
    words = ["run", "--timing", costs, "--workload", "mprotect_pinned", "--repeat", "1", "--vcpus", str(VCPUS)]
    done = real(*words, *kernels, "--out", str(out), timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    results = Results.load(out / "results.json")
    assert {c.name: c.verdict for c in results.checks}["timing: vCPUs kept in step"] == "held"
    assert {r.metric for r in results.records if r.unit == "s"} == {timing.METRIC}
    return {r.kernel: r.values[0] for r in results.find(metric=timing.METRIC)}


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Busy loops on the host."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_the_host_does_not_matter(real: Tool, tmp_path: Path) -> None:
    """Where all wait for the interconnect it is what takes the time; Lull does not; and so it is on a busy host."""
    calm = seconds(real, tmp_path / "calm", "ampere-32")
    assert calm["stock"] == pytest.approx(VCPUS * LOOPS * timing.load("ampere-32").costs.broadcast / 1e9, rel=0.02)
    assert calm["lull"] < calm["stock"] / 10
    with load(2):
        busy = seconds(real, tmp_path / "busy", "ampere-32")
    assert busy["stock"] == pytest.approx(calm["stock"], rel=0.02)
    assert busy["lull"] == pytest.approx(calm["lull"], rel=0.1)


def test_a_wrong_cost_shows(real: Tool, tmp_path: Path) -> None:
    """Broadcasts that are said to take half as long again do."""
    model = timing.load("ampere-32")
    text = (timing.paths.TIMING / "ampere-32.toml").read_text()
    wrong = 1.5 * model.costs.broadcast
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace(f"broadcast = {model.costs.broadcast:.0f}\n", f"broadcast = {wrong}\n"))
    assert timing.load(str(file)).costs.broadcast == wrong
    found = seconds(real, tmp_path / "out", str(file))
    assert found["stock"] == pytest.approx(VCPUS * LOOPS * wrong / 1e9, rel=0.02)
