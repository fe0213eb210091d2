# SPDX-License-Identifier: GPL-2.0-only
"""Calibration in guests: verdicts on the costs that were found, and measurements from the records of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import LOCAL

from lull import cli
from lull.errors import LullError
from lull.run.experiment import IN_STEP
from lull.run.records import COUNT_UNIT, Check, Record, Results
from lull.timing import METRIC, Costs
from lull_contrib.calibrate import Estimate, Fit, Measurement
from lull_contrib.calibrate.guest import CostVerdict, measurements, passed, verdicts
from lull_contrib.timing.scale import Counts

TRUE = Costs(insn=0.5, tlbi=20, broadcast=300, dsb=10, latency=0)


def found(costs: Costs, *untold: str) -> Fit:
    """A fit of these costs, of which some could not be told."""
    names = ("insn", "tlbi", "broadcast", "latency", "dsb")
    estimates = {n: Estimate(getattr(costs, n), 1e9 if n in untold else 0.0, "made up") for n in names}
    return Fit(costs, estimates, ())


def flushes(cpus: int) -> list[Measurement]:
    """A flush by one CPU, of 325 ns by TRUE, and by so many."""
    counts = Counts(0, 1, 1, 1, 0.5)
    return [Measurement("flush", 1, 1, (325e-9,), counts), Measurement(f"flush-{cpus}", cpus, 1, (1e-6,), counts)]


def test_a_cost_that_is_told_must_be_right() -> None:
    """To 15 %; and what cannot be told must be right in a flush."""
    far = flushes(4)
    assert passed(verdicts(found(TRUE, "latency"), TRUE, far))
    assert passed(verdicts(found(replace(TRUE, tlbi=22.9)), TRUE, far))
    assert not passed(verdicts(found(replace(TRUE, tlbi=23.1)), TRUE, far))
    assert passed(verdicts(found(replace(TRUE, tlbi=60), "tlbi"), TRUE, far))
    assert not passed(verdicts(found(replace(TRUE, tlbi=90), "tlbi"), TRUE, far))
    assert not CostVerdict("latency", 0, 1.0, "").passed


def test_what_can_be_told_must_be() -> None:
    """A CPU's own costs always, unless they are nothing; broadcast where CPUs are enough to wait for each other."""
    for name in ("insn", "dsb"):
        assert not passed(verdicts(found(TRUE, name), TRUE, flushes(2)))
    free = replace(TRUE, dsb=0)
    assert passed(verdicts(found(free, "dsb", "latency"), free, flushes(2)))
    assert passed(verdicts(found(TRUE, "broadcast", "latency"), TRUE, flushes(2)))
    assert not passed(verdicts(found(TRUE, "broadcast", "latency"), TRUE, flushes(4)))


def test_only_a_busy_host_is_to_be_quieter(tmp_path: Path) -> None:
    """Any other check that failed has nothing to do with it."""
    from lull_contrib.commands.calibrate import require_sound

    require_sound([Check(IN_STEP, "passed", ""), Check("verified: calibrate on stock", "skipped", "")], tmp_path)
    for name, remedy in ((IN_STEP, "try again on a quieter host"), ("verified: calibrate on stock", "")):
        with pytest.raises(LullError, match="exit status 1") as raised:
            require_sound([Check(name, "failed", "exit status 1")], tmp_path)
        assert raised.value.remedy == remedy


def test_dry_runs_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Of both commands that boot by a model, as of run."""
    assert cli.main(["calibrate", "--guest", "ampere-32", "--dry-run", "--json"]) == 0
    boots = json.loads(capsys.readouterr().out)
    assert [(b["boot"], b["image"], b["jobs"]) for b in boots] == [
        ("r01-stock", "stock", ["stock calibrate"]),
        ("r01-lull", "lull", [f"lull+only={LOCAL} calibrate"]),
    ]
    assert cli.main(["timing", "kunpeng-920", "--vcpus", "4", "--dry-run", "--json"]) == 0
    boots = json.loads(capsys.readouterr().out)
    assert {b["vcpus"] for b in boots} == {4}
    assert "stock mprotect_pinned" in {job for b in boots for job in b["jobs"]}


def test_measurements_are_records_of_the_kernel() -> None:
    """Modelled seconds, and the counts of an operation; of many CPUs at once those of all."""

    def record(kernel: str, case: str, metric: str, value: float) -> Record:
        unit = "s" if metric == METRIC else COUNT_UNIT
        return Record(kernel, f"calibrate/{case}", 4, metric, unit, (value, value), 100, "mprotect")

    values = {METRIC: 1e-4, "insns_own": 50.0, "insns": 200.0, "tlbi_broadcast": 100.0, "tlbi_local": 10.0}
    values |= {"dsb_ish": 110.0, "dsb_ishst": 100.0, "dsb_nsh": 5.0}
    records = [record("stock", case, *item) for case in ("flush", "flush-4") for item in values.items()]
    results = Results("", "6.12", {}, [*records, record("lull", "plain", METRIC, 1.0)])
    alone, crowd = measurements(results, "stock")
    assert (alone.case, alone.cpus, alone.ns) == ("flush", 1, pytest.approx(1000))
    assert alone.counts == Counts(insns=0.5, tlbis=1.1, broadcasts=1.0, waits=1.0, dsbs=2.15)
    assert (crowd.cpus, crowd.ns, crowd.counts.insns) == (4, pytest.approx(4000), 2.0)
