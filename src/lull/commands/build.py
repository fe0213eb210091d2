# SPDX-License-Identifier: GPL-2.0-only
"""lull build: build kernels, and say where they are."""

from __future__ import annotations

import argparse
import json

from lull import cache, options
from lull.errors import require_known
from lull.lab import Lab
from lull.progress import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull build``."""
    options.add(
        parser,
        "kernel",
        metavar="NAME",
        help="a kernel of the base, for example stock, lull, kunit, lab or debug (default: stock, lull); repeatable",
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="build in a folder that keeps its objects, so that a small change takes seconds; for trying changes: "
        "no other command but kunit uses these kernels",
    )


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Build the kernels named."""
    names = arguments.kernel or list(lab.base.default_kernels)
    require_known("kernel", names, lab.base.kernels)
    if arguments.dry_run:
        features = {name: [f.name for f in lab.base.features_of(name)] for name in names}
        lines = [
            f"would build {name}: base {lab.base.name}, {'+'.join(features[name]) or 'nothing'} applied, configuration "
            f"{' '.join(map(str, lab.fragments(name)))}, in {cache.root()}/{'kept' if arguments.kept else 'build'}"
            for name in names
        ]
        data = {n: {"features": features[n], "configuration": [str(f) for f in lab.fragments(n)]} for n in names}
        return print_result(lines, data, as_json=arguments.json)
    built = {name: lab.kept(name) if arguments.kept else lab.kernel(name) for name in names}
    lines = [f"{name:8} {kernel.image}" for name, kernel in built.items()]
    described = {n: json.loads((k.path / "build.json").read_text()) | {"path": str(k.path)} for n, k in built.items()}
    return print_result(lines, described, as_json=arguments.json)
