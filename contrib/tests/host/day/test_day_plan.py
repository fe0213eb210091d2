# SPDX-License-Identifier: GPL-2.0-only
"""A whole session with real programs, on a machine that only seems to reboot; and what is sent of it."""

from __future__ import annotations

import argparse
import json
import os
import tarfile
from pathlib import Path

import pytest
from day_machine import HOME, LULL, SECRETS, STOCK, Fake

from lull import process
from lull.errors import GuestHang, UsageError
from lull.judge import joint
from lull.lab import Lab
from lull.linux import toolchain
from lull.run.records import Results
from lull_contrib.calibrate import here as calibrate_here
from lull_contrib.commands import bench
from lull_contrib.day import bundle, day_plan, facts, native, session


class Bench:
    """`lull bench --here --across` on the fake machine."""

    def __init__(self, fake: Fake, out: Path) -> None:
        self.fake = fake
        self.out = out

    def __call__(self, *words: str) -> int:
        """Run it once."""
        parser = argparse.ArgumentParser()
        bench.add_arguments(parser)
        given = ["--here", "--across", "--workload", "fork_exec", "--out", str(self.out), *words]
        arguments = parser.parse_args(given, argparse.Namespace(json=False, dry_run=False))
        return bench.across(Lab(), arguments, self.fake.machine)

    def live(self, *words: str) -> None:
        """Begin, and go on after each reboot with what the unit says."""
        assert self(*words) == 0
        while self.fake.rebooting:
            self.fake.boot()
            if self.fake.goes_on:
                self(*words)


@pytest.fixture
def day(tmp_path: Path, shared_cache: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A machine that passes for arm64; the programs are compiled for what it is."""
    monkeypatch.setattr(toolchain, "host_is_arm64", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(day_plan, "MS", 1)
    monkeypatch.setattr(day_plan, "ROUNDS", 3)
    (shared_cache / "guest").mkdir(exist_ok=True)
    (own_cache / "guest").symlink_to(shared_cache / "guest")
    (tmp_path / "root").mkdir()
    return Bench(Fake(tmp_path / "root"), tmp_path / "out")


def test_a_session_and_what_is_sent(day: Bench, tmp_path: Path) -> None:
    """Stock, Lull and the control in turns, the calibration, one file; nothing in it names the machine or its users."""
    day.live("--repeat", "2")
    assert day.fake.boots == [HOME, STOCK, LULL, STOCK, LULL, STOCK, STOCK, LULL, HOME]
    assert day.fake.lasting() == day.fake.pristine
    results = Results.load(day.out / "results.json")
    seconds = {r.kernel: r.values for r in results.find(metric="seconds", workload="fork_exec")}
    assert {*seconds} >= {"stock", "lull", "stock.control"} and len(seconds["stock"]) == 2
    verdicts = {c.name: c.verdict for c in results.checks}
    assert verdicts["machine: idle before each measurement"] == "passed"
    assert verdicts["machine: the same in each boot"] == "passed"
    assert "failed" not in {c.verdict for c in results.checks if c.name.startswith("verified")}
    with tarfile.open(tmp_path / "out.tar.gz") as tar:
        members = tar.getmembers()
        texts = {m.name: (file.read().decode() if (file := tar.extractfile(m)) else "") for m in members}
    names = ("calibrate.json", "calibrate.toml", "comparison.md", "machine.json", "results.json")
    assert sorted(texts) == [f"lull-results/{name}" for name in names]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    for text in texts.values():
        for kind, secret in {**SECRETS, "path": str(tmp_path)}.items():
            assert secret not in text, kind
    machines = json.loads(texts["lull-results/machine.json"])
    before = machines["r01-lull"]["before"]
    assert before["midr"] == {"0x00000000413fd0c1": 4} and before["range TLBIs"] == "yes"
    assert before["errata workarounds"] == ["ARM errata 1165522, 1319367, or 1530923"]
    assert before["parameters"] == ["isolcpus=3"] and before["model"] == "Altra Max"
    assert before["compiler"] == "gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40"
    assert before["frequency"]["scaling_driver"] == {"cppc_cpufreq": 4}
    assert machines["r01-lull"]["after"]["CPUs slowed by heat"] == 0
    # The file that was sent can be compared as it is.
    runs = joint.load_runs([tmp_path / "out.tar.gz", day.out])
    assert runs[0].results == runs[1].results and not runs[0].unfinished
    # The command again does nothing.
    assert day("--repeat", "2") == 0 and not day.fake.goes_on and day.fake.boots[-1] == HOME


def test_other_options_do_not_go_on(day: Bench) -> None:
    """A session is that of its options, and is stopped with them; what was measured is judged."""
    assert day("--repeat", "1") == 0
    day.fake.boot()
    with pytest.raises(UsageError, match="with other options is under way"):
        day("--repeat", "2")
    assert day("--repeat", "1") == 0
    assert day("--repeat", "1", "--stop") == 0
    day.fake.boot()
    assert day.fake.boots[-1] == HOME and day.fake.lasting() == day.fake.pristine
    results = Results.load(day.out / "results.json")
    assert results.settings["boots"] == "1 of 3" and results.settings["session"] == "stopped by the user"
    with pytest.raises(UsageError, match="no session is under way"):
        day("--stop")


def test_nothing_was_measured(day: Bench, tmp_path: Path) -> None:
    """A session that is stopped at once has results without numbers."""
    day("--repeat", "1")
    day("--repeat", "1", "--stop")
    assert not Results.load(day.out / "results.json").records and (tmp_path / "out.tar.gz").exists()


def test_a_dry_run_asks_and_changes_nothing(day: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """It lists the boots."""
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    words = ["--here", "--across", "--repeat", "1", "--out", str(day.out)]
    before = day.fake.effects
    assert (
        bench.across(Lab(), parser.parse_args(words, argparse.Namespace(json=False, dry_run=True)), day.fake.machine)
        == 0
    )
    assert capsys.readouterr().out.splitlines()[0] == f"would boot {STOCK} for r01-stock"
    assert day.fake.effects == before and not (day.fake.root / session.STATE).exists()
    day.fake.busy = [400]
    with pytest.raises(UsageError, match="not idle"):
        bench.across(Lab(), parser.parse_args(words, argparse.Namespace(json=False, dry_run=True)), day.fake.machine)


def test_kernels_that_are_not_installed(day: Bench) -> None:
    """Only stock and Lull are booted."""
    with pytest.raises(UsageError, match="lab is not measured across reboots"):
        day("--kernel", "lab")


def boot_of(**more: object) -> dict[str, object]:
    """What is kept of a boot, with facts that are replaced."""
    before = dict.fromkeys(("compiler", "errata workarounds", "frequency"), "x")
    before |= {"release": len(more), "load": len(more)}
    machine = {
        "busy before": 0.0,
        "idle limit": 0.22,
        "before": {**before, **more},
        "after": {"CPUs slowed by heat": 0, "load": 1},
    }
    return {"machine": machine}


def test_what_can_mislead_is_a_failed_check() -> None:
    """Load, heat, another compiler or workaround, and a measurement that failed; a calibration may be impossible."""
    kept = {"r01-stock": boot_of(), "r01-lull": boot_of()}
    assert {c.verdict for c in bundle.checks(kept)} == {"passed"}
    kept["r02-stock"] = boot_of(**{"errata workarounds": ["y"]})
    kept["r02-stock"]["machine"]["busy before"] = 0.5  # type: ignore[index]
    kept["r02-stock"]["machine"]["after"]["CPUs slowed by heat"] = 2  # type: ignore[index]
    kept["r02-stock"]["failed"] = "the program hangs"
    kept["calibrate"] = {**boot_of(), "failed": "pages of 16 KiB"}
    found = {c.name: (c.verdict, c.detail) for c in bundle.checks(kept)}
    assert found["ran: r02-stock"] == ("failed", "the program hangs")
    assert found["ran: calibrate"] == ("skipped", "pages of 16 KiB")
    assert found["machine: idle before each measurement"] == ("failed", "r02-stock: 0.5 CPUs were busy")
    assert found["machine: no CPUs slowed by heat"] == ("failed", "r02-stock: 2 of them")
    assert found["machine: the same in each boot"] == ("failed", 'errata workarounds: "x", ["y"]')


def test_a_machine_that_does_not_tell_of_heat() -> None:
    """Nothing is claimed of it."""
    kept = {"r01-stock": boot_of()}
    kept["r01-stock"]["machine"]["after"]["CPUs slowed by heat"] = None  # type: ignore[index]
    assert [c.verdict for c in bundle.checks(kept) if "heat" in c.name] == ["skipped"]


def test_a_program_that_hangs(day: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has failed, and that is said; the rest of its boot is kept."""

    def hangs(*words: object) -> int:
        raise GuestHang("fork_exec did not end within 4800 s")

    monkeypatch.setattr(native, "run_one", hangs)
    day.live("--repeat", "1")
    results = Results.load(day.out / "results.json")
    assert results.settings["boots"] == "3 of 3"
    assert [c for c in results.checks if c.verdict == "failed" and "fork_exec" in c.name + c.detail]
    monkeypatch.setattr(day_plan.DayPlan, "measure", hangs)
    day.out = day.out.with_name("other")
    day.live("--repeat", "1")
    results = Results.load(day.out / "results.json")
    assert results.settings["boots"] == "0 of 3"
    assert {c.detail for c in results.checks if c.name == "ran: r01-lull"} == {"fork_exec did not end within 4800 s"}


def test_workloads_that_need_kernel_parameters(day: Bench) -> None:
    """They are refused if they are named: a session would leave them out."""
    with pytest.raises(UsageError, match="hvo_many needs kernel parameters"):
        day("--allow-changes", "--workload", "hvo_many")


def test_a_log_that_lost_its_beginning(tmp_path: Path) -> None:
    """Nothing is concluded from what it lacks."""
    fake = Fake(tmp_path)
    fake.replies["dmesg"] = "[    9.0] CPU features: detected: TLB range maintenance instructions\n"
    found = facts.of_kernel(fake.machine)
    assert found["range TLBIs"] == "not known" and found["errata workarounds"] is None


def test_a_calibration_that_cannot_be_made(day: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is kept, and the session ends well."""

    def refuse(*words: object) -> object:
        raise UsageError("this kernel cannot be calibrated")

    monkeypatch.setattr(calibrate_here, "run_program", refuse)
    day.live("--repeat", "1")
    results = Results.load(day.out / "results.json")
    assert ("ran: calibrate", "skipped") in {(c.name, c.verdict) for c in results.checks}
    assert not [c for c in process.commands if str(day.out) in c and "calibrate" in c]
