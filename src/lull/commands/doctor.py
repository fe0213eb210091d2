# SPDX-License-Identifier: GPL-2.0-only
"""lull doctor: what is there, what is missing, what can be measured here."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from dataclasses import asdict, dataclass

from lull import cache, paths
from lull.errors import LullError
from lull.guest import qemu
from lull.lab import Lab
from lull.linux import apt, toolchain
from lull.requirements import Requirement, apt_line, missing

NEED_GIB = 8
"""Free space a cold run needs: source, two builds, the Python environment."""


@dataclass(frozen=True)
class DoctorLine:
    """One line of the doctor: ``ok``, ``missing`` or ``note``."""

    name: str
    state: str
    detail: str


def requirements() -> list[Requirement]:
    """What packages.txt asks of this machine."""
    found = []
    for line in (paths.REPOSITORY / "src/lull/packages.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            host, package, probe, purpose = line.split(maxsplit=3)
            if host == "any" or not toolchain.host_is_arm64():
                found.append(Requirement(package, probe, purpose))
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``lull doctor`` has no options of its own."""


def examine(lab: Lab) -> list[DoctorLine]:
    """Look at everything; nothing is fetched or changed."""
    findings = [DoctorLine(r.package, "ok" if r.present() else "missing", r.purpose) for r in requirements()]
    try:
        machine = qemu.of_machine()
    except LullError as error:
        machine = None
        findings.append(DoctorLine("LULL_QEMU", "missing", error.what))
    if machine and qemu.fits(machine):
        findings.append(DoctorLine("QEMU", "ok", f"{machine.version} ({machine.program})"))
    else:
        private = lab.store.known("qemu")
        have = f"{machine.version} does not fit" if machine else "none installed"
        findings.append(
            DoctorLine(
                "QEMU",
                "ok" if private else "note",
                f"{have}; a private copy is "
                + (f"in the cache ({private.package.version})" if private else "fetched by the first run"),
            )
        )
    source = lab.store.known(lab.base.package)
    findings.append(
        DoctorLine(
            lab.base.package,
            "ok" if source else "note",
            source.package.version if source else "fetched by the first run",
        )
    )
    if not shutil.which("apt-get"):
        findings.append(DoctorLine("apt", "note", "this host has none: name a kernel tree with --tree PATH"))
    else:
        findings.append(DoctorLine("apt", "ok", f"release {apt.codename() or 'unknown'}; read, never written"))
    findings.append(
        DoctorLine(
            "ccache",
            "ok" if shutil.which("ccache") else "note",
            "used for kernel builds" if shutil.which("ccache") else "not installed; optional",
        )
    )
    root = cache.root()
    probe = next(p for p in [root, *root.parents] if p.exists())
    free = shutil.disk_usage(probe).free / 2**30
    findings.append(
        DoctorLine(
            "cache",
            "ok" if free >= NEED_GIB else "note" if source else "missing",
            f"{root}: {free:.0f} GiB free, a cold run takes {NEED_GIB}",
        )
    )
    findings.append(DoctorLine("cpus", "ok", f"{len(os.sched_getaffinity(0))} for builds and emulation"))
    for accel in ("tcg", "kvm"):
        usable = accel == "tcg" or toolchain.kvm_usable()
        detail = qemu.machine_metrics(accel) if usable else "needs an arm64 host with /dev/kvm"
        findings.append(DoctorLine(f"accel {accel}", "ok" if usable else "note", detail))
    return findings


def run(lab: Lab, arguments: argparse.Namespace) -> int:
    """Print the findings; 3 when something needed is missing, with the line that installs it."""
    findings = examine(lab)
    if arguments.json:
        print(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for finding in findings:
            print(f"{finding.state:8} {finding.name:24} {finding.detail}")
    packages = missing(requirements())
    if packages and not arguments.json:
        print(f"\n{apt_line(packages)}")
    return 3 if any(f.state == "missing" for f in findings) else 0
