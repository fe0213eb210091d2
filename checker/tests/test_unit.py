# SPDX-License-Identifier: GPL-2.0-only
"""The pure modules, tested in C under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from plugin_tools import HERE, run


def test_unit(build: Callable[[str], Path]) -> None:
    """Every test of unit.c holds, and none was forgotten in its table."""
    passed = re.findall(r"^ok (\w+)$", run(build("unit")), re.M)
    written = re.findall(r"^static void test_(\w+)\(void\)", (HERE / "unit.c").read_text(), re.M)
    assert passed == written
