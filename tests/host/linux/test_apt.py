# SPDX-License-Identifier: GPL-2.0-only
"""The private apt and the guest's disk: an archive of our own on loopback can be down, cut downloads, or lie."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import BASE_FILES, FAKE, Tool, build_deb, write_files

from lull.errors import DiskFull, FetchError
from lull.guest import userland
from lull.guest.userland import Userland
from lull.linux import apt, debian
from lull.linux.fetch import Store

pytestmark = pytest.mark.skipif(not (shutil.which("apt-get") and apt.codename()), reason="no apt here")
PACKAGE = "linux-source-6.12"


class Archive:
    """A Debian archive in memory: one package, served with the trouble that is asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.packages: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.trouble = ""
        self.lies = ""
        self.requests: list[tuple[str, str]] = []
        archive = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                archive.serve(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/debian"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one GET, ranges included."""
        wanted = request.headers.get("Range", "")
        self.requests.append((request.path, wanted))
        data = self.files.get(request.path)
        if data is None:
            request.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").partition("-")[0] or 0) if wanted else 0
        body = data[start:]
        pool = "/pool/" in request.path
        lie = self.lies and request.path.rpartition("/")[2].startswith(self.lies)
        if lie or (pool and self.trouble == "lie"):
            body = body[:-1] + bytes([body[-1] ^ 1])
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if pool and self.trouble == "cut" else body)
        request.close_connection = True

    def publish(self, deb: bytes, version: str, name: str = PACKAGE, depends: str = "") -> None:
        """Put one package into the archive."""
        pool = f"/debian/pool/{name}_{version}_all.deb"
        self.files[pool] = deb
        self.packages[f"{name} {version}"] = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
            + (f"Depends: {depends}\n" if depends else "")
            + f"Filename: {pool.removeprefix('/debian/')}\nSize: {len(deb)}\nSHA256: {sha256(deb)}\n\n"
        )
        self.index()

    def publish_source(self, name: str, version: str, parts: Mapping[str, bytes]) -> None:
        """Put a source package of these files into the archive."""
        dsc = f"Source: {name}\nVersion: {version}\n".encode()
        files = {f"{name}_{version}.dsc": dsc, **parts}
        self.files |= {f"/debian/pool/{file}": data for file, data in files.items()}
        sums = "".join(f" {sha256(data)} {len(data)} {file}\n" for file, data in files.items())
        self.sources[name] = (
            f"Package: {name}\nBinary: {name}\nVersion: {version}\nFormat: 3.0 (quilt)\nDirectory: pool\n"
            f"Checksums-Sha256:\n{sums}\n"
        )
        self.index()

    def index(self) -> None:
        """Write the indexes of what is in the archive."""
        dist = f"/debian/dists/{apt.codename()}"
        for suite in (dist, f"{dist}-backports"):
            architectures = {apt.host_architecture(), "arm64"}
            listed = {f"main/binary-{a}/Packages": "".join(self.packages.values()) for a in architectures}
            listed["main/source/Sources"] = "".join(self.sources.values())
            text = {name: entries.encode() if suite == dist else b"" for name, entries in listed.items()}
            self.files |= {f"{suite}/{name}": data for name, data in text.items()}
            sums = [f" {sha256(d)} {len(d)} {n}" for n, d in sorted(text.items())]
            release = (
                f"Origin: test\nSuite: {suite.rpartition('/')[2]}\nCodename: {suite.rpartition('/')[2]}\n"
                f"Architectures: {apt.host_architecture()} arm64 all\nComponents: main\n"
                f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n" + "\n".join(sums) + "\n"
            )
            self.files[f"{suite}/Release"] = release.encode()


def sha256(data: bytes) -> str:
    """As Debian's indexes have it."""
    return hashlib.sha256(data).hexdigest()


def source_package(folder: Path) -> bytes:
    """A real .deb that holds the fake kernel tree as the real one holds Linux."""
    root = folder / "deb"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {PACKAGE}\nVersion: 6.12.0-1\nArchitecture: all\n"
        "Maintainer: test <test@localhost>\nDescription: test\n"
    )
    (root / "usr/src").mkdir(parents=True)
    with tarfile.open(root / "usr/src/linux.tar.xz", "w:xz") as tar:
        tar.add(FAKE / "linux", "linux-source-6.12")
        noise = hashlib.shake_256(b"noise").digest(400_000)  # does not compress: something to cut in half
        info = tarfile.TarInfo("linux-source-6.12/noise")
        info.size = len(noise)
        tar.addfile(info, io.BytesIO(noise))
    deb = folder / "source.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True)
    return deb.read_bytes()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """The archive, with the package in it."""
    made = Archive()
    made.publish(source_package(tmp_path), "6.12.0-1")
    yield made
    made.server.shutdown()


def machines_apt(archive: Archive, etc: Path) -> Path:
    """The configuration of a machine whose apt knows only the archive."""
    (etc / "parts").mkdir(parents=True)
    (etc / "sources.list").write_text(f"deb [trusted=yes] {archive.url} {apt.codename()} main\n")
    (etc / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{etc}/sources.list";\nDir::Etc::sourceparts "{etc}/parts";\n'
        'Acquire::http::Proxy "DIRECT";\n'
    )
    return etc / "apt.conf"


@pytest.fixture
def lull(tool: Tool, archive: Archive, tmp_path: Path) -> Tool:
    """The tool on a machine whose apt knows only the archive. The base was tried on two versions."""
    tool.environment["APT_CONFIG"] = str(machines_apt(archive, tmp_path / "etc apt"))
    base = tmp_path / "bases/net.toml"
    base.parent.mkdir()
    (tmp_path / "config").symlink_to(FAKE / "config")
    base.write_text(
        f'series = "6.12"\n[source]\npackage = "{PACKAGE}"\ntarball = "usr/src/linux.tar.xz"\n'
        'tried = ["6.12.0", "6.12.1"]\n'
        '[kernels.stock]\nconfig = ["config/fake.config"]\n'
    )
    tool.environment["TEST_BASE"] = str(base)
    return tool


def build(tool: Tool, *words: str) -> subprocess.CompletedProcess[str]:
    """``lull build --kernel stock`` over the archive's base."""
    return tool("build", "--kernel", "stock", "--base", tool.environment["TEST_BASE"], *words)


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
    assert (
        f"kernels of {missing} are not looked for: the package indexes could not be fetched" in capsys.readouterr().err
    )


def test_a_version_that_was_tried(lull: Tool, archive: Archive) -> None:
    """The newest that the base names is taken; where there is none, the newest there is, and that is said."""
    deb = archive.files[f"/debian/pool/{PACKAGE}_6.12.0-1_all.deb"]
    for version in ("6.12.1-2", "6.12.1-1", "6.12.10-1"):
        archive.publish(deb, version)
    done = lull("fetch", "--base", lull.environment["TEST_BASE"])
    assert f"fetching {PACKAGE} 6.12.1-2" in done.stderr and "tested on" not in done.stderr, done.stderr
    archive.packages = {name: entry for name, entry in archive.packages.items() if "6.12.10-1" in name}
    archive.index()
    done = lull("fetch", "--base", lull.environment["TEST_BASE"])
    assert f"has {PACKAGE} 6.12.10-1; the features were tested on 6.12.0, 6.12.1" in done.stderr, done.stderr


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


def test_package_the_archives_do_not_have(lull: Tool, archive: Archive) -> None:
    """--tree is named as the way."""
    for name in [n for n in archive.files if n.endswith("Packages")]:
        archive.files[name] = b""
    archive.files = {n: d for n, d in archive.files.items() if not n.endswith("Release")}
    done = build(lull)
    assert done.returncode == 7
    archive.publish(b"", "0")
    base = Path(lull.environment["TEST_BASE"])
    base.write_text(base.read_text().replace(f'"{PACKAGE}"', '"linux-source-9.9"'))
    done = build(lull)
    assert done.returncode == 7, done.stderr
    assert "linux-source-9.9" in done.stderr and "--tree" in done.stderr


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
    assert [line.split()[1] for line in listed] == [
        "base-passwd_1.0-1_all.deb",
        *sorted(TARBALLS),
        "tool_1.0-1_all.deb",
    ]
    requests = len(programs.requests)
    assert userland.build(Store(offline=True), WANTED) == image
    assert userland.build(Store(), WANTED) == image
    assert len(programs.requests) == requests


def test_newer_packages_when_asked_for(programs: Archive, tmp_path: Path) -> None:
    """Only then, and the disk is another only when they are."""
    first = userland.build(Store(), WANTED)
    assert userland.build(Store(refresh=True), WANTED) == first
    publish_tool(programs, tmp_path, "1.0-2")
    assert userland.build(Store(), WANTED) == first
    second = userland.build(Store(refresh=True), WANTED)
    assert second != first and on_disk(second, "/usr/bin/tool") == "1.0-2"
    assert userland.build(Store(), WANTED) == second


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
