# SPDX-License-Identifier: GPL-2.0-only
"""Paths and commands of the checker's tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CHECKER = HERE.parents[1] / "checker"
CROSS = "aarch64-linux-gnu-"


def run(*command: str | Path, text: str = "") -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
