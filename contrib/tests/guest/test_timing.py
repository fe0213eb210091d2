# SPDX-License-Identifier: GPL-2.0-only
"""lull timing as a user runs it: real kernels, real counts, a model that is right and one that is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lull import paths, timing
from lull.lab import Lab
from lull_contrib.timing import runs


@pytest.mark.parametrize(("insn", "status"), [("0.174", 0), ("0.250", 1)])
def test_swapping_by_a_model(insn: str, status: int, lab: Lab, tmp_path: Path) -> None:
    """The model of a machine gives what it was fitted to; with a wrong instruction it does not, and says so.

    Without the base's alternatives, each of which is a kernel more to build.
    """
    text = (paths.TIMING / "kunpeng-920.toml").read_text()
    assert "insn = 0.174" in text
    (tmp_path / "mine.toml").write_text(text.replace("insn = 0.174", f"insn = {insn}"))
    model = timing.load_model(str(tmp_path / "mine.toml"))
    ours = {name: kernel for name, kernel in lab.base.kernels.items() if name not in lab.base.alternatives}
    planned = runs.plans(model, replace(lab.base, kernels=ours), lab.workloads, [4], 1)
    returned = runs.do_timing(lab, model, planned, tmp_path / "out", as_json=False)
    raw = json.loads((tmp_path / "out/timing.json").read_text())
    verdicts = {check["name"]: check["verdict"] for check in raw["checks"]}
    failed = {name for name, verdict in verdicts.items() if verdict == "failed"}
    assert returned == bool(failed) == status, raw["checks"]
    wanted = "passed" if status == 0 else "failed"
    assert verdicts["fitted: swap_bench, a wait for each page"] == wanted
    assert verdicts["fitted: a flush: DSB ISHST, TLBI VALE1IS, DSB ISH"] == "passed"
    stock, lull = (next(p for p in raw["points"] if p["kernel"] == kernel) for kernel in ("stock", "lull"))
    assert stock["modelled"] > 4 * lull["modelled"]
