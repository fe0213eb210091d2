# SPDX-License-Identifier: GPL-2.0-only
"""lull bench: programs on the machine itself. Here they are compiled for this machine, whatever it is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from support import AGING, LOCAL, REPOSITORY, RUNS, Tool

from lull import base as bases
from lull import plan
from lull.errors import GuestHang, LullError, UsageError
from lull.lab import Lab
from lull.linux import toolchain
from lull.run import records
from lull.run.records import Results
from lull_contrib.commands import bench
from lull_contrib.day import native

FOUND = {LOCAL: "on", AGING: "none"}


class Kernel(native.Switches):
    """A kernel with some of Lull's switches: files that behave as the kernel's do. ``log`` has what was written."""

    def __init__(self, folder: Path, *, mine: bool = True) -> None:
        self.log: list[tuple[str, str]] = []
        self.mine = mine
        self.features = bases.load_base().features
        for name, policy in FOUND.items():
            (folder / name).write_text(self.text(name, policy))
        super().__init__(bases.load_base(), folder)

    def text(self, name: str, policy: str) -> str:
        """A switch's file."""
        return " ".join(f"[{p}]" if p == policy else p for p in self.features[name].policies) + "\n"

    def write(self, name: str, policy: str) -> None:
        """As the kernel does."""
        if policy not in self.features[name].policies:
            raise OSError(22, "Invalid argument")
        self.log.append((name, policy))
        (self.folder / name).write_text(self.text(name, policy))

    def writable(self) -> bool:
        """Whether this is root."""
        return self.mine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, shared_cache: Path, own_cache: Path) -> None:
    """This machine passes for arm64: then its own compiler is used. Programs are compiled once for all tests."""
    monkeypatch.setattr(toolchain, "host_is_arm64", lambda: True)
    (shared_cache / "guest").mkdir(exist_ok=True)
    (own_cache / "guest").symlink_to(shared_cache / "guest")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kernel:
    """It runs a Lull kernel, and we are root."""
    (tmp_path / "switches").mkdir()
    found = Kernel(tmp_path / "switches")
    monkeypatch.setattr(native, "Switches", lambda base: found)
    return found


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It runs a kernel without Lull."""
    found = native.Switches(bases.load_base(), tmp_path / "nothing")
    monkeypatch.setattr(native, "Switches", lambda base: found)


def ran(out: Path, *words: str) -> tuple[int, Results]:
    """The exit code of ``lull bench --here``, and what it found."""
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    arguments = parser.parse_args(["--here", *words, "--out", str(out)])
    arguments.json = arguments.dry_run = False
    status = bench.run(Lab(offline=True), arguments)
    return status, Results.load(out / "results.json")


def spec(name: str) -> plan.Spec:
    """A kernel by name."""
    return plan.parse_spec(name, bases.load_base())


def test_a_kernel_without_lull(machine: None, plain: None, tmp_path: Path) -> None:
    """It is stock; programs verify themselves, and report seconds and what the kernel counts, a value per round."""
    words = ["--workload", "fork_exec", "--workload", "mprotect_per_cpu", "--repeat", "2"]
    status, results = ran(tmp_path / "out", *words)
    assert status == 0
    assert {r.kernel for r in results.records} == {"stock"}
    assert {r.workload for r in results.records} == {"fork_exec", "mprotect_per_cpu"}
    seconds = list(results.find(metric="seconds"))
    assert len(seconds) == 2 and all(len(r.values) == 2 and min(r.values) > 0 for r in seconds)
    assert not [r for r in results.records if r.metric == "seconds_emulated" or "tlbi" in r.metric]
    assert all(r.vcpus == results.host["cpus"] for r in results.records)
    verified = {c.name: c.verdict for c in results.checks if c.name.startswith("verified")}
    assert verified == {"verified: fork_exec on stock": "passed", "verified: mprotect_per_cpu on stock": "passed"}
    assert not [c for c in results.checks if c.verdict == "failed"]
    lines = (tmp_path / "out/boots/r01-stock/results.jsonl").read_text().splitlines()
    events = [json.loads(line).get("event", "window") for line in lines]
    assert (events[:3], events[-2:]) == (["ready", "start", "window"], ["end", "done"])


def test_policies_are_set_for_each_series_and_restored(machine: None, kernel: Kernel, tmp_path: Path) -> None:
    """Stock is everything off, lull is as it was found, and settings are set on top; at the end all is as before."""
    words = ["--workload", "pingpong", "--kernel", "stock", "--kernel", "lull", "--kernel", f"lull+{AGING}=sync"]
    status, results = ran(tmp_path / "out", *words, "--repeat", "1")
    assert status == 0
    assert {r.kernel for r in results.records} == {"stock", "stock.control", "lull", f"lull+{AGING}=sync"}
    off = kernel.off
    assert kernel.read() == FOUND
    assert {(LOCAL, off[LOCAL]), (AGING, off[AGING]), (AGING, "sync")} <= set(kernel.log)
    assert results.settings["policies found"] == f"{LOCAL}=on {AGING}=none"


def test_policies_are_restored_when_a_program_hangs(
    machine: None, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is ended, and named."""
    monkeypatch.setattr(plan, "time_limits", lambda boot, cpus: lambda number: 0.01)
    with pytest.raises(GuestHang, match=r"sort_compute did not end within 0\.01 s"):
        ran(tmp_path / "out", "--workload", "sort_compute", "--kernel", "stock")
    assert kernel.log and kernel.read() == FOUND


def test_a_policy_that_is_refused_ends_the_run(tmp_path: Path) -> None:
    """What followed would have a wrong name."""
    found = Kernel(tmp_path)
    with pytest.raises(LullError, match=f"cannot set {AGING} to often"):
        found.choose({AGING: "often"})


@pytest.mark.parametrize(
    ("name", "there", "root", "possible"),
    [
        ("stock", False, False, True),
        ("lull", False, True, False),
        ("lull", True, False, True),
        ("stock", True, False, False),
        (f"lull+{AGING}=sync", True, False, False),
        ("stock", True, True, True),
        (f"lull+{AGING}=sync", True, True, True),
        (f"lull+{RUNS}=off", True, True, False),
        ("lab", True, True, False),
    ],
)
def test_what_the_running_kernel_can_be(tmp_path: Path, name: str, there: bool, root: bool, possible: bool) -> None:
    """Without Lull only stock; without root only what it is; no feature that it has not."""
    switches = Kernel(tmp_path, mine=root) if there else native.Switches(bases.load_base(), tmp_path / "nothing")
    assert switches.possible(spec(name)) is possible


def test_a_program_that_fails_and_one_that_cannot_run(machine: None, plain: None, tmp_path: Path) -> None:
    """A failed check with the status, a skipped one; the round goes on."""
    jobs = [("fork_exec", ("frob=1",)), ("window", ("--", "sh", "-c", "exit 77")), ("fork_exec", ())]
    numbered = enumerate(jobs, 1)
    made = tuple(plan.Job(n, plan.Workload(f"w{n}", p, a), spec("stock")) for n, (p, a) in numbered)
    boots = [plan.Boot("r01-stock", 1, "stock", "stock", made)]
    switches = native.Switches(bases.load_base())
    results = native.measure(boots, toolchain.find(), switches, tmp_path / "out").results
    checks = {c.name: c.verdict for c in results.checks if c.name.startswith("verified")}
    assert checks == {
        "verified: w1 on stock": "failed",
        "verified: w2 on stock": "skipped",
        "verified: w3 on stock": "passed",
    }
    assert "unknown option 'frob=1'" in (tmp_path / "out/boots/r01-stock/console.log").read_text()


def test_what_changes_the_machine_is_left_out(machine: None, plain: None, tmp_path: Path) -> None:
    """Named, it is refused; with --allow-changes it is not."""
    lab = Lab()
    assert all(w.harmless for w in bench.workloads(lab, [], False))
    with pytest.raises(UsageError, match="young, teardown"):
        bench.workloads(lab, ["young", "fork_exec", "teardown"], False)
    assert [w.name for w in bench.workloads(lab, ["young", "teardown"], True)] == ["young", "teardown"]


def test_harmless_programs_write_no_setting_of_the_machine() -> None:
    """None has a file of /sys or /proc/sys in its source; swap_bench has a cgroup's, and uses it with procs=2."""
    harmless = [w for w in plan.load_workloads(bases.load_base().workloads).values() if w.harmless]
    assert {w.name for w in harmless} >= {"fork_exec", "mprotect_per_cpu", "pingpong"}
    for workload in harmless:
        source = (REPOSITORY / f"guest/{workload.program}.c").read_text()
        if workload.program == "swap_bench":
            assert not any(argument.startswith("procs=") for argument in workload.args)
        else:
            assert not [word for word in ('"/sys/', '"/proc/sys', '"cgroup.h"', "swapon(") if word in source]


def test_debians_programs_need_a_guest(machine: None, plain: None, tmp_path: Path) -> None:
    """They are on its disk."""
    job = plan.Job(1, plan.Workload("redis", "debian"), spec("stock"))
    with pytest.raises(UsageError, match="redis needs a guest's disk"):
        native.check_programs([plan.Boot("r01-stock", 1, "stock", "stock", (job,))])


@pytest.mark.skipif(toolchain.host_is_arm64(), reason="this machine is arm64")
def test_other_machines_are_refused(tool: Tool) -> None:
    """With what to do; and --here must be said."""
    done = tool("bench", "--here")
    assert done.returncode == 2 and "clone the repository on an arm64 machine" in done.stderr
    assert "--here" in tool("bench").stderr


def test_cpus_without_a_name(tmp_path: Path) -> None:
    """arm64 says implementer and part of each, big and little ones."""
    cpu = "processor\t: {}\nCPU implementer\t: 0x41\nCPU part\t: {}\n\n"
    (tmp_path / "cpuinfo").write_text("".join(cpu.format(n, part) for n, part in enumerate(["0xd0b", "0xd05"] * 2)))
    assert records.cpu_model(tmp_path / "cpuinfo") == "implementer 0x41 part 0xd0b, implementer 0x41 part 0xd05"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU\n")
    assert records.cpu_model(tmp_path / "cpuinfo") == "Some CPU"
    assert records.cpu_model(tmp_path / "none") == ""
