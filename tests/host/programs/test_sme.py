# SPDX-License-Identifier: GPL-2.0-only
"""Programs that use SME, on a machine without it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from support import host_program


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an arm64 host may have SME")
@pytest.mark.parametrize("words", [("sme",), ("residency_storm", "sme=1")])
def test_without_sme(tmp_path: Path, words: tuple[str, ...]) -> None:
    """They are skipped, with the reason."""
    done = subprocess.run([host_program(words[0], tmp_path), *words[1:]], capture_output=True, text=True)
    assert done.returncode == 77 and "the CPU, or the kernel, has no SME" in done.stderr
