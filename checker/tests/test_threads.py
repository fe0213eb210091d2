# SPDX-License-Identifier: GPL-2.0-only
"""vCPUs at the same time, under the thread sanitizer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from plugin_tools import CHECKER, run


def test_no_races(build: Callable[[str], Path]) -> None:
    """Four vCPUs do what the plugin does, with and without the lock; the rules were at work."""
    verdict = json.loads(run(build("threads"), "4000").splitlines()[-1])
    assert verdict["seen"]["user_returns"] == 4 * 4000
    assert all(verdict["seen"][name] > 1000 for name in ("pending", "tlbis", "frees", "cleaned", "misses"))


def test_races_are_seen(tmp_path: Path) -> None:
    """With plain loads and stores in place of checker/once.h, the sanitizer reports the words that have no lock."""
    run("make", "-s", "-C", CHECKER, f"OUT={tmp_path}", "CFLAGS=-DLULL_RACES", "threads")
    done = subprocess.run([tmp_path / "threads", "1000"], capture_output=True, text=True)
    assert done.returncode == 66, done.stderr
    seen = {line.split()[-1] for line in done.stderr.splitlines() if line.startswith("SUMMARY")}
    assert len(seen) > 3
