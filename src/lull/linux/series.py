# SPDX-License-Identifier: GPL-2.0-only
"""`lull tree` and `lull save`: features as commits of a git tree, and commits back to features.

The tree has a commit with the base. After it comes, for each patch of each feature, a group of commits with the trailer
``Lull-feature: FEATURE``, or ``Lull-feature: FEATURE/PATCH`` where the feature has several patches. ``lull save``
writes the changes of each group to the patch's folder in kernel/: files that the commits add go to files/ (or
files-SERIES/, ``place_of``), changes of other files become the patch in hooks/.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from lull import cache, process
from lull.base import Base, Feature, Patch, patches_of
from lull.errors import ApplyError, UsageError
from lull.linux import message
from lull.linux.tree import STRICT, Tree, apply_patch, check_series
from lull.progress import progress

TRAILER = "Lull-feature"
VALUE = f"%(trailers:key={TRAILER},valueonly,separator=%x2C)"
"""What the trailer of a commit names, for git's option --format."""
BASE_TAG = "lull-base"
BRANCH = "lull"
# Options that override the user's configuration of git: hooks always have the form that patch -p1 reads.
DIFF = ["diff", "--no-renames", "--no-ext-diff", "--no-textconv", "-U3", "--src-prefix=a/", "--dst-prefix=b/"]
SETTINGS = (
    "user.name=Lull",
    "user.email=lull@localhost",
    "commit.gpgsign=false",
    "core.autocrlf=false",
    "gc.auto=0",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "log.showSignature=false",
    "color.ui=false",
    "diff.algorithm=myers",
)
IDENTITY = [word for setting in SETTINGS for word in ("-c", setting)]
# Commits made from the same features have the same hashes: fixed dates, fixed language, no configuration of the user.
FIXED = {
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_DATE": "@0 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Commit:
    """A commit of the tree: its hash, its subject, and the patch that its trailer names (empty without one)."""

    hash: str
    subject: str
    patch: str


@dataclass(frozen=True)
class Change:
    """A change that ``lull save`` makes: a file of the repository, and its new text (None: delete the file)."""

    path: Path
    text: str | None


def git(tree: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run git in ``tree`` with the options IDENTITY, and return its output. Raises UsageError when it fails."""
    return process.output_of(["git", "-C", tree, *IDENTITY, *words], error=UsageError, env=env)


def commit_message(patch: Patch, trailer: str) -> str:
    """The commit message of a patch: the title of its NOTE.md, the note as plain text, and ``trailer``."""
    subject, body = message.split(note_of(patch.folder))
    return f"{subject or patch.name}\n\n{message.text(body)}\n\n{trailer}\n"


def note_of(folder: Path) -> str:
    """The note in ``folder``; empty when it has none."""
    note = folder / "NOTE.md"
    return note.read_text() if note.exists() else ""


def commit_base(tree: Path, version: str) -> None:
    """Make the folder ``tree`` a git tree with one commit, tagged BASE_TAG."""
    git(tree, "init", "-q", "-b", BRANCH, env=FIXED)
    git(tree, "add", "-A", "-f", env=FIXED)
    git(tree, "commit", "-q", "--allow-empty", "-m", f"Linux {version}", env=FIXED)
    git(tree, "tag", BASE_TAG, env=FIXED)


def commit_patch(
    tree: Path, patch: Patch, trailer: str, log: Path, *, source: Path, lists: Collection[str] = ()
) -> bool:
    """Apply a patch to a git tree, and commit it, unless ``apply_patch`` leaves it out; return true if it did not.

    Args:
        trailer: the last line of the commit message.
        log: takes the output of patch(1).
        source: the tree that an error message names.
        lists: as for ``apply_patch``.

    Raises: ApplyError when the patch does not fit.
    """
    if applied := apply_patch(patch, tree, log, source=source, lists=lists):
        named = re.findall(r"(?m)^(?:---|\+\+\+) [ab]/(\S+)", patch.hooks_text())
        git(tree, "add", "-A", "-f", "--", *dict.fromkeys([*named, *map(str, patch.files())]), env=FIXED)
        git(tree, "commit", "-q", "-m", commit_message(patch, trailer), env=FIXED)
    return applied


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder, which becomes ``target`` when the body ends well, and is removed when it does not.

    ``target`` must then not exist, or be an empty folder.
    """
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_new(target: Path) -> None:
    """Raise UsageError when ``target`` is a file, or a folder that is not empty."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} exists and is not empty", remedy="name a new folder")


def is_tree(target: Path) -> bool:
    """Return true if ``target`` is a git tree that ``make_tree`` has begun or made."""
    return (target / ".git").exists() and bool(git(target, "tag", "--list", BASE_TAG))


def check_tree(target: Path) -> None:
    """Raise UsageError when a tree can neither be made in ``target`` nor continued there."""
    if not is_tree(target):
        check_new(target)


def make_tree(pristine: Tree, features: Sequence[Feature], target: Path) -> None:
    """Make ``target`` a git tree: the pristine source, then one commit for each patch of ``features``.

    If a patch does not fit, the tree stays, with the patch as ``leave_rejects`` leaves it; the next call goes on
    behind this patch.

    Raises: UsageError when ``target`` is not empty and no such tree, or has uncommitted changes; ApplyError when a
        patch does not fit.
    """
    check_tree(target)
    if is_tree(target):
        check_series_of(target, pristine)
        check_clean(target)
        add_patches(target, pristine, features, target)
        return
    cache.need_space(target.parent.absolute(), 3, "a kernel tree with its git objects")
    log = cache.root() / "tree.log"
    failed = None
    with whole_folder(target) as part:
        with progress.step(f"copying Linux {pristine.version}"):
            process.run_logged(["cp", "-a", "--reflink=auto", f"{pristine.path}/.", part], log)
            process.run_logged(["chmod", "-R", "u+w", part], log)
        with progress.step("committing the base"):
            commit_base(part, pristine.version)
        try:
            add_patches(part, pristine, features, target)
        except ApplyError as error:
            failed = error
    if failed:
        raise failed


def check_series_of(target: Path, pristine: Tree) -> None:
    """Raise UsageError when the tree ``target`` was made from another Linux than ``pristine``."""
    there = git(target, "log", "-1", "--format=%s", BASE_TAG).strip()
    if there != f"Linux {pristine.version}":
        raise UsageError(
            f"{target} is a tree of {there}, not of Linux {pristine.version}",
            remedy="name a new folder; 'lull port' brings the commits of a tree to another Linux",
        )


def check_clean(tree: Path) -> None:
    """Raise UsageError when the git tree has changes that are not committed."""
    if git(tree, "status", "--porcelain").strip():
        raise UsageError(f"{tree} has uncommitted changes", remedy="commit or stash them first")


def add_patches(tree: Path, pristine: Tree, features: Sequence[Feature], named: Path) -> None:
    """Commit those patches of ``features`` to ``tree`` that it does not have.

    Args:
        named: the tree for an error message.

    Raises: ApplyError when a patch does not fit, which is left as ``leave_rejects`` leaves it.
    """
    log, source = cache.root() / "tree.log", pristine.origin or pristine.path
    there = {commit.patch for commit in commits(tree)}
    for patch in patches_of(features):
        if patch.name in there:
            continue
        with progress.step(f"applying {patch.name}"):
            trailer = f"{TRAILER}: {patch.name}"
            try:
                commit_patch(tree, patch, trailer, log, source=source)
            except ApplyError as error:
                left = leave_rejects(tree, patch, trailer)
                what = f"place the hunks of {', '.join(left)}" if left else "make its changes"
                error.remedy = (
                    f"{what} by hand in {named}, which has the commits before; then 'git add -u', 'git commit' and the "
                    "same command again, which goes on behind it. To bring the features to another Linux, "
                    "'lull port' merges in three ways, which leaves less to do by hand"
                )
                raise


def leave_rejects(tree: Path, patch: Patch, trailer: str) -> list[str]:
    """Leave what fits of a patch in ``tree``, uncommitted, and the rest in files ``*.rej``, whose names are returned.

    ``git commit`` finds the patch's message.
    """
    git(tree, "reset", "-q", "--hard")
    git(tree, "clean", "-qfd")
    cache.write_atomic(tree / ".git/info/exclude", "*.rej\n*.orig\n")
    rejected: list[str] = []
    if patch.hooks.exists():
        options = [option for option in STRICT if not option.startswith("--reject-file")]
        done = process.complete(["patch", *options, "-d", tree, "-i", patch.hooks])
        rejected = re.findall(r"(?m)saving rejects to file '?(.+?)'?$", done.output)
    for relative, file in patch.files().items():
        (tree / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tree / relative)
    # Debian's source ignores all new files: only these are added here, and the user needs 'git add -u'.
    if patch.files():
        git(tree, "add", "-f", "--", *map(str, patch.files()))
    cache.write_atomic(tree / ".git/MERGE_MSG", commit_message(patch, trailer))
    return rejected


def commits(tree: Path, since: str = BASE_TAG, until: str = "HEAD") -> list[Commit]:
    """The commits after the base, or after another commit, oldest first."""
    listing = git(tree, "log", "--reverse", f"--format=%H%x00%s%x00{VALUE}", f"{since}..{until}")
    return [Commit(*line.split("\0")) for line in listing.splitlines() if line]


def groups(tree: Path, base: Base) -> dict[str, list[Commit]]:
    """Patch -> its commits, oldest first.

    Raises: UsageError for a commit that names no patch or an unknown one, or that other commits separate from the
    earlier ones of its patch.
    """
    names = [patch.name for patch in patches_of(base.exported().values())]
    found: dict[str, list[Commit]] = {}
    last = ""
    for commit in commits(tree):
        where = f"commit {commit.hash[:12]} '{commit.subject}'"
        if not commit.patch:
            raise UsageError(
                f"{where} names no feature",
                remedy=f"give it a line '{TRAILER}: NAME' (git commit --amend, or git rebase -i)",
            )
        if commit.patch not in names:
            raise UsageError(
                f"{where} names feature '{commit.patch}', which base {base.name} does not have",
                remedy=f"known: {', '.join(names)}; a new one gets an entry in its TOML file first",
            )
        if commit.patch in found and commit.patch != last:
            raise UsageError(
                f"{where}: other commits separate it from the earlier commits of feature {commit.patch}",
                remedy="put each feature's commits next to each other with git rebase -i",
            )
        found.setdefault(commit.patch, []).append(commit)
        last = commit.patch
    return found


def stable_diff(text: str) -> str:
    """A diff without git's own header lines and the function names behind ``@@``, which change for no reason."""
    lines = [
        re.sub(r"^(@@ .*? @@).*", r"\1", line)
        for line in text.splitlines(keepends=True)
        if not line.startswith(("index ", "diff --git "))
    ]
    return "".join(lines)


def changes(tree: Path, base: Base) -> list[Change]:
    """The changes that make the features' folders what the commits of ``tree`` say.

    Raises: UsageError when ``tree`` is no git tree, is of another series or has uncommitted changes, or as ``groups``
        does.
    """
    if not (tree / ".git").exists():
        raise UsageError(f"{tree} is not a git tree", remedy="make one with './lull tree DIR'")
    check_series(tree, base)
    check_clean(tree)
    found: list[Change] = []
    patches = {patch.name: patch for patch in patches_of(base.exported().values())}
    for name, group in groups(tree, base).items():
        patch = patches[name]
        before, after = f"{group[0].hash}^", group[-1].hash
        status = git(tree, "diff", "--no-renames", "--name-status", before, after)
        entries = [line.split("\t") for line in status.splitlines()]
        own = {path for kind, path in entries if kind == "A"}
        hooked = [path for kind, path in entries if kind != "A"]
        found += [Change(place_of(path, patch), git(tree, "show", f"{after}:{path}")) for path in sorted(own)]
        found += [Change(file, None) for relative, file in patch.files().items() if str(relative) not in own]
        diff = git(tree, *DIFF, before, after, "--", *hooked) if hooked else ""
        found.append(Change(patch.hooks, keep_header(patch.hooks) + stable_diff(diff) if diff else None))
    return [c for c in found if differs(c)]


def place_of(path: str, patch: Patch) -> Path:
    """The file of the repository for ``path`` of the kernel tree: where the patch has it, else in files/.

    If the patch has ``path`` for other bases only, the file is in the folder files-SERIES/.
    """
    if file := patch.files().get(Path(path)):
        return file
    of_others = any((top / path).exists() for top in patch.folder.glob("files-*"))
    return patch.folder / (f"files-{patch.series}" if of_others else "files") / path


def keep_header(hooks: Path) -> str:
    """The text before the first diff of the file ``hooks``: its licence line and comments.

    Without such a file it is that of another series' file; empty when there is none.
    """
    file = hooks if hooks.exists() else max(hooks.parent.glob("*.patch"), default=None)
    if not file:
        return ""
    return "".join(takewhile(lambda line: not line.startswith("--- "), file.read_text().splitlines(keepends=True)))


def differs(change: Change) -> bool:
    """Return true if writing ``change`` would change its file."""
    if change.text is None:
        return change.path.exists()
    return not change.path.exists() or change.path.read_text() != change.text


def write(found: Sequence[Change]) -> None:
    """Write the changes; each file is replaced in one step."""
    for change in found:
        if change.text is None:
            change.path.unlink()
        else:
            cache.write_atomic(change.path, change.text)
