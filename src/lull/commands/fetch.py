# SPDX-License-Identifier: GPL-2.0-only
"""lull fetch: everything from the network, now, so that later commands may be --offline."""

from __future__ import annotations

import argparse

from lull import cache, paths, pinning, selftests
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import pins
from lull.progress import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull fetch``."""
    parser.add_argument(
        "--pin", action="store_true", help="pin the newest packages in this repository instead (for contributors)"
    )


def write_pins(lab: Lab) -> dict[str, str]:
    """Write the pins of the base's source, and guest/pins.txt; what was pinned, by name."""
    file = paths.BASES / f"{lab.base.name}.toml"
    if not file.exists() or not lab.base.source.pin:
        raise UsageError(
            f"base {lab.base.name} has no pinned source", remedy="name a base of kernel/bases/ with --base"
        )
    found = {lab.base.source.package: pinning.pin_source(lab.store, lab.base, file).version}
    for group, files in pinning.groups(lab.store):
        pins.save(group, files)
        found[group] = f"{len(files)} files"
    return found


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Fetch kernel source, busybox, when the machine's is too old, QEMU, and the suite's disk; or pin the newest."""
    base = lab.base
    if arguments.dry_run:
        more = [f"the packages of {lab.suite.userland}"] if lab.suite.userland else []
        wanted = [base.source.package, "busybox-static for arm64", *more, "QEMU 10.x or 11.x if the machine has none"]
        verb = "pin the newest" if arguments.pin else "fetch"
        lines = [f"would {verb} {', '.join(wanted)}, into {cache.root()}"]
        return print_result(lines, {"wanted": wanted, "cache": str(cache.root())}, as_json=arguments.json)
    if arguments.pin:
        found = write_pins(lab)
        return print_result([f"{k:18} {v}" for k, v in found.items()], found, as_json=arguments.json)
    busybox = lab.store.busybox()
    disk = lab.disk
    if disk:
        lab.store.libraries(selftests.LIBRARIES)
    source = str(lab.user_tree) if lab.user_tree else lab.store.kernel_source(base).package.version
    found = {
        "source": source,
        "linux": lab.pristine.version,
        "busybox": str(busybox),
        "qemu": lab.qemu.version,
        **({"disk": str(disk)} if disk else {}),
        "cache": str(cache.root()),
    }
    return print_result([f"{k:8} {v}" for k, v in found.items()], found, as_json=arguments.json)
