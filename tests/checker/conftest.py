# SPDX-License-Identifier: GPL-2.0-only
"""What the checker's tests share: a place where it is built, and the tools."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from checker_tools import CHECKER, CROSS, run


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a target of checker/Makefile, once, and says where it is."""
    out = tmp_path_factory.mktemp("checker")

    def make(target: str) -> Path:
        goal = ["all"] if target == "lull.so" else [target]
        run("make", "-s", "-C", CHECKER, f"OUT={out}", *goal)
        return out / target

    return make


@pytest.fixture(scope="session")
def cross() -> str:
    """The prefix of the arm64 binutils and compiler."""
    if shutil.which(CROSS + "as") is None:
        pytest.skip(f"{CROSS}as is not installed (apt install gcc-aarch64-linux-gnu)")
    return CROSS


@pytest.fixture(scope="session")
def qemu() -> str:
    """A qemu-system-aarch64 with the plugin interface."""
    path = os.environ.get("LULL_QEMU")
    if not path:
        pytest.skip("LULL_QEMU does not name a qemu-system-aarch64 (9.2 to 10.2)")
    return path
