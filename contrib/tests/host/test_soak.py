# SPDX-License-Identifier: GPL-2.0-only
"""The soak: what is drawn."""

from __future__ import annotations

import shlex
from dataclasses import replace

from lull import base as bases
from lull import guest, paths, plan
from lull.check.data import load_machines, matrix
from lull_contrib import soak

BASE = bases.load_base()
WORKLOADS = plan.load_workloads(BASE.workloads)
ROUNDS = range(1, 521)


def choice(seed: int = 7) -> soak.SoakChoice:
    """Everything, as the command draws from it."""
    machines = tuple(matrix(load_machines(), None, None))
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
    """Programs, policies that not only the lab kernel has, and in a crowd only those that may be there, each once."""
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


def test_a_number_of_vcpus() -> None:
    """Every guest has as many as were asked for, and nothing else of the rounds changes."""
    fixed = [soak.draw(BASE, replace(choice(), vcpus=8), number) for number in ROUNDS]
    assert fixed == [replace(r, options=replace(r.options, vcpus=8)) for r in drawn()]


def test_seeds_of_programs_are_of_the_round() -> None:
    """A storm has another seed each time, so that no two rounds do the same."""
    seeds = [w for r in drawn() for j in r.trial.boot.jobs for w in j.workload.args if w.startswith("seed=")]
    assert len(seeds) > 50 and len(set(seeds)) == len(seeds)
    assert all(word.removeprefix("seed=").isdigit() for word in seeds)


def test_a_crowd_with_debians_root() -> None:
    """Its programs are found there, ours too."""
    more = plan.Workload("b", "two", ("y=1",), memory=9, append="z=on", timeout=7)
    two = [plan.Workload("a", "debian", ("one", "x")), more]
    found = soak.side_by_side(two)
    assert (found.program, found.args) == ("debian", ("window", "--", "one", "x", "--and", "two", "y=1"))
    assert (found.name, found.memory, found.append, found.timeout) == ("a&b", 9, "z=on", 127)


def test_counters_exist() -> None:
    """`lull soak` shows the counter of each rule, which checker/report.c writes."""
    for rule, counter in soak.COUNTERS.items():
        assert counter in soak.SEEN, f"checker/rules.toml: [{rule}]: lull soak shows no counter {counter}"
        assert f'"{counter}"' in (paths.CHECKER / "report.c").read_text(), (
            f"checker/report.c writes no counter {counter}"
        )
