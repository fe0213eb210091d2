# SPDX-License-Identifier: GPL-2.0-only
"""guest/window.c on the host: how it ends, what it reports, and that its commands run at once."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from support import host_program


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """guest/window.c, for the host."""
    return host_program("window", tmp_path_factory.mktemp("window"))


@pytest.mark.parametrize(
    ("commands", "status", "reported"),
    [
        ("true", 0, 1),
        ("true --and sh -c 'exit 77'", 0, 1),
        ("sh -c 'exit 77' --and sh -c 'exit 77'", 77, 0),
        ("sh -c 'exit 3' --and true --and sh -c 'exit 4'", 3, 0),
        ("sh -c 'exit 77' --and sh -c 'kill -9 $$'", 1, 0),
        ("no-such-program", 1, 0),
        ("{window} -- true", 0, 1),
        ("", 2, 0),
    ],
)
def test_window(window: Path, tmp_path: Path, commands: str, status: int, reported: int) -> None:
    """Ends as the worst of its commands, and reports once when all is well; a window in another one does not."""
    results = tmp_path / "results"
    results.touch()
    words = [word.replace("{window}", str(window)) for word in shlex.split(commands)]
    environment = {**os.environ, "LULL_RESULTS": str(results), "LULL_JOB": "3"}
    done = subprocess.run([window, "case=c", "--", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["job"], line["case"]) for line in lines] == [(3, "c")] * reported


def test_window_waits_for_all(window: Path, tmp_path: Path) -> None:
    """They run at once: each waits for what the other one makes; also when another has failed."""
    a, b = tmp_path / "a", tmp_path / "b"
    words = ["timeout", "20", "sh", "-c", 'touch "$0"; until [ -e "$1" ]; do sleep 0.05; done']
    done = subprocess.run([window, "--", "false", "--and", *words, a, b, "--and", *words, b, a], timeout=60)
    assert done.returncode == 1 and a.exists() and b.exists()


def test_window_ends_what_does_not_end(window: Path, tmp_path: Path) -> None:
    """All that its commands have started, too, in sessions of their own; and that is no failure."""
    results, ids = tmp_path / "results", tmp_path / "ids"
    results.touch()
    child = 'setsid sh -c "echo \\$\\$ >>$0; while :; do sleep 0.1; done" &'
    loop = f"for i in 1 2; do {child} done; while :; do sleep 1; done"
    environment = {**os.environ, "LULL_RESULTS": str(results)}
    done = subprocess.run([window, "seconds=2", "--", "sh", "-c", loop, ids], env=environment, timeout=60)
    assert done.returncode == 0 and json.loads(results.read_text())["operations"] == 1
    started = ids.read_text().split()
    assert len(started) == 2 and not [number for number in started if Path("/proc", number).exists()]
