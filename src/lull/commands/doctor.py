# SPDX-License-Identifier: GPL-2.0-only
"""lull doctor: what is there, what is missing, what can be measured here."""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import asdict, dataclass

from lull import cache, options, paths
from lull.base import Pin
from lull.errors import LullError
from lull.guest import qemu
from lull.lab import Lab
from lull.linux import apt, pins, toolchain, tree
from lull.linux.fetch import Fetched, busybox_entry, kernel_entry
from lull.progress import print_result
from lull.requirements import Requirement, apt_line

NEED_GIB = 8
"""Free space a cold run needs: source, two builds, Python packages."""
WITHOUT = options.SHARED - {"--json", "--base", "--offline"}


@dataclass(frozen=True)
class DoctorLine:
    """One line of the doctor: ``ok``, ``missing`` or ``note``."""

    name: str
    state: str
    detail: str


def requirements() -> dict[Requirement, str]:
    """What packages.txt asks of this machine -> what a line says where it is not there; tests alone need some."""
    found = {}
    for line in (paths.REPOSITORY / "src/lull/packages.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            host, package, probe, purpose = line.split(maxsplit=3)
            if host != "cross" or not toolchain.host_is_arm64():
                found[Requirement(package, probe, purpose)] = "note" if host == "test" else "missing"
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``lull doctor`` has no options of its own."""


def examine(lab: Lab) -> list[DoctorLine]:
    """Look at everything. Archives are asked for the pinned files, and nothing is fetched."""
    findings = [
        DoctorLine(r.package, "ok" if r.present() else otherwise, r.purpose) for r, otherwise in requirements().items()
    ]

    def note(name: str, good: object, detail: str, otherwise: str = "note") -> None:
        findings.append(DoctorLine(name, "ok" if good else otherwise, detail))

    llvm = os.environ.get("LLVM", "")
    try:
        clang = toolchain.find_llvm(llvm or "1")[1]
        note("clang", True, f"{clang}; {'it builds the kernels' if llvm else 'LLVM=1 builds kernels with it'}")
    except LullError as error:
        note("clang", False, f"{error.what}: {error.remedy}", "missing" if llvm else "note")
    try:
        machine = qemu.of_machine()
    except LullError as error:
        machine = None
        note("LULL_QEMU", False, error.what, "missing")
    if machine and qemu.fits(machine):
        note("QEMU", True, f"{machine.version} ({machine.program})")
    else:
        findings.append(pinned_line(lab, qemu.PACKAGE, lab.store.known(qemu.entry()), qemu.pin()))
    source = lab.store.known(kernel_entry(lab.base.source))
    if lab.base.source.package:
        findings.append(pinned_line(lab, lab.base.source.package, source, lab.base.source.pin))
    (busybox,) = pins.load_pins("busybox-arm64")
    findings.append(pinned_line(lab, busybox.package, lab.store.known(busybox_entry()), busybox))
    if shutil.which("apt-get"):
        note("apt", True, f"release {apt.codename() or 'unknown'}; read, never written")
    else:
        note("apt", False, "this host has none: name a kernel tree with --tree PATH")
    root = cache.root()
    try:
        tree.check_place(root)
    except LullError as error:
        note("LULL_CACHE", False, error.what, "missing")
    probe = next(p for p in [root, *root.parents] if p.exists())
    free = shutil.disk_usage(probe).free / 2**30
    space = f"{root}: {free:.0f} GiB free, a cold run takes {NEED_GIB}"
    note("cache", free >= NEED_GIB, space, "note" if source else "missing")
    slow = f", {toolchain.slowness():.0f} times slower than the lab's" if toolchain.slowness() >= 1.5 else ""
    note("cpus", True, f"{toolchain.jobs()} for builds and emulation{slow}")
    for accel in ("tcg", "kvm"):
        usable = accel == "tcg" or toolchain.kvm_usable()
        detail = qemu.machine_metrics(accel) if usable else "needs an arm64 host with /dev/kvm"
        note(f"accel {accel}", usable, detail)
    return findings


def pinned_line(lab: Lab, name: str, have: Fetched | None, pin: Pin | None) -> DoctorLine:
    """What this machine would use of a pinned package.

    Args:
        have: what the cache has.
        pin: the package; None: it is not pinned for this machine.
    """
    if have:
        return DoctorLine(name, "ok", f"{have.package.version}, in the cache")
    if lab.offline:
        return DoctorLine(name, "note", "not in the cache; archives are not asked with --offline")
    place = pins.place_of(pin) if pin else ""
    if pin and place:
        return DoctorLine(name, "ok", f"{pin.version}, from {place}")
    if name == lab.base.source.package and lab.base.source.release and pins.answers(lab.base.source.release):
        return DoctorLine(name, "note", f"its pinned package is in no archive; instead {lab.base.source.release}")
    suites = qemu.SUITES if name == qemu.PACKAGE else lab.base.source.suites
    try:
        newest = lab.store.archives(suites).versions(name)
    except LullError as error:
        return DoctorLine(name, "missing", f"in no archive that this machine reaches: {error.what}")
    if not newest:
        return DoctorLine(name, "missing", "in no archive that this machine reaches")
    return DoctorLine(name, "note", f"its pinned package is in no archive; instead the newest, {newest[0]}")


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print the findings; 3 when something needed is missing, with the line that installs it."""
    findings = examine(lab)
    lines = [f"{f.state:8} {f.name:24} {f.detail}" for f in findings]
    packages = {r.package for r in requirements()}
    if lacking := [f.name for f in findings if f.state == "missing" and f.name in packages]:
        lines += ["", apt_line(lacking)]
    print_result(lines, [asdict(f) for f in findings], as_json=arguments.json)
    return 3 if any(f.state == "missing" for f in findings) else 0
