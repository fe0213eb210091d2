# SPDX-License-Identifier: GPL-2.0-only
"""Kernel source trees in the cache: the base's package unpacked, or a copy of the user's tree, and trees with features.

The user's own tree is copied and never changed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lull import cache, process
from lull.base import Base, Feature, Patch, patches_of
from lull.errors import ApplyError, UsageError
from lull.linux import hunks
from lull.progress import progress, say

TREE_GIB = 2.5
"""GiB of free space that an unpacked tree needs, with a margin."""
STRICT = ("-p1", "--fuzz=0", "--no-backup-if-mismatch", "--batch", "--forward", "--reject-file=-")
"""Options with which patch(1) applies a patch only where its context is unchanged, and asks nothing."""


@dataclass(frozen=True)
class Tree:
    """A kernel source tree. Builds only read it: they write to another folder (O=).

    Args:
        path: its top folder.
        key: hash of its contents; equal trees have equal keys.
        version: what ``make kernelversion`` prints.
        origin: the user's tree, when ``path`` is a copy of it.
    """

    path: Path
    key: str
    version: str
    origin: Path | None = None


def kernel_version(path: Path) -> str:
    """VERSION.PATCHLEVEL.SUBLEVEL of the tree at ``path``. Raises UsageError when that is not a kernel tree."""
    what, remedy = "not a kernel source tree", "name the top folder of an unpacked kernel source"
    try:
        text = (path / "Makefile").read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror}", where=str(path / "Makefile"), remedy=remedy) from error
    fields = dict(re.findall(r"(?m)^(VERSION|PATCHLEVEL|SUBLEVEL) *= *(\d+)", text))
    if len(fields) != 3:
        raise UsageError(f"{what}: its Makefile names no version", where=str(path), remedy=remedy)
    return ".".join(fields[k] for k in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))


def check_place(part: Path) -> None:
    """Raise UsageError when ``part`` has white space or a colon, at which the kernel's makefiles split paths."""
    if any(c.isspace() or c == ":" for c in str(part)):
        raise UsageError(
            "kernels cannot be built below a path with a space or a colon",
            where=str(part),
            remedy="name another cache folder with LULL_CACHE",
        )


def unpack_base(source: Path, base: Base, sha256: str) -> Tree:
    """The pristine tree of a source package, unpacked into the cache.

    Args:
        source: the package (``linux-source-6.12``), a .deb with a tarball in it; or a tarball.
        base: the base that the package is for.
        sha256: the hash of ``source``, whose first characters become the tree's key.

    Raises: UsageError when the cache's path does not suit make; DiskFull.
    """
    key = sha256[: cache.KEY_LENGTH]

    def make(part: Path) -> None:
        check_place(part)
        cache.need_space(part, TREE_GIB, "unpacking the kernel source")
        with progress.step(f"unpacking {base.source.package}"):
            log = part.parent / f"{part.name}.log"
            tarball = source
            if source.suffix == ".deb":
                process.run_logged(["dpkg-deb", "-x", source, part / "deb"], log)
                tarball = part / "deb" / base.source.tarball
            process.run_logged(["tar", "-xf", tarball, "-C", part, "--strip-components=1"], log)
            shutil.rmtree(part / "deb", ignore_errors=True)
            make_read_only(part)

    path = cache.make_entry("src", f"{base.name}-{key}", make)
    return Tree(path, key, kernel_version(path))


def make_read_only(path: Path) -> None:
    """Make every file below ``path`` read-only, because trees with features share these files by hard links."""
    for folder, _, files in os.walk(path):
        for name in files:
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            if stat.S_ISREG(mode):
                os.chmod(full, mode & ~0o222)


def check_series(path: Path, base: Base) -> str:
    """The version of the kernel tree at ``path``. Raises UsageError when it is not one of the base's series."""
    version = kernel_version(path)
    if not version.startswith(f"{base.series}."):
        raise UsageError(
            f"the tree is Linux {version}, the features here are for {base.series}",
            where=str(path),
            remedy=f"name a {base.series} tree, or the tree's base with --base",
        )
    return version


def of_user(path: Path, base: Base) -> Tree:
    """A copy of the user's own tree in the cache, without .git and build products.

    Its key is made of the names, sizes and modification times of its files.

    Raises: UsageError when it is not a tree of the base's series.
    """
    path = path.resolve()
    version = check_series(path, base)
    parts: list[str] = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(f for f in folders if f != ".git")
        for name in sorted(files):
            info = os.lstat(os.path.join(folder, name))
            parts.append(f"{os.path.relpath(folder, path)}/{name} {info.st_size} {info.st_mtime_ns}")
    key = cache.key_of(str(path), "\n".join(parts))

    def make(part: Path) -> None:
        check_place(part)
        cache.need_space(part, TREE_GIB, "copying the kernel tree")
        log = part.parent / f"{part.name}.log"
        with progress.step(f"copying {path}"):
            entries = [p for p in sorted(path.iterdir()) if p.name != ".git"]
            process.run_logged(["cp", "-a", "--reflink=auto", "-t", part, "--", *entries], log)
            if (part / ".config").exists() or (part / "include/config").exists():
                process.run_logged(["make", "-C", part, "ARCH=arm64", "mrproper"], log)
            make_read_only(part)

    copy = cache.make_entry("src", f"user-{key}", make)
    return Tree(copy, key, version, path)


def apply_features(pristine: Tree, features: Sequence[Feature]) -> Tree:
    """``pristine`` with ``features`` applied, in the cache.

    ``pristine`` is not changed.

    Raises: ApplyError, which names the file and the hunk that do not fit.
    """
    if not features:
        return pristine
    patches = patches_of(features)
    key = cache.key_of(pristine.key, *(patch.key() for patch in patches))
    names = "+".join(f.name for f in features)

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        with progress.step(f"applying {names} to Linux {pristine.version}"):
            # The new tree has hard links to the pristine files. That is safe: patch(1) and apply_patch() replace
            # files and never write into existing ones, which are read-only.
            process.run_logged(["cp", "-al", f"{pristine.path}/.", part], log)
            try:
                for patch in patches:
                    apply_patch(patch, part, log, source=pristine.origin or pristine.path)
            except ApplyError:
                shutil.rmtree(part)
                raise

    path = cache.make_entry("src", f"lull-{key}", make)
    return Tree(path, key, pristine.version)


def apply_patch(patch: Patch, tree: Path, log: Path, *, source: Path) -> bool:
    """Apply one patch to ``tree`` in place, by patch(1).

    A patch whose changes the tree has already is left out. Where the context of a hunk differs in its outer lines, as
    in releases near the tested one, the hunk is applied. Both are said.

    Args:
        log: takes the output of patch(1).
        source: the tree that an error message names.

    Returns false if the patch was left out.

    Raises: ApplyError when a hunk does not fit, or the tree already has a file that the patch adds.
    """
    check_mail(patch.file)
    mail = patch.file
    if process.complete(["patch", *STRICT, "--dry-run", "-d", tree, "-i", mail]).status != 0:
        if hunks.has_all(patch.diff(), tree):
            say(f"{patch.name}: left out, Linux {kernel_version(source)} has this change already")
            return False
        text, changed = hunks.near(patch.diff(), tree)
        if changed:
            say(f"{patch.name}: less context fits Linux {kernel_version(source)}: {', '.join(changed)}")
            mail = log.with_name(f"{log.name}.near.patch")
            mail.write_text(text)
    done = process.complete(["patch", *STRICT, "-d", tree, "-i", mail])
    with open(log, "a") as out:
        out.write(done.output)
    if done.status != 0:
        raise ApplyError(
            f"patch {patch.name} does not apply: {failed_hunks(done.output)}",
            where=f"{patch.file} on {source}",
            remedy=f"use a tree nearer to the base, or port the patch: './lull tree DIR' makes a tree "
            f"to work in and './lull save DIR' brings the change back; {source} is unchanged",
        )
    return True


def check_mail(mail: Path) -> None:
    """Raise ApplyError when the file ``mail`` is not a well-formed patch from the first line to the last.

    patch(1) would not notice: where a hunk's header counts too few lines, it silently skips the rest of the hunk and
    all later hunks of the same file.
    """
    done = process.complete(["git", "apply", "--numstat", mail])
    if done.status != 0:
        raise ApplyError(
            f"not a well-formed patch: {done.output.strip().removeprefix('error: ')}",
            where=str(mail),
            remedy="change patches in a tree and write them with './lull save DIR'; git has the earlier file",
        )


def failed_hunks(output: str) -> str:
    """The files and hunks that failed, read from the output of patch(1)."""
    failed: list[str] = []
    current = ""
    for line in output.splitlines():
        if match := re.match(r"(?:checking|patching) file '?([^']+?)'?(?: \(|$)", line):
            current = match.group(1)
        elif match := re.match(r"Hunk #(\d+) FAILED at (\d+)", line):
            failed.append(f"{current}, hunk {match.group(1)} (line {match.group(2)})")
        elif re.match(r"\d+ out of \d+ hunks? ignored", line):
            failed.append(f"{current}, every hunk (the file is not there, or has the change already)")
    return "; ".join(failed) or "patch(1) could not read it"
