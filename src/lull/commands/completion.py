# SPDX-License-Identifier: GPL-2.0-only
"""lull completion: what completes the tool's command lines in a shell."""

from __future__ import annotations

import argparse
import json

from lull import cli, completion
from lull.lab import Lab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull completion``."""
    parser.add_argument("shell", metavar="|".join(completion.SHELLS), choices=completion.SHELLS)
    parser.epilog = (
        "bash: lull completion bash >~/.local/share/bash-completion/completions/lull\n"
        "zsh:  lull completion zsh >_lull, in a folder of $fpath\n"
        "fish: lull completion fish >~/.config/fish/completions/lull.fish\n"
        "Kernels, workloads and machines are those of today: make it again when there are others."
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print the script."""
    parser = cli.build_parser(cli.COMMANDS)
    text = completion.script(parser, cli.commands_of(parser), arguments.shell, lab.base)
    print(json.dumps({"shell": arguments.shell, "script": text}) if arguments.json else text)
    return 0
