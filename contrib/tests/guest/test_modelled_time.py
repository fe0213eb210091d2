# SPDX-License-Identifier: GPL-2.0-only
"""Modelled time in real guests: what the costs say comes out, whatever the host does meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Tool

from lull import timing
from lull.run.records import Results
from lull_contrib.timing import evaluation as timing_eval

CLOSE = {"stock": 0.02, "lull": 0.1}
"""How near two runs are. Lull's window is short, and the first after a boot, whose rest is up to 6 % of it."""
LOOPS = 2000
"""Of mprotect_pinned, guest/workloads.toml."""


def measured(real: Tool, out: Path, costs: str, vcpus: int) -> Results:
    """A timed run of mprotect_pinned: vCPUs were kept in step, and nothing else is called seconds."""
    words = ["run", "--timing", costs, "--workload", "mprotect_pinned", "--repeat", "1", "--vcpus", str(vcpus)]
    done = real(*words, "--kernel", "stock", "--kernel", "lull", "--out", str(out))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    results = Results.load(out / "results.json")
    assert {c.name: c.verdict for c in results.checks}["timing: vCPUs kept in step"] == "passed"
    assert {r.metric for r in results.records if r.unit == "s"} == {timing.METRIC}
    return results


def seconds(results: Results) -> dict[str, float]:
    """Modelled seconds by kernel."""
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


@pytest.mark.parametrize("vcpus", [2, 8])
def test_the_host_does_not_matter(real: Tool, tmp_path: Path, vcpus: int) -> None:
    """Two vCPUs just begin to queue for the interconnect, eight do nothing else; Lull's have nothing to queue for."""
    calm = measured(real, tmp_path / "calm", "ampere-32", vcpus)
    with load(2):
        busy = measured(real, tmp_path / "busy", "ampere-32", vcpus)
    for results in (calm, busy):
        points = timing_eval.sweep(timing.load_model("ampere-32").costs, {vcpus: results})
        off = {point.kernel: point.off for point in points if point.modelled is not None}
        for kernel, most in CLOSE.items():
            assert off[kernel] == pytest.approx(0, abs=most), "what its counts say"
    for kernel, most in CLOSE.items():
        assert seconds(busy)[kernel] == pytest.approx(seconds(calm)[kernel], rel=most)
    assert seconds(calm)["lull"] < seconds(calm)["stock"] / 3


def test_a_wrong_cost_shows(real: Tool, tmp_path: Path) -> None:
    """Broadcasts that are said to take half as long again do."""
    model = timing.load_model("ampere-32")
    text = (timing.paths.TIMING / "ampere-32.toml").read_text()
    wrong = 1.5 * model.costs.broadcast
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace(f"broadcast = {model.costs.broadcast:.0f}\n", f"broadcast = {wrong}\n"))
    assert timing.load_model(str(file)).costs.broadcast == wrong
    found = seconds(measured(real, tmp_path / "out", str(file), 8))
    assert found["stock"] == pytest.approx(8 * LOOPS * wrong / 1e9, rel=0.02)


def test_what_a_pinned_loop_receives(real: Tool, tmp_path: Path) -> None:
    """On stock as many broadcasts as the interconnect serves, on Lull none; its own work takes as long as alone."""
    words = ["run", "--timing", "ampere-32", "--workload", "jitter", "--repeat", "1", "--vcpus", "8"]
    words += ["--append", "isolcpus=7", "--kernel", "stock", "--kernel", "lull", "--out", str(tmp_path / "out")]
    done = real(*words)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = {(r.kernel, r.workload, r.metric): r.values[0] for r in Results.load(tmp_path / "out/results.json").records}
    costs = timing.load_model("ampere-32").costs
    for kernel in ("stock", "lull"):
        work = found[kernel, "jitter/alone", timing.METRIC]
        assert found[kernel, "jitter/mprotect", timing.METRIC] == pytest.approx(work, rel=0.02)
        assert found[kernel, "jitter/alone", "seconds_held_up"] < 0.01 * work
    served = found["stock", "jitter/mprotect", timing.METRIC] / costs.broadcast * costs.receive
    assert found["stock", "jitter/mprotect", "seconds_held_up"] == pytest.approx(served, rel=0.02)
    assert found["lull", "jitter/mprotect", "seconds_held_up"] < 0.01 * served
