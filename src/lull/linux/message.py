# SPDX-License-Identifier: GPL-2.0-only
"""Convert Markdown to the plain text of a kernel commit message: at most 75 columns, and ``git am`` keeps every line.

Commit messages, the cover letter and README.lull of the packages are made with it. It understands what the notes in
kernel/ use: headings, paragraphs, lists, tables, indented and fenced text.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 75
"""Columns: the longest line of a commit message that checkpatch.pl accepts."""
INDENT = "    "
"""Before each line of literal text and of tables."""
GAP = 2
"""Spaces between the columns of a table."""
MARK = re.compile(r"(\* |- |\d+\. )")
"""The beginning of an item of a list."""


def plain(text: str) -> str:
    """``text`` without Markdown's marks for emphasis, links and code; the text of code is not changed."""
    parts = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split("`")
    parts[::2] = [part.replace("**", "") for part in parts[::2]]
    return "".join(parts).strip()


def split(note: str) -> tuple[str, str]:
    """The first heading of a note, as plain text, and the note's body, still Markdown, without comments.

    The heading is empty when the note does not begin with one.
    """
    lines = re.sub(r"(?s)<!--.*?-->", "", note).strip().splitlines()
    if lines and lines[0].startswith("# "):
        return plain(lines[0].removeprefix("# ").strip()), "\n".join(lines[1:]).strip()
    return "", "\n".join(lines)


def text(markdown: str) -> str:
    """Markdown as plain text, with an empty line between blocks.

    Lines have at most WIDTH columns, except where one word is longer.
    """
    return "\n\n".join("\n".join(map(safe, block)) for block in blocks(markdown.splitlines())).rstrip()


def safe(line: str) -> str:
    """``line``, indented by one column if git would take it for a comment or ``git am`` for the end of the message."""
    return f" {line}" if re.match(r"#|diff -|Index: |---|>?From ", line) else line


def kind(line: str) -> str:
    """The kind of block that a line of Markdown belongs to; empty for an empty line."""
    for begin, name in (("#", "heading"), ("|", "table"), (INDENT, "literal"), ("```", "fence")):
        if line.startswith(begin):
            return name
    return "words" if line.strip() else ""


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield each heading, paragraph, list, table and block of literal text as lines of plain text."""
    fenced = False
    unfenced: list[tuple[str, str]] = []
    for line in lines:
        if kind(line) == "fence":
            fenced = not fenced
        else:
            unfenced.append(("literal", INDENT + line) if fenced else (kind(line), line))
    for name, group in itertools.groupby(unfenced, key=lambda pair: pair[0]):
        block = [line for _, line in group]
        if name == "heading":
            yield from (filled(line.lstrip("# ").rstrip() + ":") for line in block)
        elif name == "table":
            yield table(block)
        elif name == "literal":
            yield literal(block)
        elif name == "words":
            yield [wrapped for item in items(block) for wrapped in filled(item, hanging=MARK.match(item) is not None)]


def items(lines: Sequence[str]) -> Iterator[str]:
    """Yield the paragraph, or each item of the list, in ``lines`` as one line."""
    item: list[str] = []
    for line in lines:
        if MARK.match(line) and item:
            yield " ".join(item)
            item = []
        item.append(line.strip())
    yield " ".join(item)


def filled(words: str, *, indent: str = "", hanging: bool = False) -> list[str]:
    """``words`` wrapped at WIDTH columns; no word is broken.

    Args:
        indent: before each line.
        hanging: indent the lines after the first by two more columns.
    """
    later = indent + "  " * hanging
    return textwrap.wrap(
        plain(words),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def literal(lines: Sequence[str]) -> list[str]:
    """Literal text, unchanged when it fits into WIDTH columns.

    Otherwise each line is read as a term and, after two spaces or more, its meaning, which goes on a line of its own.
    """
    if max(map(len, lines)) <= WIDTH:
        return [line.rstrip() for line in lines]
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        term, _, meaning = line.removeprefix(INDENT).partition("  ")
        if term or not entries:
            entries.append((term, [meaning.strip()]))
        else:
            entries[-1][1].append(meaning.strip())
    found: list[str] = []
    for term, meanings in entries:
        found += filled(term, indent=INDENT, hanging=True)
        found += filled(" ".join(meanings), indent=2 * INDENT)
    return found


def table(lines: Sequence[str]) -> list[str]:
    """A Markdown table as columns of text, or as a list of its rows when a word is too wide for its column."""
    header, _, *rows = [[plain(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    columns = list(zip(header, *rows, strict=True))
    widths = fitted(
        [max(map(len, column)) for column in columns],
        [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns],
    )
    if not widths:
        return [wrapped for row in rows for wrapped in filled(described(header, row), hanging=True)]
    rule = ["-" * width * bool(title) for title, width in zip(header, widths, strict=True)]
    return [line for row in [header, rule, *rows] for line in set_out(row, widths)]


def fitted(natural: Sequence[int], least: Sequence[int]) -> list[int]:
    """Widths of columns that fit into a line together; an empty list when there are none.

    Args:
        natural: the width of the longest cell of each column.
        least: the width of the longest word of each column: no column becomes narrower.
    """
    widths = list(natural)
    while sum(widths) + GAP * (len(widths) - 1) > WIDTH - len(INDENT):
        slack = [width if width > limit else 0 for width, limit in zip(widths, least, strict=True)]
        if not any(slack):
            return []
        widths[slack.index(max(slack))] -= 1
    return widths


def set_out(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The lines of one row of a table, with its cells wrapped at ``widths``."""
    cells = [textwrap.wrap(c, w, break_on_hyphens=False) if c else [] for c, w in zip(row, widths, strict=True)]
    gap = " " * GAP
    return [
        (INDENT + gap.join(f"{part:{width}}" for part, width in zip(line, widths, strict=True))).rstrip()
        for line in itertools.zip_longest(*cells, fillvalue="")
    ]


def described(header: Sequence[str], row: Sequence[str]) -> str:
    """A row of a table as an item of a list: ``* first: header value; header value``."""
    values = [f"{title} {value}".strip() for title, value in zip(header[1:], row[1:], strict=True) if value]
    return f"* {row[0]}: {'; '.join(values)}"
