# SPDX-License-Identifier: GPL-2.0-only
"""The manual page, in man's own format (groff_man(7)), from the parser and the tables of exit codes and variables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from lull import __version__
from lull.errors import EXIT_CODES

DESCRIPTION = (
    "Fetches a pristine Linux, applies Lull's features, builds it, boots stock and Lull kernels side by side in QEMU,\n"
    "counts the TLBIs and barriers that workloads take, checks every translation against a TLB that forgets nothing,\n"
    "and compares. It is run from its repository, as ./lull.\n"
    "Kernels are named stock, lull, lull+FEATURE=POLICY, lull-FEATURE (off) and lull+only=FEATURE (all others off).\n"
    "An interrupted command resumes when it is given again."
)
FILES = {
    "$LULL_CACHE": "all that was fetched and built, by content; removable at any time",
    "$LULL_CACHE/defect.log": "where the tool itself went wrong last",
    "results/NNN": "results of a command that was given no --out: results.json and comparison.md, or check.json, "
    "soak.json, selftests.json; consoles, counts, command lines",
}
SEE_ALSO = (
    "qemu-system-aarch64(1), git-am(1). In the repository: README.md, docs/guide.md (every command and file), "
    "docs/checker.md, docs/results.md, guest/README.md (the workloads)."
)


def quoted(text: str) -> str:
    """``text`` as roff shows it unchanged: its dashes can be copied, no line of it is a request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in safe.split("\n"))


def heading(action: argparse.Action) -> str:
    """How an option or argument is written: ``--kernel K``."""
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    shown = f"\\fI{quoted(str(value or action.dest.upper()))}\\fR" if action.nargs != 0 else ""
    names = ", ".join(f"\\fB{quoted(name)}\\fR" for name in action.option_strings)
    return f"{names} {shown}".strip()


def entry(term: str, text: str) -> str:
    """A tagged paragraph; ``term`` is roff, ``text`` is not."""
    return f".TP\n{term}\n{quoted(text)}"


def entries(found: Mapping[str, str]) -> str:
    """A tagged paragraph each."""
    return "\n".join(entry(f"\\fB{quoted(name)}\\fR", text) for name, text in found.items())


def options(actions: list[argparse.Action]) -> list[str]:
    """A tagged paragraph for each, but for ``--help``, which every command has."""
    return [entry(heading(a), (a.help or "") % vars(a)) for a in actions if a.dest != "help"]


def command(name: str, parser: argparse.ArgumentParser, common: str) -> str:
    """The section of a command; options in the group ``common`` are left out."""
    own = [a for group in parser._action_groups if group.title != common for a in group._group_actions]
    arguments = " ".join(heading(a) for a in own if not a.option_strings)
    lines = [f".SS lull {quoted(name)} {arguments}".rstrip(), quoted(parser.description or ""), *options(own)]
    if parser.epilog:
        lines += [".PP", ".nf", quoted(parser.epilog), ".fi"]
    return "\n".join(lines)


def page(
    parser: argparse.ArgumentParser,
    commands: Mapping[str, argparse.ArgumentParser],
    common: str,
    environment: Mapping[str, str],
) -> str:
    """lull(1).

    Args:
        parser: the whole parser.
        commands: its commands, by name, with all their options.
        common: title of the group of options that all commands have.
        environment: variables, and what they do.
    """
    about = (parser.description or "").removeprefix("Lull: ").rstrip(".")
    shared = next(g._group_actions for g in next(iter(commands.values()))._action_groups if g.title == common)
    codes = {str(code): text for code, text in EXIT_CODES.items()}
    parts = {
        "NAME": f"lull \\- {quoted(about)}",
        "SYNOPSIS": ".B lull\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.br\n.B lull\n\\fICOMMAND\\fR \\fB\\-\\-help\\fR",
        "DESCRIPTION": quoted(DESCRIPTION),
        "COMMANDS": "\n".join(command(name, sub, common) for name, sub in commands.items()),
        "OPTIONS OF EVERY COMMAND": "\n".join(options(shared)),
        "EXIT STATUS": entries(codes),
        "ENVIRONMENT": entries(environment),
        "FILES": entries(FILES),
        "SEE ALSO": quoted(SEE_ALSO),
    }
    sections = "\n".join(f".SH {title}\n{text}" for title, text in parts.items())
    # Names of kernels and options are to be copied: no word is divided, and lines are not filled up.
    return f'.TH LULL 1 "" "lull {quoted(__version__)}" "Lull"\n.nh\n.ad l\n{sections}\n'
