# SPDX-License-Identifier: GPL-2.0-only
"""The programs of fixes/ compile as those of guest/ do. They are not run: they change the pools of HugeTLB pages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import REPOSITORY

from lull import guest

PROGRAMS = sorted((REPOSITORY / "fixes").glob("*.c"))


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.stem)
def test_program_compiles(source: Path, tmp_path: Path) -> None:
    """Without a warning; and its name is that of a finding, which links to it."""
    flags = [flag for flag in guest.CFLAGS if flag != "-static"]
    done = subprocess.run(["gcc", *flags, "-o", tmp_path / "program", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"\n## {source.stem}\n" in (findings := (REPOSITORY / "docs/findings.md").read_text())
    assert f"(../fixes/{source.name})" in findings
