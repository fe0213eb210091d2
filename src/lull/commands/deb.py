# SPDX-License-Identifier: GPL-2.0-only
"""lull deb: a Lull kernel as Debian packages."""

from __future__ import annotations

import argparse
from pathlib import Path

from lull import options, plan
from lull.lab import Lab
from lull.linux import deb
from lull.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull deb``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration of your kernel, e.g. /boot/config-VERSION (default: the lab's, for "
        "QEMU's machine only)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.FOLDER,
        default=Path("."),
        help="folder for the packages (default: the working folder)",
    )
    parser.add_argument("--debug", action="store_true", help="also make the package of debug symbols")
    parser.epilog = (
        "Then, on the machine: apt-get install ./linux-image-*-lull_*.deb. The switches are described in\n"
        "/usr/share/doc/linux-image-*-lull/README.lull.gz"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Make the packages."""
    text = deb.read(arguments.config) if arguments.config else None
    if arguments.dry_run:
        named = [arguments.config] if arguments.config else lab.base.kernels["lull"].fragments
        data = {"linux": lab.base.series, "features": list(lab.base.exported()), "configuration": [*map(str, named)]}
        what = f"{', '.join(data['features'])} from {' '.join(data['configuration'])}"
        return plan.show([f"would make packages of Linux {lab.base.series} with {what}"], data, as_json=arguments.json)
    tree = lab.tree_of("lull")
    config = deb.small(lab.base) if text is None else deb.of_user(text, lab.base, tree)
    found = deb.packages(tree, lab.base, config, lab.toolchain, debug=arguments.debug, say=say)
    published = deb.publish(found, arguments.out.absolute())
    lines = [str(arguments.out / package.name) for package in published]
    return plan.show(lines, {"packages": [str(package) for package in published]}, as_json=arguments.json)
