# SPDX-License-Identifier: GPL-2.0-only
"""The run-time switches of the lab's kernels."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path("/sys/kernel/mm/lull")
"""Lull's run-time switches, a file each, with the policy in brackets among those there are."""


def chosen(switch: Path) -> str | None:
    """The policy that a switch of the running kernel has; None when the file names none."""
    found = re.search(r"\[(\w+)\]", switch.read_text())
    return found[1] if found else None
