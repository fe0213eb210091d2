# SPDX-License-Identifier: GPL-2.0-only
"""What stands against measuring on a machine: everything is asked before anything is changed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull.errors import LullError, UsageError
from lull.linux import debian
from lull.linux.build import asked_options
from lull_contrib.day import facts
from lull_contrib.day.machine import Machine

SUFFIXES = {"stock": "-stock", "lull": "-lull"}
"""Kernel of a plan -> how releases of its packages end (`lull deb --flavour`)."""
TOOLS = ("grub-reboot", "grub-editenv", "grub-probe", "update-grub", "systemctl")
GRUBENV = "/boot/grub/grubenv"
SECURE = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
IDLE, IDLE_SHARE = 0.2, 0.003
"""So many CPUs may be busy on a machine that counts as idle: a number, and a share of its CPUs. Up to 256 CPUs, one
program that keeps a CPU busy is too much."""
BOOT_MIB = 16
"""MiB that must be free in /boot, for GRUB's menu."""
OUT_MIB = 256
"""MiB that must be free where the results go."""
NOT_WRITTEN = ("diskfilter", "lvm", "mdraid09", "mdraid1x", "cryptodisk", "luks", "luks2", "ldm")
NOT_WRITTEN_FS = ("btrfs", "zfs", "squash4", "iso9660")
"""What GRUB cannot write to: it could not forget the entry that it is to boot once."""
OURS = re.compile(
    r"CONFIG_(LULL\w*|ARM64_(TLB_RESIDENCY|HVO)|ARCH_WANT_\w+|MMU_GATHER_RUNS|HUGETLB_PAGE_OPTIMIZE_VMEMMAP\w*)"
)
"""Options in which the two kernels may differ: Lull's, and those that Lull's features turn on."""


@dataclass(frozen=True)
class Pair:
    """The two kernels that are compared, and the one that runs.

    Args:
        kernels: kernel of the plan -> its release.
        entries: release -> its entry in GRUB's menu.
        home: the distribution's kernel that runs, or else its newest: it is booted when another fails, and at the end.
    """

    kernels: dict[str, str]
    entries: dict[str, str]
    home: str


def require(
    machine: Machine,
    out: Path,
    *,
    root: bool,
    kept: Sequence[Path] = (),
    free: Callable[[Path], int] | None = None,
) -> Pair:
    """The kernels to measure. Raises UsageError for the first thing that stands against it.

    Args:
        out: where the results go.
        root: whether we are root.
        kept: folders that must be there after a reboot.
        free: the bytes that are free where a path is.
    """
    free = free or free_bytes
    require_root(root)
    if not (machine.root / "run/systemd/system").is_dir():
        raise UsageError("this machine does not run systemd, which goes on after a reboot")
    lacking = [tool for tool in TOOLS if not machine.has(tool)]
    if lacking or not machine.read("boot/grub/grub.cfg"):
        what = f"{', '.join(lacking)} is not installed" if lacking else "/boot/grub/grub.cfg is missing"
        raise UsageError(
            f"this machine is not booted by GRUB: {what}",
            remedy="kernels are chosen with grub-reboot; a board needs firmware with UEFI for it (docs/hardware.md)",
        )
    pair = kernels(machine)
    require_grub(machine)
    require_alike(machine, pair)
    require_one_kind(machine)
    for folder, mib in ((machine.root / "boot", BOOT_MIB), (out, OUT_MIB)):
        if free(folder) < mib << 20:
            raise UsageError(f"less than {mib} MiB are free in {folder}", remedy="free some space there")
    for folder in kept:
        if machine.ask("stat", "-f", "-c", "%T", str(existing(folder))) == "tmpfs":
            raise UsageError(
                f"{folder} would be lost in a reboot: it is in memory (tmpfs)",
                remedy="clone the repository, name --out and set LULL_CACHE elsewhere, for example below /root",
            )
    require_idle(machine)
    return pair


def require_root(root: bool) -> None:
    """Raise UsageError unless we are root."""
    if not root:
        raise UsageError("only root can boot other kernels", remedy="run it as root, on a machine that you can spare")


def free_bytes(path: Path) -> int:
    """The bytes that are free in the file system of a path, which need not exist."""
    return shutil.disk_usage(existing(path)).free


def existing(path: Path) -> Path:
    """The path itself, or the first folder above it that exists."""
    while not path.exists():
        path = path.parent
    return path


def kernels(machine: Machine) -> Pair:
    """The newest Lull kernel that is installed, stock of the same version, and the distribution's."""
    entries = machine.entries()
    pattern = re.compile(rf"boot/vmlinuz-(.+){SUFFIXES['lull']}")
    found = [match[1] for match in map(pattern.fullmatch, machine.glob("boot/vmlinuz-*")) if match]
    wanted = {kernel: (found[-1] if found else "VERSION") + suffix for kernel, suffix in SUFFIXES.items()}
    for release in wanted.values():
        if not found or not machine.read(f"boot/config-{release}"):
            raise UsageError(
                f"the kernel {release} is not installed",
                where="/boot",
                remedy="install all packages that './lull deb --flavour FLAVOUR' made, of stock and of Lull",
            )
        if release not in entries:
            raise UsageError(
                f"GRUB's menu has no entry for {release}", where="/boot/grub/grub.cfg", remedy="as root: update-grub"
            )
    ours = tuple(SUFFIXES.values())
    others = [r for r in sorted(entries, key=debian.order) if not r.endswith(ours)]
    if not others:
        raise UsageError(
            "only Lull's kernels are installed: there is none to return to if one of them fails",
            remedy="install the distribution's own kernel",
        )
    home = machine.release if machine.release in others else others[-1]
    return Pair(wanted, {release: entries[release] for release in (*wanted.values(), home)}, home)


def require_grub(machine: Machine) -> None:
    """Raise UsageError when the firmware takes signed kernels only, or GRUB cannot write its environment."""
    secure = (machine.root / SECURE).read_bytes() if (machine.root / SECURE).exists() else b""
    if secure[-1:] == b"\1":
        raise UsageError("secure boot is on, and Lull's kernels are not signed", remedy="switch it off in the firmware")
    layers = machine.run("grub-probe", "--target=abstraction", "/boot/grub").split()
    system = machine.run("grub-probe", "--target=fs", "/boot/grub").strip()
    if set(layers) & set(NOT_WRITTEN) or system in NOT_WRITTEN_FS:
        raise UsageError(
            f"/boot is on {' '.join([*layers, system])}, which GRUB cannot write: it would boot a bad kernel again",
            remedy="use a machine whose /boot is ext4, xfs or vfat on a plain partition",
        )
    if chosen(machine):
        raise UsageError("another program has already chosen the next boot (grub-reboot)", remedy="reboot first")


def chosen(machine: Machine) -> bool:
    """Return true if the next boot is chosen: grub-reboot was called, and GRUB, which empties it, has not run since."""
    return bool(re.search(r"(?m)^next_entry=.", machine.ask("grub-editenv", GRUBENV, "list")))


def require_alike(machine: Machine, pair: Pair) -> None:
    """Raise UsageError when stock and Lull differ in more than Lull: another compiler, another option."""
    texts = [asked_options(machine.read(f"boot/config-{release}")) for release in pair.kernels.values()]
    unlike = [
        name
        for name in sorted({*texts[0], *texts[1]})
        if texts[0].get(name, "n") != texts[1].get(name, "n") and not OURS.fullmatch(name)
    ]
    if unlike:
        raise UsageError(
            f"{' and '.join(pair.kernels.values())} differ in more than Lull: {', '.join(unlike[:5])}",
            remedy="install a pair that one './lull deb --flavour FLAVOUR' made",
        )


def require_one_kind(machine: Machine) -> None:
    """Raise UsageError when the machine has CPUs of several kinds: a result would depend on which a thread got."""
    kinds = facts.parts(machine)
    if len(kinds) > 1:
        raise UsageError(
            f"this machine has CPUs of several kinds (big.LITTLE): {', '.join(kinds)}",
            remedy="use a machine whose CPUs are alike (docs/hardware.md)",
        )


def idle(machine: Machine) -> float:
    """How many CPUs may be busy on a machine that counts as idle."""
    return round(IDLE + IDLE_SHARE * len(machine.glob(f"{facts.CPU}/cpu[0-9]*")), 2)


def require_idle(machine: Machine) -> None:
    """Raise UsageError when something uses CPU time."""
    busy, programs = machine.watch(os.getpid())
    if busy > idle(machine):
        shown = "; ".join(f"{p.name} (process {p.process}, user {p.user}) {p.cpus:.2f}" for p in programs[:3])
        raise UsageError(
            f"this machine is not idle: {busy:.2f} CPUs are busy",
            tail=f"CPUs used by {shown}" if shown else "",
            remedy="end what runs here, or wait",
        )


def require_new(machine: Machine, *names: str) -> None:
    """Raise LullError when a file of a session is there although no session is: it is not ours to replace."""
    for name in names:
        if (machine.root / name).exists():
            raise LullError("a file of an earlier session is in the way", where=f"/{name}", remedy="remove it")
