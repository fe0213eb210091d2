# SPDX-License-Identifier: GPL-2.0-only
"""An archive of our own on loopback, which can be down, cut downloads, lie, or lack what it had yesterday."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support import FAKE, Tool

from lull.base import Pin
from lull.linux import apt

PACKAGE = "linux-source-6.12"


class Archive:
    """A Debian archive in memory, and others beside it: served with the trouble that is asked for.

    ``trouble`` is of the pool: "cut" sends half a file, "lie" a changed one, "page" a web page in place of everything.
    ``lies`` begins the names of files that are changed.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        release = apt.codename()
        self.suites: dict[str, dict[str, str]] = {release: {}, f"{release}-backports": {}}
        self.valid_until: dict[str, str] = {}
        self.sign: Callable[[bytes], bytes] | None = None
        self.sources: dict[str, str] = {}
        self.trouble = ""
        self.lies = ""
        self.requests: list[tuple[str, str]] = []
        archive = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                archive.serve(self)

            do_HEAD = do_GET

            def log_message(self, *arguments: object) -> None:
                pass

        self.pin = Pin("", "")
        """The package that tests pin, for those that do."""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/debian"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one GET, ranges included."""
        wanted = request.headers.get("Range", "")
        self.requests.append((request.path, wanted))
        data = self.files.get(request.path)
        if self.trouble == "page":
            data, wanted = b"<!DOCTYPE html><html>Please log in</html>", ""
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
        if self.trouble == "page":
            request.send_header("Content-Type", "text/html")
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Last-Modified", "Sat, 01 Jan 2022 00:00:00 GMT")
        request.end_headers()
        if request.command == "HEAD":
            return
        request.wfile.write(body[: len(body) // 2] if pool and self.trouble == "cut" else body)
        request.close_connection = True

    def publish(
        self, deb: bytes, version: str, name: str = PACKAGE, depends: str = "", suite: str = apt.codename()
    ) -> Pin:
        """Put one package into a suite of the archive. Returns what pins it."""
        pool = f"/debian/pool/{name}_{version}_all.deb"
        self.files[pool] = deb
        self.suites.setdefault(suite, {})[f"{name} {version}"] = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
            + (f"Depends: {depends}\n" if depends else "")
            + f"Filename: {pool.removeprefix('/debian/')}\nSize: {len(deb)}\nSHA256: {sha256(deb)}\n\n"
        )
        self.index()
        sha1 = hashlib.sha1(deb, usedforsecurity=False).hexdigest()
        return Pin(pool.removeprefix("/debian/"), sha256(deb), sha1, len(deb))

    def drop(self, pin: Pin, *suites: str, snapshot: bool = False) -> None:
        """Let a package be gone from the pool and from ``suites``, as when a newer one replaces it.

        Args:
            snapshot: keep it in the archive of old versions, whose files are named by their SHA-1.
        """
        data = self.files.pop(f"/debian/{pin.path}")
        if snapshot:
            self.files[f"/snapshot/file/{pin.sha1}"] = data
        for suite in suites:
            self.suites[suite] = {n: text for n, text in self.suites[suite].items() if pin.path not in text}
        self.index()

    def release(self, folder: str, name: str, data: bytes) -> str:
        """Put a tarball into the archive of kernel releases, and return its URL."""
        self.files[f"/{folder}/{name}"] = data
        self.files[f"/{folder}/sha256sums.asc"] = f"{sha256(data)}  {name}\n".encode()
        return f"{self.url.removesuffix('/debian')}/{folder}/{name}"

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
        self.files = {path: data for path, data in self.files.items() if "/dists/" not in path}
        for suite, packages in self.suites.items():
            architectures = {apt.host_architecture(), "arm64"}
            listed = {f"main/binary-{a}/Packages": "".join(packages.values()) for a in architectures}
            listed["main/source/Sources"] = "".join(self.sources.values()) if suite == apt.codename() else ""
            text = {name: entries.encode() for name, entries in listed.items()}
            self.files |= {f"/debian/dists/{suite}/{name}": data for name, data in text.items()}
            sums = [f" {sha256(d)} {len(d)} {n}" for n, d in sorted(text.items())]
            until = f"Valid-Until: {self.valid_until[suite]}\n" if suite in self.valid_until else ""
            release = (
                f"Origin: test\nSuite: {suite}\nCodename: {suite}\n"
                f"Architectures: {apt.host_architecture()} arm64 all\nComponents: main\n"
                f"Date: Sat, 01 Jan 2022 00:00:00 UTC\n{until}SHA256:\n" + "\n".join(sums) + "\n"
            )
            self.files[f"/debian/dists/{suite}/Release"] = release.encode()
            if self.sign:
                self.files[f"/debian/dists/{suite}/InRelease"] = self.sign(release.encode())


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


def machines_apt(archive: Archive, etc: Path, option: str = "trusted=yes") -> Path:
    """The configuration of a machine whose apt knows only the archive, with this option of its entry."""
    (etc / "parts").mkdir(parents=True, exist_ok=True)
    (etc / "sources.list").write_text(f"deb [{option}] {archive.url} {apt.codename()} main\n")
    (etc / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{etc}/sources.list";\nDir::Etc::sourceparts "{etc}/parts";\n'
        f'Dir::Etc::parts "{etc}/none";\nAcquire::http::Proxy "DIRECT";\n'
    )
    return etc / "apt.conf"


def build(tool: Tool, *words: str) -> subprocess.CompletedProcess[str]:
    """``lull build --kernel stock`` over the archive's base."""
    return tool("build", "--kernel", "stock", "--base", tool.environment["TEST_BASE"], *words)
