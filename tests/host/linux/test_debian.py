# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernels: names and modules."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from lull import base as bases
from lull.errors import UsageError
from lull.linux import apt, debian
from lull.linux.fetch import Fetched, Store

KNOWN = [
    "7.3.4+deb13-arm64-16k",
    "7.3.4+deb13-arm64",
    "6.12.117+deb13-arm64",
    "6.12.99+deb12-arm64",
    "6.12.99+deb12-cloud-arm64",
    "6.1.0-56-cloud-arm64",
    "6.1.0-9-cloud-arm64",
]
"""Newest first."""


def test_packages_of_kernels() -> None:
    """Those with a release; no meta package, debug symbols, or unsigned image."""
    for release in KNOWN:
        assert debian.PACKAGE.fullmatch(f"linux-image-{release}"), release
    for other in ("6.12-arm64", "6.12.117+deb13-arm64-dbg", "6.1.0-56-arm64-unsigned", "arm64", "6.1.0-5-amd64"):
        assert not debian.PACKAGE.fullmatch(f"linux-image-{other}"), other
    assert sorted(KNOWN, key=debian.order, reverse=True)[2:] == KNOWN[2:]


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("7.3.4+deb13-arm64-16k", "7.3.4+deb13-arm64-16k"),
        ("7.3.4-arm64", "7.3.4+deb13-arm64"),
        ("7.3-arm64-16k", "7.3.4+deb13-arm64-16k"),
        ("6.12-arm64", "6.12.117+deb13-arm64"),
        ("6.12.99-arm64", "6.12.99+deb12-arm64"),
        ("6.12-cloud-arm64", "6.12.99+deb12-cloud-arm64"),
        ("6.1-cloud-arm64", "6.1.0-56-cloud-arm64"),
        ("6.1.0-9-cloud-arm64", "6.1.0-9-cloud-arm64"),
    ],
)
def test_names(name: str, release: str) -> None:
    """The newest that begins so, by whole numbers, and has the flavour."""
    assert debian.resolve(name, KNOWN) == release


@pytest.mark.parametrize("name", ["7.4-arm64", "6.12.1-arm64", "7.3-rt-arm64", "7.3", "arm64", "", "7.3-amd64"])
def test_unknown_names(name: str) -> None:
    """Which there are is said."""
    with pytest.raises(UsageError, match="unknown kernel of Debian's"):
        debian.resolve(name, KNOWN)


def test_the_newest() -> None:
    """One of each series and flavour."""
    assert debian.newest(KNOWN) == [*KNOWN[:3], *KNOWN[4:6]]


def test_all_that_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one word; any other name stands for itself."""
    monkeypatch.setattr(debian, "archive", lambda store: None)
    monkeypatch.setattr(debian, "releases", lambda private: KNOWN)
    assert debian.names(Store(), "newest") == debian.newest(KNOWN)
    assert debian.names(Store(), "7.3-arm64") == ["7.3-arm64"]


def test_modules_are_kept_behind_what_they_need(tmp_path: Path) -> None:
    """Uncompressed; what they need first, and once; others are left out."""
    folder = tmp_path / "root/usr/lib/modules/7/kernel"
    folder.mkdir(parents=True)

    def module(name: str, needs: str) -> bytes:
        data = b"\x7fELF\0license=GPL\0depends=" + needs.encode() + b"\0name=" + name.encode() + b"\0"
        return data

    (folder / "zram.ko.xz").write_bytes(lzma.compress(module("zram", "zsmalloc,lz4-compress")))
    (folder / "lz4-compress.ko").write_bytes(module("lz4_compress", ""))
    (folder / "zsmalloc.ko.xz").write_bytes(lzma.compress(module("zsmalloc", "")))
    (folder / "ext4.ko").write_bytes(module("ext4", "lz4-compress,absent"))
    (folder / "other.ko").write_bytes(module("other", ""))
    debian.keep_modules(tmp_path / "root", tmp_path / "kept")
    order = (tmp_path / "kept/order").read_text().split()
    assert order == ["zsmalloc.ko", "lz4_compress.ko", "zram.ko", "ext4.ko"]
    assert (tmp_path / "kept/zram.ko").read_bytes() == module("zram", "zsmalloc,lz4-compress")
    assert {p.name for p in (tmp_path / "kept").iterdir()} == {*order, "order"}


@pytest.mark.parametrize(
    ("flavour", "kind"), [("cloud", "none_cloud-arm64"), ("rt", "none_rt-arm64"), ("rt", "rt_arm64")]
)
def test_the_configuration_of_a_flavour(own_cache: Path, flavour: str, kind: str) -> None:
    """That of Debian's package, by the name that the flavour has there; one that is not there is refused."""
    folder = own_cache / "usr/src/linux-config-6.12"
    folder.mkdir(parents=True)
    (folder / f"config.arm64_{kind}.xz").write_bytes(lzma.compress(b"CONFIG_X=y\n"))
    store = Store(offline=True)
    store.remember("linux-config-6.12-6.12.117", Fetched(apt.Package("linux-config-6.12", "6.12.117-1", ""), own_cache))
    assert debian.configuration(store, bases.load_base("6.12"), "6.12.117", flavour) == "CONFIG_X=y\n"
    with pytest.raises(UsageError, match=r"no configuration 16k of Linux 6\.12"):
        debian.configuration(store, bases.load_base("6.12"), "6.12.117", "16k")
