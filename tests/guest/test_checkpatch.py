# SPDX-License-Identifier: GPL-2.0-only
"""checkpatch.pl of the kernel's source, on features and on the series."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lull import base as bases
from lull.lab import Lab
from lull.linux import export

NOT_OURS = {
    "arch/arm64/include/asm/tlbflush.h": "PARENTHESIS_ALIGNMENT",
    "arch/arm64/include/asm/smp.h": "AVOID_EXTERNS",
    "arch/arm64/kernel/cpufeature.c": "LONG_LINE",
    "mm/memory-failure.c": "DEEP_INDENTATION",
    "mm/hugetlb_vmemmap.c": "EXPORT_SYMBOL",  # of a key that DEFINE_STATIC_KEY_MAYBE() defines above it
}
"""Where a line follows its neighbours, and they are not as checkpatch.pl would have them now."""


@pytest.mark.bases
def test_features_pass_checkpatch(lab: Lab, tmp_path: Path) -> None:
    """checkpatch.pl --strict on every file and hook of every feature. Linux has CamelCase of its own."""
    tree = lab.pristine.path
    for patch in bases.patches_of(lab.base.features.values()):
        files = list(patch.files().values())
        done = subprocess.run(
            [
                tree / "scripts/checkpatch.pl",
                "--strict",
                "--no-tree",
                "--no-summary",
                "--terse",
                "--ignore",
                "FILE_PATH_CHANGES,CAMELCASE",
                "-f",
                *files,
            ],
            capture_output=True,
            text=True,
            cwd=tree,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.bases
def test_checkpatch(lab: Lab, tmp_path: Path) -> None:
    """checkpatch.pl --strict on each mail: only what a submission fills in, and lines like their neighbours."""
    mails = [mail for found in export.export(lab.pristine, lab.base, tmp_path / "out").values() for mail in found[1:]]
    left = "MISSING_SIGN_OFF,FILE_PATH_CHANGES"  # a sign-off; an entry in MAINTAINERS
    words = ["--strict", "--no-tree", "--no-summary", "--terse", "--showfile", "--show-types"]
    script = lab.pristine.path / "scripts/checkpatch.pl"
    done = subprocess.run(
        [script, *words, "--ignore", f"{left},CAMELCASE", *mails], capture_output=True, text=True, cwd=lab.pristine.path
    )
    said = re.findall(r"(?m)^(\S+?):\d+: \w+:(\w+): ", done.stdout)
    assert set(said) <= set(NOT_OURS.items()), done.stdout
    assert len(said) == len(done.stdout.splitlines()), done.stdout


def test_fixes_pass_checkpatch(lab: Lab, tmp_path: Path) -> None:
    """checkpatch.pl --strict on the fixes of all series: a sign-off is missing, and commits are not known.

    It does not know the line that stable kernels want at the top of a backport, either.
    """
    mails = []
    for mail in sorted(export.FIXES.glob("*.patch")):
        text = re.sub(r"(?m)^commit [0-9a-f]{40} upstream\.$", "Backport.", mail.read_text())
        mails.append(tmp_path / mail.name)
        mails[-1].write_text(text)
        assert re.search(r"(?m)^Fixes: [0-9a-f]{12} |^This patch is for [0-9.]+\.y only\.", text), mail
    words = ["--strict", "--no-tree", "--no-summary", "--terse", "--show-types"]
    left = "MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID"
    done = subprocess.run(
        [lab.pristine.path / "scripts/checkpatch.pl", *words, "--ignore", left, *mails],
        capture_output=True,
        text=True,
        cwd=lab.pristine.path,
    )
    assert mails and done.stdout + done.stderr == ""
