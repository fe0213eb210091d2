# SPDX-License-Identifier: GPL-2.0-only
"""`lull export`: write the features as patch series for ``git am``, each with a cover letter.

A base divides its features into subjects. Each subject is one series: for the people who look after that part of Linux,
and applied to the base and the series that it needs. Exporting the same features for the same source gives the same
bytes. The fixes of Linux's own defects (fixes/) are mails already: they are checked and copied.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from lull import paths, plan, process
from lull.base import Base, Patch, Subject, patches_of
from lull.errors import ApplyError, LullError, UsageError
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
from lull.linux.tree import STRICT, Tree, apply_patch, failed_hunks
from lull.progress import progress

ASSISTED = "Assisted-by: AGENT_NAME:MODEL_VERSION"
"""The last line of each commit: the kernel's template, which its submitter fills in and checkpatch.pl accepts."""
FRAME = paths.KERNEL / "COVER.md"
"""What all cover letters share, with {fields}."""
FIGURES = paths.REPOSITORY / "docs/figures.md"
FIXES = paths.REPOSITORY / "fixes"
"""Mails that fix defects of Linux: NAME.patch for every series of Linux, NAME-SERIES.patch for one."""
MARKED = re.compile(r"(?s)<!-- for: ([\w. ]+) -->\n(.*?)<!-- end -->\n?")
"""A part of FRAME, FIGURES or a subject's letter, and the subjects, or series of Linux, whose letters have it."""
TITLE = "arm64/mm: Lull's features"
"""The subject of the letter of a base without subjects."""
FORM = ["--cover-letter", "--cover-from-description=subject", "--no-signature", "--zero-commit", "--full-index", "-n"]
STAT_WIDTH = message.WIDTH - len(message.INDENT)
AUTHOR = f"From: {IDENTITY[1].partition('=')[2]} <{IDENTITY[3].partition('=')[2]}>"


def check_out(out: Path) -> None:
    """Raise UsageError when ``out`` is no folder, or holds anything but series that were exported before."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is no folder", remedy="name a new folder with --out")
    strange = [path.name for path in sorted(out.iterdir()) if not is_ours(path) and not is_series(path)]
    if strange:
        raise UsageError(
            f"{out} holds other things: {', '.join(strange[:3])}{', ...' if len(strange) > 3 else ''}",
            remedy="name a new folder with --out, or one with exported series, which are replaced",
        )


def is_series(path: Path) -> bool:
    """Return true if ``path`` is the folder of an exported series."""
    if not path.is_dir() or path.is_symlink():
        return False
    mails = list(path.iterdir())
    return bool(mails) and all(map(is_ours, mails))


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


def chosen(base: Base, names: Sequence[str]) -> list[Subject]:
    """The subjects of ``base`` with these names, in the order of the base; all of them without a name.

    Raises: UsageError for an unknown name.
    """
    if names and "" in base.subjects:
        raise UsageError(f"base {base.name} has no subjects: its features are one series", remedy="leave out --series")
    plan.require("series", names, base.subjects)
    return [subject for subject in base.subjects.values() if not names or subject.name in names]


def export(pristine: Tree, base: Base, out: Path, names: Sequence[str] = ()) -> dict[str, list[Path]]:
    """Write the series of a base to folders in ``out``, and return the files of each by its name.

    If the base has no subjects, its series is in ``out`` itself, and its name is empty.

    Args:
        names: the series to write; empty: all.

    Raises: UsageError when ``out`` holds other things, or for an unknown name; ApplyError when a feature does not fit
    ``pristine``.
    """
    check_out(out)
    subjects = chosen(base, names)
    with whole_folder(out) as part, progress.step("making the series"):
        for subject in subjects:
            write_series(pristine, base, subject, part / subject.name)
        shutil.rmtree(out, ignore_errors=True)
    return {subject.name: sorted((out / subject.name).iterdir()) for subject in subjects}


def fixes(base: Base) -> list[Path]:
    """The mails in FIXES that are for the base's series."""
    of_one = re.compile(r".*-(\d+\.\d+)")
    found = {mail: of_one.fullmatch(mail.stem) for mail in sorted(FIXES.glob("*.patch"))}
    return [mail for mail, series in found.items() if series is None or series[1] == base.series]


def export_fixes(pristine: Tree, base: Base, out: Path) -> list[Path]:
    """Copy the fixes for a base to the folder ``out``, and return the copies. Each is a submission of its own.

    Raises: UsageError when ``out`` holds other things; ApplyError when a fix does not fit ``pristine``.
    """
    check_out(out)
    source = pristine.origin or pristine.path
    with whole_folder(out) as part:
        for number, mail in enumerate(fixes(base), 1):
            done = process.complete(["patch", *STRICT, "--dry-run", "-d", pristine.path, "-i", mail])
            if done.status != 0:
                raise ApplyError(
                    f"the fix {mail.stem} does not apply: {failed_hunks(done.output)}",
                    where=f"{mail} on {source}",
                    remedy="look whether this Linux has the fix already (docs/findings.md); if not, port the mail",
                )
            shutil.copyfile(mail, part / f"{number:04}-{mail.name}")
        shutil.rmtree(out, ignore_errors=True)
    return sorted(out.iterdir())


def write_series(pristine: Tree, base: Base, subject: Subject, folder: Path) -> None:
    """Write one series to ``folder``.

    The temporary git tree has only the files that the features change. The patches are the same as from a whole tree.
    """
    before, patches = patches_of(base.features_before(subject)), patches_of(base.features_in(subject))
    source = pristine.origin or pristine.path
    with tempfile.TemporaryDirectory(prefix="lull-export-") as scratch:
        tree, log = Path(scratch) / "linux", Path(scratch) / "log"
        for name in hooked([*before, *patches], pristine.path):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pristine.path / name, tree / name)
            os.chmod(tree / name, (tree / name).stat().st_mode | 0o200)
        for patch in before:
            apply_patch(patch, tree, log, source=source, lists=base.lists)
        commit_base(tree, pristine.version)
        patches = [p for p in patches if commit_patch(tree, p, ASSISTED, log, source=source, lists=base.lists)]
        letter = message.split(cover_letter(pristine, base, subject, tree, patches))
        git(tree, "config", f"branch.{BRANCH}.description", f"{letter[0]}\n\n{message.text(letter[1])}")
        words = [*FORM, *DIFF[1:], "-o", str(folder.absolute()), f"{BASE_TAG}..{BRANCH}"]
        git(tree, "format-patch", "-q", *words, env=FIXED)


def is_for(mark: re.Match[str], base: Base, subject: Subject) -> bool:
    """Whether a marked part is for the subject or the base; a series of all features has every part."""
    return not subject.name or not {subject.name, base.series}.isdisjoint(mark[1].split())


def selected(text: str, base: Base, subject: Subject) -> str:
    """``text`` without the parts that are marked for other subjects or bases."""
    return MARKED.sub(lambda mark: mark[2] if is_for(mark, base, subject) else "", text)


def figures(base: Base, subject: Subject) -> str:
    """The parts of docs/figures.md that are marked for the subject. Raises LullError when no part is."""
    parts = [mark[2].strip() for mark in MARKED.finditer(FIGURES.read_text()) if is_for(mark, base, subject)]
    if not parts:
        raise LullError(
            f"no part is marked for the cover letter of {subject.name}",
            where=str(FIGURES),
            remedy=f"put <!-- for: {subject.name} --> before it, and <!-- end --> behind it",
        )
    return "\n\n".join(parts)


def measured_on() -> str:
    """The Linux on which the figures were measured, as docs/figures.md says. Raises LullError when it does not."""
    said = re.search(r"\bon\s+Linux\s+(\d[\d.]*\d)", MARKED.sub("", FIGURES.read_text()))
    if not said:
        raise LullError(
            "no base is named for the figures",
            where=str(FIGURES),
            remedy="write 'on Linux VERSION' before its first marked part",
        )
    return said[1]


def order(base: Base, subject: Subject, linux: str) -> str:
    """Markdown: what the series is applied to, and which patches it shares with other series."""
    needed = [one.name for one in base.subjects_before(subject)]
    listed = f"after the series {', '.join(needed)}" if needed else "and needs no other series"
    text = f"**It applies to {linux}, {listed}{', in this order' if len(needed) > 1 else ''}.**"
    for name in subject.shares:
        other = next(one for one in base.subjects.values() if name in one.features)
        titles = [f'"{message.split(note_of(patch.folder))[0]}"' for patch in base.features[name].patches]
        text += f" The series {other.name} has {', '.join(titles)}, too: omit it where that series is applied."
    return text


def recipients(subject: Subject, tree: Path) -> str:
    """Markdown: the entries of MAINTAINERS in ``tree`` that the subject names, with their mailing lists.

    Raises: UsageError when the file has no such entry.
    """
    if not subject.to:
        return ""
    lines = ["The entries in MAINTAINERS, and their mailing lists:", ""]
    for heading in subject.to:
        entry = re.search(rf"(?m)^{re.escape(heading)}\n((?:\S.*\n)+)", (tree / "MAINTAINERS").read_text())
        if not entry:
            raise UsageError(
                f"MAINTAINERS has no entry '{heading}', which series {subject.name} names",
                where=str(tree / "MAINTAINERS"),
                remedy="correct the key 'to' of the subject in the base's TOML file",
            )
        addresses = re.findall(r"(?m)^L:\s*(\S+)", entry[1])
        lines.append(f"* {heading}: {', '.join(addresses) or 'no list'}")
    more = "And linux-kernel@vger.kernel.org. `scripts/get_maintainer.pl` names the people for each patch."
    return "\n".join([*lines, "", more])


def sections(text: str) -> dict[str, str]:
    """Heading of a section -> the section's text; the text before the first section has the heading ``""``."""
    first, *rest = re.split(r"(?m)^## (.*)\n", text)
    return {"": first.strip(), **{head.strip(): body.strip() for head, body in zip(rest[::2], rest[1::2], strict=True)}}


def joined(parts: Iterable[str]) -> str:
    """The Markdown ``parts`` that are not empty, with an empty line between them; two lists become one."""
    return re.sub(r"(?m)^(\* .*(?:\n  .*)*)\n\n(?=\* )", r"\1\n", "\n\n".join(part for part in parts if part))


def cover_letter(pristine: Tree, base: Base, subject: Subject, tree: Path, patches: Sequence[Patch]) -> str:
    """The cover letter in Markdown: kernel/COVER.md with its {fields} filled in, and what the subject's letter says.

    A section of the subject's letter is added to that with the same heading. A section without text is left out.

    Args:
        tree: the git tree, with a commit for each of ``patches``, the series.

    Raises: LullError when the subject's letter has a section that kernel/COVER.md does not have.
    """
    features = base.features_in(subject)
    linux = f"Linux {pristine.version}"
    title, own_text = (
        message.split(selected(subject.letter.read_text(), base, subject)) if subject.letter else (TITLE, "")
    )
    frame, own = sections(message.split(selected(FRAME.read_text(), base, subject))[1]), sections(own_text)
    if unknown := own.keys() - frame.keys():
        raise LullError(
            f"the section '{min(unknown)}' is not in {FRAME.name} of kernel/",
            where=str(subject.letter),
            remedy=f"use one of: {', '.join(filter(None, frame))}",
        )
    fields = {
        "about": own.pop(""),
        "linux": linux,
        "order": order(base, subject, linux),
        "recipients": recipients(subject, pristine.path),
        "assisted": ASSISTED,
        "switches": switches.table(features) if any(f.policies and f.file for f in features) else "",
        "measured": measured_on(),
        "figures": figures(base, subject),
        "suites": ", ".join(suite for f in features for suite in f.kunit),
        "grep": "|".join(sorted({name.partition("_")[0] + "_" for f in features for name in switches.counters(f)})),
        "commits": "\n\n".join(commit_stats(patches, tree)),
    }
    letter = [f"# {title}"]
    for heading, text in frame.items():
        # A single pass over the frame: text that is put in may have braces, which must stay.
        filled = re.sub(r"\{(\w+)\}", lambda match: fields[match.group(1)], text).strip()
        if body := joined([filled, own.get(heading, "")]):
            letter.append(f"## {heading}\n\n{body}" if heading else body)
    return joined(letter)


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
