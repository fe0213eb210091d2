# SPDX-License-Identifier: GPL-2.0-only
"""KTAP, on the console log of a real KUnit boot and on what can be wrong with one."""

from __future__ import annotations

import pytest
from support import DATA

from lull.selftests import ktap

LOG = (DATA / "kunit.log").read_text(errors="replace")


def test_a_real_log() -> None:
    """Suite and cases, with kernel messages in between; parameters belong to their case."""
    cases = ktap.parse(LOG)
    assert {c.suite for c in cases} == {"lull_young"}
    assert len(cases) == 8
    assert cases[0].name == "young_test_decision"
    assert {c.verdict for c in cases} == {"ok"}


def test_a_failure_and_its_words() -> None:
    """'not ok' is a failure; what was printed before it goes with it."""
    log = LOG.replace(
        "    ok 2 young_test_unknown", "    # EXPECTATION FAILED at x.c:1\n    not ok 2 young_test_unknown"
    )
    failed = [c for c in ktap.parse(log) if c.verdict == "failed"]
    assert [c.name for c in failed] == ["young_test_unknown"]
    assert any("EXPECTATION FAILED" in line for line in failed[0].diagnostics)


def test_skipped() -> None:
    """A skipped case is not ok."""
    log = LOG.replace("ok 2 young_test_unknown", "ok 2 young_test_unknown # SKIP no reason")
    assert [c.verdict for c in ktap.parse(log)].count("skipped") == 1


@pytest.mark.parametrize(
    "cut",
    ["ok 3 young_test_show", "ok 1 lull_young", "1..8", "KTAP version 1\n[    0.799523] 1..1"],
)
def test_incomplete_logs_are_refused(cut: str) -> None:
    """A case, the suite's end, or the plans missing: never a pass."""
    start = LOG.index(cut)
    line = LOG.rindex("\n", 0, start) + 1
    end = LOG.index("\n", start + len(cut))
    with pytest.raises(ValueError):
        ktap.parse(LOG[:line] + LOG[end + 1 :])


def test_a_log_that_stops() -> None:
    """The guest died in the middle."""
    with pytest.raises(ValueError):
        ktap.parse(LOG[: LOG.index("ok 5 young_test_page")])
    with pytest.raises(ValueError):
        ktap.parse("")
