# SPDX-License-Identifier: GPL-2.0-only
"""`lull port`: bring the commits of a tree to another Linux by three-way merges, and write the base that results.

The file STATE in the tree's folder .git says what the tree is being brought to. A conflict leaves the tree as git
rebase leaves it; the next call goes on.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import base as bases
from lull import cache, process
from lull.base import Base, Patch, patches_of
from lull.errors import ApplyError, UsageError
from lull.linux import fitting, series
from lull.linux.releases import Source, source_of
from lull.linux.series import BASE_TAG, BRANCH, FIXED, IDENTITY, Change, git
from lull.progress import progress

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
        patches: the patches that the tree had.
    """

    source: Source
    before: str
    tip: str
    patches: tuple[str, ...]


def top(base: Base) -> Path:
    """The folder with the folders of the base's features, and the folder ``bases``."""
    return next(iter(base.features.values())).folder.parent


def read(tree: Path) -> Port | None:
    """The port that was begun in ``tree``; None without one."""
    file = tree / ".git" / STATE
    if not file.exists():
        return None
    raw = json.loads(file.read_text())
    return Port(source_of(raw["source"]), raw["before"], raw["tip"], tuple(raw["patches"]))


def rebasing(tree: Path) -> bool:
    """Return true if git has a rebase of ``tree`` under way."""
    return any((tree / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply"))


def is_merged(tree: Path) -> bool:
    """Return true if all commits are on the new Linux."""
    done = process.complete(["git", "-C", tree, "merge-base", "--is-ancestor", ONTO_TAG, BRANCH])
    return done.status == 0 and not rebasing(tree)


def begin(tree: Path, source: Source) -> Port:
    """Begin to bring ``tree`` to ``source``. Raises UsageError when the tree has uncommitted changes."""
    series.check_clean(tree)
    with progress.step(f"committing Linux {source.named}"):
        add_root(tree, source)
    names = dict.fromkeys(commit.patch for commit in series.commits(tree) if commit.patch)
    before, tip = (git(tree, "rev-parse", f"{name}^{{commit}}").strip() for name in (BASE_TAG, BRANCH))
    port = Port(source, before, tip, tuple(names))
    raw = {"source": source.raw(), "before": before, "tip": tip, "patches": port.patches}
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


def merge(tree: Path, port: Port, taken: Collection[str] = ()) -> list[str]:
    """Rebase the commits onto the new Linux, or go on with it; returns the patches that are empty there.

    Args:
        taken: patches that are left out, because the new Linux has every hunk of them.

    Raises: ApplyError at a conflict; UsageError when files with conflict markers were added.
    """
    if not is_merged(tree):
        environment = {**FIXED, "GIT_EDITOR": "true"}
        words = ["--continue"]
        if rebasing(tree):
            check_resolved(tree, port)
        else:
            old = series.commits(tree, port.before, port.tip)
            script = tree.absolute() / ".git/lull-drop.sed"
            drop = (f"s/^pick {commit.hash} /drop {commit.hash} /\n" for commit in old if commit.patch in taken)
            cache.write_atomic(script, "".join(drop))
            environment["GIT_SEQUENCE_EDITOR"] = process.shown(["sed", "-i", "-f", script])
            words = ["-i", "--empty=drop", "--onto", ONTO_TAG, port.before, BRANCH]
        with progress.step(f"merging {len(port.patches)} patches into Linux {port.source.named}"):
            options = ["-c", "merge.conflictStyle=diff3", "-c", "core.abbrev=40", "-c", "core.commentChar=#"]
            command: list[str | Path] = ["git", "-C", tree, *IDENTITY, *options, "rebase", *words]
            done = process.complete(command, env=environment)
        if rebasing(tree):
            raise conflict(tree, port)
        if done.status != 0:
            raise UsageError(f"git rebase failed in {tree}", remedy=f"repair it, then {NEXT}", tail=done.output[-2000:])
    git(tree, "tag", "-f", BASE_TAG, ONTO_TAG)
    there = {commit.patch for commit in series.commits(tree)}
    return [name for name in port.patches if name not in there]


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
    return process.complete(["git", "-C", tree, *IDENTITY, *words], apart=True).output


def conflict(tree: Path, port: Port, marked: Sequence[str] = ()) -> ApplyError:
    """The error for a merge that a person has to resolve."""
    state = tree / ".git/rebase-merge"
    done, end = ((state / name).read_text().strip() if (state / name).exists() else "?" for name in ("msgnum", "end"))
    subject = git_says(tree, "log", "-1", f"--format=%h '%s' ({series.VALUE})", "REBASE_HEAD").strip()
    files = unmerged(tree) or list(marked)
    return ApplyError(
        f"commit {done} of {end}, {subject or 'unknown'}, conflicts with Linux {port.source.named} in "
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


def write(tree: Path, port: Port, base: Base, base_name: str, dropped: Collection[str]) -> Written:
    """Write the features as ``tree`` has them: to ``base``, if the source has its series, or else to a new base.

    Other bases keep what they have: what they share with this one and what differs now is split.

    Args:
        base: the base from which was ported.
        base_name: how the user named it.
        dropped: the patches that Linux has. A new base does not list them; that of the same series keeps them for its
            earlier releases.

    Raises: UsageError as ``series.changes``, and when the series has a base that another port wrote.
    """
    source, notices = port.source, []
    if source.series == base.series:
        name, target = base_name, base
    else:
        file = top(base) / "bases" / f"{source.series}.toml"
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
        cache.write_atomic(file, toml_of(base, source, mark, [*dropped, *left]))
        target = bases.load(str(file))
    changes = split(series.changes(tree, target), target)
    series.write(changes)
    return Written(name, changes, notices)


def toml_of(base: Base, source: Source, mark: str, left: Collection[str]) -> str:
    """The TOML file of a new base: that of ``base``, for another series, without what is in ``left``.

    Args:
        left: names of patches, and of tables (``kernels.lab``).
    """
    text = (top(base) / "bases" / f"{base.name}.toml").read_text()
    text = re.sub(r"\A(# SPDX[^\n]*\n)(?:#[^\n]*\n)*", rf"\g<1>#\n{mark}\n", text)
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
    """``tables`` of a base without patches and tables; a feature without patches is left out, and a subject without
    features."""
    found, gone = dict(tables), {name for name in left if "." in name}

    def drop(head: str, lists: str, names: Iterable[str]) -> None:
        for name in names:
            pattern = rf'(?m)^((?:{lists}) = \[[^]]*?)"{re.escape(name)}"(?:,\s*)?'
            found[head] = re.sub(pattern, r"\1", found[head])
        found[head] = re.sub(r", +\]", "]", found[head])

    for name in left:
        feature, _, patch = name.partition("/")
        if "." not in name and f"features.{feature}" in found:
            drop(f"features.{feature}", "patches", [patch])
            if not patch or re.search(r"(?m)^patches = \[\s*\]", found[f"features.{feature}"]):
                gone.add(f"features.{feature}")
    drop("", "rivals|compare", [name.partition(".")[2] for name in gone if name.startswith("kernels.")])
    for head in [head for head in found if head.startswith("subjects.")]:
        drop(head, "features|shares", [name.partition(".")[2] for name in gone if name.startswith("features.")])
        drop(head, "needs", [name.partition(".")[2] for name in gone if name.startswith("subjects.")])
        if re.search(r"(?m)^features = \[\s*\]", found[head]):
            gone.add(head)
    return {head: text for head, text in found.items() if ".".join(head.split(".")[:2]) not in gone}


def ported_only(tree: Path, base: Base, source: Source) -> tuple[list[str], list[str]]:
    """Copy the hooks of the features that only some kernels have, where all of them fit; for a new base.

    Returns the tables of the features and kernels that the new base lacks because hooks do not fit, and notices.
    """
    left, notices = [], []
    for feature in (f for f in base.features.values() if f.only):
        kernel = base.kernels[feature.only[0]]
        texts = [patch.hooks_text() for patch in feature.patches]
        place = tree if kernel.features else source.tree.path
        with tempfile.TemporaryDirectory(prefix="lull-fit-") as scratch:
            fitting.copied(place, fitting.touched(texts), Path(scratch))
            found = [fitting.apply(Path(scratch), text) for text in texts]
        failing = [where for one in found for where in one.failing]
        if failing or any(one.taken for one in found):
            left += [f"features.{feature.name}", *(f"kernels.{name}" for name in feature.only)]
            notices.append(
                f"no kernel {', '.join(feature.only)}: {len(failing)} of {sum(f.hunks for f in found)} hunks of "
                f"{feature.name} do not apply ({', '.join(failing)}); port its hooks by hand to have it"
            )
            continue
        for patch in feature.patches:
            copy_for(patch, source.series)
    return left, notices


def copy_for(patch: Patch, series_name: str) -> None:
    """Give another series the hooks and files that a patch has for its own series."""
    if patch.hooks.stem == patch.series:
        cache.write_atomic(patch.hooks.with_name(f"{series_name}.patch"), patch.hooks_text())
    own = patch.folder / f"files-{patch.series}"
    for relative, file in patch.files().items():
        if file.is_relative_to(own):
            cache.write_atomic(patch.folder / f"files-{series_name}" / relative, file.read_text())


def split(changes: Sequence[Change], base: Base) -> list[Change]:
    """``changes`` of ``base``, with those of shared files made such that other bases keep what they have."""
    found: list[Change] = []
    folders = {patch.folder: patch for patch in patches_of(base.exported().values())}
    for change in changes:
        patch = next(p for folder, p in folders.items() if change.path.is_relative_to(folder))
        shared = patch.folder / "files"
        if change.path == patch.folder / "hooks/all.patch":
            found.append(Change(change.path.with_name(f"{base.series}.patch"), change.text or ""))
        elif change.path.is_relative_to(shared) and change.path.exists():
            relative, text = change.path.relative_to(shared), change.path.read_text()
            for other in others(base, patch.name):
                found.append(Change(patch.folder / f"files-{other}" / relative, text))
            found.append(Change(patch.folder / f"files-{base.series}" / relative, change.text))
            found.append(Change(change.path, None))
        else:
            found.append(change)
    return [change for change in found if series.differs(change)]


def others(base: Base, name: str) -> list[str]:
    """The series of the other bases in the same folder that have the patch ``name``."""
    files = [file for file in sorted((top(base) / "bases").glob("*.toml")) if file.stem != base.name]
    loaded = [bases.load(str(file)) for file in files]
    return [one.series for one in loaded if name in [patch.name for patch in patches_of(one.features.values())]]
