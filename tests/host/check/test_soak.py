# SPDX-License-Identifier: GPL-2.0-only
"""The soak: what is drawn, and lull soak as a user has it: on the fake kernel under a fake QEMU, and on a real one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import FAKE, Tool, common

from lull import base as bases
from lull import guest, paths, plan
from lull.check import soak
from lull.check.data import load_machines

BASE = bases.load()
WORKLOADS = plan.load_workloads(BASE.workloads)
ROUNDS = range(1, 401)
Soak = Callable[..., CompletedProcess[str]]


def choice(seed: int = 7) -> soak.SoakChoice:
    """Everything, as the command draws from it."""
    machines = soak.every_machine(load_machines())
    return soak.SoakChoice(seed, tuple(soak.KERNELS), machines, tuple(WORKLOADS.values()))


def drawn(seed: int = 7) -> list[soak.Round]:
    """The rounds of a seed."""
    return [soak.draw(BASE, choice(seed), number) for number in ROUNDS]


def members(job: plan.Job) -> list[list[str]]:
    """The programs of a job, with their arguments."""
    words = [job.workload.program, *job.workload.args]
    if words[:2] != [soak.WINDOW, "--"]:
        return [words]
    return [shlex.split(part) for part in shlex.join(words[2:]).split(" --and ")]


def test_the_same_seed_has_the_same_rounds() -> None:
    """Each round by itself, and in no order; another seed has others."""
    first = drawn()
    assert [soak.draw(BASE, choice(), number) for number in reversed(ROUNDS)] == first[::-1]
    assert not {repr(r.trial.boot.jobs) for r in first} & {repr(r.trial.boot.jobs) for r in drawn(8)} - {"()"}


def test_what_is_drawn_exists() -> None:
    """Programs, policies that are not wrong on purpose, and in a crowd only those that may be there, each once."""
    programs = {source.stem for source in guest.sources()}
    crowds = {(w.program, *w.args) for w in WORKLOADS.values() if w.crowd}
    for one in drawn():
        assert soak.JOBS[0] <= len(one.trial.boot.jobs) <= soak.JOBS[1]
        for job in one.trial.boot.jobs:
            found = members(job)
            assert {words[0] for words in found} <= programs, job
            assert len({words[0] for words in found}) == len(found)
            assert len(found) == 1 or all(any(tuple(w[: len(c)]) == c for c in crowds) for w in found), job
            for feature, policy in job.spec.settings:
                assert policy in BASE.features[feature].policies
            assert one.trial.boot.image != "stock" or not job.spec.settings


def test_everything_is_drawn() -> None:
    """Each kernel, machine, number of vCPUs, policy; each workload that is short enough, alone or in a crowd."""
    rounds = drawn()
    assert {r.trial.boot.image for r in rounds} == set(soak.KERNELS)
    assert {r.trial.hardware for r in rounds} == set(choice().machines)
    assert {r.options.vcpus for r in rounds} == set(soak.VCPUS)
    jobs = [job for r in rounds for job in r.trial.boot.jobs]
    names = {name for job in jobs for name in job.workload.name.split("&")}
    assert names == {w.name for w in WORKLOADS.values() if w.timeout <= soak.LONGEST}
    assert any(len(members(job)) == soak.CROWD[1] for job in jobs)
    policies = {pair for job in jobs for pair in job.spec.settings}
    assert policies == {(f.name, p) for f in BASE.features.values() for p in f.policies}


def test_seeds_of_programs_are_of_the_round() -> None:
    """A storm has another seed each time, so that no two rounds do the same."""
    seeds = [w for r in drawn() for j in r.trial.boot.jobs for w in j.workload.args if w.startswith("seed=")]
    assert len(seeds) > 50 and len(set(seeds)) == len(seeds)
    assert all(word.removeprefix("seed=").isdigit() for word in seeds)


def test_a_crowd_with_debians_root() -> None:
    """Its programs are found there, ours too."""
    two = [plan.Workload("a", "debian", ("one", "x")), plan.Workload("b", "two", ("y=1",), memory=9, timeout=7)]
    found = soak.side_by_side(two)
    assert (found.program, found.args) == ("debian", ("window", "--", "one", "x", "--and", "two", "y=1"))
    assert (found.name, found.memory, found.timeout) == ("a&b", 9, 127)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """guest/window.c, for the host."""
    found = tmp_path_factory.mktemp("window") / "window"
    flags = [flag for flag in guest.CFLAGS if flag != "-static"]
    subprocess.run(["gcc", *flags, "-o", found, paths.GUEST / "window.c"], check=True)
    return found


@pytest.mark.parametrize(
    ("commands", "status", "reported"),
    [
        ("true", 0, 1),
        ("true --and sh -c 'exit 77'", 0, 1),
        ("sh -c 'exit 77' --and sh -c 'exit 77'", 77, 0),
        ("sh -c 'exit 3' --and true --and sh -c 'exit 4'", 3, 0),
        ("sh -c 'exit 77' --and sh -c 'kill -9 $$'", 1, 0),
        ("no-such-program", 1, 0),
        ("{window} -- true", 0, 1),
        ("", 2, 0),
    ],
)
def test_window(window: Path, tmp_path: Path, commands: str, status: int, reported: int) -> None:
    """Ends as the worst of its commands, and reports once when all is well; a window in another one does not."""
    results = tmp_path / "results"
    results.touch()
    words = [word.replace("{window}", str(window)) for word in shlex.split(commands)]
    environment = {**os.environ, "LULL_RESULTS": str(results), "LULL_JOB": "3"}
    done = subprocess.run([window, "case=c", "--", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["job"], line["case"]) for line in lines] == [(3, "c")] * reported


def test_window_waits_for_all(window: Path, tmp_path: Path) -> None:
    """They run at once: each waits for what the other one makes; also when another has failed."""
    a, b = tmp_path / "a", tmp_path / "b"
    words = ["timeout", "20", "sh", "-c", 'touch "$0"; until [ -e "$1" ]; do sleep 0.05; done']
    done = subprocess.run([window, "--", "false", "--and", *words, a, b, "--and", *words, b, a], timeout=60)
    assert done.returncode == 1 and a.exists() and b.exists()


@pytest.fixture
def soaked(fake: Callable[..., CompletedProcess[str]], tmp_path: Path) -> Soak:
    """Soak the fake kernel; what happens in each guest is ``what``."""

    def run(*words: str, what: str = "silent") -> CompletedProcess[str]:
        return fake("soak", "--cpu", "max", *words, LULL_QEMU=str(FAKE / "qemu"), LULL_FAKE_CHECK=what)

    return run


def said(out: Path) -> dict[str, Any]:
    """soak.json."""
    found: dict[str, Any] = json.loads((out / "soak.json").read_text())
    return found


@pytest.mark.qemu
def test_a_silent_soak_and_more_of_it(soaked: Soak, tmp_path: Path) -> None:
    """Rounds until the time has passed, added up; the same command with more time goes on with the next round."""
    out = tmp_path / "out"
    words = ["--seed", "5", "--out", str(out)]
    done = soaked(*words, "--minutes", "0.0001")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ lull soak --seed 5 --round 1 " in done.stderr
    first = said(out)
    (one,) = first["rounds"]
    assert first["seen"]["tlbis"] == 30 and first["seen"]["settled"] == 20 and one["verdict"] == "silent"
    (folder,) = (out / "rounds").iterdir()
    assert {path.name for path in folder.iterdir()} == set(soak.KEPT)
    again = soaked(*words, "--minutes", str(one["seconds"] / 60 + 0.0001))
    assert again.returncode == 0, again.stderr
    more = said(out)
    assert more["rounds"][0] == one and len(more["rounds"]) == 2
    assert more["seen"]["tlbis"] == 60 and more["seconds"] >= one["seconds"]
    assert again.stdout.splitlines()[-1].startswith("verdict: silent in 2 rounds in ")
    assert sum(more["by_kernel"].values()) == sum(more["by_machine"].values()) == 2
    assert soaked("--seed", "6", "--out", str(out), "--minutes", "1").returncode == 2


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("reports", "owed/local: a valid entry was taken away"),
        ("failing", "ended with status 1"),
        ("panic", "crashed: the guest kernel panicked"),
        ("blind", "did not see frees of pages"),
    ],
)
def test_a_round_that_is_not_silent(soaked: Soak, tool: Tool, tmp_path: Path, what: str, text: str) -> None:
    """It ends the soak; its line and its story are printed, its logs are kept; the line does that round again."""
    out = tmp_path / "out"
    done = soaked("--seed", "9", "--minutes", "60", "--out", str(out), what=what)
    assert done.returncode == 1
    assert text in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("again: "))
    assert line.startswith("again: lull soak --seed 9 --round 1 ") and line.endswith(" --cpu max")
    assert list((out / "rounds").glob("*/console.log"))
    assert done.stdout.splitlines()[-1].startswith("verdict: 1 of 1 round in ")
    words = shlex.split(line.removeprefix("again: "))[1:]
    again = tool(*words, "--offline", "--json", LULL_QEMU=str(FAKE / "qemu"), LULL_FAKE_CHECK=what)
    (one,), (other,) = said(out)["rounds"], json.loads(again.stdout)["rounds"]
    assert again.returncode == 1
    for key in ("line", "what", "append", "workloads", "verdict", "lines"):
        assert one[key] == other[key]
    assert said(out)["rules"]["owed"] == {"known": 0, "reports": 7 * (what == "reports")}


@pytest.mark.qemu
def test_going_on_after_a_failure(soaked: Soak, tmp_path: Path) -> None:
    """With --keep-going; the exit code says that something failed all the same."""
    out = tmp_path / "out"
    words = ["--seed", "9", "--out", str(out), "--minutes"]
    assert soaked(*words, "60", what="reports").returncode == 1
    assert soaked(*words, "60").returncode == 1 and len(said(out)["rounds"]) == 1
    spent = said(out)["seconds"]
    done = soaked(*words, str(spent / 60 + 0.0001), "--keep-going")
    assert done.returncode == 1
    assert said(out)["by_verdict"] == {"reports": 1, "silent": 1}


@pytest.mark.qemu
def test_usage(soaked: Soak) -> None:
    """What cannot be is refused before anything is made."""
    for words in (["--minutes", "0"], ["--round", "0"], ["--kernel", "none"], ["--workload", "none"]):
        done = soaked(*words)
        assert done.returncode == 2 and done.stderr.startswith("lull: "), words


@pytest.mark.qemu
def test_dry_run(soaked: Soak) -> None:
    """The rounds that would be, each with its line."""
    done = soaked("--dry-run", "--json", "--seed", "3")
    lines = [one["line"] for one in json.loads(done.stdout)]
    assert [line.split()[:6] for line in lines] == [f"lull soak --seed 3 --round {n}".split() for n in range(1, 11)]


@pytest.fixture
def soak_for_real(real: Tool) -> Soak:
    """The soak over the user's cache, with what 'lull test' was asked to test."""
    return lambda *words: real("soak", *common(), *words, timeout=1800)


SHORT = shlex.split("--kernel lab --cpu cortex-a76 --workload storm_unmap --workload fork_exec --workload sort_compute")


@pytest.mark.guest
def test_a_round_on_a_real_kernel(soak_for_real: Soak, tmp_path: Path) -> None:
    """Programs side by side, verified, under the checker, which has seen them."""
    would = json.loads(soak_for_real("--seed", "1", *SHORT, "--dry-run", "--json").stdout)
    line = next(one["line"] for one in would if "&" in one["what"] and "2 vCPUs" in one["what"])
    done = soak_for_real(*shlex.split(line)[2:], "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (one,) = said(tmp_path / "out")["rounds"]
    assert any("&" in name for name in one["workloads"]) and set(one["status"].values()) == {0}
    assert one["seen"]["accesses"] > 1e6 and one["seen"]["obligations"] > one["seen"]["left"]


@pytest.mark.guest
def test_a_mutant_is_caught(soak_for_real: Soak, tmp_path: Path) -> None:
    """A kernel that forgets a barrier does not get through a round; its line finds it again."""
    mutant = ["--append", "lull_mutant=page-no-dsb"]
    out = tmp_path / "out"
    done = soak_for_real("--seed", "1", "--minutes", "30", *SHORT, *mutant, "--out", str(out))
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    assert "owed/no-dsb" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("again: "))
    again = soak_for_real(*shlex.split(line.removeprefix("again: "))[2:])
    assert again.returncode == 1 and "owed/no-dsb" in again.stdout
