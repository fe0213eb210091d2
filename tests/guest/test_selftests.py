# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests have the same results on Lull as on stock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import SUMMARY, lab_under_test

from lull import plan, selftests
from lull.check.kernels import of_debian

pytestmark = pytest.mark.whole


class TestKernels:
    """The kernels themselves."""

    @pytest.mark.bases
    def test_lull(self, tmp_path: Path) -> None:
        """Nothing differs from stock in any suite, and what ran is not nothing."""
        lab = lab_under_test()
        lab.suite_name = "real"
        suites = list(selftests.load_suites().values())
        specs = [plan.parse_spec(k, lab.base) for k in lab.base.default_kernels]
        status = selftests.do_suites(lab, suites, specs, 1, tmp_path / "run")
        SUMMARY.extend((tmp_path / "run/selftests.md").read_text().splitlines()[:20])
        found = json.loads((tmp_path / "run/selftests.json").read_text())
        assert status == 0, found["findings"]
        assert sum(e.get("stock") == "ok" for e in found["outcomes"].values()) > 20 * len(suites)

    def test_debian(self, tmp_path: Path) -> None:
        """A kernel of Debian's under the checker: as many tests run, and nothing is reported."""
        lab = lab_under_test()
        lab.suite_name = "real"
        kernel = of_debian(lab, "6.1-cloud-arm64")
        status = selftests.do_suites(lab, [selftests.load_suites()["basic"]], [], 1, tmp_path / "run", checked=[kernel])
        found = json.loads((tmp_path / "run/selftests.json").read_text())
        assert status == 0, found["findings"]
        assert sum(e.get(kernel.name) == "ok" for e in found["outcomes"].values()) > 20
