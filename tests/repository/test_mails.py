# SPDX-License-Identifier: GPL-2.0-only
"""The mails that people get: what they may not have in them, and how much a reader can take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lull import base as bases
from lull.base import Feature, Patch
from lull.linux import series
from lull.linux.hunks import name_of, sections_of
from lull.paths import REPOSITORY

FEATURES = [feature for name in bases.known() for feature in bases.load_base(name).exported().values()]
NAMES = [f"{feature.folder.parent.name}-{feature.name}" for feature in FEATURES]
MESSAGE, LETTER, CHANGES, AROUND, WIDTH = 60, 80, 150, 20, 75
"""The most lines of a message, of a letter, of a patch, of one with tests beside these; and characters of a line."""
KNOWN = {
    "arm64-mm-know-what-each-CPU-has-loaded": "six lines document the boot parameter",
    "arm64-mm-let-HugeTLB-pages-give-back-their-struct-pa": "no part does anything without the rest",
}
"""Patches with more changes, and why. Tests, which are read one by one, may have more."""


def narrow(lines: list[str]) -> bool:
    """Return true if every line has room in a mail; addresses and Fixes: lines cannot be broken."""
    return all(len(line) <= WIDTH or "://" in line or line.startswith("Fixes: ") for line in lines)


@pytest.mark.parametrize("feature", FEATURES, ids=NAMES)
def test_mails_can_be_read(feature: Feature) -> None:
    """Messages and the letter are short and narrow; nobody who gets them has heard of the lab."""
    title, _, *text = series.description(feature.letter).splitlines()
    assert 0 < len(text) <= LETTER and narrow(text) and len(title) <= WIDTH
    for patch in feature.patches:
        message = patch.file.read_text().partition("\n\n")[2].partition("\n---\n")[0].splitlines()
        assert 0 < len(message) <= MESSAGE and narrow(message), patch.name
        assert re.match(r"[\w/-]+: \S.*[^.]$", patch.subject) and len(patch.subject) <= WIDTH, patch.name
    named = [Path(file).name for file in feature.folder.iterdir() if "lull" in file.read_text().lower()]
    assert named == []


def test_fixes_can_be_read() -> None:
    """The messages of fixes are as short."""
    texts = {fix.name: fix.read_text() for fix in (REPOSITORY / "fixes").glob("*.patch")}
    messages = {name: text.partition("\n\n")[2].partition("\n---\n")[0] for name, text in texts.items()}
    assert messages and [name for name, text in messages.items() if text.count("\n") >= MESSAGE] == []


def size(patch: Patch, *, tests: bool = True) -> int:
    """How many lines it changes, or how many outside of KUnit tests."""
    sections = [one for one in sections_of(patch.diff()) if tests or not re.search(r"_test\.[ch]$", name_of(one))]
    return len(re.findall(r"(?m)^[-+](?![-+]{2} )", "".join(sections)))


def test_patches_can_be_reviewed() -> None:
    """None changes more lines than a reader can take, but for those that are known."""
    assert all(size(one) > 0 for one in bases.patches_of(FEATURES))
    large = [one for one in bases.patches_of(FEATURES) if size(one) > CHANGES and size(one, tests=False) > AROUND]
    assert {one.title.partition("/")[2] for one in large} == KNOWN.keys()
