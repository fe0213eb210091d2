# SPDX-License-Identifier: GPL-2.0-only
"""Some of Debian's programs, which suite "real" measures, on stock and Lull."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Tool, common

from lull.judge.thresholds import RunSlice
from lull.run.records import Results

pytestmark = pytest.mark.whole


def test_a_short_cut_of_the_suite(real: Tool, tmp_path: Path) -> None:
    """A few small programs, once on stock and on Lull: each verifies itself, and Lull broadcasts less."""
    words = ["--kernel", "stock", "--kernel", "lull", "--workload", "redis_small", "--workload", "stress_ng_small"]
    words += ["--repeat", "1", "--out", str(tmp_path / "out")]
    done = real("run", *common(), "--suite", "real", *words)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    run = RunSlice(4, Results.load(tmp_path / "out/results.json").records)
    for program in ("redis_small", "stress_ng_small"):
        stock, lull = (run.total([kernel], program, "tlbi_broadcast_user") for kernel in ("stock", "lull"))
        assert stock and lull is not None and lull < stock / 2, program
    assert len(run.cases("stress_ng_small")) == 3
