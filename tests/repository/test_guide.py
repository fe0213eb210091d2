# SPDX-License-Identifier: GPL-2.0-only
"""What the documents say of the command line is what the tool has, and the other way round."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest
from support import REPOSITORY

from lull import cli, options
from lull.errors import EXIT_CODES

GUIDE = (REPOSITORY / "docs/guide.md").read_text()
PARTS = (REPOSITORY / "contrib/README.md").read_text()
"""The guide of the optional parts."""
DOCUMENTS = [
    p
    for folder in (".", "docs", "contrib", "guest", "kernel", "checker", "models")
    for p in REPOSITORY.glob(f"{folder}/*.md")
]
OPTION = re.compile(r"(--[a-z][a-z-]*)(?: ([A-Z]+(?: ARGS)?|[a-z0-9]+(?:\|[a-z0-9]+)+))?(?:\](\.\.\.)?)?")
Options = dict[str, tuple[str, bool]]


@pytest.fixture(scope="module")
def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser."""
    return cli.commands_of(cli.build_parser(cli.COMMANDS))


CUT = "[...]"
ABOUT_ALL = ["What is measured where", "Exit codes", "The cache"]
"""The sections behind those of the commands."""
CHEAP = ["run --workload", "list"]
"""How the command lines of the transcripts begin that need neither a guest nor a kernel."""


def sections() -> dict[str, str]:
    """Title -> what stands below it, in both guides."""
    found = [re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:] for text in (GUIDE, PARTS)]
    return {title: text for parts in found for title, text in zip(parts[::2], parts[1::2], strict=True)}


def section(title: str) -> str:
    """A section of the guide."""
    return sections()[title]


def synopsis(name: str) -> str:
    """What the section of a command begins with: its command line, with all options."""
    found = re.match(r"\n((?:    .*\n)+)\n", section(name))
    assert found and found[1].split()[:2] == ["./lull", name]
    return found[1]


def listed(name: str) -> str:
    """The synopsis of a command, behind its name."""
    return " ".join(synopsis(name).split()[2:])


def options_in(text: str) -> Options:
    """Option -> what it takes, and whether it may be repeated."""
    return {name: (value, bool(more)) for name, value, more in OPTION.findall(text)}


def value_of(action: argparse.Action) -> str:
    """What an option or argument takes, as the guide writes it."""
    metavar = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    return str(metavar or "|".join(map(str, action.choices or ()))) if action.nargs != 0 else ""


def own_actions(parser: argparse.ArgumentParser, *, common: bool) -> list[argparse.Action]:
    """A command's actions: those that commands share, or the others."""
    groups = [g for g in parser._action_groups if (g.title == cli.SHARED) == common]
    return [a for g in groups for a in g._group_actions if a.dest != "help"]


def options_of(actions: list[argparse.Action]) -> Options:
    """The same of the parser."""
    return {name: (value_of(a), isinstance(a, argparse._AppendAction)) for a in actions for name in a.option_strings}


def test_the_guide_lists_every_command() -> None:
    """With a section, and no other, in the order of --help; and all of them in the table."""
    own = [name for name in cli.COMMANDS if name not in cli.OPTIONAL_COMMANDS]
    assert list(sections()) == ["Commands", *own, *ABOUT_ALL, *cli.OPTIONAL_COMMANDS]
    assert re.findall(r"\[(\w+)\]\(#\1\)", section("Commands")) == own
    assert re.findall(r"\[(\w+)\]\(\.\./contrib/README\.md#\1\)", section("Commands")) == list(cli.OPTIONAL_COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_guide_lists_every_option(commands: dict[str, argparse.ArgumentParser], name: str) -> None:
    """With what it takes and whether it may be repeated; and no other."""
    actions = own_actions(commands[name], common=False)
    assert options_in(listed(name)) == options_of(actions)
    forms = {"*": "[{}]", "?": "[{}]", "+": "{}..."}
    arguments = [forms.get(str(a.nargs), "{}").format(value_of(a)) for a in actions if not a.option_strings]
    rest = re.sub(r"\[--[a-z][^]]*\](\.\.\.)?|--[a-z][a-z-]*( [A-Z]+\b)?( ARGS)?", "", listed(name)).split()
    assert " ".join(rest) == " ".join(arguments)


def test_the_guide_lists_the_shared_options(commands: dict[str, argparse.ArgumentParser]) -> None:
    """In the table of them, each with what it takes and the commands that refuse it."""
    rows = re.findall(r"^\| `(--[^`]+)` \| .+ \| ([^|]+) \|$", section("Commands"), re.MULTILINE)
    shared = own_actions(commands["run"], common=True)
    assert options_in(" ".join(option for option, _ in rows)) == options_of(shared)
    for option, refusing in rows:
        name = option.split()[0]
        assert refusing.split(", ") == sorted(c for c in cli.COMMANDS if name in cli.refused(c)), name


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_says_something_of_every_option(commands: dict[str, argparse.ArgumentParser], name: str) -> None:
    """All of them are in --help, and none without words."""
    shown = commands[name].format_help()
    for action in commands[name]._actions:
        assert action.help or not action.option_strings, f"{name} {action.option_strings} has no help"
        assert all(option in shown for option in action.option_strings)


def test_the_guide_lists_every_exit_code() -> None:
    """The same codes as the tool's own table."""
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)]
    assert codes == list(EXIT_CODES)


def examples() -> list[tuple[str, str]]:
    """Command lines in the documents, without what explains them or takes their output: (file, words behind ./lull).

    A document may define a shell variable, of one capital letter.
    """
    found = set()
    for path in DOCUMENTS:
        text = path.read_text()
        for name in cli.COMMANDS:
            text = text.replace(synopsis(name), "")
        text = text.replace("\\\n", " ")
        for name, value in re.findall(r'`([A-Z])="(.*?)"`', text):
            text = text.replace(f" ${name} ", f" {value} ")
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
        commands[name].parse_args([word for word in options.behind(rest)[0] if word != "--help"])


def transcripts(text: str) -> list[tuple[str, list[str]]]:
    """What was typed in the fenced blocks of ``text``, and what was printed."""
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    pieces = [piece for block in blocks for piece in re.split(r"^\$ (?!lull )", block, flags=re.MULTILINE)]
    return [(lines[0], lines[1:]) for piece in pieces if (lines := piece.splitlines())]


def words_of(typed: str) -> str:
    """Of ``./lull WORDS | MORE`` the words; nothing for another program."""
    return typed.removeprefix("./lull ").partition(" | ")[0] if typed.startswith("./lull ") else ""


def test_everything_typed_printed_something() -> None:
    """A block begins with what was typed, and there is more behind it than a mark that all was cut."""
    assert GUIDE.count("```\n") == GUIDE.count("```\n$ ") * 2
    silent = [typed for typed, printed in transcripts(GUIDE) if not any(line not in ("", CUT) for line in printed)]
    assert silent == []


def test_what_was_typed_are_command_lines() -> None:
    """The examples, which are given to the parser, have every line that was typed."""
    parsed = {words for document, words in examples() if document == "docs/guide.md"}
    assert {words for typed, _ in transcripts(GUIDE) if (words := words_of(typed))} <= parsed


def test_no_machine_is_named() -> None:
    """No folder of whose machine it was."""
    assert re.findall(r"/(?:root|tmp|home)\b.*", GUIDE) == []


@pytest.mark.parametrize("beginning", CHEAP)
def test_cheap_commands_print_what_stands_there(beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, in that order."""
    (found,) = ((typed, printed) for typed, printed in transcripts(GUIDE) if words_of(typed).startswith(beginning))
    typed, shown = found
    cli.main(shlex.split(words_of(typed)))
    printed = "".join(capsys.readouterr()).splitlines()
    kept = [line for line in shown if line and line != CUT]
    assert [line for line in printed if line in kept] == kept
