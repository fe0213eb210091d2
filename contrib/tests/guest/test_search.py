# SPDX-License-Identifier: GPL-2.0-only
"""lull search on a real kernel: a bug is found from nothing, and its program shows it to `lull check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import LOCAL, RUNS, Tool, common


@pytest.mark.parametrize("mutant", ["mremap-none", "split-none"])
def test_a_mutant_is_found(real: Tool, tmp_path: Path, mutant: str) -> None:
    """By the rules that may report it; the shortest program makes the checker report it again."""
    out = tmp_path / "out"
    done = real("search", *common(), "--mutant", mutant, "--minutes", "10", "--seed", "1", "--out", str(out))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = json.loads((out / "search.json").read_text())
    (number, found), *_ = [one for one in enumerate(said["found"], 1) if one[1]["sure"]]
    assert said["caught"] and 0 < len(found["calls"]) < 12
    append = f"lull_mutant={mutant} tlb_residency=off"
    words = [
        "--kernel",
        f"lab+{LOCAL}=off+{RUNS}=off",
        "--append",
        append,
        "--program",
        str(out / f"found-{number}.c"),
    ]
    done = real("check", *common(), *words, "--out", str(tmp_path / "check"))
    assert done.returncode == 1 and f": {found['rule']}: " in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.whole
def test_a_kernel_without_bugs(real: Tool, tmp_path: Path) -> None:
    """It passes; programs reach ever more of the kernel, which the guest survives.

    How far a time gets differs, so this is no test for each change: what it finds is new.
    """
    out = tmp_path / "out"
    done = real("search", *common(), "--kernel", "lab", "--minutes", "2", "--seed", "1", "--out", str(out))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = json.loads((out / "search.json").read_text())
    assert said["boots"] == 1 and said["programs"] > 50 and not said["troubles"]
    blocks, ways = said["reached"]
    assert blocks > 5000 and ways > said["growth"][0][3] > 20
