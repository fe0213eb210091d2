# SPDX-License-Identifier: GPL-2.0-only
"""What stands against a session is said before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from day_machine import CONFIG, HOME, LULL, STOCK, Fake
from support import write_files

from lull.errors import UsageError
from lull_contrib.day import machine, ready


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A machine."""
    (tmp_path / "root").mkdir()
    return Fake(tmp_path / "root")


def asked(fake: Fake, *, root: bool = True, mib: int = 1000) -> ready.Pair:
    """What is asked before a session; it changes nothing, whatever the answer is."""
    out = fake.root.parent / "out"
    effects, before = fake.effects, fake.lasting()
    try:
        return ready.require(fake.machine, out, root=root, kept=(out,), free=lambda path: mib << 20)
    finally:
        assert (fake.effects, fake.lasting(), out.exists()) == (effects, before, False)


def test_a_machine_that_is_ready(fake: Fake) -> None:
    """The newest Lull kernel, stock of the same version, and what runs."""
    pair = asked(fake)
    assert (pair.kernels, pair.home) == ({"stock": STOCK, "lull": LULL}, HOME)
    assert pair.entries[LULL] == f"gnulinux-advanced-4711>gnulinux-{LULL}-advanced-4711"


def test_a_machine_that_runs_lull_already(fake: Fake) -> None:
    """It returns to the distribution's newest."""
    write_files(fake.root, {"proc/sys/kernel/osrelease": LULL, "boot/vmlinuz-6.12.9+deb13-arm64": ""})
    fake.update_grub()
    assert asked(fake).home == HOME


def written(name: str, text: str) -> Callable[[Fake], None]:
    """Write a file of the machine."""

    def do(fake: Fake) -> None:
        write_files(fake.root, {name: text})

    return do


def gone(name: str) -> Callable[[Fake], None]:
    """Remove a file of the machine."""
    return lambda fake: (fake.root / name).unlink()


def replies(command: str, text: str) -> Callable[[Fake], None]:
    """Let a command say something else."""
    return lambda fake: fake.replies.update({command: text})


def without(pattern: str) -> Callable[[Fake], None]:
    """Remove kernels, and write the menu again."""

    def do(fake: Fake) -> None:
        for path in (fake.root / "boot").glob(pattern):
            path.unlink()
        fake.update_grub()

    return do


def of_two_kinds(fake: Fake) -> None:
    """The last CPU has another part number."""
    path = fake.root / "proc/cpuinfo"
    before, _, after = path.read_text().rpartition("0xd0c")
    path.write_text(f"{before}0xd05{after}")


BAD: dict[str, tuple[Callable[[Fake], None], str]] = {
    "no systemd": (gone("run/systemd/system/x"), "does not run systemd"),
    "no grub": (gone("usr/sbin/grub-reboot"), "not booted by GRUB: grub-reboot is not installed"),
    "no menu": (gone("boot/grub/grub.cfg"), "not booted by GRUB: /boot/grub/grub.cfg is missing"),
    "no lull": (without("vmlinuz-*-lull"), "VERSION-stock is not installed"),
    "no stock": (gone(f"boot/config-{STOCK}"), f"{STOCK} is not installed"),
    "no entry": (without(f"vmlinuz-{STOCK}"), f"no entry for {STOCK}"),
    "nothing else": (without(f"vmlinuz-{HOME}"), "only Lull's kernels are installed"),
    "secure boot": (written(ready.SECURE, "\6\0\0\0\1"), "secure boot is on"),
    "lvm": (replies("grub-probe --target=abstraction /boot/grub", "lvm\n"), "on lvm ext2, which GRUB cannot write"),
    "btrfs": (replies("grub-probe --target=fs /boot/grub", "btrfs\n"), "on btrfs, which GRUB cannot write"),
    "chosen": (written("boot/grub/grubenv", "next_entry=x\n"), "already chosen the next boot"),
    "compiler": (
        written(f"boot/config-{LULL}", CONFIG.replace("12", "14") + "CONFIG_LULL=y\n"),
        "differ in more than Lull: CONFIG_CC_VERSION_TEXT",
    ),
    "big.LITTLE": (of_two_kinds, "CPUs of several kinds .*0x41/0xd05, 0x41/0xd0c"),
    "load": (lambda fake: fake.busy.append(300), "not idle: 0.60 CPUs are busy"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_stands_against_it(fake: Fake, name: str) -> None:
    """Each is said in words of its own."""
    spoil, words = BAD[name]
    if name == "no systemd":
        (fake.root / "run/systemd/system/x").unlink()
        (fake.root / "run/systemd/system").rmdir()
    else:
        spoil(fake)
    with pytest.raises(UsageError, match=words):
        asked(fake)


def test_a_choice_that_grub_has_used(fake: Fake) -> None:
    """GRUB leaves the variable, and empties it."""
    write_files(fake.root, {"boot/grub/grubenv": "next_entry=\n"})
    asked(fake)


def test_secure_boot_that_is_off(fake: Fake) -> None:
    """The firmware says so."""
    write_files(fake.root, {ready.SECURE: "\6\0\0\0\0"})
    asked(fake)


def test_root_and_space(fake: Fake) -> None:
    """Neither is assumed."""
    with pytest.raises(UsageError, match="only root"):
        asked(fake, root=False)
    with pytest.raises(UsageError, match=r"less than 256 MiB are free in .*/out"):
        asked(fake, mib=ready.OUT_MIB - 1)
    with pytest.raises(UsageError, match=r"less than 16 MiB are free in .*/boot"):
        asked(fake, mib=ready.BOOT_MIB - 1)


def test_memory_is_no_place_for_results(fake: Fake) -> None:
    """A reboot empties it."""
    fake.replies[f"stat -f -c %T {fake.root.parent}"] = "tmpfs"
    with pytest.raises(UsageError, match="lost in a reboot"):
        asked(fake)


def test_a_program_that_keeps_a_cpu_busy_is_a_load() -> None:
    """Also on the largest machine of docs/hardware.md, and more."""
    assert ready.IDLE + ready.IDLE_SHARE * 256 < 1


def test_a_load_is_named(fake: Fake) -> None:
    """With its process and its user, also if its name has blanks and brackets."""
    fake.busy = [400]
    with pytest.raises(UsageError) as caught:
        asked(fake)
    assert caught.value.tail == "CPUs used by make (x) y (process 4711, user 1000) 0.80"


def test_the_menu_without_a_submenu() -> None:
    """As GRUB_DISABLE_SUBMENU=y makes it."""
    text = "menuentry 'a' --x $menuentry_id_option 'gnulinux-6.12.1-arm64-advanced-12-34' {\n}\n"
    assert dict(machine.menu(text)) == {"6.12.1-arm64": "gnulinux-6.12.1-arm64-advanced-12-34"}
