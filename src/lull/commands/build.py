# SPDX-License-Identifier: GPL-2.0-only
"""lull build: build kernels, and say where they are."""

from __future__ import annotations

import argparse
import json

from lull import cache
from lull.lab import Lab
from lull.plan import unknown
from lull.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull build``."""
    parser.add_argument(
        "--kernel",
        metavar="K",
        action="append",
        default=[],
        help="a kernel of the base: stock, lull, kunit, lab, debug, kcsan (default: stock and lull); repeatable",
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Build the kernels named."""
    names = arguments.kernel or list(lab.base.default_kernels)
    for name in names:
        if name not in lab.base.kernels:
            raise unknown("kernel", name, lab.base.kernels)
    if arguments.dry_run:
        for name in names:
            features = "+".join(f.name for f in lab.base.features_of(name)) or "nothing"
            say(
                f"would build {name}: base {lab.base.name}, {features} applied, configuration "
                f"{' '.join(map(str, lab.fragments(name)))}, in {cache.root()}/build"
            )
        return 0
    built = {name: lab.kernel(name) for name in names}
    if arguments.json:
        print(
            json.dumps(
                {n: json.loads((k.path / "build.json").read_text()) | {"path": str(k.path)} for n, k in built.items()},
                indent=1,
            )
        )
    else:
        print("\n".join(f"{name:8} {kernel.image}" for name, kernel in built.items()))
    return 0
