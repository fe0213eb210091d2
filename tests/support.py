# SPDX-License-Identifier: GPL-2.0-only
"""What tests of several files use."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lull import cache, guest, paths, toml
from lull.base import DEFAULT, Feature, load_base
from lull.errors import FetchError, LullError
from lull.guest import qemu
from lull.lab import Lab
from lull.linux import apt, series
from lull.linux.fetch import Fetched, Store
from lull.linux.toolchain import Toolchain

REPOSITORY = paths.REPOSITORY
"""The top folder. A test names every file of the repository from here, so that test files can move."""
FAKE = REPOSITORY / "tests/fake"
FIXES = REPOSITORY / "fixes"
DATA = REPOSITORY / "tests/data"
"""Output of real guests."""
SUMMARY: list[str] = []
"""What tests found that is worth a line at the end (conftest.py prints it)."""
REAL_CACHE = cache.root()
"""The user's cache: named here before any test replaces it."""
BASE_OF_TEST = "LULL_TEST_BASE"
"""The environment variable with the base on which a test marked ``bases`` runs (conftest.py)."""


def tracked() -> list[Path]:
    """The files git tracks; every file below when this is no checkout."""
    done = subprocess.run(["git", "-C", REPOSITORY, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return [REPOSITORY / name for name in done.stdout.split("\0") if name]
    return [p for p in REPOSITORY.rglob("*") if p.is_file() and ".git" not in p.parts]


def feature_that(has: Callable[[Feature], bool]) -> str:
    """The name of the feature of the default base of which this is true. Tests know features by what they do."""
    return next(name for name, feature in load_base().features.items() if has(feature))


FACTS: Mapping[str, Mapping[str, Any]] = toml.load_toml(load_base().file)["features"]
"""Feature -> all that kernel/bases/7.3.toml says of it."""
LOCAL = feature_that(lambda feature: feature.local)
RUNS = feature_that(lambda feature: "runs" in feature.policies)
AGING = feature_that(lambda feature: "nosync" in feature.policies)
HVO = feature_that(lambda feature: "hugetlb_free_vmemmap" in feature.parameter)
NEWER = ["trixie", "trixie-backports"]
"""Debian's suites with a QEMU 11."""


@functools.cache
def host_library() -> Path:
    """The archive that guest programs are linked with, for the host: made once, whatever cache each test has."""
    folder = tempfile.mkdtemp(prefix="lull-library-")
    atexit.register(shutil.rmtree, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LULL_CACHE", folder)
        return guest.build_library(Toolchain("", "the host's"))


def host_program(name: str, folder: Path) -> Path:
    """Compile a guest program for the host."""
    flags = [flag for flag in guest.CFLAGS if flag != "-static"]
    source = paths.GUEST / f"{name}.c"
    subprocess.run(["gcc", *flags, "-I", guest.LIBRARY, "-o", folder / name, source, host_library()], check=True)
    return folder / name


def host_programs(folder: Path, names: Sequence[str], library: str) -> Path:
    """Compile guest programs for the host, and liar.so: C functions that take the place of the C library's."""
    for name in names:
        host_program(name, folder)
    (folder / "liar.c").write_text(library)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "liar.so", folder / "liar.c"], check=True)
    return folder


def real_qemu() -> qemu.Qemu:
    """The QEMU the lab would use here: the machine's, or the private copy of the real cache."""
    machine = qemu.of_machine()
    if machine and qemu.fits(machine):
        return machine
    store = Store(offline=True)
    store.index = REAL_CACHE / "fetched.json"
    found = store.known(qemu.entry())
    if found is None:
        pytest.skip(f"no QEMU {qemu.NEEDED} here ('./lull fetch' brings one)")
    qemu.set_up(found.path)
    return qemu.probe(found.path / qemu.PROGRAM)


def newer_qemu() -> qemu.Qemu:
    """A QEMU for which the plugin is built with version 7 of the interface, with all its libraries: of Debian 13.

    It is fetched into the real cache. Skips the test where that is not possible.
    """
    store = Store(offline=lab_under_test().offline)
    try:
        found = store.have("newer-qemu") or store.remember("newer-qemu", fetch_newer_qemu(store))
    except LullError as error:
        pytest.skip(f"no newer QEMU: {error}")
    qemu.set_up(found.path)
    return qemu.probe(found.path / qemu.PROGRAM)


def fetch_newer_qemu(store: Store) -> Fetched:
    """Download it. Raises FetchError on a host whose archives have no Debian 13."""
    private = store.archives(NEWER, apt.host_architecture(), bare=True, alone=True)
    version = next(filter(qemu.supported, private.versions(qemu.PACKAGE)), "")
    if qemu.Qemu(Path(), version.partition(":")[2] or "0.0").plugin != "lull-7.so":
        raise FetchError(f"{' and '.join(NEWER)} have no {qemu.PACKAGE} with version 7 of the plugin interface")
    return qemu.download_qemu(private, version, store.log)


def lab_under_test() -> Lab:
    """The lab that 'lull test' was asked to test: its --offline and --tree; on the base of this test."""
    tree, base = os.environ.get("LULL_TEST_TREE"), os.environ.get(BASE_OF_TEST, DEFAULT)
    return Lab(base, Path(tree) if tree else None, offline=bool(os.environ.get("LULL_TEST_OFFLINE")))


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """``folder`` with these files in it: path -> content."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def build_deb(root: Path, target: Path, depends: str = "") -> Path:
    """A package of the files below ``root``, built as root owns them; its maintainer script must never run."""
    fields = f"Package: {target.stem}\nVersion: 1.0-1\nArchitecture: all\nMaintainer: test <test@localhost>\n"
    needs = f"Depends: {depends}\n" if depends else ""
    write_files(root / "DEBIAN", {"control": f"{fields}{needs}Description: test\n", "postinst": "#!/bin/sh\nexit 1\n"})
    (root / "DEBIAN/postinst").chmod(0o755)
    subprocess.run(["fakeroot", "dpkg-deb", "-b", root, target], check=True, capture_output=True)
    return target


def unpack_deb(package: Path, folder: Path) -> Path:
    """Unpack a package into ``folder``, and return it."""
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder


BASE_FILES = {
    "usr/share/base-passwd/passwd.master": "root:*:0:0:root:/root:/bin/bash\nnobody:*:65534:65534::/:/bin/false\n",
    "usr/share/base-passwd/group.master": "root:*:0:\nnogroup:*:65534:\n",
}
"""What a guest's disk cannot do without."""


def small_disk(place: Path, size: str) -> list[str]:
    """How a command line begins that finds a disk of ``size`` at the folder ``place``; nobody else sees this disk.

    Skips the test where nothing can be mounted.
    """
    who = ["--map-root-user"] * (os.getuid() != 0)
    script = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"'
    apart = ["--mount", "--mount-proc", "--pid", "--fork", "--kill-child"]  # all it starts ends with it
    begin = ["unshare", *who, *apart, "sh", "-c", script, "sh", size, str(place)]
    if not shutil.which("unshare") or subprocess.run([*begin, "true"], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    return begin


@dataclass
class Tool:
    """Runs the tool as a user does: another process, its own cache, the fake base."""

    cache: Path
    cwd: Path
    environment: dict[str, str]
    patience: float = 120
    """Seconds after which a command has hung, if it is given no other time."""
    within: tuple[str, ...] = ()
    """How each command line begins (``small_disk``)."""

    def command(self, *words: str) -> list[str]:
        """The command line."""
        return [*self.within, sys.executable, str(REPOSITORY / "src"), *words]

    def __call__(self, *words: str, timeout: float = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*words),
            cwd=self.cwd,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout or self.patience,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.cwd,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )


def git(tree: Path, *words: str) -> str:
    """The output of git for somebody who is not the author of the commits in ``tree``."""
    stranger = ["-c", "user.name=A Stranger", "-c", "user.email=stranger@localhost"]
    return subprocess.run(["git", "-C", tree, *stranger, *words], capture_output=True, text=True, check=True).stdout


def apply_mails(tree: Path, mails: Sequence[Path]) -> None:
    """Apply mails by git am to the base of a tree of 'lull tree', on the branch ``mails``."""
    git(tree, "checkout", "-q", "-B", "mails", series.BASE_TAG)
    git(tree, "am", "-q", *map(str, mails))


def fixes_of(series_name: str) -> list[Path]:
    """The fixes for a series of kernels: NAME.patch is for every one, NAME-SERIES.patch for one."""
    found = sorted(FIXES.glob("*.patch"))
    return [fix for fix in found if fix.stem.endswith(f"-{series_name}") or not re.search(r"-\d+\.\d+$", fix.stem)]


def common() -> list[str]:
    """--offline and --tree as 'lull test' was given them, and --base for a test on another base."""
    lab = lab_under_test()
    return [
        *(["--base", lab.base_name] if lab.base_name != DEFAULT else []),
        *(["--offline"] if lab.offline else []),
        *(["--tree", str(lab.user_tree)] if lab.user_tree else []),
    ]


def passes(real: Tool, *words: str) -> None:
    """Run a check; it must pass, and its table is kept for the end."""
    done = real("check", *common(), *words)
    lines = done.stdout.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("machine ")), len(lines))
    SUMMARY.extend(["", f"lull check {' '.join(words)}", *lines[start:]])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
