# SPDX-License-Identifier: GPL-2.0-only
"""`lull export`: write the features as a patch series for ``git am``, with a cover letter.

Exporting the same features for the same source gives the same bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lull import base as bases
from lull import paths
from lull.base import Base, Patch, patches_of
from lull.errors import LullError, UsageError
from lull.linux import message, switches
from lull.linux.series import (
    BASE_TAG,
    BRANCH,
    DIFF,
    FIXED,
    IDENTITY,
    commit_base,
    commit_patch,
    git,
    note_of,
    whole_folder,
)
from lull.linux.tree import Tree
from lull.progress import progress

ASSISTED = "Assisted-by: AGENT_NAME:MODEL_VERSION"
"""The last line of each commit: the kernel's template, which its submitter fills in and checkpatch.pl accepts."""
LETTER = paths.KERNEL / "COVER.md"
FIGURES = re.compile(r"(?s)<!-- figures -->(.*?)<!-- end of figures -->")
"""The part of docs/figures.md that the cover letter quotes."""
FORM = ["--cover-letter", "--cover-from-description=subject", "--no-signature", "--zero-commit", "--full-index", "-n"]
STAT_WIDTH = message.WIDTH - len(message.INDENT)
AUTHOR = f"From: {IDENTITY[1].partition('=')[2]} <{IDENTITY[3].partition('=')[2]}>"


def check_out(out: Path) -> None:
    """Raise UsageError when ``out`` is no folder, or holds anything but a series that was exported before."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is no folder", remedy="name a new folder with --out")
    strange = [path.name for path in sorted(out.iterdir()) if not is_ours(path)]
    if strange:
        raise UsageError(
            f"{out} holds other things: {', '.join(strange[:3])}{', ...' if len(strange) > 3 else ''}",
            remedy="name a new folder with --out, or one with an exported series, which is replaced",
        )


def is_ours(path: Path) -> bool:
    """Return true if the file is a patch of an exported series: by its name, and its author."""
    if not (path.is_file() and re.fullmatch(r"\d{4}-.*\.patch", path.name)):
        return False
    with open(path, errors="replace") as mail:
        return AUTHOR in (line.rstrip("\n") for line, _ in zip(mail, range(3), strict=False))


def hooked(patches: Sequence[Patch], tree: Path) -> list[str]:
    """The files of ``tree`` that the patches change."""
    named = {name for patch in patches for name in re.findall(r"(?m)^--- a/(\S+)", patch.hooks_text())}
    return sorted(name for name in named if (tree / name).is_file())


def export(pristine: Tree, base: Base, out: Path) -> list[Path]:
    """Write the series of a base's features to the folder ``out``, and return its files.

    The temporary git tree has only the files that the features change. The patches are the same as from a whole tree.

    Raises: UsageError when ``out`` holds other things, ApplyError when a feature does not fit ``pristine``.
    """
    check_out(out)
    patches = patches_of(base.exported().values())
    with (
        whole_folder(out) as part,
        tempfile.TemporaryDirectory(prefix="lull-export-") as scratch,
        progress.step("making the series"),
    ):
        tree = Path(scratch) / "linux"
        for name in hooked(patches, pristine.path):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pristine.path / name, tree / name)
            os.chmod(tree / name, (tree / name).stat().st_mode | 0o200)
        commit_base(tree, pristine.version)
        for patch in patches:
            commit_patch(tree, patch, ASSISTED, Path(scratch) / "log", source=pristine.origin or pristine.path)
        letter = message.split(cover_letter(pristine, base, tree))
        git(tree, "config", f"branch.{BRANCH}.description", f"{letter[0]}\n\n{message.text(letter[1])}")
        words = [*FORM, *DIFF[1:], "-o", str(part.absolute()), f"{BASE_TAG}..{BRANCH}"]
        git(tree, "format-patch", "-q", *words, env=FIXED)
        shutil.rmtree(out, ignore_errors=True)
    return sorted(out.iterdir())


def figures() -> str:
    """The marked part of docs/figures.md: the measured results. Raises LullError when nothing is marked."""
    page = paths.REPOSITORY / "docs/figures.md"
    found = FIGURES.search(page.read_text())
    if not found:
        raise LullError(
            "no part is marked for the cover letter",
            where=str(page),
            remedy="put <!-- figures --> before it, and <!-- end of figures --> behind it",
        )
    return found.group(1).strip()


def ported(base: Base) -> str:
    """What to say when the base has only some of the features that kernel/COVER.md describes; empty otherwise."""
    described = bases.load()
    if not base.exported().keys() < described.exported().keys():
        return ""
    return (
        f"**Of the features that this letter describes, this series has only these: {', '.join(base.exported())}.** "
        f"The figures were measured on Linux {described.series} with all of them."
    )


def cover_letter(pristine: Tree, base: Base, tree: Path) -> str:
    """The cover letter in Markdown: kernel/COVER.md with its {fields} filled in.

    Args:
        tree: the git tree, with a commit for each patch in the order of the base.
    """
    features = list(base.exported().values())
    fields = {
        "linux": f"Linux {pristine.version}",
        "ported": ported(base),
        "assisted": ASSISTED,
        "switches": switches.table(features),
        "figures": figures(),
        "suites": ", ".join(suite for f in features for suite in f.kunit),
        "grep": "|".join(sorted({name.partition("_")[0] + "_" for f in features for name in switches.counters(f)})),
        "commits": "\n\n".join(commit_stats(patches_of(features), tree)),
    }
    # A single pass over COVER.md: text that is put in may have braces, which must stay.
    return re.sub(r"\{(\w+)\}", lambda match: fields[match.group(1)], LETTER.read_text())


def commit_stats(patches: Sequence[Patch], tree: Path) -> list[str]:
    """The subject and the diffstat of each patch's commit, as Markdown."""
    found = []
    for number, patch in enumerate(patches, 1):
        commit = f"{BRANCH}~{len(patches) - number}"
        stat = git(tree, "diff", "--no-renames", f"--stat={STAT_WIDTH}", f"{commit}^", commit, env=FIXED)
        subject = message.split(note_of(patch.folder))[0] or patch.name
        lines = [f"{number}. {subject}", "", *(message.INDENT + line.strip() for line in stat.splitlines())]
        found.append("\n".join(lines))
    return found
