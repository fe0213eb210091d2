# SPDX-License-Identifier: GPL-2.0-only
"""The private apt and the guest's disk: an archive of our own on loopback can be down, cut downloads, or lie."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from archive import PACKAGE, Archive, build, machines_apt
from support import BASE_FILES, Tool, build_deb, write_files

from lull.errors import DiskFull, FetchError
from lull.guest import userland
from lull.guest.userland import Userland
from lull.linux import apt, debian
from lull.linux.fetch import Store

pytestmark = pytest.mark.skipif(not (shutil.which("apt-get") and apt.codename()), reason="no apt here")


def test_fetch_verify_unpack_build(lull: Tool, archive: Archive) -> None:
    """A kernel comes out of a package; the second time nothing is asked of the network."""
    done = build(lull)
    assert done.returncode == 0, done.stderr
    assert f"fetching {PACKAGE} 6.12.0-1" in done.stderr
    asked = len(archive.requests)
    again = build(lull, "--offline")
    assert again.returncode == 0, again.stderr
    assert len(archive.requests) == asked


def test_a_mirror_without_some_suites(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Debian's kernels are looked for in those that it has, and the others are named."""
    monkeypatch.setenv("APT_CONFIG", str(machines_apt(archive, tmp_path / "etc apt")))
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "cache"))
    has = [apt.codename(), f"{apt.codename()}-backports"]
    assert [s.suite for s in debian.archive(Store()).sources] == has
    missing = ", ".join(s for s in debian.SUITES if s not in has)
    assert f"left out: {missing}: the package indexes could not be fetched" in capsys.readouterr().err


def test_no_network(lull: Tool, archive: Archive) -> None:
    """Exit 7, the network is named, nothing half is published."""
    archive.server.shutdown()
    archive.server.server_close()
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "network" in done.stderr and "--offline" in done.stderr
    assert not list(lull.cache.glob("fetch/*.deb"))


def test_half_a_download(lull: Tool, archive: Archive) -> None:
    """Connections that break in the middle: apt asks for the rest, then gives up with exit 7; later it works."""
    archive.trouble = "cut"
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "run again" in done.stderr
    ranges = [wanted for path, wanted in archive.requests if path.endswith(".deb") and wanted]
    assert ranges and all(wanted.startswith("bytes=") for wanted in ranges)
    archive.trouble = ""
    done = build(lull)
    assert done.returncode == 0, done.stderr


def test_wrong_hash(lull: Tool, archive: Archive) -> None:
    """A file that is not what the index says: exit 7, never used; an honest archive afterwards works."""
    archive.trouble = "lie"
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "ash" in done.stderr
    archive.trouble = ""
    assert build(lull).returncode == 0


def test_our_own_hash_check(tmp_path: Path) -> None:
    """Also without apt: the file is removed and both hashes are said."""
    path = tmp_path / "x.deb"
    path.write_bytes(b"x")
    with pytest.raises(Exception, match="the signed index says abc"):
        apt.verify(path, "abc")
    assert not path.exists()


def test_the_machines_own_state_is_untouched(lull: Tool) -> None:
    """Lists, archives and sources of the machine are what they were."""
    places = [Path("/var/lib/apt/lists"), Path("/var/cache/apt"), Path("/etc/apt")]
    before = {p: p.stat().st_mtime_ns for place in places for p in place.rglob("*")}
    assert build(lull).returncode == 0
    assert before == {p: p.stat().st_mtime_ns for place in places for p in place.rglob("*")}


def test_key_of_a_source_is_carried_over(tmp_path: Path) -> None:
    """Signed-By is found in both forms, and goes with an exchanged suite."""
    stanza = tmp_path / "a.sources"
    stanza.write_text(
        "# comment\nTypes: deb\nURIs: http://x/debian\nSuites: a\nSigned-By: /k/one.gpg\n\n"
        "Types: deb\nURIs: http://y/debian\nSuites: b\nSigned-By: /k/two.gpg\n"
    )
    line = tmp_path / "b.list"
    line.write_text("# comment\ndeb [arch=amd64 signed-by=/k/three.gpg] http://z/debian c main\n")
    files = [stanza, line]
    assert apt.entry_options("http://y/debian", "b", files) == "signed-by=/k/two.gpg"
    assert apt.entry_options("http://z/debian/", "c", files) == "signed-by=/k/three.gpg"
    assert apt.entry_options("http://z/debian", "d", files) == ""
    main = apt.AptSource("http://x/debian", apt.codename(), "main", "signed-by=/k/one.gpg")
    assert apt.with_suites([main], ["later"])[-1].line() == "deb [signed-by=/k/one.gpg] http://x/debian later main"


WANTED = Userland(("tool",), (("usr/bin/t", "tool"),), (("project", "project"),))
TARBALLS = ("project_1.0.orig.tar.gz", "project_1.0.orig-part.tar.gz")


@pytest.fixture
def programs(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A machine whose archive has a tool, what that depends on, and a source package in two tarballs."""
    monkeypatch.setattr(userland, "SUITES", (apt.codename(),))
    monkeypatch.setenv("APT_CONFIG", str(machines_apt(archive, tmp_path / "etc")))
    base = build_deb(write_files(tmp_path / "base", BASE_FILES), tmp_path / "base-passwd.deb")
    archive.publish(base.read_bytes(), "1.0-1", "base-passwd")
    publish_tool(archive, tmp_path, "1.0-1")
    for name, folder in zip(TARBALLS, ("project-1.0", "part"), strict=True):
        tree = write_files(tmp_path / "sources" / folder, {"README": folder})
        subprocess.run(["tar", "-czf", tmp_path / name, "-C", tree.parent, tree.name], check=True)
    archive.publish_source(
        "project",
        "1.0-1",
        {name: (tmp_path / name).read_bytes() for name in TARBALLS} | {"project_1.0-1.debian.tar.xz": b"rules: run me"},
    )
    return archive


def publish_tool(archive: Archive, folder: Path, version: str) -> None:
    """The tool in this version; some of it does not compress: something to cut in half."""
    root = write_files(folder / version / "tree", {"usr/bin/tool": version})
    (root / "usr/noise").write_bytes(hashlib.shake_256(b"noise").digest(200_000))
    deb = build_deb(root, folder / version / "tool.deb", depends="base-passwd")
    archive.publish(deb.read_bytes(), version, "tool", depends="base-passwd")


def on_disk(image: Path, path: str) -> str:
    """A file of the guest's disk."""
    program = shutil.which("debugfs") or "/usr/sbin/debugfs"
    return subprocess.run([program, "-R", f"cat {path}", image], capture_output=True, text=True, check=True).stdout


def asked(archive: Archive, name: str) -> list[str]:
    """The ranges asked for of a file."""
    return [wanted for path, wanted in archive.requests if path.rpartition("/")[2].startswith(name)]


def test_a_disk_comes_out_of_packages(programs: Archive) -> None:
    """With all they depend on, whatever this machine has installed; then nothing is asked of the network."""
    image = userland.build(Store(), WANTED)
    assert on_disk(image, "/usr/bin/tool") == "1.0-1"
    assert on_disk(image, "/etc/passwd").startswith("root:")
    assert on_disk(image, "/usr/src/lull/project/README") == "project-1.0"
    assert on_disk(image, "/usr/src/lull/project/part/README") == "part"
    assert not asked(programs, "project_1.0-1.debian"), "Debian's part is not wanted"
    listed = (image.parent / "packages").read_text().splitlines()
    names = ["base-passwd_1.0-1_all.deb", *TARBALLS, "tool_1.0-1_all.deb"]
    assert sorted(line.split()[0] for line in listed) == sorted(names)
    requests = len(programs.requests)
    assert userland.build(Store(offline=True), WANTED) == image
    assert userland.build(Store(), WANTED) == image
    assert len(programs.requests) == requests


@pytest.mark.parametrize(
    ("packages", "sources", "named"),
    [(("tool", "tol"), (), "package tol"), (("tool",), (("a", "prject"),), "package for prject")],
)
def test_a_package_there_is_not(
    programs: Archive, packages: tuple[str, ...], sources: tuple[tuple[str, str], ...], named: str
) -> None:
    """It is named, before anything is fetched."""
    with pytest.raises(FetchError, match=named):
        userland.build(Store(), Userland(packages, (), sources))
    assert not asked(programs, "tool_")


def test_an_interrupted_disk_resumes(programs: Archive, own_cache: Path) -> None:
    """What was fetched stays, and what was not comes later; nothing half is a disk."""
    programs.trouble = "cut"
    with pytest.raises(FetchError, match="could not be downloaded"):
        userland.build(Store(), WANTED)
    assert not list(own_cache.rglob("disk.img*"))
    programs.trouble = ""
    programs.requests.clear()
    image = userland.build(Store(), WANTED)
    assert on_disk(image, "/usr/bin/tool") == "1.0-1"
    assert any(asked(programs, "tool_")), "the rest alone is asked for"


@pytest.mark.parametrize("kind", ["tool_", "project_"])
def test_a_lie_is_on_no_disk(programs: Archive, own_cache: Path, kind: str) -> None:
    """apt compares what comes with the index, of packages and of sources."""
    programs.lies = kind
    with pytest.raises(FetchError) as caught:
        userland.build(Store(), WANTED)
    assert "ash" in caught.value.text()
    assert not list(own_cache.rglob("disk.img*"))


def test_a_disk_offline(own_cache: Path) -> None:
    """The command that brings it is named."""
    with pytest.raises(FetchError, match="--offline") as caught:
        userland.build(Store(offline=True), WANTED)
    assert "lull fetch" in caught.value.text() and "--suite" in caught.value.text()


def test_no_space_for_a_disk(programs: Archive, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before it is fetched."""
    monkeypatch.setattr(userland, "SPACE", 1 << 50)
    with pytest.raises(DiskFull, match="the guest's disk needs"):
        userland.build(Store(), WANTED)
    assert not asked(programs, "tool_")


def test_a_bare_machine_has_nothing(own_cache: Path) -> None:
    """No package is installed there, no other architecture is known, and sources can be had."""
    source = apt.AptSource("http://x/debian", "s", "main", "")
    bare, ours = apt.PrivateApt([source], ["arm64"], bare=True), apt.PrivateApt([source], ["arm64"])
    assert bare.key != ours.key
    bare.prepare()
    assert bare.status.read_text() == "" and ours.status == Path("/var/lib/dpkg/status")
    assert bare.lists == "deb http://x/debian s main\ndeb-src http://x/debian s main\n"
    assert 'APT::Architecture "arm64";' in bare.config.read_text()
