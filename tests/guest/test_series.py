# SPDX-License-Identifier: GPL-2.0-only
"""The series on the real source: each applies without the others, each step builds and boots, its suites pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import SUMMARY, apply_mails, git

from lull import process
from lull.base import patches_of
from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab
from lull.linux import build, export, hunks, series
from lull.linux.tree import Tree
from lull.progress import progress
from lull.selftests import kunit


def folders_of(lab: Lab, name: str, mails: Path) -> list[Path]:
    """The folders of the series that are applied before the series ``name``, and its own."""
    before = lab.base.subjects_before(lab.base.subjects[name])
    return [*(mails / subject.name for subject in before), mails / name]


@pytest.fixture
def small_tree(lab: Lab, tmp_path: Path) -> Path:
    """A git tree of the files that hooks and fixes change."""
    fixed = {name for mail in export.fixes(lab.base) for name in re.findall(r"(?m)^--- a/(\S+)", mail.read_text())}
    for name in fixed.union(export.hooked(patches_of(lab.base.exported().values()), lab.pristine.path)):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(lab.pristine.path / name, tmp_path / "tree" / name)
    series.commit_base(tmp_path / "tree", lab.pristine.version)
    return tmp_path / "tree"


@pytest.mark.bases
def test_each_series_applies_alone(lab: Lab, small_tree: Path, tmp_path: Path) -> None:
    """git am of a series and those that it needs; together they have every patch that Linux does not have."""
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")
    subjects = set()
    for name in lab.base.subjects:
        apply_mails(small_tree, *folders_of(lab, name, tmp_path / "mails"))
        applied = git(small_tree, "log", "--format=%s", f"-{len(mails[name]) - 1}").splitlines()
        subjects |= set(applied)
    patches = patches_of(lab.base.exported().values())
    taken = [one for one in patches if not one.files() and hunks.has_all(one.hooks_text(), lab.pristine.path)]
    assert len(taken) < 2
    notes = (series.note_of(patch.folder) for patch in patches if patch not in taken)
    assert subjects == {re.findall(r"(?m)^# (.*)", note)[0] for note in notes}


@pytest.mark.bases
def test_each_fix_applies_alone(lab: Lab, small_tree: Path, tmp_path: Path) -> None:
    """git am of each fix of fixes/ on the pristine tree, and of all of them one after the other."""
    mails = export.export_fixes(lab.pristine, lab.base, tmp_path / "mails")
    for mail in mails:
        git(small_tree, "checkout", "-q", series.BASE_TAG)
        git(small_tree, "am", "-q", str(mail))
    apply_mails(small_tree, tmp_path / "mails")
    assert len(git(small_tree, "log", "--format=%s", f"{series.BASE_TAG}..").splitlines()) == len(mails) > 0


@pytest.mark.bases
def test_each_series_applies_after_the_fixes(lab: Lab, small_tree: Path, tmp_path: Path) -> None:
    """Who sends the fixes first need not change a series."""
    fixes = export.export_fixes(lab.pristine, lab.base, tmp_path / "fixes")
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")
    for name, subject in lab.base.subjects.items():
        folders = folders_of(lab, name, tmp_path / "mails")
        apply_mails(small_tree, tmp_path / "fixes", *folders)
        count = len(fixes) + sum(len(mails[one.name]) - 1 for one in [*lab.base.subjects_before(subject), subject])
        assert len(git(small_tree, "log", "--format=%s", f"{series.BASE_TAG}..").splitlines()) == count


@pytest.mark.bases
def test_recipients_are_those_of_get_maintainer(lab: Lab, tmp_path: Path) -> None:
    """The entries of MAINTAINERS that a subject names are those that the kernel's script finds by the files changed."""
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")
    words = ["--no-git", "--no-git-fallback", "--no-keywords", "--no-m", "--no-r", "--no-rolestats", "--subsystem"]
    for name, subject in lab.base.subjects.items():
        done = subprocess.run(
            ["perl", "scripts/get_maintainer.pl", *words, *mails[name][1:]],
            capture_output=True,
            text=True,
            cwd=lab.pristine.path,
            check=True,
        )
        found = {line for line in done.stdout.splitlines() if "@" not in line} - {"THE REST"}
        assert set(subject.to) == found, name


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
    ours = [option for option in build.asked_options(fragments) if re.search("LULL|KUNIT_TEST", option)]
    unknown = {option for option in ours if build.kconfig_reason(tree, option) == "no Kconfig file defines it"}
    return "".join(
        line for line in fragments.splitlines(keepends=True) if line.partition("=")[0].strip() not in unknown
    )


SERIES = ("residency", "gather", "gather_local", "young", "hvo", "teardown", "contpte", "reclaim", "reclaim_local")


@pytest.mark.bases
def test_all_series_are_built(lab: Lab) -> None:
    """By the next test."""
    assert set(SERIES) == set(lab.base.subjects)


@pytest.mark.whole
@pytest.mark.bases
@pytest.mark.parametrize("name", SERIES)
def test_each_step_builds_and_boots(lab: Lab, tmp_path: Path, whole_tree: Path, name: str) -> None:
    """After each patch of a series, the kernel builds and boots to init; after the last one, its KUnit suites pass.

    LULL_TEST_SERIES=apply ends the test after git am and make's configuration of each step.
    """
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")[name][1:]
    apply_mails(whole_tree, *folders_of(lab, name, tmp_path / "mails"))
    # All series share the objects: git checkout leaves most files as they are.
    out = whole_tree / "objects"
    out.mkdir(exist_ok=True)
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    for number, mail in enumerate(mails, 1):
        git(whole_tree, "checkout", "-q", f"mails~{len(mails) - number}")
        image = built(lab, whole_tree, out, known_options(fragments, whole_tree), mail.name)
        if image:
            guest = lab.guest_of(image, Machine(vcpus=2), "", None)
            folder = tmp_path / f"boot-{number}"
            boot = launch_retrying(guest, "program true\n", folder, job_seconds=lambda n: 60, tell=print, say=print)
            assert boot.done == 0, mail.name
    fragments = build.fragments_text(lab.base.kernels["kunit"].fragments)
    image = built(lab, whole_tree, out, known_options(fragments, whole_tree), f"{name} with KUnit")
    if image:
        features = lab.base.features_in(lab.base.subjects[name])
        guest = lab.guest_of(image, kunit.machine(Machine.cpu), "kunit.filter_glob=lull*", None)
        cases = kunit.cases(guest, tmp_path / "kunit", print)
        assert {suite for feature in features for suite in feature.kunit} <= {case.suite for case in cases}
        assert [case for case in cases if case.verdict != "ok"] == []


@pytest.mark.bases
def test_without_residency_nothing_calls_it(lab: Lab, tmp_path: Path) -> None:
    """With CONFIG_LULL_RESIDENCY=n: every caller of it compiles, and needs no symbol that only it defines."""
    out = tmp_path / "objects"
    out.mkdir()
    builder = build.Builder(lab.tree_of("lull"), lab.toolchain, out, tmp_path / "build.log")
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    builder.configure(f"{fragments}CONFIG_LULL_RESIDENCY=n\n")
    assert "CONFIG_LULL_RESIDENCY=y" not in (out / ".config").read_text()
    objects = ["kernel/sched/core.o", "kernel/fork.o", "fs/exec.o", "mm/hugetlb.o", "mm/memory.o", "mm/mmu_gather.o"]
    builder.compile(print, *objects, "arch/arm64/kernel/process.o", "arch/arm64/mm/")
    nm = [lab.toolchain.nm, "--undefined-only", "-A", *map(str, out.glob("**/*.o"))]
    undefined = subprocess.run(nm, capture_output=True, text=True, check=True).stdout
    assert "check_and_switch_context" in undefined
    own = re.compile(r"\b(?:res_\w+|(?:__)?lull_(?:init_mm|new_asid|load|unload|unpark|flush|is_shared|cpu|found)\b.*)")
    assert own.findall(undefined) == []


def built(lab: Lab, tree: Path, out: Path, fragments: str, what: str) -> Path | None:
    """The image of a kernel; None when it was only configured."""
    builder = build.Builder(Tree(tree, "", lab.pristine.version), lab.toolchain, out, out.with_name("build.log"))
    builder.configure(fragments)
    if os.environ.get("LULL_TEST_SERIES") == "apply":
        return None
    with progress.step(what) as step:
        builder.compile(step.update)
        SUMMARY.append(f"{what}: built in {step.elapsed:.0f} s")
    return out / lab.toolchain.image
