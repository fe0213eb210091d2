# SPDX-License-Identifier: GPL-2.0-only
"""The command line: options every command shares, one module of lull.commands per subcommand."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path

from lull import __version__, cache
from lull.errors import DEFECT, EXIT_CODES, INTERRUPTED, LullError
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


class Parser(argparse.ArgumentParser):
    """argparse, with our form of an error and exit code 2."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Say what is wrong with the command line, and how to learn more."""
        raise SystemExit(usage_error(self.prog, message))


def usage_error(prog: str, message: str) -> int:
    """Print a usage error; returns exit code 2."""
    print(f"lull: {message}\n  to do: '{prog} --help' lists what there is", file=sys.stderr)
    return 2


def common_options() -> Parser:
    """The options that every command takes."""
    common = Parser(add_help=False)
    group = common.add_argument_group(EVERYWHERE)
    group.add_argument("--offline", action="store_true", help="never ask the network")
    group.add_argument("--dry-run", action="store_true", help="show what would be done, do nothing")
    group.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    group.add_argument(
        "--tree",
        metavar="PATH",
        type=Path,
        help="your own kernel tree instead of the package; it is copied, never changed",
    )
    group.add_argument("--base", metavar="NAME", default="6.12", help="base kernel (default: 6.12)")
    group.add_argument("--suite", metavar="NAME", default="", help="other programs: real (see docs/guide.md)")
    group.add_argument("--quiet", action="store_true", help="no progress")
    return common


def build_parser(loaded: Collection[str]) -> argparse.ArgumentParser:
    """The parser. Only the commands in ``loaded`` have their modules imported, and options of their own."""
    codes = "\n".join(f"  {code:3} {text}" for code, text in EXIT_CODES.items())
    variables = "\n".join(f"  {name:11} {text}" for name, text in ENVIRONMENT.items())
    parser = Parser(
        prog="lull",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Lull: arm64 Linux without needless TLB invalidations, and the lab that proves it.",
        epilog=f"exit codes:\n{codes}\n\nenvironment:\n{variables}",
    )
    parser.add_argument("--version", action="version", version=f"lull {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    common = common_options()
    for name, about in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=about,
            description=about,
            allow_abbrev=False,
            parents=[common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
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
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    command = next((a for a in words if not a.startswith("-")), None)
    try:
        if command is not None and command not in COMMANDS:
            raise unknown("command", command, COMMANDS)
        parser = build_parser([command] if command else [])
        arguments = parser.parse_args(words)
        if arguments.command is None:
            parser.print_help()
            return 2
        progress.quiet = arguments.quiet or arguments.json
        lab = Lab(arguments.base, arguments.tree, arguments.offline, suite_name=arguments.suite)
        with cache.disk_errors(cache.root()):
            if arguments.suite:
                lab.base.suite_named(arguments.suite)
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
