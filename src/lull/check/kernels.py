# SPDX-License-Identifier: GPL-2.0-only
"""The kernels that `lull check` boots: their images, and the symbols whose addresses the plugin gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lull import cache, guest
from lull.check import broken, unpack
from lull.check import image as check_image
from lull.errors import UsageError
from lull.lab import Lab
from lull.linux import debian, kallsyms, symbols
from lull.progress import progress

SLOWER = 2.0
"""Factor on the time limits of a kernel that is not configured for the lab: it has drivers, and maybe debugging."""


@dataclass
class CheckedKernel:
    """A kernel to check.

    Args:
        name: its name in tables.
        image: the Image file.
        symbols: the symbols of this image.
        place: the file that the symbols are from, in the form of System.map; the plugin reads it.
        limit_factor: factor on the time limits of its guests.
        modules: modules that the guest loads, in this order.
    """

    name: str
    image: Path
    symbols: symbols.Symbols
    place: Path
    limit_factor: float = 1.0
    modules: list[Path] = field(default_factory=list)

    def patched(self, *, narrow: bool, sme: bool, changes: tuple[str, ...] = ()) -> Path:
        """A copy of the image in the cache, or the image itself if it need not be patched.

        Args:
            narrow: the kernel finds 8-bit ASIDs.
            sme: the kernel works around erratum 4193714 on QEMU's CPU max.
            changes: how a mutant breaks the kernel (lull.check.broken).

        Raises: UsageError when the copy cannot be made.
        """
        if not narrow and not sme and not changes:
            return self.image
        code = [Path(module.__file__) for module in (broken, check_image) if module.__file__]
        key = cache.key_of_files([self.image, self.place, *code], *changes)

        def make(part: Path) -> None:
            data = self.image.read_bytes()
            if narrow:
                data = check_image.with_8_bit_asids(data, self.symbols, str(self.image))
            if sme:
                data = check_image.with_sme_erratum(data, str(self.image))
            if changes:
                data = broken.broken(data, self.symbols, changes, str(self.image))
            (part / "Image").write_bytes(data)

        prefix = f"{'asid8-' * narrow}{'sme-' * sme}{'broken-' * bool(changes)}"
        return cache.make_entry("build", prefix + key, make) / "Image"

    def initramfs(self, lab: Lab) -> Path:
        """The guest's initramfs, with the modules."""
        return guest.with_modules(lab.initramfs, self.modules, lab.generator) if self.modules else lab.initramfs


def of_base(lab: Lab, name: str) -> CheckedKernel:
    """The kernel ``name`` of the base (``stock``, ``lull``, ``lab``), built if need be."""
    built = lab.kernel(name)
    found = symbols.load_symbols(built.system_map, lab.toolchain.nm)
    return CheckedKernel(name, built.image, found, built.system_map, built.limit_factor)


def of_user(lab: Lab, image: Path, place: Path | None) -> CheckedKernel:
    """The user's own kernel.

    Args:
        image: its image, also a compressed one.
        place: its System.map or vmlinux; None: the symbols are read from the image.

    Raises: UsageError when a file cannot be read, is no arm64 Linux kernel, or the symbols are another kernel's.
    """
    plain = plain_image(image, offline=lab.offline)
    if place is None:
        place = kallsyms.extract(plain, offline=lab.offline)
    place = symbols.listing(place, lab.toolchain.nm)
    found = symbols.load_symbols(place, lab.toolchain.nm)
    check_image.check_fit(plain.read_bytes(), found, str(image))
    return CheckedKernel(users_name(lab, image), plain, found, place, SLOWER)


def plain_image(image: Path, *, offline: bool) -> Path:
    """The file ``image``, or an uncompressed copy of it in the cache.

    Raises: UsageError when it is no arm64 Linux kernel, FetchError.
    """
    if is_plain(image):
        return image

    def make(part: Path) -> None:
        with progress.step(f"decompressing {image.name}"):
            data = unpack.unpack_image(image.read_bytes(), str(image), offline=offline)
        if not check_image.check_kind(data, f"{image}, decompressed"):
            raise UsageError("the image is compressed twice", where=str(image), remedy="decompress it once")
        (part / "Image").write_bytes(data)

    return cache.make_entry("build", f"plain-{cache.key_of_files([image])}", make) / "Image"


def is_plain(image: Path) -> bool:
    """Return true for an uncompressed Image, false for a compressed one. Raises UsageError for everything else."""
    try:
        data = image.read_bytes()
    except OSError as error:
        what = f"the image cannot be read: {error.strerror}"
        raise UsageError(what, where=str(image), remedy="name the Image of an arm64 kernel") from error
    return check_image.check_kind(data, str(image))


def of_debian(lab: Lab, name: str) -> CheckedKernel:
    """A kernel of Debian's by its name, fetched if need be. Raises FetchError, and UsageError for an unknown name."""
    kernel = debian.fetch_kernel(lab.store, name)
    plain = plain_image(kernel.image, offline=lab.offline)
    place = kallsyms.extract(plain, offline=lab.offline)
    return CheckedKernel(
        kernel.release, plain, symbols.load_symbols(place, lab.toolchain.nm), place, SLOWER, kernel.modules
    )


def users_name(lab: Lab, image: Path) -> str:
    """The name of the user's kernel in tables: its file name, with ``./`` in front when a kernel of the base has it."""
    return f"./{image.name}" if image.name in lab.base.kernels else image.name
