# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of the windows of a boot."""

from __future__ import annotations

from typing import Any

import pytest

from lull import plan
from lull.guest.runner import BootOutcome
from lull.run import experiment

JOB = plan.Job(1, plan.Workload("pingpong", "pingpong"), plan.Spec("stock", "stock"))
BOOT = plan.Boot("r01-stock", 1, "stock", "stock", (JOB,))


def outcome(own: list[int], case: str = "two-cpus", operations: int = 4) -> BootOutcome:
    """A job that reports a window for each number, in which its vCPU executed that many instructions."""
    windows: list[dict[str, Any]] = [
        {"job": 1, "window": 1000 + n, "case": case, "operations": operations, "seconds": 0.5, "metrics": {"faults": n}}
        for n in range(len(own))
    ]
    counts = {1000 + n: {"insns": 2 * value, "insns_own": value} for n, value in enumerate(own)}
    return BootOutcome(windows=windows, status={1: 0}, counts=counts)


def test_one_window_is_what_it_is() -> None:
    """Its counts, and no quiet window: there is nothing to choose from."""
    (found,) = experiment.measured(BOOT, outcome([7]), True)
    assert found["workload"] == "pingpong/two-cpus"
    assert (found["operations"], found["seconds"]) == (4, 0.5)
    assert found["metrics"] == {"faults": 0, "insns": 14, "insns_own": 7}


def test_windows_of_a_case_add_up_and_a_quiet_one_stands_for_all() -> None:
    """Ticks are in the sums, and not in what is quiet; the one window that is too low neither."""
    own = [50, *[100] * 10, *[5100] * 9]
    (found,) = experiment.measured(BOOT, outcome(own), True)
    assert (found["operations"], found["seconds"]) == (80, 10.0)
    assert found["metrics"]["insns_own"] == sum(own)
    assert found["metrics"]["insns_quiet"] == 20 * 100
    assert found["metrics"]["faults"] == sum(range(20))


def test_cases_stay_apart() -> None:
    """Windows of two cases are two measurements."""
    both, other = outcome([1, 2]), outcome([3])
    for window in other.windows:
        window |= {"case": "same-cpu", "window": 1900}
    both.windows += other.windows
    both.counts[1900] = other.counts[1000]
    found = experiment.measured(BOOT, both, True)
    assert {m["workload"]: m["metrics"]["insns_own"] for m in found} == {"pingpong/two-cpus": 3, "pingpong/same-cpu": 3}


def test_without_the_plugin_there_is_nothing_quiet() -> None:
    """On real CPUs nothing is counted."""
    (found,) = experiment.measured(BOOT, outcome([5, 5]), False)
    assert found["metrics"] == {"faults": 1}


def test_windows_of_two_sizes_are_refused() -> None:
    """A quiet one of them could not stand for the others."""
    mixed = outcome([5, 5])
    mixed.windows[1]["operations"] = 5
    with pytest.raises(ValueError, match="not of one size"):
        experiment.measured(BOOT, mixed, True)
