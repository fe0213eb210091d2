# SPDX-License-Identifier: GPL-2.0-only
"""lull fetch: everything from the network, now, so that later commands may be --offline."""

from __future__ import annotations

import argparse

from lull import cache, plan, selftests
from lull.lab import Lab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull fetch``."""
    parser.add_argument("--keep", action="store_true", help="do not look for newer versions of what is in the cache")


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Fetch kernel source, busybox, when the machine's is too old, QEMU, and the suite's disk."""
    lab.refresh = not arguments.keep
    base = lab.base
    if arguments.dry_run:
        more = [f"the packages of {lab.suite.userland}"] if lab.suite.userland else []
        wanted = [base.package, "busybox-static for arm64", *more, "QEMU 10.x or 11.x if the machine has none"]
        lines = [f"would fetch {', '.join(wanted)}, into {cache.root()}"]
        return plan.show(lines, {"wanted": wanted, "cache": str(cache.root())}, as_json=arguments.json)
    if not lab.user_tree:
        lab.store.kernel_source(base)
    busybox = lab.store.busybox()
    qemu = lab.qemu
    disk = lab.disk
    if disk:
        lab.store.libraries(selftests.LIBRARIES)
    lab.store.refresh = False
    source = str(lab.user_tree) if lab.user_tree else lab.store.kernel_source(base).package.version
    found = {
        "source": source,
        "linux": lab.pristine.version,
        "busybox": str(busybox),
        "qemu": qemu.version,
        **({"disk": str(disk)} if disk else {}),
        "cache": str(cache.root()),
    }
    return plan.show([f"{k:8} {v}" for k, v in found.items()], found, as_json=arguments.json)
