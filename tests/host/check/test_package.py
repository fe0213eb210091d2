# SPDX-License-Identifier: GPL-2.0-only
"""The checker as a Debian package."""

from __future__ import annotations

import gzip
import os
import subprocess

import pytest
from support import REPOSITORY, Tool, unpack_deb

from lull.check import package
from lull.errors import MissingError
from lull.requirements import Requirement, missing

needs_packagers = pytest.mark.skipif(
    bool(missing(package.NEEDED)), reason=f"wants {', '.join(missing(package.NEEDED))}"
)


def field(path: str, name: str) -> str:
    """A field of a package."""
    done = subprocess.run(["dpkg-deb", "--field", path, name], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@needs_packagers
def test_a_package(tool: Tool) -> None:
    """Both builds of the plugin, how to use them, whom they belong to, and what they depend on."""
    previous = os.umask(0o077)
    try:
        done = tool("deb", "--checker", "--out", "debs", DEBFULLNAME="A B", DEBEMAIL="a@b.example")
    finally:
        os.umask(previous)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tool.cwd / "debs").iterdir()
    assert done.stdout == f"debs/{package.name()}\n" and path.name == package.name()
    assert field(str(path), "Architecture") == package.architecture()
    assert field(str(path), "Maintainer") == "A B <a@b.example>"
    assert field(str(path), "Depends").startswith("libc6 (>= ")
    assert field(str(path), "Recommends").startswith("qemu-system-arm ")
    listing = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True, check=True).stdout
    assert {tuple(line.split()[:2]) for line in listing.splitlines()} == {
        ("drwxr-xr-x", "root/root"),
        ("-rw-r--r--", "root/root"),
    }
    root = unpack_deb(path, tool.cwd / "root") / "usr"
    files = {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
    doc = "share/doc/lull-checker"
    assert sorted(files) == [
        "lib/lull/lull-7.so", "lib/lull/lull.so",
        f"{doc}/README.md", f"{doc}/changelog.gz", f"{doc}/copyright", "share/man/man7/lull-checker.7.gz",
    ]  # fmt: skip
    assert files[f"{doc}/README.md"].read_bytes() == (REPOSITORY / "checker/README.md").read_bytes()
    manual = gzip.decompress(files["share/man/man7/lull-checker.7.gz"].read_bytes()).decode()
    assert "/usr/lib/lull/lull.so" in manual and "@" not in manual


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "NEEDED", [Requirement("some-package", "no-such-program", "")])
    with pytest.raises(MissingError) as caught:
        package.package()
    assert "install --no-install-recommends some-package" in caught.value.remedy
