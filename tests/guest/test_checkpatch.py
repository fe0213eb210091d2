# SPDX-License-Identifier: GPL-2.0-only
"""checkpatch.pl of the kernel's source, on the mails and on the fixes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from support import FIXES

from lull.base import patches_of
from lull.lab import Lab

NOT_OURS = {
    ("arch/arm64/include/asm/tlbflush.h", "PARENTHESIS_ALIGNMENT"),
    ("mm/memory-failure.c", "DEEP_INDENTATION"),
    ("mm/hugetlb_vmemmap.c", "EXPORT_SYMBOL"),  # of a key that DEFINE_STATIC_KEY_MAYBE() defines above it
    ("mm/hugetlb_vmemmap.c", "PARENTHESIS_ALIGNMENT"),  # VISIBLE_IF_KUNIT in place of static, and the next line stays
    ("arch/arm64/mm/context.c", "USLEEP_RANGE"),  # the lab's own, where nothing may sleep
}
"""Where a line follows its neighbours, and they are not as checkpatch.pl would have them now."""
LEFT = "MISSING_SIGN_OFF,FILE_PATH_CHANGES,CAMELCASE,UNKNOWN_COMMIT_ID"
"""A sign-off, and an entry in MAINTAINERS, which a submission fills in; names of Linux's own; commits of no tree."""


def checkpatch(lab: Lab, mails: Iterable[Path], left: str = LEFT) -> str:
    """What checkpatch.pl --strict says of the mails."""
    words = ["--strict", "--no-tree", "--no-summary", "--terse", "--showfile", "--show-types", "--ignore", left]
    command = [lab.pristine.path / "scripts/checkpatch.pl", *words, *mails]
    return subprocess.run(command, capture_output=True, text=True, cwd=lab.pristine.path).stdout


@pytest.mark.bases
def test_checkpatch(lab: Lab) -> None:
    """On each mail, the lab's own too: nothing but of lines like their neighbours."""
    ours = [feature for feature in lab.base.features.values() if feature.only]
    said = checkpatch(lab, (patch.file for patch in patches_of(lab.base.exported().values())))
    said += checkpatch(lab, (patch.file for patch in patches_of(ours)), f"{LEFT},GIT_COMMIT_ID")
    found = re.findall(r"(?m)^(\S+?):\d+: \w+:(\w+): ", said)
    assert set(found) <= NOT_OURS and len(found) == len(said.splitlines()), said


def test_fixes_pass_checkpatch(lab: Lab, tmp_path: Path) -> None:
    """Those of all series. It does not know the line that stable kernels want at the top of a backport."""
    mails = []
    for mail in sorted(FIXES.glob("*.patch")):
        text = re.sub(r"(?m)^commit [0-9a-f]{40} upstream\.$", "Backport.", mail.read_text())
        mails.append(tmp_path / mail.name)
        mails[-1].write_text(text)
        assert re.search(r"(?m)^Fixes: [0-9a-f]{12} |^This patch is for [0-9.]+\.y only\.", text), mail
    assert mails and checkpatch(lab, mails) == ""
