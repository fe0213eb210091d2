# SPDX-License-Identifier: GPL-2.0-only
"""Names of kernels and workloads, and the order of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import AGING, HVO, LOCAL

from lull import base as bases
from lull import guest, paths, plan
from lull.errors import UsageError
from lull.guest import userland

BASE = bases.load_base()
WORKLOADS = plan.load_workloads(BASE.workloads)


def test_plain_and_set_kernels() -> None:
    """A name, a policy, and off (which is the policy that equals stock)."""
    assert plan.parse_spec("stock", BASE) == plan.Spec("stock", "stock")
    assert plan.parse_spec(f"lull+{AGING}=sync", BASE).settings == ((AGING, "sync"),)
    assert plan.parse_spec(f"lull-{AGING}", BASE).settings == ((AGING, "nosync"),)


def test_one_feature_alone() -> None:
    """Every other one is off, by its own word for it; what follows is set on top."""
    off = {f.name: f.off for f in BASE.features.values() if f.policies}
    assert dict(plan.parse_spec(f"lull+only={LOCAL}", BASE).settings) == {**off, LOCAL: "on"}
    assert dict(plan.parse_spec(f"lull+only={AGING}", BASE).settings) == {**off, AGING: "none"}
    assert dict(plan.parse_spec(f"lull+only={HVO}", BASE).settings) == off  # it has no switch
    more = plan.parse_spec(f"lull+only={AGING}+{AGING}=none", BASE)
    assert more.name == f"lull+only={AGING}+{AGING}=none" and dict(more.settings) == {**off, AGING: "none"}
    # One that is off unless it is asked for is on here.
    idle = replace(BASE.features[LOCAL], default="off")
    base = replace(BASE, features={**BASE.features, LOCAL: idle})
    assert dict(plan.parse_spec(f"lull+only={LOCAL}", base).settings)[LOCAL] == "on"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"lull+only={AGING}x", f"did you mean {AGING}"),
        ("lull+only", "unknown feature ''"),
        (f"lull-only={AGING}", "unknown feature 'only'"),
        ("lull+core=on", "unknown feature 'core'"),
        (f"stock+only={AGING}", "no features"),
        ("luul", "did you mean lull"),
        (f"lull+{AGING}x=sync", f"did you mean {AGING}"),
        (f"lull+{AGING}=synk", "did you mean sync"),
        (f"lull+{AGING}", "unknown policy"),
        (f"lull-{AGING}=sync", "takes no policy"),
        (f"stock+{AGING}=sync", "no features"),
        ("Lull!", "is not a kernel name"),
        ("", "is not a kernel name"),
    ],
)
def test_unknown_names_name_the_known(text: str, words: str) -> None:
    """Each mistake says what there is."""
    with pytest.raises(UsageError) as caught:
        plan.parse_spec(text, BASE)
    assert words in caught.value.text()


def test_unknown_workload() -> None:
    """The nearest is named, and the other seventy are left out; where none is near all are listed."""
    with pytest.raises(UsageError) as caught:
        plan.select_workloads(["agin"], WORKLOADS)
    assert "did you mean aging?" in caught.value.text() and "swap_bench" not in caught.value.text()
    with pytest.raises(UsageError) as caught:
        plan.select_workloads(["xyz"], WORKLOADS)
    assert all(name in caught.value.text() for name in WORKLOADS)


def test_default_selection_runs_policies_only_where_they_show() -> None:
    """young runs under each policy, swap_bench does not."""
    chosen = plan.select_workloads([], WORKLOADS)
    boots = plan.make_plan(chosen, [], BASE, 1)
    pairs = {(j.workload.name, j.spec.name) for b in boots for j in b.jobs}
    assert ("young", f"lull+{AGING}=none") in pairs
    assert ("swap_bench", "lull") in pairs and ("swap_bench", f"lull+{AGING}=none") not in pairs
    assert not any(w == "aging" for w, _ in pairs)


def test_a_base_may_lack_features() -> None:
    """What a workload runs under to show them is left out; what is misspelt is another feature."""
    features = {name: feature for name, feature in BASE.features.items() if name != LOCAL}
    young = WORKLOADS["young"]
    names = [s.name for s in plan.specs_for(young, [], replace(BASE, features=features))]
    assert names == ["stock", "lull", *(f"lull+{p}" for p in young.policies if LOCAL not in p)]
    assert plan.features_named(f"only={AGING}+{LOCAL}=off") == {AGING, LOCAL}
    assert all(plan.further(p, BASE) for w in WORKLOADS.values() for p in w.policies)


def test_a_workloads_policy_may_name_another_kernel() -> None:
    """Without one it is of lull. A base that lacks the kernel leaves it out."""
    swap = replace(WORKLOADS["swap_bench"], policies=(f"lab+{LOCAL}=sticky", f"only={LOCAL}"))
    names = [s.name for s in plan.specs_for(swap, [], BASE)]
    assert names == ["stock", "lull", f"lab+{LOCAL}=sticky", f"lull+only={LOCAL}"]
    kernels = {name: kernel for name, kernel in BASE.kernels.items() if name != "lab"}
    assert len(plan.specs_for(swap, [], replace(BASE, kernels=kernels))) == 3


def test_a_rival_runs_beside_stock_and_lull() -> None:
    """If asked for, of a base that has one; not for a workload with kernels of its own, nor when kernels are named."""
    base = bases.load_base("7.3")
    swap, hvo = replace(WORKLOADS["swap_bench"], policies=()), WORKLOADS["hvo"]
    assert [s.name for s in plan.specs_for(swap, [], base, alternatives=True)] == ["stock", "lull", "active_cpu"]
    assert [s.name for s in plan.specs_for(swap, [], base)] == ["stock", "lull"]
    assert all(s.name != "active_cpu" for s in plan.specs_for(hvo, [], base, alternatives=True))
    stock = [plan.Spec("stock", "stock")]
    assert plan.specs_for(swap, stock, base, alternatives=True) == stock


WITHOUT_HVO = replace(BASE, features={name: f for name, f in BASE.features.items() if name != HVO})


def test_policies_that_only_the_lab_kernel_has() -> None:
    """Nobody else knows them, and nothing turns them on unasked."""
    sticky = plan.parse_spec(f"lab+only={HVO}+{LOCAL}=sticky", BASE)
    assert dict(sticky.settings)[LOCAL] == "sticky" and dict(sticky.settings)[AGING] == "nosync"
    assert plan.parse_spec(f"lab+{LOCAL}=sticky", BASE).settings == ((LOCAL, "sticky"),)
    with pytest.raises(UsageError, match=f"unknown policy of {LOCAL}"):
        plan.parse_spec(f"lull+{LOCAL}=sticky", BASE)


def test_a_workload_may_name_its_kernels() -> None:
    """They stand for stock and lull; a base that lacks the feature leaves them out; those asked for go before."""
    hvo = WORKLOADS["hvo"]
    names = [s.name for s in plan.specs_for(hvo, [], BASE)]
    assert names == ["unsafe", "lull", f"lull+only={HVO}"]
    assert [s.name for s in plan.specs_for(hvo, [], WITHOUT_HVO)] == ["unsafe", "lull"]
    assert all(plan.is_known(kernel, BASE) for workload in WORKLOADS.values() for kernel in workload.kernels)
    off = f"lull-{AGING}"
    assert [s.name for s in plan.specs_for(replace(hvo, kernels=("lul", off)), [], BASE)] == [off]
    stock = plan.Spec("stock", "stock")
    assert plan.specs_for(hvo, [stock], BASE) == [stock]


def test_a_boot_has_the_memory_its_workloads_need() -> None:
    """The most that any needs; none says so where the usual is enough."""
    boots = plan.make_plan([WORKLOADS["young"], WORKLOADS["hvo"]], [], BASE, 1)
    hvo = [f"{image}-hugetlb_free_vmemmap_on" for image in ("unsafe", "lull")]
    assert {b.name.removeprefix("r01-"): b.memory for b in boots} == {
        **dict.fromkeys(["stock", "stock.control", "lull", "lull-tlb_residency_off"], 0),
        **dict.fromkeys([*hvo, f"{hvo[1]}_tlb_residency_off"], 8192),
    }


def test_workloads_of_other_kernel_parameters_have_boots_of_their_own() -> None:
    """So that no other workload is measured under these parameters; names of boots differ."""
    chosen = [WORKLOADS[name] for name in ("young", "hvo", "hvo_one")]
    boots = plan.make_plan(chosen, [plan.Spec("lull", "lull")], BASE, 2)
    assert len({b.name for b in boots}) == len(boots) == 4
    assert {(b.append, *sorted({j.workload.name for j in b.jobs})) for b in boots} == {
        ("", "young"),
        ("hugetlb_free_vmemmap=on", "hvo", "hvo_one"),
    }
    mixed = plan.Boot("x", 1, "lull", "lull", tuple(job for b in boots for job in b.jobs))
    assert mixed.append == "hugetlb_free_vmemmap=on"


def test_a_feature_that_only_a_boot_turns_off_has_boots_of_its_own() -> None:
    """The kernel lab keeps its run-time switch: its policies are compared within a boot."""
    text = "tlb_residency=off"
    assert plan.parse_spec(f"lull+{LOCAL}=off", BASE).append == plan.parse_spec(f"lull-{LOCAL}", BASE).append == text
    assert plan.parse_spec(f"lull+only={AGING}", BASE).append == text
    assert not plan.parse_spec(f"lull+only={LOCAL}", BASE).append + plan.parse_spec(f"lab-{LOCAL}", BASE).append
    specs = [plan.parse_spec(name, BASE) for name in ("lull", f"lull-{LOCAL}")]
    boots = plan.make_plan([WORKLOADS["fork_exec"]], specs, BASE, 1)
    assert [(b.append, [j.spec.name for j in b.jobs]) for b in boots] == [("", ["lull"]), (text, [f"lull-{LOCAL}"])]


def test_interleaving_and_control() -> None:
    """Every repeat boots each image once and the baseline twice; nobody is always first."""
    named = [plan.parse_spec(name, BASE) for name in ("stock", "lull", f"lull+{AGING}=none")]
    boots = plan.make_plan([WORKLOADS["young"], WORKLOADS["pingpong"]], named, BASE, 3)
    labels = [b.label for b in boots]
    assert sorted(labels) == sorted(["stock", "lull", "stock.control"] * 3)
    assert {b.label for b in boots if b.name.startswith("r01")} == {"stock", "lull", "stock.control"}
    assert len({labels[0], labels[3], labels[6]}) == 3
    firsts = {b.jobs[0].workload.name + b.jobs[0].spec.name for b in boots if b.label == "lull"}
    assert len(firsts) == 3
    assert len({b.name for b in boots}) == len(boots)


def test_one_kernel_needs_no_control() -> None:
    """With stock alone there is nothing to control."""
    boots = plan.make_plan([WORKLOADS["young"]], [plan.Spec("stock", "stock")], BASE, 2)
    assert [b.label for b in boots] == ["stock", "stock"]


def test_repeat_must_be_positive() -> None:
    """Zero repeats measure nothing."""
    with pytest.raises(UsageError):
        plan.make_plan([WORKLOADS["young"]], [], BASE, 0)


def test_job_script_sets_only_what_changes() -> None:
    """Settings are written before the first run that needs them, and taken back after it."""
    young = WORKLOADS["young"]
    jobs = tuple(
        plan.Job(n, young, plan.parse_spec(k, BASE))
        for n, k in enumerate(["lull", f"lull+{AGING}=sync", f"lull+{AGING}=sync", "lull"], 1)
    )
    script = plan.job_script(plan.Boot("b", 1, "lull", "lull", jobs), BASE.default_policies())
    boots_with = [f"setting {feature} {policy}" for feature, policy in BASE.default_policies().items()]
    assert {f"setting {LOCAL} on", f"setting {AGING} nosync"} <= set(boots_with)
    assert script.splitlines()[1:] == [
        *boots_with,
        "run 1 young",
        f"setting {AGING} sync",
        "run 2 young",
        "run 3 young",
        f"setting {AGING} nosync",
        "run 4 young",
    ]


def test_plan_key_knows_the_plan() -> None:
    """Another number of repeats is another plan; the same is the same."""
    one, two = (plan.make_plan([WORKLOADS["young"]], [], BASE, n) for n in (1, 2))
    assert plan.plan_key(one) == plan.plan_key(list(one)) != plan.plan_key(two)


def test_malformed_workload_file(tmp_path: Path) -> None:
    """A file without programs is refused by name."""
    path = tmp_path / "w.toml"
    path.write_text("[x]\nabout = 'no program'\n")
    with pytest.raises(UsageError) as caught:
        plan.load_workloads(path)
    assert str(path) in caught.value.text()


def test_every_workload_has_its_program() -> None:
    """Each program named in guest/workloads.toml is a file of guest/, and each fixture folder is whole."""
    programs = {p.stem for p in guest.sources()}
    assert {w.program for w in WORKLOADS.values()} <= programs


@pytest.mark.parametrize("name", bases.known())
def test_base_file_is_whole(name: str) -> None:
    """Every fragment, mail and letter that the base names exists, and no other."""
    base = bases.load_base(name)
    for kernel in base.kernels.values():
        assert all(f.is_file() for f in kernel.fragments)
    for feature in base.features.values():
        assert feature.patches and feature.letter.is_file() != bool(feature.only)
        assert feature.off in feature.policies or not feature.policies
    folders = {folder for end in ("", "-lab") for folder in (paths.KERNEL / f"{base.series}{end}").glob("*/")}
    assert folders == {feature.folder for feature in base.features.values()}


def test_every_suite_is_whole() -> None:
    """Its files exist and can be read; the base's own workloads are the suite without a name."""
    assert BASE.suite_named("") == bases.Suite("", BASE.workloads, lab="lab", mutants=BASE.mutants)
    assert {"real", "vm", "host"} <= set(BASE.suites) and BASE.suites["vm"].guests
    for suite in BASE.suites.values():
        assert BASE.suite_named(suite.name) is suite
        assert suite.fragments and all(f.is_file() for f in suite.fragments)
        plan.load_workloads(suite.workloads)
        assert suite.userland and userland.load_userland(suite.userland).packages
        assert {*suite.guests, suite.lab or "lab"} <= set(BASE.kernels)
        assert bool(suite.lab) == bool(suite.mutants and suite.mutants.is_file())


def test_a_suite_may_be_workloads_alone() -> None:
    """Neither a configuration nor Debian's programs."""
    base = bases.parse_base(
        {"series": "6.12", "kernels": {}, "suites": {"more": {"workloads": "more.toml"}}}, Path("/x/bases/b.toml")
    )
    assert base.suites == {"more": bases.Suite("more", Path("/x/more.toml"))}


def test_unknown_suite() -> None:
    """The known ones are listed."""
    with pytest.raises(UsageError, match="unknown suite 'reel'") as caught:
        BASE.suite_named("reel")
    assert "real" in caught.value.text()


def test_what_makes_the_lab_kernel_is_no_part_of_lull() -> None:
    """What is for measuring and checking is applied last, and never exported. The same of unsafe and nofb."""
    names = {kernel: [f.name for f in BASE.features_of(kernel)] for kernel in BASE.kernels}
    assert names["stock"] == []
    assert names["lull"] == names["kunit"] == [*BASE.exported(), "switches", "young_lab", "runtime"]
    assert names["lab"] == [*names["lull"], "lab"]
    assert names["unsafe"] == ["unsafe"] and not BASE.kernels["unsafe"].features
    assert names["nofb"] == ["nofb"] and not BASE.kernels["nofb"].features
    assert not {"switches", "young_lab", "runtime", "lab", "unsafe", "nofb"} & set(BASE.exported())


def test_unknown_base() -> None:
    """The known ones are listed."""
    with pytest.raises(UsageError, match="unknown base"):
        bases.load_base("5.4")
