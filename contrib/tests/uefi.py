# SPDX-License-Identifier: GPL-2.0-only
"""An emulated machine with UEFI, GRUB and Debian, for what a session does to a machine: packages, boot menu, reboots.

Its disk is made by mmdebstrap, which runs Debian's arm64 programs on this machine. That needs an arm64 machine, or
qemu-user-static registered in binfmt_misc. Nothing of it is fetched by the lab.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import REPOSITORY, write_files

from lull import extras
from lull.guest.qemu import Qemu

FIRMWARE = Path("/usr/share/qemu-efi-aarch64/QEMU_EFI.fd")
UUID = "6c756c6c-0000-4000-8000-000000000001"
PACKAGES = (
    "systemd-sysv,udev,kmod,initramfs-tools,grub-efi-arm64-bin,grub2-common,linux-image-cloud-arm64,procps,python3,gcc,"
    "libc6-dev"
)
SHARE = "/opt/share"
"""Where the second disk is mounted."""
LAUNCHER = f"""#!/bin/sh
# In place of the launcher, which wants packages of the lab: the Python packages are there.
PYTHONPATH={SHARE}/wheels exec python3 {SHARE}/lull/src "$@"
"""
MENU = f"""set timeout=0
search --no-floppy --fs-uuid --set=root {UUID}
linux /vmlinuz root=UUID={UUID} console=ttyAMA0 quiet
initrd /initrd.img
boot
"""
FILES = {
    "etc/fstab": f"UUID={UUID} / ext4 defaults 0 1\n/dev/vdb {SHARE} ext4 ro 0 0\n",
    "etc/hostname": "uefi\n",
    # On a busy host it takes minutes until udev has found a device.
    "etc/systemd/system.conf.d/slow.conf": "[Manager]\nDefaultTimeoutStartSec=1h\nDefaultDeviceTimeoutSec=1h\n",
    "etc/default/grub": 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="console=ttyAMA0"\nGRUB_TERMINAL=console\n',
    "boot/grub/grub.cfg": MENU,
    "etc/systemd/system/serial-getty@ttyAMA0.service.d/root.conf": "[Service]\nExecStart=\n"
    "ExecStart=-/sbin/agetty --autologin root --noclear %I dumb\n",
}
ESP_MIB = 32


def run(*words: str | Path) -> None:
    """Run a command that must not fail."""
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def root_tarball(target: Path, suite: str, mirror: str) -> None:
    """Write a tarball with Debian and Debian's own kernel."""
    options = ["--architectures=arm64", "--variant=minbase", "--skip=check/qemu", f"--include={PACKAGES}"]
    smaller = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    run("mmdebstrap", *options, *smaller, "--dpkgopt=force-unsafe-io", suite, target, mirror)


def write_share(target: Path, packages: Sequence[Path]) -> None:
    """Write the image of the second disk: this repository, its Python packages for arm64, and Debian packages."""
    place = target.with_suffix(".files")
    wheels = place / "wheels"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    platforms = [f"--platform={name}_aarch64" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    options = ["--no-deps", "--only-binary=:all:", f"--python-version={version}", *platforms]
    requirements = ["--require-hashes", "-r", REPOSITORY / "requirements.txt"]
    extras.pip(place, ["download", *options, *requirements, "-d", place / "fetched"])
    for wheel in sorted((place / "fetched").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(wheels)
    shutil.rmtree(place / "fetched")
    for name in ("src", "guest", "kernel", "timing"):
        shutil.copytree(REPOSITORY / name, place / "lull" / name)
    wanted = extras.listed(extras.TOOL).with_suffix(".in")
    write_files(place / "lull", {"lull": LAUNCHER, wanted.name: wanted.read_text()})
    (place / "lull/lull").chmod(0o755)
    (place / "debs").mkdir()
    for package in packages:
        shutil.copy(package, place / "debs")
    run("mke2fs", "-q", "-t", "ext4", "-d", place, target, "2G")
    shutil.rmtree(place)


def write_disk(tarball: Path, disk: Path, files: Mapping[str, str]) -> None:
    """Write a disk image with an EFI system partition with GRUB, and the root file system. Needs root, or fakeroot."""
    place = disk.with_suffix(".files")
    place.mkdir()
    run("tar", "-xf", tarball, "-C", place, "--exclude=./dev/*")
    write_files(place, {**FILES, **files})
    modules = place / "usr/lib/grub/arm64-efi"
    shutil.copytree(modules, place / "boot/grub/arm64-efi", ignore=shutil.ignore_patterns("monolithic"))
    run("grub-editenv", place / "boot/grub/grubenv", "create") if shutil.which("grub-editenv") else write_files(
        place, {"boot/grub/grubenv": "# GRUB Environment Block\n".ljust(1024, "#")}
    )
    root = disk.with_suffix(".root")
    run("mke2fs", "-q", "-t", "ext4", "-d", place, "-U", UUID, root, "6G")
    esp = disk.with_suffix(".esp")
    esp.write_bytes(b"")
    os.truncate(esp, ESP_MIB << 20)
    run("mkfs.vfat", esp)
    run("mmd", "-i", esp, "::EFI", "::EFI/BOOT", "::EFI/debian")
    run("mcopy", "-i", esp, modules / "monolithic/grubaa64.efi", "::EFI/BOOT/BOOTAA64.EFI")
    first = (
        f"search --no-floppy --fs-uuid --set=root {UUID}\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
    )
    (disk.with_suffix(".cfg")).write_text(first)
    run("mcopy", "-i", esp, disk.with_suffix(".cfg"), "::EFI/debian/grub.cfg")
    mib = ESP_MIB + 1
    disk.write_bytes(b"")
    os.truncate(disk, (mib << 20) + root.stat().st_size + (1 << 20))
    table = f"label: gpt\nstart=1MiB, size={ESP_MIB}MiB, type=U\nstart={mib}MiB, type=L\n"
    subprocess.run(["sfdisk", "-q", disk], input=table, text=True, check=True)
    run("dd", f"if={esp}", f"of={disk}", "bs=1M", "seek=1", "conv=notrunc,sparse", "status=none")
    run("dd", f"if={root}", f"of={disk}", "bs=1M", f"seek={mib}", "conv=notrunc,sparse", "status=none")
    shutil.rmtree(place)
    root.unlink()


class Console:
    """The serial console of the machine, on which root is logged in after each boot.

    Args:
        words: the command that switches the machine on.
        log: takes what the console prints.
    """

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.words = words
        self.log = log
        self.switch_on()

    def switch_on(self) -> None:
        """Start the machine."""
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.text = ""

    def cut_power(self) -> None:
        """Stop the machine at once: what it had not written to its disk is lost."""
        self.process.kill()
        self.process.wait()

    def wait(self, pattern: str, seconds: float) -> re.Match[str]:
        """Read until what came since the last match fits the pattern."""
        assert self.process.stdout
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            left = end - time.monotonic()
            assert left > 0 and self.process.poll() is None, f"no {pattern} in: {self.text[-2000:]}"
            if select.select([self.process.stdout], [], [], left)[0]:
                data = os.read(self.process.stdout.fileno(), 65536)
                with open(self.log, "ab") as out:
                    out.write(data)
                self.text += data.decode(errors="replace").replace("\r", "")
        self.text = self.text[found.end() :]
        return found

    def booted(self, seconds: float = 900) -> str:
        """Wait for the shell after a boot; returns the release of the kernel."""
        self.wait(r"Linux uefi \S+ ", seconds)  # the message of the day: the shell before the boot has printed none
        self.wait(r"root@uefi:~# ", seconds)
        self("stty -echo; systemctl is-system-running --wait; true")
        return self("uname -r").strip()

    def __call__(self, command: str, seconds: float = 900, status: int = 0) -> str:
        """Run a command, which ends with this status; returns its output."""
        assert self.process.stdin
        # In one line: apt throws away what was typed and not read.
        self.process.stdin.write(f"{command}; echo END=$?=\n".encode())
        self.process.stdin.flush()
        found = self.wait(r"(?s)(.*)END=(\d+)=\n", seconds)
        output = re.sub(r"root@uefi:\S*# ", "", found[1])
        assert int(found[2]) == status, f"{command}: {output}"
        return output

    def send(self, command: str) -> None:
        """Run a command that does not come back: a reboot."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()


@contextmanager
def machine(qemu: Qemu, firmware: Path, disk: Path, share: Path, log: Path) -> Iterator[Console]:
    """Start the machine.

    Args:
        disk: is changed.
        share: an image of a file system, the second disk.
        log: takes what the console prints.
    """
    words = [qemu.program, "-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", "2048"]
    words += ["-nographic", "-nic", "none", "-bios", firmware, "-no-user-config"]
    for name, image in (("root", disk), ("share", share)):
        words += ["-drive", f"file={image},if=none,id={name},format=raw", "-device", f"virtio-blk-pci,drive={name}"]
    console = Console([str(word) for word in words], log)
    try:
        yield console
    finally:
        console.cut_power()
