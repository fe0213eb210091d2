# SPDX-License-Identifier: GPL-2.0-only
"""The series on the real source: each applies without the others, each step builds and boots, its suites pass."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support import SUMMARY, apply_mails, fixes_of, git

from lull import base as bases
from lull import plan, process
from lull.base import Base, Feature, Patch, patches_of
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab
from lull.linux import build, fitting, hunks, series
from lull.linux.tree import Tree
from lull.progress import progress
from lull.selftests import kunit


def before(base: Base, feature: Feature) -> list[Feature]:
    """The features that must be applied before ``feature``, in their order."""
    names = set(feature.needs)
    for other in reversed(list(base.features.values())):
        if other.name in names:
            names.update(other.needs)
    return [one for one in base.features.values() if one.name in names]


def mails_of(lab: Lab, feature: Feature) -> list[Path]:
    """The mails of a feature and of those that it needs, without patches that this Linux has already."""
    patches = patches_of([*before(lab.base, feature), feature])
    return [one.file for one in patches if not hunks.has_all(one.diff(), lab.pristine.path)]


@pytest.fixture
def small_tree(lab: Lab, tmp_path: Path) -> Path:
    """A git tree of the files that features and fixes change."""
    texts = [
        *(mail.read_text() for mail in fixes_of(lab.base.series)),
        *map(Patch.diff, patches_of(lab.base.features.values())),
    ]
    fitting.copied(lab.pristine.path, {"Makefile", ".gitattributes", *fitting.touched(texts)}, tmp_path / "tree")
    series.commit_base(tmp_path / "tree", lab.pristine.version)
    return tmp_path / "tree"


@pytest.mark.bases
def test_each_series_applies_alone(lab: Lab, small_tree: Path) -> None:
    """git am of a series and those that it needs; and again behind the fixes, which may be sent first."""
    fixes = fixes_of(lab.base.series)
    for feature in lab.base.exported().values():
        mails = mails_of(lab, feature)
        for before in ([], fixes):
            apply_mails(small_tree, [*before, *mails])
            assert len(series.subjects(small_tree, series.BASE_TAG)) == len(before) + len(mails) > 0


@pytest.mark.bases
def test_each_fix_applies_alone(lab: Lab, small_tree: Path) -> None:
    """git am of each fix of fixes/ on the pristine tree."""
    for fix in fixes_of(lab.base.series):
        apply_mails(small_tree, [fix])


@pytest.mark.bases
def test_the_mails_are_as_they_are_saved(lab: Lab, small_tree: Path) -> None:
    """`lull tree` of all features that the kernel lab has, and `lull save` changes nothing."""
    before = series.BASE_TAG
    for feature in lab.base.features_of(plan.LAB):
        series.add_feature(small_tree, feature, before)
        before = feature.name
    assert series.changes(small_tree, lab.base) == []


@pytest.fixture
def whole_tree(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git tree of the whole pristine source, made once for each base."""
    tree = tmp_path_factory.getbasetemp() / f"whole-tree-{lab.base.name}"
    if not tree.exists():
        with series.whole_folder(tree) as part:
            log = tree.with_name(f"{tree.name}.log")
            process.run_logged(["cp", "-a", "--reflink=auto", f"{lab.pristine.path}/.", part], log)
            process.run_logged(["chmod", "-R", "u+w", part], log)
            series.commit_base(part, lab.pristine.version)
    return tree


def known_options(fragments: str, tree: Path) -> str:
    """``fragments`` without the options of Lull and of KUnit suites that ``tree`` does not define."""
    ours = [option for option in build.asked_options(fragments) if re.search("LULL|HVO|KUNIT_TEST", option)]
    unknown = {option for option in ours if build.kconfig_reason(tree, option) == "no Kconfig file defines it"}
    return "".join(
        line for line in fragments.splitlines(keepends=True) if line.partition("=")[0].strip() not in unknown
    )


@pytest.mark.whole
@pytest.mark.bases
@pytest.mark.parametrize("name", bases.load_base().exported())
def test_each_step_builds_and_boots(lab: Lab, tmp_path: Path, whole_tree: Path, name: str) -> None:
    """After each patch of a series, the kernel builds and boots to init.

    LULL_TEST_SERIES=apply ends the test after git am and make's configuration of each step.
    """
    feature = lab.base.exported()[name]
    apply_mails(whole_tree, mails_of(lab, feature))
    steps = git(whole_tree, "log", "--reverse", "--format=%h %f", f"-{len(feature.patches)}").splitlines()
    # All series share the objects of a configuration: git checkout leaves most files as they are.
    out = whole_tree / "objects"
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    for number, step in enumerate(steps, 1):
        git(whole_tree, "checkout", "-q", step.split()[0])
        image = built(lab, whole_tree, out, known_options(fragments, whole_tree), step)
        if image:
            check_boots(lab, image, tmp_path / f"boot-{number}")


@pytest.mark.whole
@pytest.mark.bases
@pytest.mark.parametrize("name", [name for name, one in bases.load_base().exported().items() if one.kunit])
def test_suites_pass_with_the_series_alone(lab: Lab, tmp_path: Path, whole_tree: Path, name: str) -> None:
    """With a series and those that it needs, and no other, their KUnit suites pass."""
    feature = lab.base.exported()[name]
    apply_mails(whole_tree, mails_of(lab, feature))
    fragments = build.fragments_text(lab.base.kernels["kunit"].fragments)
    known = known_options(fragments, whole_tree)
    image = built(lab, whole_tree, whole_tree / "objects-kunit", known, f"{name} with KUnit")
    if image:
        guest = lab.guest_of(image, kunit.machine(Machine.cpu), "", None)
        cases = kunit.cases(guest, tmp_path / "kunit", print)
        assert {suite for one in [*before(lab.base, feature), feature] for suite in one.kunit} == {
            case.suite for case in cases
        }
        assert [case for case in cases if case.verdict != "ok"] == []


@pytest.mark.whole
@pytest.mark.bases
def test_each_fix_builds(lab: Lab, tmp_path: Path, whole_tree: Path) -> None:
    """Each fix of fixes/ alone; and all together, which boot to init."""
    fixes = fixes_of(lab.base.series)
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    for mails in [*([fix] for fix in fixes), fixes]:
        apply_mails(whole_tree, mails)
        image = built(lab, whole_tree, whole_tree / "objects", known_options(fragments, whole_tree), mails[-1].stem)
    if image:
        check_boots(lab, image, tmp_path / "boot")


@pytest.mark.bases
def test_without_residency_nothing_calls_it(lab: Lab, tmp_path: Path) -> None:
    """With CONFIG_ARM64_TLB_RESIDENCY=n: every caller of it compiles, and needs no symbol that only it defines."""
    out = tmp_path / "objects"
    out.mkdir()
    builder = build.Builder(lab.tree_of("lull"), lab.toolchain, out, tmp_path / "build.log")
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    builder.configure(f"{fragments}CONFIG_ARM64_TLB_RESIDENCY=n\n")
    assert "CONFIG_ARM64_TLB_RESIDENCY=y" not in (out / ".config").read_text()
    objects = ["kernel/sched/core.o", "kernel/fork.o", "fs/exec.o", "mm/hugetlb.o", "mm/memory.o", "mm/mmu_gather.o"]
    builder.compile(print, *objects, "arch/arm64/kernel/process.o", "arch/arm64/mm/")
    nm = [lab.toolchain.nm, "--undefined-only", "-A", *map(str, out.glob("**/*.o"))]
    undefined = subprocess.run(nm, capture_output=True, text=True, check=True).stdout
    assert "check_and_switch_context" in undefined
    assert re.findall(r"\b(?:__)?res(?:idency)?_\w+", undefined) == []


def check_boots(lab: Lab, image: Path, folder: Path) -> None:
    """The kernel boots to init, which runs a program and ends the guest."""
    guest = lab.guest_of(image, Machine(vcpus=2), "", None)
    boot = launch_retrying(guest, "program true\n", folder, job_seconds=lambda n: 60, tell=print, say=print)
    assert boot.done == 0, folder.name


def built(lab: Lab, tree: Path, out: Path, fragments: str, what: str) -> Path | None:
    """The image of a kernel; None when it was only configured."""
    out.mkdir(exist_ok=True)
    builder = build.Builder(Tree(tree, "", lab.pristine.version), lab.toolchain, out, out.with_name("build.log"))
    builder.configure(fragments)
    if os.environ.get("LULL_TEST_SERIES") == "apply":
        return None
    with progress.step(what) as step:
        builder.compile(step.update)
        SUMMARY.append(f"{what}: built in {step.elapsed:.0f} s")
    return out / lab.toolchain.image
