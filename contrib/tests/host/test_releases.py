# SPDX-License-Identifier: GPL-2.0-only
"""Releases in archives, one of which has taken a fix: lull upstream, and the Linux that a port is onto."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from linuxes import change, linux, mail, text
from support import write_files

from lull import base as bases
from lull import cli
from lull.base import Base
from lull.errors import FetchError, UsageError
from lull.linux import apt
from lull.linux.fetch import Store
from lull_contrib import releases, upstream

PACKAGE = "linux-source-6.12"
TABLE = """| finding | where | fix |
|---|---|---|
| [lost-a](#lost-a) | `a` | [patch](../fixes/lost-a.patch) |
| [lost-c](#lost-c) | `c` | [patch](../fixes/lost-c-6.11.patch) |
| [lost-d](#lost-d) | `d` | by others |
"""
OLD, NEW = "6.12.1", "6.12.2"


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """A base with one feature, which changes b; 6.12.2 has taken the fix of a."""
    toml = (
        f'series = "6.12"\n[source]\npackage = "{PACKAGE}"\ntarball = "usr/src/linux.tar.xz"\n'
        "[kernels.lull]\nconfig = []\nfeatures = true\n[features.two]\n"
    )
    two = mail("two", change("init/b", text("b"), text("b", (10, "two"))))
    write_files(tmp_path / "kernel", {"bases/net.toml": toml, "6.12/two/0001-two.patch": two})
    return bases.load_base(str(tmp_path / "kernel/bases/net.toml"))


@dataclass
class Archive:
    """An archive in a folder: the main one of this machine's release, without backports."""

    folder: Path
    packages: str = ""

    def publish(self, version: str, **files: str) -> None:
        """Put the source package of a Linux into it."""
        tree = linux(self.folder / version, "6.12", **files).path
        makefile = tree / "Makefile"
        makefile.write_text(makefile.read_text().replace("SUBLEVEL = 0", f"SUBLEVEL = {version.rpartition('.')[2]}"))
        root = self.folder / f"root-{version}"
        control = f"Package: {PACKAGE}\nVersion: {version}-1\nArchitecture: all\nMaintainer: test\nDescription: test\n"
        write_files(root, {"DEBIAN/control": control, "usr/src/of": version})
        with tarfile.open(root / "usr/src/linux.tar.xz", "w:xz") as tar:
            tar.add(tree, "linux-source-6.12")
            tar.add(tree / "init/a", "linux-source-6.12/tools/init/b")  # no file that is asked for
        deb = self.folder / f"{PACKAGE}_{version}-1_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True)
        self.packages += f"{control}Filename: {deb.name}\n{self.sums(deb)}\n"
        self.index()

    def sums(self, deb: Path) -> str:
        """Two fields of a package."""
        return f"Size: {deb.stat().st_size}\nSHA256: {hashlib.sha256(deb.read_bytes()).hexdigest()}\n"

    def index(self) -> None:
        """Write the indexes."""
        name = f"main/binary-{apt.host_architecture()}/Packages"
        data = self.packages.encode()
        release = (
            f"Suite: {apt.codename()}\nCodename: {apt.codename()}\nArchitectures: {apt.host_architecture()} all\n"
            "Components: main\nDate: Sat, 01 Jan 2022 00:00:00 UTC\n"
            f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
        )
        write_files(self.folder / "dists" / apt.codename(), {"Release": release, name: self.packages})


@pytest.fixture
def archive(base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Two releases of Linux, of which the newer one has the fix of a; it is all that this machine's apt knows."""
    made = Archive(tmp_path / "archive")
    made.publish(OLD)
    made.publish(NEW, a=text("a", (5, "fixed")))
    fixes = {
        "docs/findings.md": TABLE,
        "fixes/lost-a.patch": mail("lost-a", change("init/a", text("a"), text("a", (5, "fixed")))),
        "fixes/lost-c-6.11.patch": change("init/c", text("c", (4, "of 6.11")), text("c", (4, "of 6.11"), (5, "fixed"))),
        "etc/sources.list": f"deb [trusted=yes] copy:{made.folder} {apt.codename()} main\n",
        "etc/apt.conf": f'Dir::Etc::sourcelist "{tmp_path}/etc/sources.list";\nDir::Etc::sourceparts "/nonexistent";\n',
    }
    monkeypatch.setattr(upstream, "FINDINGS", write_files(tmp_path, fixes) / "docs/findings.md")
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "etc/apt.conf"))
    return made


def test_every_release_is_judged(
    archive: Archive, base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest of each suite; what Linux has fixed is told by its code. A second time nothing is downloaded."""
    words = ["upstream", "--base", str(tmp_path / "kernel/bases/net.toml")]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines() if line.startswith(("6.12", "lost"))] == [
        [NEW, apt.codename(), "0", "of", "1"],
        ["lost-a", "fixed"],
        ["lost-c", "-"],
        ["lost-d", "-"],
    ]
    for deb in archive.folder.glob("*.deb"):
        deb.unlink()
    assert cli.main(words) == 0


def test_what_does_not_apply_fails(archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A series by hunk and place; a fix whose code is another."""
    archive.publish("6.12.3", a=text("a", (6, "moved")), b=text("b", (11, "moved")))
    assert cli.main(["upstream", "--base", str(tmp_path / "kernel/bases/net.toml")]) == 1
    shown = capsys.readouterr().out
    assert "1 of 1" in shown and "6.12.3: two: init/b:8" in shown
    assert "lost-a   no longer applies" in shown and "verdict: something does not apply to 6.12.3" in shown


def test_a_tree_can_be_judged(base: Base, archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an archive: a release that has the defect."""
    words = [
        "upstream",
        "--base",
        str(tmp_path / "kernel/bases/net.toml"),
        "--tree",
        str(archive.folder / OLD),
    ]
    assert cli.main(words) == 0
    assert "lost-a   has it" in capsys.readouterr().out


def test_a_release_by_its_name(archive: Archive, base: Base, tmp_path: Path) -> None:
    """With its package and the suite; an unknown one says what there is."""
    store = Store()
    found = releases.named(store, base, OLD)
    assert (found.series, found.suite, found.tree.version) == ("6.12", apt.codename(), OLD)
    assert found.package and found.package.version == f"{OLD}-1"
    assert releases.source_of(found.raw()) == found
    with pytest.raises(UsageError, match=f"no archive .* {PACKAGE} 6.12.9") as error:
        releases.named(store, base, "6.12.9")
    assert f"there are: {NEW}, {OLD}" in error.value.remedy
    with pytest.raises(UsageError, match="neither a folder nor a release"):
        releases.named(store, base, "nothing")
    with pytest.raises(FetchError, match="must be asked"):
        releases.named(Store(offline=True), base, "6.12.9")


def test_a_damaged_package(archive: Archive, base: Base, tmp_path: Path) -> None:
    """It is no Linux without the files."""
    private = releases.archive(Store())
    (found,) = releases.newest(private, PACKAGE)
    fetched = releases.download(Store(), found.package)
    with pytest.raises(FetchError, match="cannot be read"):
        releases.some_files(fetched, "usr/src/other.tar.xz", ["init/a"])
