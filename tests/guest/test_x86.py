# SPDX-License-Identifier: GPL-2.0-only
"""`lull x86` with real kernels: feature teardown saves instructions on x86-64, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull.errors import MissingError
from lull.guest.qemu import X86
from lull.lab import Lab
from lull.run import x86

pytestmark = pytest.mark.whole


def test_x86(lab: Lab, tmp_path: Path) -> None:
    """One boot of each kernel: teardown_* and loop verify their work, KUnit passes, munmap got cheaper."""
    here = x86.X86Lab(lab, X86())
    try:
        here.require()
    except MissingError as error:
        pytest.skip(error.what)
    results, folder = x86.measure(here, x86.boots(lab.workloads, 1), tmp_path / "out")
    assert [c for c in results.checks if c.verdict != "held"] == []
    ratios = {row[0]: float(row[3]) for row in x86.grid(results).rows}
    assert len(ratios) == 5 + 5 + 2 + 3 + 5
    assert all(ratios[f"teardown_munmap/anon-{folio}"] < 0.8 for folio in ("4k", "64k", "2m"))
    assert (folder / x86.RESULTS).is_file()
