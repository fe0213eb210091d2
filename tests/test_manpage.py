# SPDX-License-Identifier: GPL-2.0-only
"""The manual page: without a warning from who renders it, and with everything in it."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess

import pytest
from support import Tool

from lull import cli, manpage
from lull.errors import EXIT_CODES


@pytest.fixture(scope="module")
def page() -> str:
    """The page's source."""
    parser = cli.build_parser(cli.COMMANDS)
    return manpage.page(parser, cli.commands_of(parser), cli.EVERYWHERE, cli.ENVIRONMENT)


def rendered(page: str) -> str:
    """The page as a reader has it, without bold and italics. Any warning fails."""
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-ww"], input=page, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_everything_is_in_it(page: str) -> None:
    """Sections, commands with their options, exit codes, variables."""
    text = rendered(page)
    sections = re.findall(r"^([A-Z][A-Z ]+)$", text, re.MULTILINE)
    assert sections == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS OF EVERY COMMAND", "EXIT STATUS", "ENVIRONMENT",
        "FILES", "SEE ALSO",
    ]  # fmt: skip
    for name, parser in cli.commands_of(cli.build_parser(cli.COMMANDS)).items():
        own = text.partition(f"\n   lull {name}")[2].partition("\n   lull ")[0]
        common = text.partition("OPTIONS OF EVERY COMMAND")[2]
        for option in {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}:
            assert f"\n       {option}" in own + common, f"{name} {option}"
    for code, words in EXIT_CODES.items():
        assert re.search(rf"\n       {code} +{words.split()[0]}", text)
    for name in cli.ENVIRONMENT:
        assert f"\n       {name}" in text


def test_text_stays_text() -> None:
    """What roff would take for a request, an escape or a hyphen is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--back", metavar="A\\B", help=".SH of 5 %% --dry\n'quoted")
    (entry,) = manpage.options(parser._actions)
    assert entry == ".TP\n\\fB\\-\\-back\\fR \\fIA\\eB\\fR\n\\&.SH of 5 % \\-\\-dry\n\\&'quoted"


def test_the_command_prints_it(tool: Tool, page: str) -> None:
    """Whole, and nothing else."""
    done = tool("man")
    assert (done.returncode, done.stdout, done.stderr) == (0, page, "")
