# SPDX-License-Identifier: GPL-2.0-only
"""The command line: the options that commands share, one module of lull.commands per subcommand."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import textwrap
import traceback
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import takewhile
from types import ModuleType
from typing import Any, NoReturn

from lull import __version__, base, cache, extras, options, paths
from lull.errors import DEFECT, EXIT_CODES, INTERRUPTED, LullError, UsageError, unknown
from lull.lab import Lab
from lull.linux import tree
from lull.progress import progress, say

GROUPS = {
    "use": {
        "run": "build and boot stock and Lull kernels, count their TLBIs, compare; write results.json",
        "compare": "show the results of several runs side by side",
        "boot": "open a shell, or run one program, in a guest",
        "list": "list what options can name: kernels, workloads, machines, mutants, models, tests",
        "doctor": "show what this machine has, what is missing, and what can be measured here",
    },
    "check": {
        "check": "boot kernels under the TLB checker, and report missing TLB invalidations",
        "test": "run Lull's own tests; with --fast, those that build no kernel",
    },
    "change the kernel": {
        "tree": "make a git tree of the kernel, with one commit for each patch of the features",
        "save": "write the commits of such a tree back into the feature folders",
        "kunit": "build the KUnit kernel again after a change, and run its suites",
    },
}
"""The commands that ``lull --help`` describes, under their headings."""
ADVANCED = {
    "report": "write one HTML page about runs, checks and timings",
    "selftest": "run Linux's own tests of memory management, on stock and Lull kernels",
    "build": "build kernels, and print where they are",
    "fetch": "download kernel source, busybox and QEMU, so that --offline works later",
    "deb": "make Debian packages of a Lull kernel with your configuration",
    "completion": "print a script that completes command lines in a shell",
}
"""The commands that ``lull --help`` only names."""
OPTIONAL = "lull_contrib"
"""The package with the optional parts and their commands. The tool works without it, and imports nothing else of it."""


def optional_commands() -> dict[str, str]:
    """The commands of the optional parts, and what they are; none when the folder contrib/ is not there."""
    if not paths.CONTRIB.is_dir():
        return {}
    if str(paths.CONTRIB) not in sys.path:
        sys.path.append(str(paths.CONTRIB))
    return dict(importlib.import_module(OPTIONAL).COMMANDS)


OPTIONAL_COMMANDS = optional_commands()
COMMANDS = {name: about for group in (*GROUPS.values(), ADVANCED, OPTIONAL_COMMANDS) for name, about in group.items()}
ALONE = ("list", "doctor")
"""The commands that, like ``--help``, need Python alone. The launcher names them too: it installs nothing for them."""
ENVIRONMENT = {
    "LLVM": "1, -22 or a path with / at its end: build kernels with this clang and ld.lld, as kbuild does",
    "LULL_CACHE": "the cache folder (default: lull in the XDG cache folder)",
    "LULL_QEMU": "the qemu-system-aarch64 to use",
    "LULL_ARCHIVES": "URLs of public archives, tried after the machine's own, with {path}, {sha1} or {sha256}",
    "NO_COLOR": "print no colours",
}
SHARED = "shared options"
"""The group of the options that several commands take."""
DEFAULTS = {
    "offline": False,
    "dry_run": False,
    "json": False,
    "tree": None,
    "base": base.DEFAULT,
    "suite": "",
    "quiet": False,
}
"""Their values where they are not given, also for commands that do not take them."""
MISSING = "the following arguments are required: "
NEAR = 0.66
"""How alike a word and an option are of which one was meant, perhaps: two letters of three."""


class Parser(argparse.ArgumentParser):
    """argparse, with our form of an error, and our words for values that are none."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": Help, **more})
        for kind, read in options.TYPES.items():
            self.register("type", kind, read)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError saying what is wrong with the command line, and how to learn more."""
        raise UsageError(message.replace(MISSING, "missing: "), remedy=f"'{self.prog} --help' lists what there is")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, with the lines that texts are given in."""

    def _format_action(self, action: argparse.Action) -> str:
        """The list of commands in its groups; anything else as argparse has it."""
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        choices = {choice.dest: choice for choice in action._choices_actions}
        indent = " " * self._current_indent
        lines = []
        self._indent()
        for heading, group in GROUPS.items():
            described = (super(Help, self)._format_action(choices[name]) for name in group)
            lines += [f"{indent}{heading}\n", *described, "\n"]
        for heading, more in (
            ("advanced ('lull COMMAND --help' describes each)", ADVANCED),
            ("optional parts, in contrib/", OPTIONAL_COMMANDS),
        ):
            names = self._fill_text(", ".join(more), self._width, " " * self._current_indent)
            lines += [f"{indent}{heading}\n{names}\n"] * bool(more)
        self._dedent()
        return "".join(lines)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(self._fill_line(line, width, indent) for line in text.splitlines())

    def _fill_line(self, line: str, width: int, indent: str) -> str:
        hanging = indent + " " * (len(line) - len(line.lstrip()) + 2)
        wrap = textwrap.TextWrapper(width, indent, hanging, break_long_words=False, break_on_hyphens=False)
        return wrap.fill(line)


def unrecognized(parser: argparse.ArgumentParser, words: Sequence[str]) -> UsageError:
    """The error for words that a command does not take: what was meant, perhaps."""
    known = {option.lstrip("-"): option for option in parser._option_string_actions}  # dashes make no two words alike
    word = words[0]
    option = word.partition("=")[0]
    near = get_close_matches(option.lstrip("-"), known, 1, NEAR)
    behind = next((a.dest for a in parser._actions if str(a.metavar).startswith("-- ")), None)
    hint = f"did you mean {known[near[0]]}? " if near else ""
    if option in known.values():
        hint = f"options go after the command: {parser.prog} {word}"
    elif behind:
        hint += f"options of {behind} go behind --: {parser.prog} -- {word}"
    else:
        hint += f"'{parser.prog} --help' lists what there is"
    return UsageError(f"'{parser.prog}' does not take {' '.join(words)}", remedy=hint)


def module_of(command: str) -> ModuleType:
    """The module of a command, in lull.commands or in the optional parts."""
    package = OPTIONAL if command in OPTIONAL_COMMANDS else "lull"
    return importlib.import_module(f"{package}.commands.{command}")


def refused(command: str) -> frozenset[str]:
    """The shared options that a command has no use for: its module names them in ``WITHOUT``."""
    return getattr(module_of(command), "WITHOUT", frozenset())


def refuse_useless(command: str, words: Sequence[str]) -> None:
    """Raise UsageError when a shared option is given that the command has no use for."""
    for word in takewhile(lambda word: word != "--", words):
        option = word.partition("=")[0]
        if option in refused(command):
            raise UsageError(
                f"'lull {command}' has no use for {option}",
                remedy=f"leave it out; 'lull {command} --help' lists the options of the command",
            )


def shared_options(without: Collection[str]) -> Parser:
    """The options that several commands take, but for those in ``without``."""
    shared = Parser(add_help=False)
    group = shared.add_argument_group(SHARED)

    def add(option: str, **more: Any) -> None:
        if option not in without:
            group.add_argument(option, **more)

    add("--offline", action="store_true", help="do not use the network")
    add("--dry-run", action="store_true", help="show what would be done, and do nothing")
    add("--json", action="store_true", help="print the result as JSON on standard output")
    add(
        "--tree",
        metavar="PATH",
        type=options.TREE,
        help="use your own kernel tree instead of the package; the tree is copied, never changed",
    )
    add("--base", metavar="NAME", help=f"base kernel (default: {DEFAULTS['base']})")
    add("--suite", metavar="NAME", help="use another set of workloads: real, vm, host (see docs/guide.md)")
    add("--quiet", action="store_true", help="do not show progress")
    return shared


def build_parser(loaded: Collection[str]) -> argparse.ArgumentParser:
    """The parser. Only the commands in ``loaded`` have their modules imported, and options of their own."""
    codes = "\n".join(f"  {code:3} {text}" for code, text in EXIT_CODES.items())
    variables = "\n".join(f"  {name:11} {text}" for name, text in ENVIRONMENT.items())
    parser = Parser(
        prog="lull",
        description="Lull: features for arm64 Linux that avoid broadcast TLB invalidations, and a lab that "
        "measures and checks them in QEMU.",
        epilog=f"exit codes:\n{codes}\n\nenvironment:\n{variables}",
    )
    parser.add_argument("--version", action="version", version=f"lull {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", parser_class=Parser)
    for name, about in COMMANDS.items():
        shared = [shared_options(refused(name))] if name in loaded else []
        sub = commands.add_parser(name, help=about, description=about, parents=shared)
        sub.set_defaults(**DEFAULTS)
        if name in loaded:
            module = module_of(name)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands of ``parser``, by name."""
    (found,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def interrupted(number: int, frame: object) -> None:
    """Handler of the signals that end us."""
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    status = ended(words)
    if words[:1] != ["check"] or "--bisect" not in words:
        return status
    from lull.check import ci  # slow to import, and not for commands that need Python alone

    return ci.CODES.get(status, ci.STOP)


def ended(words: list[str]) -> int:
    """Run the command line; returns the exit code of EXIT_CODES."""
    # Ended by a timeout, a CI or a lost terminal we go as with Ctrl-C: children first.
    # What who started us had us ignore, as nohup does, we ignore.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupted)
    command = next((a for a in words if not a.startswith("-")), None)
    try:
        if command is not None and command not in COMMANDS:
            raise unknown("command", command, COMMANDS)
        parser = build_parser([command] if command else [])
        if command:
            refuse_useless(command, words)
        words, behind = options.behind(words)
        arguments, rest = parser.parse_known_args(words)
        if arguments.command is None:
            parser.print_help()
            return 2
        if rest:
            raise unrecognized(commands_of(parser)[arguments.command], rest)
        if behind:
            arguments.own = [*arguments.own, *behind]
        progress.quiet = arguments.quiet or arguments.json
        lab = Lab(arguments.base, arguments.tree, arguments.offline, suite_name=arguments.suite)
        with cache.disk_errors(cache.root()):
            if command not in ALONE:
                tree.check_place(cache.root())
                extras.use(extras.TOOL, offline=arguments.offline)
            if arguments.suite:
                lab.base.suite_named(arguments.suite)
            options.check_all(lab, commands_of(parser)[arguments.command], arguments)
            status: int = arguments.run(lab, arguments)
        return status
    except LullError as error:
        say(error.text())
        return error.exit_code
    except KeyboardInterrupt:
        say("\nlull: interrupted; what was finished is kept, the same command resumes")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return INTERRUPTED
    except Exception:
        log = cache.root() / "defect.log"
        cache.write_atomic(log, traceback.format_exc())
        say(
            f"lull: a defect of the tool: {traceback.format_exc().splitlines()[-1]}\n  where: {log}\n"
            "  to do: report it with that file"
        )
        return DEFECT
