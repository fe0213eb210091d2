# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a guest."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from support import write_files

from lull.guest.qemu import BUNDLE, PROGRAM, STARTER, Machine, Qemu, command, numa, set_up

QEMU = Qemu(Path("/usr/bin/qemu-system-aarch64"), "10.0.2")


def words(machine: Machine, **more: Path) -> list[str]:
    """The command line of a guest that needs nothing else."""
    files = {"kernel": Path("/k/Image"), "initrd": Path("/k/initrd"), "results": Path("/r,1/results")}
    return command(QEMU, machine, append="quiet", **files, **more)


def options(line: list[str], name: str) -> list[str]:
    """The values of an option."""
    return [value for option, value in pairwise(line) if option == name]


@pytest.mark.parametrize(
    ("version", "plugin"),
    [
        ("10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)", "lull.so"),
        ("11.0.0", "lull.so"),
        ("11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)", "lull-7.so"),
        ("11.10.0", "lull-7.so"),
    ],
)
def test_each_qemu_has_its_build_of_the_plugin(version: str, plugin: str) -> None:
    """Numbers are compared, not text."""
    assert Qemu(Path(), version).plugin == plugin


def test_a_disk_is_there_when_asked_for_and_forgets() -> None:
    """Its writes go nowhere, its name may have commas."""
    assert not options(words(Machine()), "-drive") and not options(words(Machine()), "-device")
    line = words(Machine(), disk=Path("/a,b/disk.img"))
    assert options(line, "-drive") == ["if=none,id=disk,format=raw,snapshot=on,file=/a,,b/disk.img"]
    assert options(line, "-device") == ["virtio-blk-device,drive=disk"]


def test_one_node_is_no_numa() -> None:
    """The command line is what it was before there were nodes."""
    assert numa(Machine()) == [] and not options(words(Machine()), "-numa")


@pytest.mark.parametrize(
    ("vcpus", "memory", "nodes", "cpus", "sizes"),
    [
        (4, 2048, 2, ["0-1", "2-3"], [1024, 1024]),
        (5, 2049, 2, ["0-1", "2-4"], [1025, 1024]),
        (8, 4097, 3, ["0-1", "2-4", "5-7"], [1367, 1365, 1365]),
        (1, 2048, 2, [None, "0-0"], [1024, 1024]),
    ],
)
def test_nodes_share_everything(vcpus: int, memory: int, nodes: int, cpus: list[str | None], sizes: list[int]) -> None:
    """Each CPU is in one node, all memory is in some; a node may have none."""
    line = words(Machine(vcpus, memory, nodes=nodes))
    assert options(line, "-m") == [f"{memory}M"]
    assert options(line, "-object") == [f"memory-backend-ram,id=node{n},size={s}M" for n, s in enumerate(sizes)]
    expected = [f"node,nodeid={n},memdev=node{n}" + (f",cpus={c}" if c else "") for n, c in enumerate(cpus)]
    assert options(line, "-numa") == expected
    assert sum(sizes) == memory


@pytest.mark.parametrize(
    "loader", ["usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"]
)
def test_a_copy_of_an_older_lab_is_set_up_again(tmp_path: Path, loader: str) -> None:
    """QEMU and its loader have a link to the whole copy, which may be moved, and the starter is the present one."""
    write_files(tmp_path / "part", {PROGRAM: "#!/bin/sh\n", f"usr/bin/{PROGRAM}": "", loader: ""})
    set_up(tmp_path / "part")
    copied = (tmp_path / "part").rename(tmp_path / "copy")
    for place in ("usr/bin", Path(loader).parent):
        assert (copied / place / BUNDLE).resolve() == copied
    starter = copied / PROGRAM
    assert starter.read_text() == STARTER and starter.stat().st_mode & 0o111
    made = starter.stat()
    set_up(copied)
    assert starter.stat() == made
