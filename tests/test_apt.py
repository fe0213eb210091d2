# SPDX-License-Identifier: GPL-2.0-only
"""The private apt against an archive of our own on loopback that can be down, cut downloads short, or lie."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import FAKE, Tool

from lull import apt

pytestmark = pytest.mark.skipif(not (shutil.which("apt-get") and apt.codename()), reason="no apt here")
PACKAGE = "linux-source-6.12"


class Archive:
    """A Debian archive in memory: one package, served with the trouble that is asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.trouble = ""
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
        deb = request.path.endswith(".deb")
        if deb and self.trouble == "lie":
            body = body[:-1] + bytes([body[-1] ^ 1])
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if deb and self.trouble == "cut" else body)
        request.close_connection = True

    def publish(self, deb: bytes, version: str) -> None:
        """Put one package and its indexes into the archive."""
        pool = f"/debian/pool/{PACKAGE}_{version}_all.deb"
        entry = (
            f"Package: {PACKAGE}\nVersion: {version}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
            f"Filename: {pool.removeprefix('/debian/')}\nSize: {len(deb)}\n"
            f"SHA256: {hashlib.sha256(deb).hexdigest()}\n\n"
        ).encode()
        self.files[pool] = deb
        dist = f"/debian/dists/{apt.codename()}"
        sums = []
        for suite in (dist, f"{dist}-backports"):
            listed = {}
            for architecture in {apt.host_architecture(), "arm64"}:
                packages = entry if suite == dist else b""
                name = f"main/binary-{architecture}/Packages"
                self.files[f"{suite}/{name}"] = packages
                listed[name] = packages
            sums = [f" {hashlib.sha256(d).hexdigest()} {len(d)} {n}" for n, d in sorted(listed.items())]
            release = (
                f"Origin: test\nSuite: {suite.rpartition('/')[2]}\nCodename: {suite.rpartition('/')[2]}\n"
                f"Architectures: {apt.host_architecture()} arm64 all\nComponents: main\n"
                f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n" + "\n".join(sums) + "\n"
            )
            self.files[f"{suite}/Release"] = release.encode()


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


@pytest.fixture
def lull(tool: Tool, archive: Archive, tmp_path: Path) -> Tool:
    """The tool on a machine whose apt knows only the archive."""
    etc = tmp_path / "etc apt"
    (etc / "parts").mkdir(parents=True)
    (etc / "sources.list").write_text(f"deb [trusted=yes] {archive.url} {apt.codename()} main\n")
    (etc / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{etc}/sources.list";\nDir::Etc::sourceparts "{etc}/parts";\n'
        'Acquire::http::Proxy "DIRECT";\n'
    )
    tool.environment["APT_CONFIG"] = str(etc / "apt.conf")
    base = tmp_path / "bases/net.toml"
    base.parent.mkdir()
    (tmp_path / "config").symlink_to(FAKE / "config")
    base.write_text(
        f'series = "6.12"\n[source]\npackage = "{PACKAGE}"\ntarball = "usr/src/linux.tar.xz"\n'
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
    main = apt.Source("http://x/debian", apt.codename(), "main", "signed-by=/k/one.gpg")
    assert apt.with_suites([main], ["later"])[-1].line() == "deb [signed-by=/k/one.gpg] http://x/debian later main"
