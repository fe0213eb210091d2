# SPDX-License-Identifier: GPL-2.0-only
"""lull report: one page of what runs and checks found."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lull import cache, options
from lull.errors import UsageError
from lull.lab import Lab
from lull.progress import print_result

NAME = "report.html"
TITLE, HEAD = "<title>Lull: report</title>", 400
"""What tells that a file is a page of this command's, and within how many characters."""
WITHOUT = options.SHARED - {"--dry-run", "--json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``lull report``."""
    parser.add_argument(
        "results",
        metavar="RESULTS",
        nargs="+",
        type=Path,
        help="a results.json, or a results folder of 'lull run' or 'lull check'; the first run comes first",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--out", metavar="FILE", type=options.FILE, help=f"the page to write (default: {NAME} in the first folder)"
    )
    where.add_argument(
        "--pages",
        metavar="DIR",
        type=options.FOLDER,
        help=f"write Markdown pages with all tables, and no {NAME}; generated pages that are in DIR are replaced",
    )
    parser.epilog = "example: lull report results/001 results/002 --out report.html"


def is_strange(file: Path) -> bool:
    """Is there something that this command did not write?"""
    if not file.is_file():
        return file.exists()
    with open(file, errors="replace") as page:
        return TITLE not in page.read(HEAD)


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Read, draw, write. Returns 0: what the page says of kernels is no verdict of this command's."""
    if arguments.pages:
        return write_pages(arguments)
    first = arguments.results[0]
    out = arguments.out or (first if first.is_dir() else first.parent) / NAME
    if is_strange(out):
        raise UsageError(f"{out} is no page of this command's, and stays", remedy="name a new file with --out")
    from lull import report  # and with it Jinja2, which --help does without
    from lull.report import data

    sources = data.load_sources(arguments.results)
    if arguments.dry_run:
        named = [str(path) for path in arguments.results]
        lines = [f"would write {out} from {', '.join(named)}"]
        return print_result(lines, {"report": str(out), "results": named}, as_json=arguments.json)
    text = report.render(sources)
    with cache.disk_errors(out):
        cache.write_atomic(out, text)
    print(json.dumps({"report": str(out)}) if arguments.json else f"report: {out}")
    return 0


def write_pages(arguments: argparse.Namespace) -> int:
    """Write the Markdown pages into the folder that ``--pages`` names. Returns 0."""
    from lull.report import data, pages

    sources, folder = data.load_sources(arguments.results), arguments.pages
    if arguments.dry_run:
        named = [str(path) for path in arguments.results]
        files = [str(folder / name) for name in pages.texts(sources)]
        lines = [f"would write {file} from {', '.join(named)}" for file in files]
        return print_result(lines, {"pages": files, "results": named}, as_json=arguments.json)
    files = [str(file) for file in pages.write(folder, sources)]
    print(
        json.dumps({"pages": files}) if arguments.json else f"pages: {folder / pages.INDEX} and {len(files) - 1} others"
    )
    return 0
