# SPDX-License-Identifier: GPL-2.0-only
"""What the scripts share that run real programs: windows around them, and facts that must hold."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

WINDOW = "/lull/bin/window"
_numbers = itertools.count(1)


def window(command: Sequence[str], *, case: str = "", operations: int = 1, unit: str = "run") -> None:
    """Run a command in a window of its own; it must end with status 0."""
    options = [f"case={case}", f"operations={operations}", f"unit={unit}", f"number={next(_numbers)}"]
    status = subprocess.run([WINDOW, *options, "--", *command]).returncode
    verify(status == 0, f"status {status} of {' '.join(command)}")


def verify(fact: bool, otherwise: str) -> None:
    """A fact that must hold, or the program ends."""
    if not fact:
        sys.exit(f"{sys.argv[0]}: {otherwise}")


def wait(fact: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not fact():
        verify(time.monotonic() < end, f"still waiting for {what} after {seconds:g} s")
        time.sleep(0.05)
