# SPDX-License-Identifier: GPL-2.0-only
"""guest/jitter.c on the host: what it reports, and what it notices."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import host_programs

CPUS = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(
    len(CPUS) < 2 or len(CPUS) != os.sysconf("SC_NPROCESSORS_ONLN"), reason="needs all CPUs, and two of them"
)
LIAR = """
#include <stddef.h>

int mprotect(void *at, size_t size, int protection)
{
	(void)at, (void)size, (void)protection;
	return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, for the host, and a library whose mprotect() does nothing."""
    return host_programs(tmp_path_factory.mktemp("jitter"), ["jitter"], LIAR)


def play(folder: Path, *words: str, **more: str) -> CompletedProcess[str]:
    """Run it with short iterations."""
    command = [folder / "jitter", "windows=3", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **more})


@pytest.mark.parametrize("by", ["mprotect", "fork"])
def test_each_iteration_has_a_window(folder: Path, by: str) -> None:
    """While nothing is changed, and while every other CPU makes changes, which are counted."""
    done = play(folder, f"by={by}", "numbers=50000000")  # 0.1 s: a busy host lets the others run, too
    assert done.returncode == 0, done.stderr
    windows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(w["window"], w["case"]) for w in windows] == list(enumerate(["alone"] * 3 + [by] * 3, 1))
    assert {(w["operations"], w["unit"]) for w in windows} == {(1, "iteration")}
    changes = [w["metrics"]["changes"] for w in windows]
    assert changes[:3] == [0, 0, 0] and sum(changes[3:]) > 0


def test_a_kernel_that_changes_no_protection_is_noticed(folder: Path) -> None:
    """A page that should be read-only is not."""
    done = play(folder, LD_PRELOAD=str(folder / "liar.so"))
    assert done.returncode == 1 and "a page that is read-only can be written" in done.stderr


@pytest.mark.parametrize("words", [["by=exec"], ["windows=500"], ["numbers=0"]])
def test_wrong_options(folder: Path, words: list[str]) -> None:
    """They are refused."""
    assert play(folder, *words).returncode == 2
