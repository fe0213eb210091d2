# SPDX-License-Identifier: GPL-2.0-only
"""Build a kernel again after a small change: in a folder that keeps source and objects, so that kbuild compiles little.

The folder is ``kept/BASE-KERNEL`` in the cache: ``src`` is the source with the features, ``objects`` the O= folder. A
file of ``src`` gets a new time stamp only when its content changes, and its new time is then later than that of every
object. kbuild notices a changed configuration or compiler by itself. If the source comes from another package, or from
another tree of the user's, the folder is emptied first.

Kernels that are measured or tested are never built here: ``lull.linux.build`` builds them from nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lull import cache
from lull.base import Feature, patches_of
from lull.linux import fitting
from lull.linux.build import BUILD_GIB, Builder, Kernel, fragments_text, publish
from lull.linux.toolchain import Toolchain
from lull.linux.tree import Tree, apply_patch, check_place
from lull.progress import progress

PART = ".lull-part"
"""The end of the name of a file that is being written. ``synchronise`` removes what an interruption left."""


def files_of(top: Path) -> dict[str, str]:
    """Path relative to ``top`` -> full path, of every file and symbolic link below ``top``."""
    found: dict[str, str] = {}
    skip = len(str(top)) + 1
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        paths = [os.path.join(folder, name) for name in (*files, *links)]
        found |= {path[skip:]: path for path in paths}
    return found


def same(source: str, place: str) -> bool:
    """Return true if ``place`` has the content of ``source``, and is executable if ``source`` is."""
    try:
        there = os.lstat(place)
    except FileNotFoundError:
        return False
    wanted = os.lstat(source)
    if os.path.samestat(wanted, there):
        return True
    if (stat.S_IFMT(wanted.st_mode), wanted.st_mode & 0o111) != (stat.S_IFMT(there.st_mode), there.st_mode & 0o111):
        return False
    if stat.S_ISLNK(wanted.st_mode):
        return os.readlink(source) == os.readlink(place)
    if wanted.st_size != there.st_size:
        return False
    return wanted.st_mtime_ns == there.st_mtime_ns or Path(source).read_bytes() == Path(place).read_bytes()


def synchronise(wanted: Mapping[str, str], target: Path, *, link: bool) -> list[str]:
    """Give ``target`` the files ``wanted`` and no others. Returns the paths that were written or removed.

    May be interrupted at any point: the next call does the rest.

    Args:
        wanted: path relative to ``target`` -> the file to take the content from.
        link: make hard links, which have the files' old time stamps, instead of copies. Only possible while nothing has
            been built from ``target``: make would not compile again for a changed file that is older than its object.
    """
    changed = []
    for relative, place in files_of(target).items():
        if relative not in wanted:
            os.unlink(place)
            changed.append(relative)
    if changed:
        for folder, _, _ in os.walk(target, topdown=False):
            with contextlib.suppress(OSError):  # the folder is not empty
                os.rmdir(folder)
    for relative, source in wanted.items():
        place = os.path.join(target, relative)
        if same(source, place):
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if link:
            os.link(source, place + PART, follow_symlinks=False)
        else:
            shutil.copy(source, place + PART, follow_symlinks=False)
        os.replace(place + PART, place)
        changed.append(relative)
    return changed


def files_with(features: Sequence[Feature], pristine: Tree, scratch: Path, log: Path) -> dict[str, str]:
    """Path -> file, of the tree ``pristine`` with ``features`` applied; ``scratch`` gets the files that they change.

    Raises: ApplyError, as ``lull.linux.tree.apply_features``.
    """
    patches = patches_of(features)
    touched = fitting.touched(patch.diff() for patch in patches)
    if scratch.exists():
        shutil.rmtree(scratch)
    scratch.mkdir(parents=True)
    wanted = files_of(pristine.path)
    # As in a whole tree, patch(1) replaces these hard links and never writes into the pristine files.
    for relative in touched & wanted.keys():
        (scratch / relative).parent.mkdir(parents=True, exist_ok=True)
        os.link(wanted[relative], scratch / relative, follow_symlinks=False)
    for patch in patches:
        apply_patch(patch, scratch, log, source=pristine.origin or pristine.path)
    patched = files_of(scratch)
    return {path: file for path, file in wanted.items() if path not in touched} | patched


def build_kept(
    name: str,
    folder: Path,
    pristine: Tree,
    features: Sequence[Feature],
    fragments: Sequence[Path],
    toolchain: Toolchain,
) -> Kernel:
    """The kernel ``name`` of ``pristine`` with ``features``, built in ``folder``, where an earlier call left objects.

    Raises: ApplyError; BuildError, with the log in ``folder``.
    """
    source, objects, origin = folder / "src", folder / "objects", folder / "origin"
    log = folder / "build.log"
    of = str(pristine.origin or pristine.key)
    check_place(folder)
    with (
        cache.disk_errors(folder),
        cache.lock(cache.root() / "locks" / f"kept-{folder.name}", lambda: cache.waiting(folder.name)),
        progress.step(f"building {name} (Linux {pristine.version}) in {folder}") as step,
    ):
        if not origin.exists() or origin.read_text() != of:
            if folder.exists():
                shutil.rmtree(folder)
            cache.write_atomic(origin, of)
        log.unlink(missing_ok=True)
        first = not objects.exists()
        if first:
            cache.need_space(folder, BUILD_GIB, "building a kernel")
        started = time.monotonic()
        step.update("comparing the source")
        changed = synchronise(files_with(features, pristine, folder / "scratch", log), source, link=first)
        step.update(f"{len(changed)} files of the source changed")
        objects.mkdir(exist_ok=True)
        builder = Builder(Tree(source, pristine.key, pristine.version), toolchain, objects, log)
        builder.configure(fragments_text(fragments))
        builder.compile(step.update)
        publish(builder, name, time.monotonic() - started, folder)
    return Kernel(name, folder, pristine.version)
