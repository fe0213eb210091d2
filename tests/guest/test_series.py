# SPDX-License-Identifier: GPL-2.0-only
"""The series on the real source: each step builds and boots."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import SUMMARY, apply_mails, git

from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.lab import Lab
from lull.linux import build, export, series
from lull.linux.tree import Tree
from lull.progress import progress


@pytest.mark.whole
def test_each_step_builds_and_boots(lab: Lab, tmp_path: Path) -> None:
    """git am on the real source gives what 'lull tree' makes; on the way there, each kernel boots to init."""
    mails = export.export(lab.pristine, lab.base, tmp_path / "mails")[1:]
    tree = tmp_path / "tree"
    series.make_tree(lab.pristine, list(lab.base.exported().values()), tree)
    assert apply_mails(tree, tmp_path / "mails") == git(tree, "rev-parse", f"{series.BRANCH}^{{tree}}")
    out = tmp_path / "objects"
    out.mkdir()
    fragments = build.fragments_text(lab.base.kernels["lull"].fragments)
    for number, mail in enumerate(mails, 1):
        git(tree, "checkout", "-q", f"mails~{len(mails) - number}")
        builder = build.Builder(Tree(tree, "", lab.pristine.version), lab.toolchain, out, tmp_path / f"{number}.log")
        with progress.step(mail.name) as step:
            builder.configure(fragments)
            builder.compile(step.update)
            seconds = step.elapsed
        guest = lab.guest_of(out / build.IMAGE, Machine(vcpus=2), "", None)
        boot = launch_retrying(
            guest, "program true\n", tmp_path / f"boot-{number}", job_seconds=lambda n: 60, tell=print, say=print
        )
        assert boot.done == 0, mail.name
        SUMMARY.append(f"{mail.name}: built in {seconds:.0f} s, booted")
