# SPDX-License-Identifier: GPL-2.0-only
"""Calibration in guests: costs that are known are found; what hardware cannot count is what kernels execute."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import REAL_CACHE, Tool, common, lab_under_test

from lull import cli
from lull.calibrate import Estimate, Fit, Measurement
from lull.calibrate import guest as calibrate_guest
from lull.calibrate.guest import CPU, CostVerdict, held, measurements, verdicts
from lull.calibrate.here import Here, Repeats, counted, executed
from lull.check import data as check_data
from lull.errors import LullError
from lull.guest.qemu import Machine, has_range_tlbis
from lull.guest.runner import launch_retrying
from lull.run.experiment import IN_STEP
from lull.run.measurements import quiet
from lull.run.records import COUNT_UNIT, Check, Record, Results
from lull.timing import METRIC, Costs, clock_slowdown
from lull.timing.scale import Counts

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
    assert held(verdicts(found(TRUE, "latency"), TRUE, far))
    assert held(verdicts(found(replace(TRUE, tlbi=22.9)), TRUE, far))
    assert not held(verdicts(found(replace(TRUE, tlbi=23.1)), TRUE, far))
    assert held(verdicts(found(replace(TRUE, tlbi=60), "tlbi"), TRUE, far))
    assert not held(verdicts(found(replace(TRUE, tlbi=90), "tlbi"), TRUE, far))
    assert not CostVerdict("latency", 0, 1.0, "").held


def test_what_can_be_told_must_be() -> None:
    """A CPU's own costs always, unless they are nothing; broadcast where CPUs are enough to wait for each other."""
    for name in ("insn", "dsb"):
        assert not held(verdicts(found(TRUE, name), TRUE, flushes(2)))
    free = replace(TRUE, dsb=0)
    assert held(verdicts(found(free, "dsb", "latency"), free, flushes(2)))
    assert held(verdicts(found(TRUE, "broadcast", "latency"), TRUE, flushes(2)))
    assert not held(verdicts(found(TRUE, "broadcast", "latency"), TRUE, flushes(4)))


def test_only_a_busy_host_is_to_be_quieter(tmp_path: Path) -> None:
    """Any other check that failed has nothing to do with it."""
    from lull.commands.calibrate import require_sound

    require_sound([Check(IN_STEP, "held", ""), Check("verified: calibrate on stock", "skipped", "")], tmp_path)
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
        ("r01-lull", "lull", ["lull+only=residency calibrate"]),
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


@pytest.mark.guest
@pytest.mark.parametrize(
    ("cpu", "kernel", "append"),
    [
        (CPU, "stock", ""),
        (CPU, "stock", "kpti=on"),
        ("neoverse-n1", "stock", ""),
        ("max", "stock", ""),
        (CPU, "lull", ""),
    ],
)
def test_hardware_is_taken_to_execute_what_kernels_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpu: str, kernel: str, append: str
) -> None:
    """TLBIs, DSBs and instructions of each case, by the plugin; with KPTI, the workaround, ranges, local flushes."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
    lab = lab_under_test()
    model, local, ranges = check_data.load_machines()[cpu].cpu, kernel == "lull", has_range_tlbis(cpu)
    # By a slow clock: on a busy host ticks and who they wake were half a DSB of each batch.
    guest = lab.guest(kernel, Machine(vcpus=2, cpu=model, slower=clock_slowdown(2)), append=append)
    job = "setting gather off\n" * local + "run 1 calibrate rounds=10 loops=320\n"
    outcome = launch_retrying(guest, job, tmp_path / "boot", job_seconds=lambda n: 60, tell=print, say=print)
    repeats = Repeats.SYNC if cpu == "neoverse-n1" else Repeats.NO
    here = Here(outcome.kernel, (), 2, "kpti=on" in append, repeats, ranges)
    entry = 0.0
    for case in ("dsb", "plain", "flush", "batch-511", "batch-512"):
        windows = [w for w in outcome.windows if w["case"] == case]
        each = [{m: n / w["operations"] for m, n in outcome.counts[w["window"]].items()} for w in windows]
        own = quiet([outcome.counts[w["window"]]["insns_own"] for w in windows]) / windows[0]["operations"]
        insns = counted(outcome.kernel, ranges=ranges, local=local)[case]
        if cpu != "neoverse-n1" and not append:  # those have a longer way into the kernel
            assert own == pytest.approx(insns, rel=0.05), case
        expected = executed(case, insns, here, ranges=ranges, local=local)
        least = {metric: min(window[metric] for window in each) for metric in each[0]}
        real = calibrate_guest.counts(least, alone=True)
        assert real.tlbis == pytest.approx(expected.tlbis, rel=0.01, abs=0.02), case
        assert real.broadcasts == pytest.approx(expected.broadcasts, rel=0.01, abs=0.02), case
        if case == "plain":  # where branch history is cleared by a loop, on entry, with a DSB behind it
            entry = round(real.dsbs)
        # A window of batches is long, and has context switches.
        assert real.dsbs - entry == pytest.approx(expected.dsbs, abs=0.5), case
        # What the guest calls a wait is any DSB ISH behind a broadcast; of a flush of one ASID each is one.
        if not append and case != "batch-512":
            assert real.waits == pytest.approx(expected.waits, abs=0.5), case


@pytest.mark.guest
def test_costs_that_are_known_are_found(real: Tool) -> None:
    """System B's machine, on 8 vCPUs: each cost that is told is right, and those are that can be."""
    done = real("calibrate", *common(), "--guest", "ampere-32", "--vcpus", "8", "--json", timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    told = json.loads(done.stdout)["told"]
    assert told == {"insn": True, "tlbi": True, "broadcast": True, "latency": False, "dsb": True}
