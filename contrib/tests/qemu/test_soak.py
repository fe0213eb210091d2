# SPDX-License-Identifier: GPL-2.0-only
"""lull soak as a user has it, on the fake kernel, under a fake QEMU that writes what a checking plugin would."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import FAKE, Tool

from lull_contrib import soak

Soak = Callable[..., CompletedProcess[str]]


@pytest.fixture
def soaked(fake: Callable[..., CompletedProcess[str]], tmp_path: Path) -> Soak:
    """Soak the fake kernel; what happens in each guest is ``what``."""

    def run(*words: str, what: str = "passed") -> CompletedProcess[str]:
        return fake("soak", "--cpu", "max", *words, LULL_QEMU=str(FAKE / "qemu"), LULL_FAKE_CHECK=what)

    return run


def said(out: Path) -> dict[str, Any]:
    """soak.json."""
    found: dict[str, Any] = json.loads((out / "soak.json").read_text())
    return found


def test_a_soak_that_passes_and_more_of_it(soaked: Soak, tmp_path: Path) -> None:
    """Rounds until the time has passed, added up; the same command with more time goes on with the next round."""
    out = tmp_path / "out"
    words = ["--seed", "5", "--out", str(out)]
    done = soaked(*words, "--minutes", "0.0001")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ lull soak --seed 5 --round 1 " in done.stderr
    first = said(out)
    (one,) = first["rounds"]
    assert first["seen"]["tlbis"] == 30 and first["seen"]["settled"] == 20 and one["verdict"] == "passed"
    (folder,) = (out / "rounds").iterdir()
    assert {path.name for path in folder.iterdir()} == set(soak.KEPT)
    again = soaked(*words, "--minutes", str(one["seconds"] / 60 + 0.0001))
    assert again.returncode == 0, again.stderr
    more = said(out)
    assert more["rounds"][0] == one and len(more["rounds"]) == 2
    assert more["seen"]["tlbis"] == 60 and more["seconds"] >= one["seconds"]
    assert again.stdout.splitlines()[-1].startswith("verdict: passed in 2 rounds in ")
    assert sum(more["by_kernel"].values()) == sum(more["by_machine"].values()) == 2
    assert soaked("--seed", "6", "--out", str(out), "--minutes", "1").returncode == 2


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("reports", "pending/local: a valid entry was taken away"),
        ("failing", "ended with status 1"),
        ("panic", "crashed: the guest kernel panicked"),
        ("inconclusive", "did not see frees of pages"),
    ],
)
def test_a_round_that_does_not_pass(soaked: Soak, tool: Tool, tmp_path: Path, what: str, text: str) -> None:
    """It ends the soak; its line and its report are printed, its logs are kept; the line does that round again."""
    out = tmp_path / "out"
    done = soaked("--seed", "9", "--minutes", "60", "--out", str(out), what=what)
    assert done.returncode == 1
    assert text in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("again: "))
    assert line.startswith("again: lull soak --seed 9 --round 1 ") and line.endswith(" --cpu max")
    assert list((out / "rounds").glob("*/console.log"))
    assert done.stdout.splitlines()[-1].startswith("verdict: 1 of 1 round in ")
    words = shlex.split(line.removeprefix("again: "))[1:]
    again = tool(*words, "--offline", "--json", LULL_QEMU=str(FAKE / "qemu"), LULL_FAKE_CHECK=what)
    (one,), (other,) = said(out)["rounds"], json.loads(again.stdout)["rounds"]
    assert again.returncode == 1
    for key in ("line", "what", "append", "workloads", "verdict", "lines"):
        assert one[key] == other[key]
    assert said(out)["rules"]["pending"] == {"known": 0, "reports": 7 * (what == "reports")}


def test_going_on_after_a_failure(soaked: Soak, tmp_path: Path) -> None:
    """With --keep-going; the exit code says that something failed all the same."""
    out = tmp_path / "out"
    words = ["--seed", "9", "--out", str(out), "--minutes"]
    assert soaked(*words, "60", what="reports").returncode == 1
    assert soaked(*words, "60").returncode == 1 and len(said(out)["rounds"]) == 1
    spent = said(out)["seconds"]
    done = soaked(*words, str(spent / 60 + 0.0001), "--keep-going")
    assert done.returncode == 1
    assert said(out)["by_verdict"] == {"reports": 1, "passed": 1}


def test_usage(soaked: Soak) -> None:
    """What cannot be is refused before anything is made."""
    for words in (["--minutes", "0"], ["--round", "0"], ["--kernel", "none"], ["--workload", "none"]):
        done = soaked(*words)
        assert done.returncode == 2 and done.stderr.startswith("lull: "), words


def test_dry_run(soaked: Soak) -> None:
    """The rounds that would be, each with its line."""
    done = soaked("--dry-run", "--json", "--seed", "3")
    lines = [one["line"] for one in json.loads(done.stdout)]
    assert [line.split()[:6] for line in lines] == [f"lull soak --seed 3 --round {n}".split() for n in range(1, 11)]
