# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests have the same results on Lull as on stock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import SUMMARY, lab_under_test

from lull import plan, selftests
from lull.check.kernels import of_debian


class TestKernels:
    """The kernels themselves."""

    def conduct(self, names: list[str], folder: Path) -> None:
        """Nothing differs, and what ran is not nothing."""
        lab = lab_under_test()
        lab.suite_name = "real"
        suites = [suite for name, suite in selftests.load().items() if name in names]
        specs = [plan.parse_spec(k, lab.base) for k in lab.base.default_kernels]
        status = selftests.conduct(lab, suites, specs, 1, folder)
        SUMMARY.extend((folder / "selftests.md").read_text().splitlines()[:20])
        found = json.loads((folder / "selftests.json").read_text())
        assert status == 0, found["findings"]
        assert sum(e.get("stock") == "ok" for e in found["outcomes"].values()) > 20 * len(suites)

    def test_short_cut(self, tmp_path: Path) -> None:
        """Many small tests; the heavy ones are of the whole."""
        self.conduct(["basic"], tmp_path / "run")

    @pytest.mark.whole
    def test_whole(self, tmp_path: Path) -> None:
        """Every test."""
        self.conduct(list(selftests.load()), tmp_path / "run")

    @pytest.mark.whole
    def test_debian(self, tmp_path: Path) -> None:
        """A kernel of Debian's under the checker: as many tests run, and nothing is reported."""
        lab = lab_under_test()
        lab.suite_name = "real"
        kernel = of_debian(lab, "6.1-cloud-arm64")
        status = selftests.conduct(lab, [selftests.load()["basic"]], [], 1, tmp_path / "run", checked=[kernel])
        found = json.loads((tmp_path / "run/selftests.json").read_text())
        assert status == 0, found["findings"]
        assert sum(e.get(kernel.name) == "ok" for e in found["outcomes"].values()) > 20
