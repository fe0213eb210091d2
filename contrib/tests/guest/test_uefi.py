# SPDX-License-Identifier: GPL-2.0-only
"""A machine with UEFI, GRUB and Debian: Lull's packages are installed, booted, upgraded and removed; a session."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import uefi
from support import LOCAL, REPOSITORY, Tool, real_qemu

from lull.lab import Lab
from lull.linux import apt, deb
from lull.linux.build import fragments_text
from lull.requirements import missing
from lull_contrib.day import session

TOOLS = ("mmdebstrap", "mke2fs", "sfdisk", "mkfs.vfat", "mcopy")
VERSIONS = ("stock", "lull")
INSTALL = f"apt-get install -y {uefi.SHARE}/debs"
WHOLE = missing([requirement for more in deb.WHEN.values() for requirement in more])
"""Packages that this machine lacks for kernels with Debian's configuration."""
HANDLER = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")


def lacks() -> str:
    """What this machine lacks for the test; empty when it lacks nothing."""
    lacking = [tool for tool in TOOLS if not shutil.which(tool)]
    lacking += missing(deb.ALWAYS)
    lacking += [] if uefi.FIRMWARE.exists() else ["qemu-efi-aarch64"]
    lacking += [] if platform.machine() == "aarch64" or HANDLER.exists() else ["qemu-user-static"]
    lacking += [] if os.geteuid() == 0 else ["root"]
    return ", ".join(lacking)


def packages(lab: Lab, real: Tool, flavour: str, folder: Path) -> dict[str, Path]:
    """Packages of stock and Lull that boot there, of this flavour of Debian's or of the lab's: kernel -> package."""
    if flavour:
        done = real("deb", "--flavour", flavour, "--out", str(folder), timeout=6 * 3600)
        assert done.returncode == 0, done.stderr
        return {kernel: next(folder.glob(f"linux-image-*-{kernel}_*.deb")) for kernel in VERSIONS}
    found = {}
    for kernel in VERSIONS:
        fragments = [*lab.base.kernels[kernel].fragments, REPOSITORY / "tests/guest/uefi.config"]
        configuration = deb.Configuration(fragments_text(fragments), whole=False)
        made = deb.packages(lab.tree_of(kernel), lab.base, configuration, lab.toolchain, say=print, kernel=kernel)
        found[kernel] = made[0]
    return found


def upgraded(package: Path, target: Path) -> Path:
    """The same package with a higher version."""
    place = target.with_suffix(".files")
    subprocess.run(["dpkg-deb", "-R", package, place], check=True)
    control = place / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1+1", control.read_text()))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", place, target], check=True, stdout=subprocess.DEVNULL)
    return target


def entry(console: uefi.Console, release: str) -> str:
    """The entry of GRUB's menu for a release; empty when there is none."""
    pattern = f"s/.*'\\(gnulinux-{release}-advanced-[^']*\\)'.*/\\1/p"
    top = console("sed -n \"s/^submenu.*'\\(gnulinux-advanced-[^']*\\)'.*/\\1/p\" /boot/grub/grub.cfg").strip()
    found = console(f'sed -n "{pattern}" /boot/grub/grub.cfg').strip()
    return f"{top}>{found}" if found else ""


@pytest.mark.whole
@pytest.mark.parametrize(
    "flavour", ["", pytest.param("cloud", marks=pytest.mark.skipif(bool(WHOLE), reason=f"wants {', '.join(WHOLE)}"))]
)
@pytest.mark.skipif(bool(lacks()), reason=f"wants {lacks()}")
def test_a_machine(lab: Lab, real: Tool, flavour: str, tmp_path: Path) -> None:
    """Lull is installed with apt, booted by GRUB, measured in a session, upgraded, removed; Debian's kernel stays."""
    made = packages(lab, real, flavour, tmp_path / "debs")
    debs = [*made.values(), upgraded(made["lull"], tmp_path / "upgraded.deb")]
    uefi.write_share(tmp_path / "share", debs)
    mirror = next(source.uri for source in apt.machine_sources() if source.suite == apt.codename())
    uefi.root_tarball(tmp_path / "root.tar", apt.codename(), mirror)
    uefi.write_disk(tmp_path / "root.tar", tmp_path / "disk", {})
    names = {kernel: package.name.removeprefix("linux-image-").partition("_")[0] for kernel, package in made.items()}
    log = tmp_path / "console.log"
    with uefi.machine(real_qemu(), uefi.FIRMWARE, tmp_path / "disk", tmp_path / "share", log) as console:
        check_machine(console, made, names)


def check_machine(console: uefi.Console, made: dict[str, Path], names: dict[str, str]) -> None:
    """The machine's day: install, boot, measure, upgrade, remove."""
    home = console.booted()
    console("update-grub")
    console(f"{INSTALL}/{made['stock'].name} {uefi.SHARE}/debs/{made['lull'].name}")
    console(f"grub-reboot '{entry(console, names['lull'])}'")
    console.send("systemctl reboot")
    assert console.booted() == names["lull"]
    assert "[on]" in console(f"cat /sys/kernel/mm/lull/{LOCAL}")
    check_session(console, home, names)
    check_rest(console, home, names)


def check_rest(console: uefi.Console, home: str, names: dict[str, str]) -> None:
    """Lull's package is upgraded, and booted; then both are removed."""
    console(f"{INSTALL}/upgraded.deb")
    assert console("dpkg-query -W -f '${Version}' linux-image-" + names["lull"]).endswith("+1")
    console(f"grub-reboot '{entry(console, names['lull'])}'")
    console.send("systemctl reboot")
    assert console.booted() == names["lull"]
    console(f"grub-reboot '{entry(console, home)}'")
    console.send("systemctl reboot")
    assert console.booted() == home
    console(f"apt-get remove -y linux-image-{names['lull']} linux-image-{names['stock']}")
    assert not entry(console, names["lull"]) and entry(console, home)
    console.send("systemctl reboot")
    assert console.booted() == home


def check_session(console: uefi.Console, home: str, names: dict[str, str]) -> None:
    """A short session goes through reboots and a power cut, and leaves one file; the machine is as before."""
    command = f"{uefi.SHARE}/lull/lull bench --here --across --workload fork_exec --repeat 1 --out /root/day"
    before = console("cat /etc/default/grub; ls /etc/systemd/system /etc/default/grub.d")
    console.send(f"LULL_CACHE=/var/cache/lull {command}")

    def boots(number: int) -> list[str]:
        """The kernels of the next boots, by the message of the day."""
        return [console.wait(r"Linux uefi (\S+) ", 3600)[1] for _ in range(number)]

    assert boots(2) == [names["stock"], names["lull"]]
    console.cut_power()
    console.switch_on()
    # GRUB boots a kernel once, so Debian's comes after the power cut, and the unit tries again.
    assert boots(4) == [home, names["lull"], names["stock"], names["lull"]]
    assert console.booted() == home
    assert console("cat /etc/default/grub; ls /etc/systemd/system /etc/default/grub.d") == before
    assert session.UNIT not in console("find /etc -name '*lull*'")
    console("test ! -e /var/lib/lull/across.json")
    text = console("tar -xOf /root/day.tar.gz lull-results/results.json")
    results = json.loads(text[text.index("{") :])
    assert results["settings"]["session"] == session.DONE
    assert {"stock", "lull", "stock.control"} <= {record["kernel"] for record in results["records"]}
