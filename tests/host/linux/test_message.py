# SPDX-License-Identifier: GPL-2.0-only
"""Notes as commit messages: plain, narrow, whole, and nothing that git takes for something else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lull import base as bases
from lull.linux import message

PATCHES = bases.patches_of(bases.load().exported().values())
NOTE = """\
<!-- SPDX-License-Identifier: GPL-2.0-only -->
# mm: do `less`

Words **that are strong**, `code *as it is*`, and a [link](docs/x.md) of some
length, so that they have to be wrapped anew, at a width that messages have.

## Why

* **First**: an item that goes on and on until it needs a second line, which
  is set in
* second

| who | what |
|---|---|
| `a` | a cell that says far more than a line can hold, so that it is wrapped within its own column |

    /sys/kernel/mm/lull/x               read it, or write one of its policies: that is a line wider than any mail
                                        and one more
    x_total                             a counter
"""


def test_a_note() -> None:
    """Every form that notes have."""
    subject, body = message.split(NOTE)
    assert subject == "mm: do less"
    assert message.text(body) == (
        """\
Words that are strong, code *as it is*, and a link of some length, so that
they have to be wrapped anew, at a width that messages have.

Why:

* First: an item that goes on and on until it needs a second line, which is
  set in
* second

    who  what
    ---  ------------------------------------------------------------------
    a    a cell that says far more than a line can hold, so that it is
         wrapped within its own column

    /sys/kernel/mm/lull/x
        read it, or write one of its policies: that is a line wider than
        any mail and one more
    x_total
        a counter"""
    )


def test_a_table_that_cannot_be_one_is_a_list() -> None:
    """Words are never broken, and no cell is lost."""
    header = "| " + " | ".join(f"a_long_heading_{n}" for n in range(6)) + " |"
    row = "| first | 1 | 2 | | 4 | 5 |"
    found = message.text(f"{header}\n|---|---|---|---|---|---|\n{row}").splitlines()
    assert found[0] == "* first: a_long_heading_1 1; a_long_heading_2 2; a_long_heading_4 4;"
    assert found[1] == "  a_long_heading_5 5"


@pytest.mark.parametrize("patch", PATCHES, ids=[p.name for p in PATCHES])
def test_real_notes(patch: bases.Patch) -> None:
    """Of each note all words are there, in lines that are narrow enough; and none is taken for something else."""
    subject, body = message.split((patch.folder / "NOTE.md").read_text())
    found = message.text(body)
    assert re.match(r"[a-z0-9_/-]+: ", subject) and len(subject) <= 75
    assert max(map(len, found.splitlines())) <= message.WIDTH
    assert not [line for line in found.splitlines() if re.match(r"#|---|diff -|Index: |From |[|]", line)]
    wanted = set(re.findall(r"[\w./()]+", message.plain(re.sub(r"\]\([^)]*\)", "]", body))))
    assert not wanted - set(re.findall(r"[\w./()]+", found))


@given(
    st.lists(st.sampled_from(["# x", "---", "--- a/b", "diff -r", "Index: x", "From here", ">From", "#if", "word", ""]))
)
def test_nothing_ends_a_message(lines: list[str]) -> None:
    """Whatever a note has, git am does not take a line of it for the beginning of a patch, nor git for a comment."""
    for line in message.text("\n".join(lines)).splitlines():
        assert not re.match(r"#|---|diff -|Index: |>?From ", line)
