# SPDX-License-Identifier: GPL-2.0-only
"""The guest's disk: what is on it, from packages made here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import BASE_FILES, build_deb, write_files

from lull.errors import BuildError, UsageError
from lull.guest import userland
from lull.guest.userland import Userland
from lull.linux import apt

PROGRAMS = ("dpkg-deb", "fakeroot", "mke2fs", "debugfs")
SBIN = "/usr/sbin:/sbin"
writes_disks = pytest.mark.skipif(
    not all(shutil.which(p) or shutil.which(p, path=SBIN) for p in PROGRAMS), reason=f"one is missing: {PROGRAMS}"
)
WANTED = Userland(("base-passwd", "tool"), (("usr/bin/awk", "gawk"), ("etc/mtab", "../proc/self/mounts")))


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few packages: files in /usr and, as they were before, in /lib and /bin; documents; setuid, and a group's."""
    folder = tmp_path_factory.mktemp("debs")
    build_deb(write_files(folder / "a", BASE_FILES), folder / "base-passwd.deb")
    tool = write_files(
        folder / "b",
        {
            "bin/old": "old",
            "lib/aarch64/libold.so": "library",
            "usr/bin/tool": "tool",
            "usr/bin/with space": "space",
            "usr/share/doc/tool/README": "long",
            "usr/share/man/man1/tool.1": "longer",
        },
    )
    (tool / "usr/bin/tool").chmod(0o4755)
    (tool / "usr/bin/link").symlink_to("tool")
    (tool / "usr/bin/hard").hardlink_to(tool / "bin/old")
    build_deb(tool, folder / "tool.deb")
    return folder


def disk(debs: Path, folder: Path) -> Path:
    """The image of these packages and a source, written in ``folder``."""
    (folder / "debs").mkdir(parents=True)
    for deb in sorted(debs.glob("*.deb"), reverse=True):
        shutil.copy(deb, folder / "debs")
    source = write_files(folder / "src/project", {"Makefile": "all:\n", "src/run": "#!/bin/sh\n"})
    (source / "src/run").chmod(0o755)
    userland.write_image(WANTED, folder)
    return folder / "disk.img"


@pytest.fixture(scope="module")
def image(debs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One image for all that only look at it."""
    return disk(debs, tmp_path_factory.mktemp("image") / "disk")


def debugfs(image: Path, request: str) -> str:
    """What debugfs says of an image."""
    done = subprocess.run(
        [shutil.which("debugfs") or "/usr/sbin/debugfs", "-R", request, image],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def look(image: Path, path: str) -> tuple[str, str, str, str]:
    """Kind, mode, owner and group of a file."""
    text = debugfs(image, f'stat "{path}"')
    found = re.search(r"Type: (\w+) +Mode: +(\d+).*?User: +(\d+) +Group: +(\d+)", text, re.DOTALL)
    return (found[1], found[2], found[3], found[4]) if found else ("", "", "", "")


@writes_disks
@pytest.mark.parametrize(
    ("path", "kind", "mode"),
    [
        ("/usr/bin/tool", "regular", "04755"),
        ("/usr/bin/old", "regular", "0644"),
        ("/usr/lib/aarch64/libold.so", "regular", "0644"),
        ("/usr/bin/with space", "regular", "0644"),
        ("/usr/bin/link", "symlink", "0777"),
        ("/bin", "symlink", "0777"),
        ("/lib", "symlink", "0777"),
        ("/usr/bin/awk", "symlink", "0777"),
        ("/etc/mtab", "symlink", "0777"),
        ("/", "directory", "0755"),
        ("/usr", "directory", "0755"),
        ("/tmp", "directory", "01777"),
        ("/proc", "directory", "0755"),
        ("/lull", "directory", "0755"),
        ("/etc/passwd", "regular", "0644"),
        ("/etc/pam.d/common-session-noninteractive", "regular", "0644"),
        ("/usr/src/lull/project/Makefile", "regular", "0644"),
        ("/usr/src/lull/project/src/run", "regular", "0755"),
        ("/usr/share/doc/tool", "", ""),
        ("/usr/share/man", "", ""),
    ],
)
def test_what_is_on_it(image: Path, path: str, kind: str, mode: str) -> None:
    """Files of packages, what their scripts would have made, sources; root's, with their modes; no documents."""
    assert look(image, path) == ((kind, mode, "0", "0") if kind else ("", "", "", ""))


@writes_disks
def test_links_and_hard_links(image: Path) -> None:
    """Where links lead; a file of two names is one."""
    assert 'dest: "usr/bin"' in debugfs(image, "stat /bin")
    assert 'dest: "gawk"' in debugfs(image, "stat /usr/bin/awk")
    assert 'dest: "../proc/self/mounts"' in debugfs(image, "stat /etc/mtab")
    assert "Links: 2" in debugfs(image, "stat /usr/bin/old")
    assert debugfs(image, "cat /etc/passwd") == BASE_FILES["usr/share/base-passwd/passwd.master"]


@writes_disks
def test_nothing_is_newer_than_the_guests_clock(image: Path) -> None:
    """Which begins at 0: make must not see files of the future."""
    stat = debugfs(image, "stat /usr/bin/tool") + debugfs(image, "stat /etc/passwd") + debugfs(image, "stat /")
    times = re.findall(r"[acm]time: 0x([0-9a-f]+):", stat)
    assert len(times) >= 9 and all(int(time, 16) <= 1 for time in times)


@writes_disks
def test_there_is_room(image: Path) -> None:
    """For what programs write, however large the packages are."""
    text = debugfs(image, "show_super_stats -h")
    free, size = (int(re.search(rf"{name}: +(\d+)", text)[1]) for name in ("Free blocks", "Block size"))  # type: ignore[index]
    assert free * size > 0.9 * (userland.ROOM_MIB << 20)
    assert image.stat().st_blocks * 512 < 100 << 20, "the file is sparse"


@pytest.fixture
def umask_of_a_careful_user() -> Iterator[None]:
    """Nobody else may read what is made."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@writes_disks
def test_the_same_files_give_the_same_bytes(
    image: Path, debs: Path, tmp_path: Path, umask_of_a_careful_user: None
) -> None:
    """At another time, in another folder, by somebody with another umask."""
    again = disk(debs, tmp_path / "a folder")
    digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (image, again)]
    assert digests[0] == digests[1]


@writes_disks
def test_only_the_image_is_kept(image: Path) -> None:
    """Packages and trees are not."""
    assert {p.name for p in image.parent.iterdir()} == {"disk.img", "links"}


@writes_disks
def test_a_broken_package(debs: Path, tmp_path: Path) -> None:
    """The error has dpkg's words; there is no image, whole or half."""
    folder = tmp_path / "disk"
    (folder / "debs").mkdir(parents=True)
    shutil.copy(debs / "base-passwd.deb", folder / "debs")
    (folder / "debs/zero.deb").write_bytes(b"no archive")
    with pytest.raises(BuildError, match="disk could not be written") as caught:
        userland.write_image(WANTED, folder)
    assert "zero.deb" in caught.value.text()
    assert not list(folder.glob("disk.img"))


@writes_disks
def test_what_does_not_fit(debs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so; there is no image."""
    monkeypatch.setattr(userland, "ROOM_MIB", -5)
    (tmp_path / "disk/src").mkdir(parents=True)
    (tmp_path / "disk/src/large").write_bytes(bytes(range(256)) * 32768)
    with pytest.raises(BuildError) as caught:
        disk(debs, tmp_path / "disk")
    assert "mke2fs" in caught.value.text() and "allocate block" in caught.value.text()
    assert not list(tmp_path.glob("disk/disk.img"))


def test_a_userland_file(tmp_path: Path) -> None:
    """What it says, and what it cannot say."""
    path = tmp_path / "u.toml"
    path.write_text('packages = ["a"]\n[links]\n"usr/bin/x" = "y"\n[sources]\nlua = "lua5.4"\n')
    assert userland.load_userland(path) == Userland(("a",), (("usr/bin/x", "y"),), (("lua", "lua5.4"),))
    for wrong in ("packages = 7\n", "[links]\n", "packages = [\n", 'packages = ["a"]\nlinks = ["b"]\n'):
        path.write_text(wrong)
        with pytest.raises(UsageError, match="not a userland file") as caught:
            userland.load_userland(path)
        assert str(path) in caught.value.text()


def test_where_tarballs_belong() -> None:
    """The main one is the top, components are folders, signatures are nothing, Debian's own packages have one."""
    names = ["x_1.0.orig.tar.xz", "x_1.0.orig-more-lib.tar.gz", "x_1.0.orig.tar.xz.asc"]
    assert apt.tarballs([Path(n) for n in names]) == {"": Path(names[0]), "more-lib": Path(names[1])}
    assert apt.tarballs([Path("native_2+deb12u1.tar.xz")]) == {"": Path("native_2+deb12u1.tar.xz")}


def test_a_source_is_as_its_authors_wrote_it(tmp_path: Path) -> None:
    """The top folder goes, modes stay."""
    tree = write_files(tmp_path / "x-1.0", {"configure": "#!/bin/sh\n", "a/b.c": ""})
    (tree / "configure").chmod(0o755)
    subprocess.run(["tar", "-cJf", tmp_path / "x.tar.xz", "-C", tmp_path, "x-1.0"], check=True)
    userland.unpack_source(tmp_path / "x.tar.xz", tmp_path / "out", tmp_path / "log")
    assert (tmp_path / "out/configure").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/a/b.c").is_file()
