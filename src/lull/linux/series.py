# SPDX-License-Identifier: GPL-2.0-only
"""`lull tree` and `lull save`: the features as branches of a git tree, and the branches back to mails.

The tree has a commit with the base, and behind it one commit for each patch. Each feature is a branch that ends with
its last patch; the next feature's branch goes on there. ``git rebase`` moves all of them (rebase.updateRefs). ``lull
save`` writes each branch to its feature's folder by ``git format-patch``. A branch's description is the cover letter.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import base as bases
from lull import cache, process
from lull.base import LETTER, Base, Feature, Patch, patches_of, title_of
from lull.errors import ApplyError, UsageError
from lull.linux.tree import Tree, check_series
from lull.progress import progress

BASE_TAG = "lull-base"
FIRST = "linux"
"""The branch with the base alone."""
SETTINGS = (
    "commit.gpgsign=false",
    "core.autocrlf=false",
    "gc.auto=0",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "log.showSignature=false",
    "color.ui=false",
    "diff.algorithm=myers",
    "diff.renames=false",
    "diff.noprefix=false",
    "format.signature=",
)
"""Whatever the user's configuration of git says: mails always have the same form."""
OPTIONS = [word for setting in SETTINGS for word in ("-c", setting)]
PLACEHOLDER = ("A U Thor", "author@example.com")
"""Who commits what git makes here. Author and Signed-off-by of a mail that is sent are a person's."""
# Commits made from the same mails have the same hashes: fixed dates, fixed language, no configuration of the user.
FIXED = {
    **{f"GIT_{who}_NAME": PLACEHOLDER[0] for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": PLACEHOLDER[1] for who in ("AUTHOR", "COMMITTER")},
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_DATE": "@0 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}
GIT_LETTER = "0000-cover-letter.patch"
BY_GIT = re.compile(r"(?m)(?:^\S.* \(\d+\):\n(?:  .*\n)+\n*)+(?:^ .*\n)*\s*\Z")
"""What git writes behind the text of a cover letter: who wrote which patches, and what they change."""
FORM = ("--zero-commit", "--abbrev=12", "--no-ext-diff", "--no-textconv", "-U3", "-q")
"""Options of git format-patch: mails that change only where the patch does."""


@dataclass(frozen=True)
class Change:
    """A change that ``lull save`` makes: a file of the repository, and its new text (None: delete the file)."""

    path: Path
    text: str | None


def git(tree: Path, *words: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Run git in ``tree`` with OPTIONS, and return its output. Raises UsageError when it fails."""
    return process.output_of(["git", "-C", tree, *OPTIONS, *words], error=UsageError, env=env)


def commit_base(tree: Path, version: str) -> None:
    """Make the folder ``tree`` a git tree with one commit, tagged BASE_TAG."""
    git(tree, "init", "-q", "-b", FIRST, env=FIXED)
    git(tree, "config", "rebase.updateRefs", "true")
    git(tree, "add", "-A", "-f", env=FIXED)
    git(tree, "commit", "-q", "--allow-empty", "-m", f"Linux {version}", env=FIXED)
    git(tree, "tag", BASE_TAG, env=FIXED)


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

    If a patch does not fit, the tree stays as ``git am`` leaves it; after ``git am --continue`` the next call goes on
    behind this patch.

    Raises: UsageError when ``target`` is not empty and no such tree, or has uncommitted changes; ApplyError when a
        patch does not fit.
    """
    check_tree(target)
    if not is_tree(target):
        cache.need_space(target.parent.absolute(), 3, "a kernel tree with its git objects")
        log = cache.root() / "tree.log"
        with whole_folder(target) as part:
            with progress.step(f"copying Linux {pristine.version}"):
                process.run_logged(["cp", "-a", "--reflink=auto", f"{pristine.path}/.", part], log)
                process.run_logged(["chmod", "-R", "u+w", part], log)
            with progress.step("committing the base"):
                commit_base(part, pristine.version)
    check_series_of(target, pristine)
    check_clean(target)
    before = BASE_TAG
    for feature in features:
        add_feature(target, feature, before)
        before = feature.name


def check_series_of(target: Path, pristine: Tree) -> None:
    """Raise UsageError when the tree ``target`` was made from another Linux than ``pristine``."""
    there = git(target, "log", "-1", "--format=%s", BASE_TAG).strip()
    if there != f"Linux {pristine.version}":
        raise UsageError(
            f"{target} is a tree of {there}, not of Linux {pristine.version}",
            remedy="name a new folder; 'lull port' brings the commits of a tree to another Linux",
        )


def check_clean(tree: Path) -> None:
    """Raise UsageError when git applies or rebases in the tree, or it has changes that are not committed."""
    under_way = any((tree / ".git" / name).exists() for name in ("rebase-apply", "rebase-merge"))
    if under_way or git(tree, "status", "--porcelain").strip():
        raise UsageError(
            f"{tree} has uncommitted changes", remedy="commit or stash them, or end 'git am' and 'git rebase', first"
        )


def branches(tree: Path) -> list[str]:
    """The branches of the tree."""
    return git(tree, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def subjects(tree: Path, since: str, until: str = "HEAD") -> list[str]:
    """The subjects of the commits from ``since`` to ``until``, oldest first."""
    return git(tree, "log", "--reverse", "--format=%s", f"{since}..{until}").splitlines()


def add_feature(tree: Path, feature: Feature, before: str) -> None:
    """Commit those patches of a feature to ``tree`` that it does not have, on the feature's branch behind ``before``.

    Raises: ApplyError when a patch does not fit; UsageError when the feature has no patches.
    """
    if not feature.patches:
        raise UsageError(f"feature {feature.name} has no patches", where=str(feature.folder))
    if feature.name not in branches(tree):
        git(tree, "checkout", "-q", "-b", feature.name)
        if feature.letter.exists():
            git(tree, "config", f"branch.{feature.name}.description", description(feature.letter))
    elif git(tree, "branch", "--show-current").strip() != feature.name:
        return
    there = subjects(tree, before)
    for patch in feature.patches:
        if patch.subject in there:
            continue
        with progress.step(f"applying {patch.name}"):
            am = ["am", "-q", "--committer-date-is-author-date", str(patch.file.absolute())]
            done = process.complete(["git", "-C", tree, *OPTIONS, *am], env=FIXED)
        if done.status != 0:
            raise ApplyError(
                f"patch {patch.name} does not apply",
                where=str(tree),
                remedy=f"'git apply --reject {patch.file}' there, place the hunks in *.rej by hand, 'git add' the "
                "files, 'git am --continue', and the same command again, which goes on behind it. To bring the "
                "features to another Linux, 'lull port' merges in three ways, which leaves less to do by hand",
                tail=done.output[-2000:],
            )


def description(letter: Path) -> str:
    """What the description of a branch says, of the cover letter that was made of it: the title, and the text."""
    text = BY_GIT.sub("", letter.read_text().partition("\n\n")[2]).rstrip()
    return f"{title_of(letter)}\n\n{text}\n"


def changes(tree: Path, base: Base) -> list[Change]:
    """The changes that make the features' folders what the branches of ``tree`` say.

    Raises: UsageError when ``tree`` is no git tree, is of another series, has uncommitted changes, has commits behind
        its last branch, or a branch that is not behind the one before.
    """
    if not (tree / ".git").exists():
        raise UsageError(f"{tree} is not a git tree", remedy="make one with './lull tree DIR'")
    check_series(tree, base)
    check_clean(tree)
    there, before = branches(tree), BASE_TAG
    found: list[Change] = []
    for feature in (f for f in base.features.values() if f.name in there):
        if process.complete(["git", "-C", tree, "merge-base", "--is-ancestor", before, feature.name]).status != 0:
            raise UsageError(
                f"branch {feature.name} is not behind {before}",
                where=str(tree),
                remedy=f"git -C {tree} rebase --update-refs --onto {before} ...: each feature goes on where the one "
                "before it ends",
            )
        found += changes_of(tree, before, feature)
        before = feature.name
    if left := subjects(tree, before):
        raise UsageError(
            f"commits are behind the last branch, {before}: '{left[0]}'",
            where=str(tree),
            remedy=f"'git branch -f NAME HEAD' makes them part of a feature; it must have an entry in {base.name}.toml",
        )
    return [c for c in found if differs(c)]


def changes_of(tree: Path, before: str, feature: Feature) -> list[Change]:
    """The mails of a feature, from the commits of its branch behind ``before``; and its stale ones, to be deleted.

    Raises: UsageError when the branch has no description for its cover letter, or a commit changes nothing.
    """
    with tempfile.TemporaryDirectory(prefix="lull-save-") as scratch:
        words = ["format-patch", *FORM, "-o", scratch]
        if not feature.only:
            words += ["--cover-letter", "--cover-from-description=subject"]
        git(tree, *words, f"{before}..{feature.name}", env=FIXED)
        mails = {file.name.replace(GIT_LETTER, LETTER): file.read_text() for file in sorted(Path(scratch).iterdir())}
    if bad := [name for name, text in mails.items() if not text or "*** SUBJECT HERE ***" in text]:
        raise UsageError(
            f"branch {feature.name} has no description, or a commit that changes nothing: {bad[0]}",
            where=str(tree),
            remedy=f"git -C {tree} branch --edit-description {feature.name}; git -C {tree} rebase --empty=drop ...",
        )
    stale = [Change(file, None) for file in sorted(feature.folder.glob("*")) if file.name not in mails]
    return [Change(feature.folder / name, text) for name, text in mails.items()] + stale


def backported(base: Base, saved: Sequence[Change] | None = None) -> Change | None:
    """The file that says with which patches those of a backport were compared; None if ``base`` is no backport.

    A line has the patch's title, and a hash of the lines that it changes in the base of which this is a backport.

    Args:
        saved: changes that were made; the lines of other patches stay as they are. None: each line as it would be now.
    """
    if not base.of:
        return None
    origin = bases.load_base(str(base.file.with_name(f"{base.of}.toml")))
    patches = patches_of(origin.exported().values())
    # Without contexts and places, which change with other patches.
    keys = {patch.title: cache.key_of(*re.findall(r"(?m)^[-+].*", patch.diff())) for patch in patches}
    titles = dict.fromkeys([*keys, *(patch.title for patch in patches_of(base.exported().values()))])
    file = base.file.parents[1] / base.series / f"of-{origin.series}"
    kept = dict(line.split() for line in file.read_text().splitlines()) if saved is not None and file.exists() else {}
    for change in saved or ():
        kept.pop(Patch(f"{change.path.parent.name}/{change.path.stem}", change.path).title, None)
    return Change(file, "".join(f"{title} {kept.get(title, keys.get(title, '-'))}\n" for title in titles))


def differs(change: Change) -> bool:
    """Return true if writing ``change`` would change its file."""
    if change.text is None:
        return change.path.exists()
    return not change.path.exists() or change.path.read_text() != change.text


def write(found: Sequence[Change]) -> None:
    """Make the changes; each file is replaced in one step."""
    for change in found:
        if change.text is None:
            change.path.unlink()
        else:
            cache.write_atomic(change.path, change.text)
