# SPDX-License-Identifier: GPL-2.0-only
"""lull man: the manual page."""

from __future__ import annotations

import argparse
import json

from lull import cli, manpage
from lull.lab import Lab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``lull man`` has no options of its own."""
    parser.epilog = "to read it:    lull man | man -l -\nto install it: lull man >~/.local/share/man/man1/lull.1"


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print lull.1."""
    parser = cli.build_parser(cli.COMMANDS)
    text = manpage.page(parser, cli.commands_of(parser), cli.EVERYWHERE, cli.ENVIRONMENT)
    print(json.dumps({"page": text}) if arguments.json else text, end="\n" if arguments.json else "")
    return 0
