# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of the windows of a boot, and the loop over boots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lull import cache, eta, plan, timing
from lull.errors import UsageError
from lull.guest.runner import BootOutcome
from lull.run import loop, measurements
from lull.run.records import MeasuredBoot

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
    (found,) = measurements.measured(BOOT, outcome([7]), True)
    assert found.workload == "pingpong/two-cpus"
    assert (found.operations, found.seconds) == (4, 0.5)
    assert found.metrics == {"faults": 0, "insns": 14, "insns_own": 7}


def test_windows_of_a_case_add_up_and_a_quiet_one_stands_for_all() -> None:
    """Ticks are in the sums, and not in what is quiet; the one window that is too low neither."""
    own = [50, *[100] * 10, *[5100] * 9]
    (found,) = measurements.measured(BOOT, outcome(own), True)
    assert (found.operations, found.seconds) == (80, 10.0)
    assert found.metrics["insns_own"] == sum(own)
    assert found.metrics["insns_quiet"] == 20 * 100
    assert found.metrics["faults"] == sum(range(20))


def test_functions_add_up_to_what_is_quiet() -> None:
    """They are of the windows that are as the quiet one, and scaled as it is; of a single window, its own."""
    own = [50, *[100] * 10, *[5100] * 9]
    many = outcome(own)
    many.functions = {1000 + n: {0: 10, 1: 20 + n, 2: value - 30 - n} for n, value in enumerate(own)}
    (found,) = measurements.measured(BOOT, many, True, ("user space", "a", "b"))
    assert found.functions == pytest.approx({"user space": 200, "a": 20 * 25.5, "b": 20 * 64.5})
    assert sum(found.functions.values()) == pytest.approx(found.metrics["insns_quiet"])
    one = outcome([7])
    one.functions = {1000: {1: 3, 2: 4}}
    (found,) = measurements.measured(BOOT, one, True, ("user space", "a", "a"))
    assert found.functions == {"a": 7}
    with pytest.raises(IndexError):
        measurements.measured(BOOT, one, True, ("user space", "a"))


def test_cases_stay_apart() -> None:
    """Windows of two cases are two measurements."""
    both, other = outcome([1, 2]), outcome([3])
    for window in other.windows:
        window |= {"case": "same-cpu", "window": 1900}
    both.windows += other.windows
    both.counts[1900] = other.counts[1000]
    found = measurements.measured(BOOT, both, True)
    assert {m.workload: m.metrics["insns_own"] for m in found} == {"pingpong/two-cpus": 3, "pingpong/same-cpu": 3}


def test_without_the_plugin_there_is_nothing_quiet() -> None:
    """On real CPUs nothing is counted."""
    (found,) = measurements.measured(BOOT, outcome([5, 5]), False)
    assert found.metrics == {"faults": 1}


def test_windows_of_two_sizes_are_refused() -> None:
    """A quiet one of them could not stand for the others."""
    mixed = outcome([5, 5])
    mixed.windows[1]["operations"] = 5
    with pytest.raises(ValueError, match="not of one size"):
        measurements.measured(BOOT, mixed, True)


def test_the_worst_iteration_of_jitter() -> None:
    """Of the broadcasts, and of the time: modelled, or else by the clock. Other programs have no worst window."""
    job = replace(JOB, workload=plan.Workload("jitter_fork", "jitter"))
    found = outcome([1, 1, 1], case="fork", operations=1)
    for number, window in enumerate(found.windows):
        window["seconds"] = 0.1 * number
        found.counts[1000 + number] |= {"tlbi_broadcast": 200 * number}

    def records(costs: timing.Costs | None) -> dict[str, tuple[float, int]]:
        both = measurements.measured(replace(BOOT, jobs=(job,)), found, True)
        both += measurements.measured(BOOT, outcome([5, 5]), True)
        made = measurements.records_of(both, 8, "seconds")
        made += measurements.held_up(made, costs) if costs else []
        assert {r.metric for r in made if r.workload == "pingpong/two-cpus"} == {*plain_metrics, "seconds"}
        return {r.metric: (r.values[0], r.operations) for r in made if r.workload == "jitter_fork/fork"}

    plain_metrics = {"faults", "insns", "insns_own", "insns_quiet"}
    plain = records(None)
    assert plain["tlbi_broadcast"] == (600, 3) and plain["tlbi_broadcast_worst"] == (400, 0)
    assert plain["seconds_worst"] == (pytest.approx(0.2), 0)
    for number in range(3):
        found.counts[1000 + number] |= {"modelled_ns": 10**6 + number, "insns_astray": 0}
    timed = records(timing.Costs(1, 1, broadcast=2000, dsb=1, receive=500))
    assert timed["seconds_modelled_worst"] == (pytest.approx(1.000002e-3), 0)
    assert "seconds_worst" not in timed
    assert timed["seconds_held_up"] == (pytest.approx(600 * 500e-9), 3)
    assert timed["seconds_held_up_worst"] == (pytest.approx(400 * 500e-9), 0)
    busy = records(timing.Costs(1, 1, broadcast=10_000, dsb=1, receive=500))
    assert busy["seconds_held_up"] == (pytest.approx(300 * 500e-9), 3), "what is served in 3 ms"
    assert busy["seconds_held_up_worst"] == (pytest.approx(100 * 500e-9, rel=1e-4), 0)


class Loop:
    """A loop over boots that do nothing, and what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.booted: list[str] = []
        self.ended: list[tuple[MeasuredBoot, Path]] = []

    def run(self, name: str, place: Path, tell: loop.Tell) -> MeasuredBoot:
        """Boot; a boot with this name fails."""
        if name == "broken":
            raise ValueError(name)
        tell("job 1")
        self.booted.append(name)
        return MeasuredBoot(guest=name, status={1: 0})

    def step(self, name: str) -> loop.Step[MeasuredBoot]:
        """The step of a boot."""
        ended = self.ended
        return loop.Step(
            replace(BOOT, name=name), MeasuredBoot, partial(self.run, name), lambda *end: ended.append(end)
        )

    def conduct(self, *names: str) -> list[str]:
        """Do these boots; returns those that were not complete before."""
        before = len(self.booted)
        loop.do_boots([self.step(name) for name in names], self.folder, "booting", part=eta.Part("boot x", 1.0))
        return self.booted[before:]


@pytest.fixture
def looped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """A loop in a folder of its own, with an empty cache."""
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "cache"))
    return Loop(tmp_path / "out")


def test_a_complete_boot_is_not_repeated(looped: Loop) -> None:
    """The loop goes on behind the boot that failed; what it hands over is what boot.json has, both times."""
    with pytest.raises(ValueError, match="broken"):
        looped.conduct("a", "b", "broken", "c")
    boots = [replace(BOOT, name=name) for name in ("a", "b", "c")]
    assert looped.booted == ["a", "b"] and loop.left(boots, looped.folder) == 1
    assert looped.conduct("a", "b", "c") == ["c"]
    assert [kept.guest for kept, _ in looped.ended] == ["a", "b", "a", "b", "c"]
    (kept, place), again = looped.ended[0], looped.ended[2]
    assert again == (kept, place) and kept.status == {1: 0} and kept.seconds >= 0
    assert place == looped.folder / "boots/a" and loop.complete(place)


def test_what_one_boot_took_is_kept_if_any_was_done(looped: Loop) -> None:
    """Boots of an earlier command have no part in it; a loop that fails keeps nothing."""
    with pytest.raises(ValueError, match="broken"):
        looped.conduct("a", "broken")
    assert eta.known() == {}
    looped.conduct("a", "b")
    assert list(eta.known()) == ["boot x"]
    (cache.root() / "eta.json").unlink()
    looped.conduct("a", "b")
    assert eta.known() == {}


def test_a_long_workload_is_expected_to_take_longer(looped: Loop) -> None:
    """The first time nothing is known but the workload's timeout."""
    long = replace(BOOT, jobs=(replace(JOB, workload=replace(JOB.workload, timeout=3000.0)),))
    quick, slow = (eta.expected([eta.of_boots([boot], 2)]) for boot in (BOOT, long))
    assert (quick, slow) == (10.0, 1508.0)


def test_results_decide_how_many_boots_there_are(looped: Loop) -> None:
    """Each step is asked for when the one before it has ended."""

    def steps() -> Iterator[loop.Step[MeasuredBoot]]:
        while len(looped.ended) < 3:
            yield looped.step(f"r{len(looped.ended)}")

    loop.do_boots(steps(), looped.folder, "booting", within="rounds")
    assert looped.booted == ["r0", "r1", "r2"] and loop.complete(looped.folder / "rounds/r2")


def test_what_the_account_says() -> None:
    """Boots of now, and those of before, if any."""
    assert loop.account(1, 0, 7) == "1 boot in 7 s"
    assert loop.account(2, 1, 61) == "2 boots in 1:01, 1 kept from before"
    assert plan.named(BOOT, "job 1, 7 s") == "pingpong, 7 s" and plan.named(BOOT, "booting") == "booting"
    assert plan.named(BOOT, "hung: job 1 did not end") == "hung: pingpong did not end"
    assert plan.named(BOOT, "job 11") == "job 11"


def test_a_boot_of_another_version_is_refused(looped: Loop) -> None:
    """It is named, with what to do; what a file has beyond what is kept is left out."""
    looped.conduct("a")
    file = looped.folder / "boots/a" / loop.DONE
    raw = json.loads(file.read_text())
    file.write_text(json.dumps({**raw, "machine": "more"}))
    assert loop.read_boot(MeasuredBoot, file) == looped.ended[0][0]
    file.write_text(json.dumps({**raw, "status": {"1": "0"}}))
    with pytest.raises(UsageError, match=r"boot\.json: status: 1 is not a whole number") as caught:
        looped.conduct("a")
    assert caught.value.where == str(file) and caught.value.remedy
