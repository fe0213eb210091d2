# SPDX-License-Identifier: GPL-2.0-only
"""`lull port`: bring the commits of a tree to another Linux by three-way merges, and write the base that results.

The file STATE in the tree's folder .git says what the tree is being brought to. A conflict leaves the tree as git
rebase leaves it; the next call goes on.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import base as bases
from lull import cache, process
from lull.base import Base, Patch
from lull.errors import ApplyError, UsageError
from lull.linux import fitting, series
from lull.linux.series import BASE_TAG, FIXED, OPTIONS, Change, git
from lull.progress import progress
from lull_contrib.releases import Source, source_of

STATE = "lull-port.json"
ONTO_TAG = "lull-onto"
"""The commit with the Linux to which the tree is being brought."""
NEXT = "the same 'lull port' command again, which goes on there"


@dataclass(frozen=True)
class Port:
    """What is in STATE.

    Args:
        source: the Linux to which the tree is brought.
        before: the commit with the earlier Linux.
        tip: the last commit before anything was merged.
        features: the features that the tree had, in their order: its branches.
    """

    source: Source
    before: str
    tip: str
    features: tuple[str, ...]


def read(tree: Path) -> Port | None:
    """The port that was begun in ``tree``; None without one."""
    file = tree / ".git" / STATE
    if not file.exists():
        return None
    raw = json.loads(file.read_text())
    return Port(source_of(raw["source"]), raw["before"], raw["tip"], tuple(raw["features"]))


def rebasing(tree: Path) -> bool:
    """Return true if git has a rebase of ``tree`` under way."""
    return any((tree / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply"))


def is_merged(tree: Path) -> bool:
    """Return true if all commits are on the new Linux."""
    done = process.complete(["git", "-C", tree, "merge-base", "--is-ancestor", ONTO_TAG, "HEAD"])
    return done.status == 0 and not rebasing(tree)


def begin(tree: Path, source: Source, base: Base) -> Port:
    """Begin to bring ``tree`` to ``source``. Raises UsageError when the tree has uncommitted changes."""
    series.check_clean(tree)
    with progress.step(f"committing Linux {source.named}"):
        add_root(tree, source)
    there = series.branches(tree)
    names = tuple(name for name in base.features if name in there)
    before, tip = (git(tree, "rev-parse", f"{name}^{{commit}}").strip() for name in (BASE_TAG, names[-1]))
    port = Port(source, before, tip, names)
    raw = {"source": source.raw(), "before": before, "tip": tip, "features": names}
    cache.write_atomic(tree / ".git" / STATE, json.dumps(raw, indent=1) + "\n")
    return port


def add_root(tree: Path, source: Source) -> None:
    """Add the source as a commit without parents, tagged ONTO_TAG; the files of ``tree`` do not change."""
    folder = tree.absolute() / ".git"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        environment = {**FIXED, "GIT_DIR": str(folder), "GIT_INDEX_FILE": f"{scratch}/index"}
        git(source.tree.path, "--work-tree=.", "add", "-A", "-f", ".", env=environment)
        contents = git(source.tree.path, "write-tree", env=environment).strip()
        title = f"Linux {source.tree.version}"
        commit = git(source.tree.path, "commit-tree", contents, "-m", title, env=environment).strip()
    git(tree, "tag", "-f", ONTO_TAG, commit)


def merge(tree: Path, port: Port, taken: Collection[Patch] = ()) -> list[str]:
    """Rebase the commits onto the new Linux, or go on with it; returns the subjects of those that are empty there.

    Args:
        taken: patches that are left out, because the new Linux has every hunk of them.

    Raises: ApplyError at a conflict; UsageError when files with conflict markers were added.
    """
    before = series.subjects(tree, port.before, port.tip)
    if not is_merged(tree):
        environment = {**FIXED, "GIT_EDITOR": "true"}
        words = ["--continue"]
        if rebasing(tree):
            check_resolved(tree, port)
        else:
            script = tree.absolute() / ".git/lull-drop.sed"
            literal = (re.sub(r"([][\\.*^$|])", r"\\\1", patch.subject) for patch in taken)
            cache.write_atomic(script, "".join(f"\\|^pick .* {subject}$|s/^pick/drop/\n" for subject in literal))
            environment["GIT_SEQUENCE_EDITOR"] = process.shown(["sed", "-i", "-f", script])
            words = ["-i", "--update-refs", "--empty=drop", "--onto", ONTO_TAG, port.before, port.features[-1]]
        with progress.step(f"merging {len(before)} patches into Linux {port.source.named}"):
            options = ["-c", "merge.conflictStyle=diff3", "-c", "core.abbrev=40", "-c", "core.commentChar=#"]
            command: list[str | Path] = ["git", "-C", tree, *OPTIONS, *options, "rebase", *words]
            done = process.complete(command, env=environment)
        if rebasing(tree):
            raise conflict(tree, port)
        if done.status != 0:
            raise UsageError(f"git rebase failed in {tree}", remedy=f"repair it, then {NEXT}", tail=done.output[-2000:])
    git(tree, "tag", "-f", BASE_TAG, ONTO_TAG)
    git(tree, "branch", "-f", series.FIRST, ONTO_TAG)
    there = series.subjects(tree, BASE_TAG)
    return [subject for subject in before if subject not in there]


def unmerged(tree: Path) -> list[str]:
    """The files with conflicts that were not added."""
    return git(tree, "diff", "--name-only", "--diff-filter=U").splitlines()


def check_resolved(tree: Path, port: Port) -> None:
    """Raise ApplyError while a conflict is not resolved: a file is not added, or has conflict markers."""
    marked = git_says(tree, "diff", "--cached", "--check")
    left = sorted({line.split(":")[0] for line in marked.splitlines() if "leftover conflict marker" in line})
    if unmerged(tree) or left:
        raise conflict(tree, port, left)


def git_says(tree: Path, *words: str) -> str:
    """The output of git, which may fail."""
    return process.complete(["git", "-C", tree, *OPTIONS, *words], apart=True).output


def conflict(tree: Path, port: Port, marked: Sequence[str] = ()) -> ApplyError:
    """The error for a merge that a person has to resolve."""
    state = tree / ".git/rebase-merge"
    texts = [(state / name).read_text() if (state / name).exists() else "" for name in ("done", "git-rebase-todo")]
    done, left = (len(re.findall("(?m)^pick ", text)) for text in texts)
    subject = git_says(tree, "log", "-1", "--format=%h '%s'", "REBASE_HEAD").strip()
    files = unmerged(tree) or list(marked)
    return ApplyError(
        f"commit {done} of {done + left}, {subject or 'unknown'}, conflicts with Linux {port.source.named} in "
        f"{', '.join(files) or 'no file that git names'}",
        where=str(tree),
        remedy=f"resolve the conflicts, 'git -C {tree} add -u', then {NEXT} "
        "(git diff shows both sides; git rebase --abort brings the tree back to its state before)",
    )


@dataclass(frozen=True)
class Written:
    """What ``write`` wrote: the name of the base for --base, the files, and notices for people."""

    base: str
    changes: list[Change]
    notices: list[str]


def write(tree: Path, port: Port, base: Base, base_name: str) -> Written:
    """Write the features as ``tree`` has them: to ``base``, if the source has its series, or else to a new base.

    Args:
        base: the base from which was ported.
        base_name: how the user named it.

    Raises: UsageError as ``series.changes``, and when the series has a base that another port wrote.
    """
    source, notices = port.source, []
    if source.series == base.series:
        name, target = base_name, base
    else:
        file = base.file.with_name(f"{source.series}.toml")
        name = str(file) if base_name.endswith(".toml") else source.series
        mark = f"# The base kernel {source.series}: ported from {base.name} by 'lull port'."
        if file.exists() and mark not in file.read_text():
            raise UsageError(
                f"{source.series} has a base already",
                where=str(file),
                remedy=f"port from it: --base {source.series}",
            )
        left, more = ported_only(tree, base, source)
        notices += more
        before, there = series.FIRST, series.branches(tree)
        for feature in port.features:
            if feature in there and series.subjects(tree, before, feature):
                before = feature
            else:
                left.append(f"features.{feature}")
        git(tree, "checkout", "-q", before)
        if gone := [name for name in there if f"features.{name}" in left]:
            git(tree, "branch", "-q", "-D", *gone)
        cache.write_atomic(file, toml_of(base, source, mark, left))
        target = bases.load_base(str(file))
    changes = series.changes(tree, target)
    series.write(changes)
    return Written(name, changes, notices)


def toml_of(base: Base, source: Source, mark: str, left: Collection[str]) -> str:
    """The TOML file of a new base: that of ``base``, for another series, without the tables in ``left``."""
    text = re.sub(r"\A(# SPDX[^\n]*\n)(?:#[^\n]*\n)*", rf"\g<1>#\n{mark}\n", base.file.read_text())
    if base.of:
        above = tables_of(base.file.with_name(f"{base.of}.toml").read_text())
        text += "".join(f"\n{above[head]}" for head in (f"features.{name}" for name in base.features))
    text = re.sub(r'(?m)^series = ".*?"', f'series = "{source.series}"', text)
    found = ""
    if source.package:
        found = (
            f'[source]\npackage = "{source.package.package}"\ntarball = "{source.tarball}"\n'
            f'path = "{source.package.path}"\nsha256 = "{source.package.sha256}"\nsha1 = "{source.package.sha1}"\n'
            f'suites = ["{source.suite}"]\n\n'
        )
    tables = tables_of(text)
    tables.pop("source", None)
    tables = {head: found * (head == next(h for h in tables if h)) + table for head, table in tables.items()}
    return "".join(tables_without(tables, left).values())


def tables_of(text: str) -> dict[str, str]:
    """The tables of a TOML file: name -> text; the empty name has what is before the first."""
    parts = re.split(r"(?m)^(?=\[)", text)
    return {part[1:].partition("]")[0] if part.startswith("[") else "": part for part in parts}


def tables_without(tables: Mapping[str, str], left: Collection[str]) -> dict[str, str]:
    """``tables`` of a base without those in ``left``, which no list of the others names any more."""
    found = {head: text for head, text in tables.items() if head not in left}
    for head, text in found.items():
        for name in (name.partition(".")[2] for name in left):
            text = re.sub(rf'(?m)^((?:needs|alternatives|compare) = \[[^]]*?)"{re.escape(name)}"(?:,\s*)?', r"\1", text)
        found[head] = re.sub(r", +\]", "]", text)
    return found


def ported_only(tree: Path, base: Base, source: Source) -> tuple[list[str], list[str]]:
    """Copy the lab's own patches, where all of their hunks fit; for a new base.

    Returns the tables of the features and kernels that the new base lacks because hunks do not fit, and notices.
    """
    left, notices = [], []
    for feature in (f for f in base.features.values() if f.only):
        kernel = base.kernels[feature.only[0]]
        texts = [patch.diff() for patch in feature.patches]
        place = tree if kernel.features else source.tree.path
        with tempfile.TemporaryDirectory(prefix="lull-fit-") as scratch:
            fitting.copied(place, fitting.touched(texts), Path(scratch))
            found = [fitting.apply(Path(scratch), text) for text in texts]
        failing = [where for one in found for where in one.failing]
        if failing or any(one.taken for one in found):
            left += [f"features.{feature.name}", *(f"kernels.{name}" for name in feature.only)]
            notices.append(
                f"no kernel {', '.join(feature.only)}: {len(failing)} of {sum(f.hunks for f in found)} hunks of "
                f"{feature.name} do not apply ({', '.join(failing)}); port its patches by hand to have it"
            )
            continue
        for patch in feature.patches:
            folder = feature.folder.parent.with_name(f"{source.series}-lab") / feature.name
            cache.write_atomic(folder / patch.file.name, patch.file.read_text())
    return left, notices
