# SPDX-License-Identifier: GPL-2.0-only
"""docs/transcripts.md shows every command with what it printed; what takes no kernel still prints that."""

from __future__ import annotations

import re
import shlex

import pytest
import test_guide
from support import REPOSITORY

from lull import cli

PAGE = "docs/transcripts.md"
TEXT = (REPOSITORY / PAGE).read_text()
CUT = "[...]"
ABOUT_ALL = ["Interrupted, and resumed", "Errors"]
"""The sections behind those of the commands."""
CHEAP = ["completion", "run --workload", "list"]
"""What the transcripts begin with that need neither a guest nor a kernel."""


def sections() -> dict[str, str]:
    """Title -> what stands below it."""
    parts = re.split(r"^## (.+)\n", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def transcripts(text: str) -> list[tuple[str, list[str]]]:
    """What was typed in the fenced blocks of ``text``, and what was printed."""
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    pieces = [piece for block in blocks for piece in re.split(r"^\$ (?!lull )", block, flags=re.MULTILINE)]
    return [(lines[0], lines[1:]) for piece in pieces if (lines := piece.splitlines())]


def words_of(typed: str) -> str:
    """Of ``./lull WORDS | MORE`` the words; nothing for another program."""
    return typed.removeprefix("./lull ").partition(" | ")[0] if typed.startswith("./lull ") else ""


def test_every_command_has_its_section() -> None:
    """In the order of the guide; in each the command is typed."""
    found = sections()
    assert list(found) == [*test_guide.listed(), *ABOUT_ALL]
    for name in cli.COMMANDS:
        assert name in {words_of(typed).partition(" ")[0] for typed, _ in transcripts(found[name])}, name


def test_everything_typed_printed_something() -> None:
    """A block begins with what was typed, and there is more behind it than a mark that all was cut."""
    assert TEXT.count("```\n") == TEXT.count("```\n$ ") * 2
    silent = [typed for typed, printed in transcripts(TEXT) if not any(line not in ("", CUT) for line in printed)]
    assert silent == []


def test_what_was_typed_are_command_lines() -> None:
    """test_guide gives the examples of all documents to the parser; no line of this page escapes it."""
    parsed = {words for document, words in test_guide.examples() if document == PAGE}
    assert {words for typed, _ in transcripts(TEXT) if (words := words_of(typed))} == parsed


def test_no_machine_is_named() -> None:
    """No folder of whose machine it was."""
    assert re.findall(r"/(?:root|tmp|home)\b.*", TEXT) == []


@pytest.mark.parametrize("beginning", CHEAP)
def test_cheap_commands_print_what_stands_there(beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, in that order."""
    (found,) = ((typed, printed) for typed, printed in transcripts(TEXT) if words_of(typed).startswith(beginning))
    typed, shown = found
    cli.main(shlex.split(words_of(typed)))
    printed = "".join(capsys.readouterr()).splitlines()
    kept = [line for line in shown if line and line != CUT]
    assert [line for line in printed if line in kept] == kept
