# SPDX-License-Identifier: GPL-2.0-only
"""Paths of the repository's folders. The tool runs from a checkout and is never installed elsewhere."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL = REPOSITORY / "kernel"
BASES = KERNEL / "bases"
GUEST = REPOSITORY / "guest"
REAL = GUEST / "real"
VIRTUAL = GUEST / "vm"
CHECKER = REPOSITORY / "checker"
TIMING = REPOSITORY / "timing"
CONTRIB = REPOSITORY / "contrib"
