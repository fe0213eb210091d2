# SPDX-License-Identifier: GPL-2.0-only
"""`lull deb --checker`: the QEMU plugin as a Debian package, for machines without Lull."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path

from lull import cache, paths, process
from lull.errors import BuildError
from lull.progress import progress
from lull.requirements import Requirement, require

PACKAGE = "lull-checker"
NEEDED = [
    Requirement("dpkg", "dpkg-deb", "making packages"),
    Requirement("dpkg-dev", "dpkg-shlibdeps", "the same"),
    Requirement("make", "make", "the plugin"),
    Requirement("gcc", "gcc", "the plugin"),
]
CONTROL = """\
Package: lull-checker
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: {depends}
Recommends: qemu-system-arm (>= 1:9.2)
Section: devel
Priority: optional
Description: QEMU plugin that finds missing TLB invalidations of arm64 Linux
 The plugin runs in qemu-system-aarch64, beside a kernel that need not be
 changed. It models a TLB that forgets nothing, and reports each TLB
 invalidation that the kernel had to complete and did not, with the code that
 should have issued it.
"""
SOURCE = f"Source: lull\n\nPackage: {PACKAGE}\nArchitecture: any\nDescription: plugin\n"
"""The debian/control that dpkg-shlibdeps wants to see."""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2026 the authors of Lull
License: GPL-2.0-only
 On Debian systems the whole text of this license is in
 /usr/share/common-licenses/GPL-2.
"""
CHANGELOG = (
    f"{PACKAGE} ({{version}}) unstable; urgency=medium\n\n  * Built from Lull.\n\n -- {{maintainer}}  {{date}}\n"
)


def maintainer() -> str:
    """Who makes the package, as Debian's tools know it."""
    return f"{os.environ.get('DEBFULLNAME', 'Lull')} <{os.environ.get('DEBEMAIL', 'lull@localhost')}>"


def architecture() -> str:
    """Debian's name of this machine's architecture. Raises MissingError without dpkg."""
    return process.output_of(["dpkg", "--print-architecture"]).strip()


def version() -> str:
    """The version of the checker, which has its own (checker/version.h)."""
    return (paths.CHECKER / "version.h").read_text().split('"')[1]


def name() -> str:
    """The file name of the package. Raises MissingError without dpkg."""
    return f"{PACKAGE}_{version()}_{architecture()}.deb"


def package() -> Path:
    """The package, built for this machine or from the cache. Raises BuildError, MissingError."""
    require("making the package", NEEDED)
    sources = sorted(path for path in paths.CHECKER.iterdir() if path.is_file())
    key = cache.key_of_files([*sources, Path(__file__)], name(), maintainer())

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        log.unlink(missing_ok=True)
        root = part / "root"
        with progress.step("building the checker's package"):
            stage(root, part, log)
            run_step(["dpkg-deb", "--root-owner-group", "--build", root, part / name()], log)
        shutil.rmtree(root)

    return cache.make_entry("deb", f"{PACKAGE}-{key}", make) / name()


def run_step(command: Sequence[str | Path], log: Path, cwd: Path | None = None) -> None:
    """Run a step of the build, in the folder ``cwd``. Raises BuildError."""
    process.run_logged(command, log, cwd=cwd, error=BuildError, what="the checker's package cannot be built")


def stage(root: Path, part: Path, log: Path) -> None:
    """Fill ``root`` with the files of the package, and with the control file. ``part`` takes what is temporary."""
    build = part / "build"
    words = [f"OUT={build}", "CC=gcc", "LDFLAGS=-s -Wl,-z,relro,-z,now", "PREFIX=/usr", f"DESTDIR={root}"]
    run_step(["make", "-C", paths.CHECKER, *words, "install"], log)
    doc = root / "usr/share/doc" / PACKAGE
    (doc / "copyright").write_text(COPYRIGHT)
    changelog = CHANGELOG.format(version=version(), maintainer=maintainer(), date=formatdate())
    compress(doc / "changelog.gz", changelog.encode())
    manual = root / f"usr/share/man/man7/{PACKAGE}.7"
    compress(manual.with_name(f"{manual.name}.gz"), manual.read_bytes())
    manual.unlink()
    (build / "debian").mkdir()
    (build / "debian/control").write_text(SOURCE)
    libraries = sorted((root / "usr/lib/lull").iterdir())
    run_step(["dpkg-shlibdeps", "--warnings=0", "-Tvars", *(f"-e{path}" for path in libraries)], log, build)
    depends = (build / "vars").read_text().partition("shlibs:Depends=")[2].splitlines()[0]
    shutil.rmtree(build)
    kib = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    (root / "DEBIAN").mkdir()
    fields = {"version": version(), "architecture": architecture(), "maintainer": maintainer()}
    (root / "DEBIAN/control").write_text(CONTROL.format(kib=kib, depends=depends, **fields))
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def compress(path: Path, data: bytes) -> None:
    """Write ``data`` compressed as Debian wants it: as small as possible, without a time."""
    path.write_bytes(gzip.compress(data, 9, mtime=0))
