# SPDX-License-Identifier: GPL-2.0-only
"""The command line: options every command shares, one module of lull.commands per subcommand."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import textwrap
import traceback
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from lull import __version__, cache, options
from lull.errors import DEFECT, EXIT_CODES, INTERRUPTED, LullError, UsageError
from lull.lab import Lab
from lull.plan import unknown
from lull.progress import progress, say

COMMANDS = {
    "run": "build, boot and compare stock and Lull kernels; write results.json",
    "sweep": "many runs as one: vCPUs, CPUs and workloads as jobs, on one machine or on many",
    "bench": "the programs on an arm64 machine itself, under the kernel it runs, in its own seconds",
    "compare": "set the results of several runs, or machines, side by side",
    "report": "one page, report.html, of what runs, checks and timings found",
    "check": "run kernels under a TLB that forgets nothing, and report what they owe it",
    "selftest": "Linux's own tests of its memory management, on stock and on Lull",
    "soak": "a long random mix of everything under that TLB",
    "timing": "modelled time: how it grows with CPUs, and how near it comes to published numbers",
    "calibrate": "the costs of modelled time, measured on an arm64 machine",
    "test": "what proves it: host tests, plugin, builds, boots, KUnit; --all is the whole",
    "boot": "a shell, or one program, in a guest",
    "build": "build kernels",
    "fetch": "fetch kernel source, busybox and QEMU, so that --offline works",
    "list": "what can be named: kernels, workloads, machines, mutants, models",
    "doctor": "what this machine has, what is missing, what can be measured",
    "tree": "make a git tree of the kernel with a commit per feature",
    "save": "turn the commits of such a tree back into the features",
    "export": "the features as a series of mails for git am, with a cover letter",
    "deb": "a Lull kernel as Debian packages, of your configuration",
    "completion": "print what completes its command lines in bash, zsh or fish",
    "man": "print its manual page",
}
ENVIRONMENT = {
    "LULL_CACHE": "the cache folder (default: lull in the XDG cache folder)",
    "LULL_QEMU": "a qemu-system-aarch64 to use",
    "NO_COLOR": "no colours",
}
EVERYWHERE = "everywhere"
"""The group of the options that every command takes."""
UNUSED = {
    "bench": "--offline --tree",
    "compare": "--offline --dry-run --tree --base --suite --quiet",
    "report": "--offline --tree --base --suite --quiet",
    "test": "--json --base --suite --quiet",
    "list": "--offline --dry-run --tree --quiet",
    "doctor": "--offline --dry-run --tree --suite --quiet",
    "tree": "--suite",
    "save": "--offline --tree --suite --quiet",
    "export": "--suite",
    "deb": "--suite",
    "completion": "--offline --dry-run --tree --suite --quiet",
    "man": "--offline --dry-run --tree --base --suite --quiet",
}
"""Those that mean nothing to a command: it takes them, as all do, and its help leaves them out."""
MISSING = "the following arguments are required: "


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

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(self._fill_line(line, width, indent) for line in text.splitlines())

    def _fill_line(self, line: str, width: int, indent: str) -> str:
        hanging = indent + " " * (len(line) - len(line.lstrip()) + 2)
        wrap = textwrap.TextWrapper(width, indent, hanging, break_long_words=False, break_on_hyphens=False)
        return wrap.fill(line)


def unrecognized(parser: argparse.ArgumentParser, words: Sequence[str]) -> UsageError:
    """The error for words that a command does not take: what was meant, perhaps."""
    known = list(parser._option_string_actions)
    word = words[0]
    option = word.partition("=")[0]
    near = get_close_matches(option, known, 1)
    behind = next((a.dest for a in parser._actions if str(a.metavar).startswith("-- ")), None)
    hint = f"did you mean {near[0]}? " if near else ""
    if option in known:
        hint = f"options stand behind the command: {parser.prog} {word}"
    elif behind:
        hint += f"options of {behind} go behind --: {parser.prog} -- {word}"
    else:
        hint += f"'{parser.prog} --help' lists what there is"
    return UsageError(f"'{parser.prog}' does not take {' '.join(words)}", remedy=hint)


def common_options(unused: Collection[str]) -> Parser:
    """The options that every command takes; those in ``unused`` are not shown."""
    common = Parser(add_help=False)
    group = common.add_argument_group(EVERYWHERE)
    group.add_argument("--offline", action="store_true", help="never ask the network")
    group.add_argument("--dry-run", action="store_true", help="show what would be done, do nothing")
    group.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    group.add_argument(
        "--tree",
        metavar="PATH",
        type=options.TREE,
        help="your own kernel tree instead of the package; it is copied, never changed",
    )
    group.add_argument("--base", metavar="NAME", default="6.12", help="base kernel (default: 6.12)")
    group.add_argument("--suite", metavar="NAME", default="", help="other programs: real (see docs/guide.md)")
    group.add_argument("--quiet", action="store_true", help="no progress")
    for action in group._group_actions:
        if action.option_strings[0] in unused:
            action.help = argparse.SUPPRESS
    return common


def build_parser(loaded: Collection[str]) -> argparse.ArgumentParser:
    """The parser. Only the commands in ``loaded`` have their modules imported, and options of their own."""
    codes = "\n".join(f"  {code:3} {text}" for code, text in EXIT_CODES.items())
    variables = "\n".join(f"  {name:11} {text}" for name, text in ENVIRONMENT.items())
    parser = Parser(
        prog="lull",
        description="Lull: arm64 Linux without needless TLB invalidations, and the lab that proves it.",
        epilog=f"exit codes:\n{codes}\n\nenvironment:\n{variables}",
    )
    parser.add_argument("--version", action="version", version=f"lull {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, about in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=about,
            description=about,
            parents=[common_options(UNUSED.get(name, "").split())],
        )
        if name in loaded:
            module = importlib.import_module(f"lull.commands.{name}")
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
        arguments, rest = parser.parse_known_args(words)
        if arguments.command is None:
            parser.print_help()
            return 2
        if rest:
            raise unrecognized(commands_of(parser)[arguments.command], rest)
        progress.quiet = arguments.quiet or arguments.json
        lab = Lab(arguments.base, arguments.tree, arguments.offline, suite_name=arguments.suite)
        with cache.disk_errors(cache.root()):
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
