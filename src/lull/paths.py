# SPDX-License-Identifier: GPL-2.0-only
"""Where the parts of the repository are. The tool runs from a checkout."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KERNEL = REPOSITORY / "kernel"
BASES = KERNEL / "bases"
GUEST = REPOSITORY / "guest"
REAL = GUEST / "real"
CHECKER = REPOSITORY / "checker"
TIMING = REPOSITORY / "timing"
