#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run herd7 over litmus/*.litmus, and compare with the result that each file says.

herd7 is LULL_HERD7, or the one in PATH. Exit codes: 0 all as said (or no herd7: skipped, and said so), 1 not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().with_name("litmus")
TIME_LIMIT = 120.0


@dataclass(frozen=True)
class Test:
    """A litmus test: its file, what it says it needs, and what it says comes out (Never, Sometimes)."""

    path: Path
    variant: str
    expected: str


def read(path: Path) -> Test:
    """The test in ``path``. Raises ValueError when it says no result."""
    text = path.read_text()
    variant = re.search(r"^Variant=(\S+)$", text, re.MULTILINE)
    expected = re.search(r"^ \* Result: (Never|Sometimes|Always)$", text, re.MULTILINE)
    if not variant or not expected or not text.startswith(f"AArch64 {path.stem}\n"):
        raise ValueError(f"{path.name}: name, Variant= and Result: are not all there")
    return Test(path, variant.group(1), expected.group(1))


def tests() -> list[Test]:
    """All of them, by name."""
    return [read(path) for path in sorted(FOLDER.glob("*.litmus"))]


def herd() -> str | None:
    """The program, if it can be had."""
    return os.environ.get("LULL_HERD7") or shutil.which("herd7")


def run(program: str, test: Test) -> str:
    """What herd7 observes."""
    done = subprocess.run(
        [program, "-variant", test.variant, str(test.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIME_LIMIT,
    )
    found = re.search(r"^Observation \S+ (\w+)", done.stdout, re.MULTILINE)
    return found.group(1) if found else f"error: {done.stdout.strip()[-200:]}"


def main() -> int:
    """Judge them all."""
    program = herd()
    if program is None:
        print("skipped: no herd7 (Debian's package 'herdtools7', newer releases only)")
        return 0
    wrong = 0
    for test in tests():
        found = run(program, test)
        wrong += found != test.expected
        mark = "" if found == test.expected else "  <-- NOT AS SAID"
        print(f"{test.path.stem:50} {test.expected:10} {found}{mark}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
