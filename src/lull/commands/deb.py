# SPDX-License-Identifier: GPL-2.0-only
"""lull deb: a Lull kernel, a pair of stock and Lull to compare, or the checker alone, as Debian packages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from lull import options
from lull.check import package
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import deb, debian
from lull.progress import print_result, say

WITHOUT = frozenset({"--suite"})


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
        "--flavour",
        choices=[*debian.FLAVOURS],
        help="make two kernels to compare, stock and Lull, with Debian's own configuration of this flavour",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=options.FOLDER,
        default=Path("."),
        help="folder for the packages (default: the working folder)",
    )
    parser.add_argument("--debug", action="store_true", help="also make the package of debug symbols")
    parser.add_argument(
        "--checker",
        action="store_true",
        help="make a package of the checker instead, a plugin for QEMU on this machine",
    )
    parser.epilog = (
        "Then, on the machine: apt-get install ./linux-image-*-lull_*.deb. The boot parameters are described in\n"
        "/usr/share/doc/linux-image-*-lull/README.lull.gz"
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Make the packages. Raises UsageError for options of kernels beside --checker."""
    if arguments.checker:
        return run_checker(arguments)
    if arguments.flavour:
        return run_flavour(lab, arguments)
    text = deb.read_config(arguments.config) if arguments.config else None
    if arguments.dry_run:
        named = [arguments.config] if arguments.config else lab.base.kernels["lull"].fragments
        data = {"linux": lab.base.series, "features": list(lab.base.exported()), "configuration": [*map(str, named)]}
        what = f"{', '.join(data['features'])} from {' '.join(data['configuration'])}"
        return print_result(
            [f"would make packages of Linux {lab.base.series} with {what}"], data, as_json=arguments.json
        )
    tree = lab.tree_of("lull")
    config = deb.small(lab.base) if text is None else deb.config_of_user(text, lab.base, tree)
    found = deb.packages(tree, lab.base, config, lab.toolchain, debug=arguments.debug, say=say)
    return hand_out(found, arguments)


def run_flavour(lab: Lab, arguments: argparse.Namespace) -> int:
    """Make the packages of stock and of Lull, by the same compiler with the same configuration but for Lull."""
    if arguments.config:
        raise UsageError("--config and --flavour both name a configuration", remedy="leave one out")
    if arguments.dry_run:
        data = {"linux": lab.base.series, "flavour": arguments.flavour, "kernels": [deb.STOCK, deb.LULL]}
        what = f"Debian's configuration {arguments.flavour}: stock, and Lull"
        return print_result(
            [f"would make packages of Linux {lab.base.series} with {what}"], data, as_json=arguments.json
        )
    text = debian.configuration(lab.store, lab.base, lab.pristine.version, arguments.flavour)
    found: list[Path] = []
    for kernel in (deb.STOCK, deb.LULL):
        tree = lab.tree_of(kernel)
        config = deb.config_of_user(text, lab.base, tree, kernel)
        found += deb.packages(
            tree,
            lab.base,
            config,
            lab.toolchain,
            debug=arguments.debug,
            say=say,
            kernel=kernel,
            flavour=arguments.flavour,
        )
    return hand_out(found, arguments)


def run_checker(arguments: argparse.Namespace) -> int:
    """Make the package of the checker."""
    if arguments.config or arguments.flavour or arguments.debug:
        raise UsageError("--config, --flavour and --debug are for packages of a kernel", remedy="leave them out")
    if arguments.dry_run:
        return print_result([f"would make {package.name()}"], {"package": package.name()}, as_json=arguments.json)
    return hand_out([package.package()], arguments)


def hand_out(found: Sequence[Path], arguments: argparse.Namespace) -> int:
    """Copy packages to the folder of --out, and print their names."""
    published = deb.publish(found, arguments.out.absolute())
    lines = [str(arguments.out / path.name) for path in published]
    return print_result(lines, {"packages": [str(path) for path in published]}, as_json=arguments.json)
