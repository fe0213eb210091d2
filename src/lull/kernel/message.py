# SPDX-License-Identifier: GPL-2.0-only
"""Markdown as the plain text of a mail: what the kernel expects of a commit message, and what ``git am`` keeps whole.

Understood is what the notes in kernel/ use: headings, paragraphs, lists, tables, indented and fenced text.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 75
"""The longest line that checkpatch.pl lets a message have."""
INDENT = "    "
GAP = 2
MARK = re.compile(r"(\* |- |\d+\. )")
"""How an item of a list begins."""


def plain(text: str) -> str:
    """``text`` without Markdown's marks: emphasis, links, backquotes; what is in backquotes is kept as it is."""
    parts = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split("`")
    parts[::2] = [part.replace("**", "") for part in parts[::2]]
    return "".join(parts).strip()


def split(note: str) -> tuple[str, str]:
    """A note's first heading, as plain text, and its body, still Markdown; comments are left out."""
    lines = re.sub(r"(?s)<!--.*?-->", "", note).strip().splitlines()
    if lines and lines[0].startswith("# "):
        return plain(lines[0].removeprefix("# ").strip()), "\n".join(lines[1:]).strip()
    return "", "\n".join(lines)


def text(markdown: str) -> str:
    """Markdown as plain text of at most WIDTH columns, where words allow it; blocks have an empty line between them."""
    return "\n\n".join("\n".join(map(safe, block)) for block in blocks(markdown.splitlines())).rstrip()


def safe(line: str) -> str:
    """A line that neither ends the message for ``git am`` nor is a comment for git: it is set in by a column."""
    return f" {line}" if re.match(r"#|diff -|Index: |---|>?From ", line) else line


def kind(line: str) -> str:
    """What a line of Markdown is part of."""
    for begin, name in (("#", "heading"), ("|", "table"), (INDENT, "literal"), ("```", "fence")):
        if line.startswith(begin):
            return name
    return "words" if line.strip() else ""


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Each heading, paragraph, list, table and block of literal text, as lines of plain text."""
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
    """The paragraph, or each item of the list, in ``lines``, as one line."""
    item: list[str] = []
    for line in lines:
        if MARK.match(line) and item:
            yield " ".join(item)
            item = []
        item.append(line.strip())
    yield " ".join(item)


def filled(words: str, *, indent: str = "", hanging: bool = False) -> list[str]:
    """A line as lines of at most WIDTH columns; no word is broken."""
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
    """Text that stands as it is; where that is too wide, a term and what it means are set below each other."""
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
    """A Markdown table as columns; where words do not fit into those, as a list of its rows."""
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
    """The widths of columns, as much less than ``natural`` as a line asks for; none when ``least`` is too much."""
    widths = list(natural)
    while sum(widths) + GAP * (len(widths) - 1) > WIDTH - len(INDENT):
        slack = [width if width > limit else 0 for width, limit in zip(widths, least, strict=True)]
        if not any(slack):
            return []
        widths[slack.index(max(slack))] -= 1
    return widths


def set_out(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row of a table, its cells wrapped at these widths, as lines."""
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
