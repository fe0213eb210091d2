# SPDX-License-Identifier: GPL-2.0-only
"""`lull x86` with real kernels: one feature saves instructions on x86-64, too, and one IPIs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull.errors import MissingError
from lull.lab import Lab
from lull_contrib import x86

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("feature", x86.SUBJECTS)
def test_x86(lab: Lab, tmp_path: Path, feature: str) -> None:
    """One boot of each kernel: the workloads verify their work, KUnit passes, the feature saves what it is for."""
    here = x86.X86Lab(lab, feature)
    try:
        here.require()
    except MissingError as error:
        pytest.skip(error.what)
    results, folder = x86.measure(here, x86.boots(feature, lab.workloads, 1), tmp_path / "out")
    assert [c for c in results.checks if c.verdict != "passed"] == []
    ratios = [{row[0]: float(row[3]) for row in table.rows} for table in x86.grids(results, feature)]
    if "teardown_munmap" in x86.SUBJECTS[feature].cases:
        assert len(ratios[0]) == 5 + 5 + 2 + 3 + 5
        assert all(ratios[0][f"teardown_munmap/anon-{folio}"] < 0.8 for folio in ("4k", "64k", "2m"))
    else:
        assert ratios[1]["swap_bench_threads"] < 0.1
    assert (folder / x86.RESULTS).is_file()
