# SPDX-License-Identifier: GPL-2.0-only
"""lull tree: a git tree of the kernel to work in, with a branch for each feature and a commit for each patch."""

from __future__ import annotations

import argparse
import json

from lull import options
from lull.base import patches_of
from lull.errors import require_known
from lull.lab import Lab
from lull.linux import series
from lull.progress import print_result

WITHOUT = frozenset({"--suite"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull tree``."""
    parser.add_argument("dir", metavar="DIR", type=options.NEW, help="a new or empty folder for the tree")
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="with the patches of this kernel: lab has the lab's own, too, behind the features (default: only those "
        "that are for Linux)",
    )
    parser.epilog = "Change it with git commit and git rebase -i, then: lull save DIR"


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Make the tree."""
    if arguments.kernel:
        require_known("kernel", [arguments.kernel], lab.base.kernels)
        features = lab.base.features_of(arguments.kernel)
    else:
        features = list(lab.base.exported().values())
    if arguments.dry_run:
        names = [patch.name for patch in patches_of(features)]
        lines = [f"would make {arguments.dir}: Linux {lab.base.series} and a commit each for {', '.join(names)}"]
        return print_result(lines, {"tree": str(arguments.dir.absolute()), "patches": names}, as_json=arguments.json)
    series.make_tree(lab.pristine, features, arguments.dir.absolute())
    print(json.dumps({"tree": str(arguments.dir.absolute())}) if arguments.json else arguments.dir)
    return 0
