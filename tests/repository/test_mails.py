# SPDX-License-Identifier: GPL-2.0-only
"""The mails that people get: what they may not have in them, and how much a reader can take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lull import base as bases
from lull.base import Feature
from lull.linux import series
from lull.paths import REPOSITORY

FEATURES = [feature for name in bases.known() for feature in bases.load_base(name).exported().values()]
NAMES = [f"{feature.folder.parent.name}-{feature.name}" for feature in FEATURES]
MESSAGE, LETTER, CHANGES, WIDTH = 60, 80, 150, 75
"""The most lines of a message, of a letter and of a patch, and characters of a line."""
TESTS = "tests alone, which are read one by one"
KNOWN = {
    "gather/arm64-tlb-test-flushes-of-scattered-pages-with-KUnit": TESTS,
    "reclaim/arm64-mm-test-the-batches-of-reclaim-with-KUnit": TESTS,
    "residency/arm64-mm-know-what-each-CPU-has-loaded": "six lines document the boot parameter",
    "residency/arm64-mm-test-residency-with-KUnit": TESTS,
    "residency/arm64-mm-test-residency-with-loads-and-flushes-at-on": TESTS,
    "residency/arm64-mm-test-what-residency-notes-step-by-step": TESTS,
    "teardown/mm-test-giving-memory-back-with-KUnit": TESTS,
    "vmemmap/arm64-mm-let-HugeTLB-pages-give-back-their-struct-pa": "no part does anything without the rest",
    "vmemmap/arm64-mm-test-HVO-with-KUnit": TESTS,
    "vmemmap/arm64-mm-test-with-KUnit-HVO-that-fails-or-waits": TESTS,
}
"""Patches with more changes, and why."""


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


def test_patches_can_be_reviewed() -> None:
    """None changes more lines than a reader can take, but for those that are known."""
    sizes = [(one.title, len(re.findall(r"(?m)^[-+](?![-+]{2} )", one.diff()))) for one in bases.patches_of(FEATURES)]
    assert all(size > 0 for _, size in sizes)
    assert {title for title, size in sizes if size > CHANGES} == KNOWN.keys()
