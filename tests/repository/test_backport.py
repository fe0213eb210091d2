# SPDX-License-Identifier: GPL-2.0-only
"""Patches are written for one base; a backport has every change of them, or somebody has seen that it needs none."""

from __future__ import annotations

import re
from difflib import unified_diff

import pytest

from lull import base as bases
from lull.base import Base, patches_of
from lull.linux import series


def changes(base: Base, title: str) -> list[str]:
    """What the patches of this title change, without line numbers."""
    found = (patch.diff() for patch in patches_of(base.exported().values()) if patch.title == title)
    return re.sub(r"(?m)^@@ .*? @@", "@@", "".join(found)).splitlines()


@pytest.mark.parametrize("name", [name for name in bases.known() if bases.load_base(name).of])
def test_a_backport_has_what_changed(name: str) -> None:
    """Each patch was compared with the one of the same name as it is now; of those that differ, the difference."""
    base = bases.load_base(name)
    origin, now = bases.load_base(base.of), series.backported(base)
    assert now and now.text
    before = now.path.read_text() if now.path.exists() else ""
    stale = {line.split()[0] for line in set(before.splitlines()) ^ set(now.text.splitlines())}
    for title in sorted(stale):
        both = (changes(one, title) for one in (origin, base))
        print(*unified_diff(*both, f"{origin.name}: {title}", f"{name}: {title}", n=1, lineterm=""), sep="\n")
    assert not stale, (
        f"changed since they were compared: {', '.join(sorted(stale))}. Bring the change to {name}, as far as it is to "
        f"have it: './lull tree --base {name} DIR', and then './lull save --base {name} DIR', which notes it. Where it "
        f"needs nothing, delete the line of {now.path} first"
    )
