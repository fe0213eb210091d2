# SPDX-License-Identifier: GPL-2.0-only
"""lull timing as a user runs it: real kernels, real counts, a model that is right and one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Tool, common

from lull import paths


@pytest.mark.parametrize(("insn", "status"), [("0.174", 0), ("0.250", 1)])
def test_swapping_by_a_model(insn: str, status: int, real: Tool, tmp_path: Path) -> None:
    """The model of a machine gives what it was fitted to; with a wrong instruction it does not, and says so."""
    text = (paths.TIMING / "kunpeng-920.toml").read_text()
    assert "insn = 0.174" in text
    (tmp_path / "mine.toml").write_text(text.replace("insn = 0.174", f"insn = {insn}"))
    words = [str(tmp_path / "mine.toml"), "--vcpus", "4", "--repeat", "1", "--out", str(tmp_path / "out")]
    done = real("timing", *common(), *words)
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-4000:]
    raw = json.loads((tmp_path / "out/timing.json").read_text())
    verdicts = {check["name"]: check["verdict"] for check in raw["checks"]}
    failed = {name for name, verdict in verdicts.items() if verdict == "failed"}
    assert done.returncode == bool(failed)
    assert bool(failed) == bool(status), done.stdout[-4000:]
    wanted = "held" if status == 0 else "failed"
    assert verdicts["fitted: swap_bench, a wait for each page"] == wanted
    assert verdicts["fitted: a flush: DSB ISHST, TLBI VALE1IS, DSB ISH"] == "held"
    stock, lull = (next(p for p in raw["points"] if p["kernel"] == kernel) for kernel in ("stock", "lull"))
    assert stock["modelled"] > 4 * lull["modelled"]
