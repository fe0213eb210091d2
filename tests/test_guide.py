# SPDX-License-Identifier: GPL-2.0-only
"""What the documents say of the command line is what the tool has, and the other way round."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest
from support import REPOSITORY

from lull import cli
from lull.errors import EXIT_CODES

GUIDE = (REPOSITORY / "docs/guide.md").read_text()
DOCUMENTS = [
    p for folder in (".", "docs", "guest", "kernel", "checker", "models") for p in REPOSITORY.glob(f"{folder}/*.md")
]
OPTION = re.compile(r"(--[a-z][a-z-]*)(?: ([A-Z]+|[a-z0-9]+(?:\|[a-z0-9]+)+))?(?:\](\.\.\.)?)?")
Options = dict[str, tuple[str, bool]]


@pytest.fixture(scope="module")
def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser."""
    return cli.commands_of(cli.build_parser(cli.COMMANDS))


def section(title: str) -> str:
    """A section of the guide."""
    return GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed() -> dict[str, str]:
    """The guide's list of commands: name -> what stands behind it."""
    block = "\n".join(line for line in section("Commands").splitlines() if line.startswith("    "))
    block = block.partition("    $ ")[0]
    return {
        name: " ".join(rest.split()) for name, rest in re.findall(r"\./lull (\S+)((?:(?!\./lull).)*)", block, re.DOTALL)
    }


def options_in(text: str) -> Options:
    """Option -> what it takes, and whether it may be repeated."""
    return {name: (value, bool(more)) for name, value, more in OPTION.findall(text)}


def value_of(action: argparse.Action) -> str:
    """What an option or argument takes, as the guide writes it."""
    return str(action.metavar or "|".join(map(str, action.choices or ()))) if action.nargs != 0 else ""


def own_actions(parser: argparse.ArgumentParser, *, common: bool) -> list[argparse.Action]:
    """A command's actions: those that all commands have, or the others."""
    groups = [g for g in parser._action_groups if (g.title == cli.EVERYWHERE) == common]
    return [a for g in groups for a in g._group_actions if a.dest != "help"]


def options_of(actions: list[argparse.Action]) -> Options:
    """The same of the parser."""
    return {name: (value_of(a), isinstance(a, argparse._AppendAction)) for a in actions for name in a.option_strings}


def test_the_guide_lists_every_command() -> None:
    """And no other, in the order of --help."""
    assert list(listed()) == list(cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_guide_lists_every_option(commands: dict[str, argparse.ArgumentParser], name: str) -> None:
    """With what it takes and whether it may be repeated; and no other."""
    actions = own_actions(commands[name], common=False)
    assert options_in(listed()[name]) == options_of(actions)
    forms = {"*": "[{}]", "?": "[{}]", "+": "{}..."}
    arguments = [forms.get(str(a.nargs), "{}").format(value_of(a)) for a in actions if not a.option_strings]
    rest = re.sub(r"\[--[a-z][^]]*\](\.\.\.)?|--[a-z][a-z-]*", "", listed()[name]).split()
    assert " ".join(rest) == " ".join(arguments)


def test_the_guide_lists_the_common_options(commands: dict[str, argparse.ArgumentParser]) -> None:
    """In the sentence that begins with Everywhere."""
    sentence = section("Commands").partition("\nEverywhere: ")[2].partition("\n\n")[0]
    assert options_in(sentence) == options_of(own_actions(commands["run"], common=True))


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_says_something_of_every_option(commands: dict[str, argparse.ArgumentParser], name: str) -> None:
    """All of them are in --help, and none without words."""
    shown = commands[name].format_help()
    for action in commands[name]._actions:
        assert action.help or not action.option_strings, f"{name} {action.option_strings} has no help"
        hidden = action.help == argparse.SUPPRESS
        assert all((option in shown) != hidden for option in action.option_strings)


def test_the_guide_lists_every_exit_code() -> None:
    """The same codes as the tool's own table."""
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)]
    assert codes == list(EXIT_CODES)


def examples() -> list[tuple[str, str]]:
    """Command lines in the documents, without what explains them or takes their output: (file, words behind ./lull)."""
    found = set()
    for path in DOCUMENTS:
        text = path.read_text().replace(section("Commands"), "").replace("\\\n", " ")
        for line in re.findall(r"(?:^|    |\$ |`)\./lull ([^`\n]*)", text, re.MULTILINE):
            words = re.split(r" {3,}| [|>]", line.strip())[0]
            if words.split()[0] != "COMMAND":
                found.add((str(path.relative_to(REPOSITORY)), words))
    return sorted(found)


@pytest.mark.parametrize(("document", "words"), examples())
def test_examples_in_the_documents_are_command_lines(
    commands: dict[str, argparse.ArgumentParser], document: str, words: str
) -> None:
    """The tool takes them: commands and options that exist, with values where they need one."""
    name, *rest = shlex.split(words)
    assert name in commands
    if rest:
        commands[name].parse_args([word for word in rest if word != "--help"])
