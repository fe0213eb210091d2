# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that `lull check` boots: their images, and the symbols whose addresses the plugin gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lull import cache
from lull.check import image as check_image
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import symbols
from lull.progress import say

FREES = ("free_unref_page", "free_unref_folios", "__free_pages_ok", "free_huge_folio", "pgd_free")
"""Functions that free pages. The plugin hooks them in a kernel without markers; the lab kernel marks what it frees."""
RELIES = """
unmap_page_range change_protection move_page_tables tlb_flush_rmaps _raw_spin_unlock schedule memstart_addr
__folio_start_writeback swap_writepage folio_copy folio_mc_copy copy_highpage tlb_flush_rmap_batch folio_unlock
"""
"""Symbols whose addresses the plugin gets for every kernel: functions in which the kernel relies on a completed flush
(plugin/rely.h) or on a page not being written (plugin/written.h), the function in which a task sleeps
(plugin/unload.h), and the variable from which the plugin computes where the struct pages are (memstart_addr)."""


@dataclass
class CheckedKernel:
    """A kernel to check.

    Args:
        name: its name in tables.
        image: the Image file.
        symbols: the symbols of this image.
        place: the file that the symbols are from.
        limit_factor: factor on the time limits of its guests.
    """

    name: str
    image: Path
    symbols: symbols.Symbols
    place: Path
    limit_factor: float = 1.0

    def narrow(self) -> Path:
        """A copy of the image that finds 8-bit ASIDs, in the cache. Raises UsageError when it cannot be made."""
        key = cache.key_of_files([self.image, self.place])

        def make(part: Path) -> None:
            data = check_image.with_8_bit_asids(self.image.read_bytes(), self.symbols, str(self.image))
            (part / "Image").write_bytes(data)

        return cache.make_entry("build", f"asid8-{key}", make) / "Image"

    def hooks(self) -> tuple[str, ...]:
        """The plugin's options ``hook=NAME@ADDRESS`` for this kernel; FREES only when the kernel has no markers."""
        frees = () if check_image.has_markers(self.image.read_bytes()) else FREES
        found = ((name, self.symbols.address(name)) for name in (*frees, *RELIES.split()))
        return tuple(f"hook={name}@{address:#x}" for name, address in found if address is not None)


def of_base(lab: Lab, name: str) -> CheckedKernel:
    """The kernel ``name`` of the base (``stock``, ``lull``, ``lab``), built if need be."""
    if not lab.base.checked:
        say(
            f"the checker does not know the functions of Linux {lab.base.series} that it watches: "
            f"in the kernel {name} it can miss faults, and report what is none"
        )
    built = lab.kernel(name)
    found = symbols.load(built.system_map, lab.toolchain.nm)
    return CheckedKernel(name, built.image, found, built.system_map, built.limit_factor)


def of_user(lab: Lab, image: Path, place: Path) -> CheckedKernel:
    """The user's own kernel. Raises UsageError when a file cannot be read or the symbols are another kernel's.

    Args:
        image: its Image.
        place: its System.map or vmlinux.
    """
    try:
        data = image.read_bytes()
    except OSError as error:
        what = f"the image cannot be read: {error.strerror}"
        raise UsageError(what, where=str(image), remedy=check_image.REMEDY) from error
    found = symbols.load(place, lab.toolchain.nm)
    check_image.check_fit(data, found, str(image))
    return CheckedKernel(users_name(lab, image), image, found, place)


def users_name(lab: Lab, image: Path) -> str:
    """The name of the user's kernel in tables: its file name, with ``./`` in front when a kernel of the base has it."""
    return f"./{image.name}" if image.name in lab.base.kernels else image.name
