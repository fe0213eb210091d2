# SPDX-License-Identifier: GPL-2.0-only
"""A machine that only seems to be one: files in a folder, commands that act on them, reboots, and power cuts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from support import write_files

from lull.process import ProcessEnd
from lull_contrib.day import machine, session

HOME = "6.12.57+deb13-arm64"
STOCK, LULL = "6.12.117-stock", "6.12.117-lull"
SECRETS = {
    "host name": "alices-server",
    "user": "alice",
    "address": "192.0.2.77",
    "hardware address": "02:00:5e:10:00:01",
    "serial number": "SN-4711-0815",
    "disk": "8a2b1c4d-0815-4711-aaaa-bbbbccccdddd",
}
"""What must not leave the machine; its files and its log are full of it."""
CONFIG = 'CONFIG_CC_VERSION_TEXT="gcc 12"\nCONFIG_HZ=250\n'
LOG = f"""[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x413fd0c1]
[    0.000000] Kernel command line: root=UUID={SECRETS["disk"]} isolcpus=3
[    0.000000] CPU features: detected: ARM errata 1165522, 1319367, or 1530923
[    0.100000] CPU features: detected: TLB range maintenance instructions
[    0.900000] systemd[1]: Hostname set to <{SECRETS["host name"]}>.
[    1.000000] CPU features: detected: secret of {SECRETS["address"]} <{SECRETS["user"]}@home>
[    1.100000] eth0: {SECRETS["hardware address"]}
"""


class PowerCut(BaseException):
    """The machine lost power: what would have followed did not happen."""


class Fake:
    """The machine.

    Args:
        root: an empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.boots: list[str] = []
        self.broken: set[str] = set()
        self.commands: list[str] = []
        self.effects = 0
        self.cut_at = -1
        self.rebooting = False
        self.busy: list[int] = []
        self.replies = {
            "grub-probe --target=abstraction /boot/grub": "",
            "grub-probe --target=fs /boot/grub": "ext2\n",
            "dmesg": LOG,
            "systemd-detect-virt": "kvm\n",
            "zramctl --find --size 1G": "/dev/zram0\n",
        }
        cpus = {
            f"sys/devices/system/cpu/cpu{n}/{name}": text
            for n in range(4)
            for name, text in {
                "regs/identification/midr_el1": "0x00000000413fd0c1\n",
                "topology/physical_package_id": "0\n",
                "cpufreq/scaling_driver": "cppc_cpufreq\n",
                "cpufreq/scaling_governor": "schedutil\n",
                "cpufreq/scaling_cur_freq": f"{2000000 + n}\n",
            }.items()
        }
        cpu = "processor\t: {}\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n"
        write_files(
            root,
            {
                **cpus,
                **{f"usr/sbin/{tool}": "" for tool in ("grub-reboot", "grub-editenv", "grub-probe", "update-grub")},
                "usr/bin/systemctl": "",
                "run/systemd/system/x": "",
                "boot/grub/grubenv": "",
                **{f"boot/vmlinuz-{release}": "" for release in (HOME, STOCK, LULL, "6.12.99-lull")},
                f"boot/config-{STOCK}": CONFIG,
                f"boot/config-{LULL}": f"{CONFIG}CONFIG_LULL=y\nCONFIG_ARM64_TLB_RESIDENCY=y\n",
                "proc/cpuinfo": "".join(cpu.format(n) for n in range(4)) + f"Serial\t: {SECRETS['serial number']}\n",
                "proc/meminfo": "MemTotal:       16000000 kB\n",
                "proc/cmdline": f"root=UUID={SECRETS['disk']} ip={SECRETS['address']} isolcpus=3 quiet\n",
                "proc/loadavg": "0.01 0.02 0.03 1/100 4711\n",
                "proc/version": f"Linux version 6.12.117-lull (alice@{SECRETS['host name']}) (gcc (Debian 12.2.0-14) "
                "12.2.0, GNU ld 2.40) #1 SMP\n",
                "proc/stat": "cpu  0 0 0 1000 0 0 0 0 0 0\n",
                "proc/4711/stat": "4711 (make (x) y) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0\n",
                "proc/4711/status": "Name:\tmake\nUid:\t1000\t1000\t1000\t1000\n",
                "sys/devices/system/cpu/online": "0-3\n",
                "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "schedutil\n",
                "sys/class/dmi/id/product_name": "Altra Max\n",
                "sys/class/dmi/id/product_serial": SECRETS["serial number"],
                "sys/class/thermal/cooling_device0/type": "Processor\n",
                "sys/class/thermal/cooling_device0/cur_state": "0\n",
                "sys/class/thermal/cooling_device1/type": "pwm-fan\n",
                "sys/class/thermal/cooling_device1/cur_state": "3\n",
                "etc/hostname": SECRETS["host name"],
            },
        )
        self.update_grub()
        (entry,) = (e for r, e in machine.menu((root / machine.MENU).read_text()) if r == HOME)
        self.usual = entry
        self.pristine = self.lasting()
        self.boot()
        self.usual = entry.replace(HOME, LULL)  # since Lull was installed: the newest is the first of the menu
        self.machine = Watched(root, self.execute, self.sleep)
        Watched.fake = self

    def lasting(self) -> dict[str, str]:
        """The files that a session must leave as they were."""
        files = (p for folder in ("etc", "boot", "var") for p in (self.root / folder).rglob("*") if p.is_file())
        found = {str(p): p.read_text() for p in files if p.suffix != ".lock"}
        # GRUB has an empty next_entry once another was used: the same as none.
        return {path: "" if text == "next_entry=\n" else text for path, text in found.items()}

    def effect(self) -> None:
        """Something is about to be changed: the moment for a power cut."""
        self.effects += 1
        if self.effects == self.cut_at:
            raise PowerCut

    def sleep(self, seconds: float) -> None:
        """Time passes: the CPUs do what ``busy`` says, in ticks, and then nothing."""
        ticks = self.busy.pop(0) if self.busy else 0
        total = int((self.root / "proc/stat").read_text().split()[1]) + ticks
        (self.root / "proc/stat").write_text(f"cpu  {total} 0 0 1000 0 0 0 0 0 0\n")
        (self.root / "proc/4711/stat").write_text(f"4711 (make (x) y) R 1 1 1 0 -1 0 0 0 0 0 {total} 0 0 0 0\n")

    def update_grub(self) -> None:
        """Write GRUB's menu as grub-mkconfig does, with the default of the session's file if there is one."""
        file = self.root / session.DEFAULT
        named = re.search(r"GRUB_DEFAULT='(.*)'", file.read_text()) if file.exists() else None
        text = f'set default="{named[1] if named else "0"}"\n'
        text += "menuentry 'Debian' --class os $menuentry_id_option 'gnulinux-simple-4711' {\n}\n"
        text += "submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-4711' {\n"
        for kernel in sorted((self.root / "boot").glob("vmlinuz-*"), reverse=True):
            release = kernel.name.removeprefix("vmlinuz-")
            for kind in ("advanced", "recovery"):
                text += (
                    f"\tmenuentry 'Linux' --class os $menuentry_id_option 'gnulinux-{release}-{kind}-4711' {{\n\t}}\n"
                )
        (self.root / machine.MENU).write_text(text + "}\n")

    def execute(self, words: Sequence[str]) -> ProcessEnd:
        """Run a command."""
        line = " ".join(words)
        if line in self.replies:
            return ProcessEnd(0, self.replies[line])
        environment = self.root / "boot/grub/grubenv"
        if words[0] == "grub-editenv" and words[-1] == "list":
            return ProcessEnd(0, environment.read_text())
        if words[0] == "stat" or "list-units" in words:
            return ProcessEnd(0, "ext2/ext3\n" if words[0] == "stat" else "apt-daily.timer loaded active\n")
        self.effect()
        self.commands.append(line)
        wants = self.root / f"etc/systemd/system/multi-user.target.wants/{session.NAME}"
        if words[0] == "grub-reboot":
            environment.write_text(f"next_entry={words[1]}\n")
        elif words[0] == "grub-editenv":
            environment.write_text("")
        elif words[0] == "update-grub":
            self.update_grub()
        elif words[:2] == ("systemctl", "enable"):
            write_files(self.root, {str(wants.relative_to(self.root)): ""})
        elif words[:2] == ("systemctl", "disable"):
            wants.unlink(missing_ok=True)
        elif words[:2] == ("systemctl", "reboot"):
            self.rebooting = True
        return ProcessEnd(0, "")

    @property
    def goes_on(self) -> bool:
        """Whether systemd starts the session after a boot."""
        wants = self.root / f"etc/systemd/system/multi-user.target.wants/{session.NAME}"
        return wants.exists() and (self.root / session.UNIT).exists() and (self.root / session.STATE).exists()

    def boot(self) -> None:
        """Boot what GRUB's environment and menu say. A broken kernel panics, and GRUB is asked again."""
        self.rebooting = False
        environment = self.root / "boot/grub/grubenv"
        once = re.fullmatch(r"next_entry=(.+)\n", environment.read_text())
        if once:
            environment.write_text("next_entry=\n")  # so does GRUB's script: it empties the variable, which stays
        entries = {entry: release for release, entry in machine.menu((self.root / machine.MENU).read_text())}
        default = re.search(r'set default="(.*)"', (self.root / machine.MENU).read_text())
        assert default
        release = entries[once[1] if once else default[1] if default[1] != "0" else self.usual]
        self.boots.append(release)
        if release in self.broken:
            self.boot()
            return
        kernel = {"osrelease": release, "random/boot_id": f"boot-{len(self.boots)}"}
        write_files(self.root, {f"proc/sys/kernel/{name}": f"{text}\n" for name, text in kernel.items()})


class Watched(machine.Machine):
    """A Machine whose changes of files are effects, too."""

    fake: Fake

    def write(self, name: str, text: str) -> None:
        self.fake.effect()
        super().write(name, text)

    def remove(self, name: str) -> None:
        self.fake.effect()
        super().remove(name)
