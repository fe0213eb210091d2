# SPDX-License-Identifier: GPL-2.0-only
"""A data file that is not UTF-8 is a mistake of its author's, not a defect of the tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lull import base, plan, selftests, timing
from lull.check import data
from lull.errors import UsageError
from lull.guest import userland
from lull.selftests import suite_outcomes

READERS: list[Callable[[Path], object]] = [
    lambda path: base.load_base(str(path)),
    plan.load_workloads,
    data.load_mutants,
    selftests.load_suites,
    suite_outcomes.load_baseline,
    userland.load_userland,
    lambda path: timing.load_model(str(path)),
]


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_not_utf_8(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """The error names the file."""
    path = tmp_path / "mine.toml"
    path.write_bytes('about = "Größe"\n'.encode("latin-1"))
    with pytest.raises(UsageError) as raised:
        read(path)
    assert str(path) in f"{raised.value.where} {raised.value}"
