# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures: a machine whose apt knows only an archive of our own; a made-up base and its tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import linuxes
import pytest
from archive import PACKAGE, Archive, machines_apt, source_package
from support import FAKE, Tool

from lull.base import Base, Pin
from lull.linux import series


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """The archive, with the pinned source package in it."""
    made = Archive()
    made.pin = made.publish(source_package(tmp_path), "6.12.0-1")
    yield made
    made.server.shutdown()


def write_base(tool: Tool, pin: Pin, release: str = "", suites: str = "") -> None:
    """The base of the tests: its source is the pinned package."""
    base = tool.cwd / "bases/net.toml"
    base.parent.mkdir(exist_ok=True)
    base.write_text(
        f'series = "6.12"\n[source]\npackage = "{PACKAGE}"\ntarball = "usr/src/linux.tar.xz"\nrelease = "{release}"\n'
        f'path = "{pin.path}"\nsha256 = "{pin.sha256}"\nsha1 = "{pin.sha1}"\nsuites = [{suites}]\n'
        '[kernels.stock]\nconfig = ["config/fake.config"]\n'
    )
    tool.environment["TEST_BASE"] = str(base)


@pytest.fixture
def lull(tool: Tool, archive: Archive, tmp_path: Path) -> Tool:
    """The tool on a machine whose apt knows only the archive."""
    tool.environment["APT_CONFIG"] = str(machines_apt(archive, tmp_path / "etc apt"))
    (tmp_path / "config").symlink_to(FAKE / "config")
    write_base(tool, archive.pin)
    return tool


@pytest.fixture
def base(tmp_path: Path) -> Base:
    """The made-up base."""
    return linuxes.base(tmp_path)


@pytest.fixture
def tree(base: Base, tmp_path: Path) -> Path:
    """The tree of `lull tree` on the old Linux."""
    series.make_tree(linuxes.linux(tmp_path / "old"), list(base.exported().values()), tmp_path / "tree")
    return tmp_path / "tree"
