# SPDX-License-Identifier: GPL-2.0-only
"""Real kernels are built into, and taken from, the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import REAL_CACHE


@pytest.fixture(autouse=True)
def real_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache, in place of the empty one of each test."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
