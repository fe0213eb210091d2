# SPDX-License-Identifier: GPL-2.0-only
"""lull deb: a Lull kernel as Debian packages."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lull.kernel import deb
from lull.lab import Lab
from lull.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull deb``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration of your kernel: /boot/config-VERSION (default: the lab's, for QEMU's machine only)",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("."), help="where to (default: here)")
    parser.add_argument("--debug", action="store_true", help="a package of debug symbols, too")
    parser.epilog = (
        "Then, on the machine: apt-get install ./linux-image-*-lull_*.deb. What can be switched stands in\n"
        "/usr/share/doc/linux-image-*-lull/README.lull.gz"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Make the packages."""
    if arguments.dry_run:
        what = arguments.config or " ".join(map(str, lab.base.kernels["lull"].fragments))
        say(f"would make packages of Linux {lab.base.series} with {', '.join(lab.base.exported())} from {what}")
        return 0
    tree = lab.tree_of("lull")
    config = deb.of_user(arguments.config, lab.base, tree) if arguments.config else deb.small(lab.base)
    found = deb.packages(tree, lab.base, config, lab.toolchain, debug=arguments.debug, say=say)
    published = deb.publish(found, arguments.out.absolute())
    if arguments.json:
        print(json.dumps({"packages": [str(package) for package in published]}, indent=1))
    else:
        print("\n".join(str(arguments.out / package.name) for package in published))
    return 0
