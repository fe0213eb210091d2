# SPDX-License-Identifier: GPL-2.0-only
"""lull soak on a real kernel: a round, and a mutant that ends one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import Tool, common

Soak = Callable[..., CompletedProcess[str]]
SHORT = shlex.split("--kernel lab --cpu cortex-a76 --workload storm_unmap --workload fork_exec --workload sort_compute")


@pytest.fixture
def soak_for_real(real: Tool) -> Soak:
    """The soak over the user's cache, with what 'lull test' was asked to test."""
    return lambda *words: real("soak", *common(), *words)


def test_a_round_on_a_real_kernel(soak_for_real: Soak, tmp_path: Path) -> None:
    """Programs side by side, verified, under the checker, which has seen them."""
    would = json.loads(soak_for_real("--seed", "1", *SHORT, "--dry-run", "--json").stdout)
    line = next(one["line"] for one in would if "&" in one["what"] and "2 vCPUs" in one["what"])
    done = soak_for_real(*shlex.split(line)[2:], "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (one,) = json.loads((tmp_path / "out/soak.json").read_text())["rounds"]
    assert any("&" in name for name in one["workloads"]) and set(one["status"].values()) == {0}
    assert one["seen"]["accesses"] > 1e6 and one["seen"]["pending"] > one["seen"]["left"]


def test_a_mutant_is_caught(soak_for_real: Soak, tmp_path: Path) -> None:
    """A kernel that forgets a barrier does not get through a round; its line finds it again."""
    mutant = ["--append", "lull_mutant=page-no-dsb"]
    out = tmp_path / "out"
    done = soak_for_real("--seed", "1", "--minutes", "30", *SHORT, *mutant, "--out", str(out))
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    assert "pending/no-dsb" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("again: "))
    again = soak_for_real(*shlex.split(line.removeprefix("again: "))[2:])
    assert again.returncode == 1 and "pending/no-dsb" in again.stdout
