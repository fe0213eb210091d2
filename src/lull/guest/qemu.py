# SPDX-License-Identifier: GPL-2.0-only
"""Choose a QEMU, fetch one when the machine has none of a supported version, and make the command line of a guest."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lull import cache, process
from lull.base import Pin
from lull.errors import FetchError, MissingError, UsageError
from lull.linux import apt, pins, toolchain
from lull.linux.fetch import Fetched, Store
from lull.progress import progress

SUPPORTED = (10, 11)
"""Supported major versions. The machine virt has a second PL011 (UART) since 9.1. Lull is tested with 10.0 and 11.1."""
NEEDED = " or ".join(f"{major}.x" for major in SUPPORTED)
PROGRAM = "qemu-system-aarch64"
PACKAGE = "qemu-system-arm"
MAX_VCPUS = 128
"""The most vCPUs. The machine virt has up to 512; modelled time makes the guest's clock slow enough for up to 178."""


@dataclass(frozen=True)
class Qemu:
    """A QEMU to run.

    Args:
        program: its executable; for a copy in the cache, the script that starts it with its own libraries.
        version: ``10.0.2``, and what the package adds in brackets.
    """

    program: Path
    version: str

    @property
    def major(self) -> int:
        """The major version."""
        return int(self.version.split(".")[0])

    @property
    def plugin(self) -> str:
        """The file name of the plugin's build for this QEMU: version 7 of the plugin interface came with 11.1."""
        major, minor = map(int, self.version.split(".")[:2])
        return "lull-7.so" if (major, minor) >= (11, 1) else "lull.so"


def probe(program: Path) -> Qemu:
    """The QEMU ``program`` with its version. Raises MissingError when it does not run or is not QEMU."""
    done = process.complete([program, "--version"])
    found = re.match(r"QEMU emulator version (\S+(?: \(.*\))?)", done.output)
    if done.status != 0 or not found:
        raise MissingError(
            f"{program} does not run",
            where=f"$ {program} --version",
            tail=done.output[-500:],
            remedy=f"install QEMU {NEEDED}",
        )
    return Qemu(program, found.group(1))


def of_machine() -> Qemu | None:
    """The machine's QEMU, of any version: the one that LULL_QEMU names, or else the one in PATH; None without either.

    Raises: MissingError when the program does not run.
    """
    named = os.environ.get("LULL_QEMU")
    if named:
        return probe(Path(named))
    found = shutil.which(PROGRAM)
    return probe(Path(found)) if found else None


def host_mib() -> int:
    """MiB of memory that the host has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


SMALL = re.compile(r"arm\d|cortex-[mr]|cortex-a(7|8|9|15)$|pxa|sa1|ti9")
"""QEMU's CPU models without AArch64."""


@functools.cache
def models(program: Path) -> list[str]:
    """The AArch64 CPU models that -cpu of ``program`` takes; an empty list when QEMU fails."""
    done = process.complete([program, "-M", "none", "-cpu", "help"])
    found = re.findall(r"(?m)^ +(\S+)", done.output) if done.status == 0 else []
    return [name for name in found if not SMALL.match(name)]


STARTER = """#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Starts the QEMU unpacked beside this script with the libraries that came with it.
here=$(dirname -- "$(readlink -f -- "$0")")
loader=
# It may name modules of another build.
unset QEMU_MODULE_DIR
for folder in "$here"/usr/lib/*-linux-gnu "$here"/lib/*-linux-gnu; do
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # A libc that came along needs its own loader.
    for file in "$folder"/ld-linux-*.so.*; do
        [ ! -e "$file" ] || loader=$file
    done
done
export LD_LIBRARY_PATH
# Firmware may be the machine's: what was installed already was not fetched.
exec ${loader:+"$loader"} "$here/usr/bin/qemu-system-aarch64" \\
    -L "$here/usr/share/qemu" -L /usr/share/qemu -L /usr/lib/ipxe/qemu "$@"
"""
"""The script that starts a QEMU of the cache."""

BUNDLE = "qemu-bundle"
"""In a folder of this name beside its executable, QEMU looks for its files in place of ``/``."""


def fits(qemu: Qemu | None) -> bool:
    """Return true if there is a QEMU and its version is supported."""
    return qemu is not None and qemu.major in SUPPORTED


def require(qemu: Qemu) -> Qemu:
    """Return ``qemu``. Raises MissingError when its version is not supported."""
    if not fits(qemu):
        age = "old" if qemu.major < SUPPORTED[0] else "new"
        raise MissingError(
            f"QEMU {qemu.version} is too {age}; {NEEDED} is needed",
            where=str(qemu.program),
            remedy="unset LULL_QEMU and let the lab fetch one ('./lull fetch')",
        )
    return qemu


SUITES = ("trixie", "trixie-security")
"""Debian's suites whose QEMU is pinned, with all its libraries: it runs on any release."""


def group() -> str:
    """The group of pins of the QEMU for this machine."""
    return f"qemu-{apt.host_architecture()}"


def entry() -> str:
    """The name of the private QEMU in fetched.json: other pins are another entry."""
    return f"{group()}-{pins.key(pins.load_pins(group()))}"


def pin() -> Pin | None:
    """The pinned package of QEMU itself; None on a machine for which none is pinned."""
    return next((one for one in pins.load_pins(group()) if one.package == PACKAGE), None)


def of_store(store: Store) -> Qemu:
    """The machine's QEMU if its version is supported, else a copy in the cache.

    Raises: MissingError when there is neither.
    """
    machine = of_machine()
    if machine and fits(machine):
        return machine
    try:
        found = store.have(entry())
    except FetchError as error:
        if machine:
            require(machine)
        raise MissingError("no QEMU", remedy=error.remedy) from error
    if not found:
        found = store.remember(entry(), fetch_qemu(store))
    set_up(found.path)  # an older version of the lab may have fetched it
    return require(probe(found.path / PROGRAM))


def fetch_qemu(store: Store) -> Fetched:
    """Download the pinned QEMU with all its libraries, or else the newest of SUITES, with a notice.

    Raises: MissingError when no archive has a supported version, FetchError when a download fails.
    """
    wanted = pins.load_pins(group())
    if (mine := pin()) and (debs := store.files_of(wanted, group())):
        return unpack_debs(debs, mine.version, pins.key(wanted), store.log)
    private = store.archives(SUITES, apt.host_architecture(), bare=True, alone=True)
    newest = next(filter(supported, private.versions(PACKAGE)), None)
    if newest is None:
        raise MissingError(
            f"no archive of this machine has {PACKAGE} {NEEDED}",
            where=str(private.home),
            remedy="install it from elsewhere and name it with LULL_QEMU=/path/to/qemu-system-aarch64",
        )
    return download_qemu(private, newest, store.log)


def set_up(folder: Path) -> None:
    """Make the QEMU that was unpacked into ``folder`` ready to be started. A copy that is ready stays as it is.

    Debian's QEMU looks for modules in /usr/lib, also when QEMU_MODULE_DIR names another folder that lacks a module. If
    the machine's own QEMU has that module there, it is of another build, and QEMU prints an error. So the copy gets a
    link that puts ``folder`` in place of ``/``, beside QEMU and, if the copy has its own libc, beside its loader, which
    is the executable then.
    """
    names = ("usr/lib/*-linux-gnu/ld-linux-*.so.*", "lib/*-linux-gnu/ld-linux-*.so.*")
    loaders = [file.resolve() for name in names for file in folder.glob(name)]
    for place in {file.parent for file in [folder / "usr/bin" / PROGRAM, *loaders]}:
        if not (place / BUNDLE).is_symlink():
            with suppress(FileExistsError):
                (place / BUNDLE).symlink_to(os.path.relpath(folder.resolve(), place.resolve()))
    starter = folder / PROGRAM
    if not starter.exists() or starter.read_text() != STARTER:
        made = starter.with_name(f".{PROGRAM}.{os.getpid()}")
        made.write_text(STARTER)
        made.chmod(0o755)
        made.replace(starter)


def download_qemu(private: apt.PrivateApt, version: str, log: Path) -> Fetched:
    """Download the package's ``version`` and what it needs, and unpack them into one folder of the cache.

    Args:
        private: an apt that has this version. It decides which dependencies are installed already: none if it is bare.
        log: takes apt's output.

    Raises: FetchError when a download fails, MissingError when QEMU does not run.
    """

    def make(part: Path) -> None:
        with progress.step(f"fetching QEMU {version}"):
            words = [f"{PACKAGE}={version}", *private.newer_from_same(PACKAGE, version)]
            private.download_closure(words, part, log)

    key = cache.key_of(version, private.key)
    debs = cache.make_entry("fetch", f"{PACKAGE}-{key}", make, resume=True)
    return unpack_debs(sorted(debs.glob("*.deb")), version, key, log)


def unpack_debs(debs: Sequence[Path], version: str, key: str, log: Path) -> Fetched:
    """Unpack QEMU's packages into one folder of the cache. Raises FetchError, and MissingError when it does not run.

    Args:
        debs: the packages of ``version`` and of what it needs.
        key: a hash that names them.
        log: takes the output.
    """

    def make(part: Path) -> None:
        with progress.step(f"unpacking QEMU {version}"):
            for deb in debs:
                apt.unpack_deb(deb, part, log)
        set_up(part)
        probe(part / PROGRAM)

    return Fetched(apt.Package(PACKAGE, version, ""), cache.make_entry("qemu", f"qemu-{key}", make))


def supported(version: str) -> bool:
    """Return true if a Debian version (``1:10.0.2+ds-2``) is of a supported major version."""
    found = re.match(r"(?:\d+:)?(\d+)", version)
    return found is not None and int(found[1]) in SUPPORTED


RANGE_TLBIS = ("max", "cortex-a710", "neoverse-n2", "neoverse-v1")
"""QEMU's CPU models with FEAT_TLBIRANGE."""


def has_range_tlbis(cpu: str) -> bool:
    """Return true if the CPU ``cpu``, a model with its properties, has TLBIs of ranges (FEAT_TLBIRANGE)."""
    return cpu.partition(",")[0] in RANGE_TLBIS


def escape(value: str | Path) -> str:
    """``value`` for use inside one of QEMU's comma-separated options, with commas doubled."""
    return str(value).replace(",", ",,")


@dataclass(frozen=True)
class Machine:
    """The guest's hardware, and how QEMU runs it.

    Args:
        vcpus: number of virtual CPUs, from 1 to MAX_VCPUS.
        memory_mib: MiB of RAM.
        cpu: a CPU model of QEMU, with its properties.
        accel: ``tcg`` (emulated; plugins work) or ``kvm`` (only on arm64 hosts).
        nodes: number of NUMA nodes, among which CPUs and memory are divided.
        slower: factor by which the guest's clock is slower than the host's (lull.guest.clock).
        mte: memory has tags, for CPUs with MTE.
        virtualization: CPUs have EL2, so the guest may have guests of its own.

    Raises: UsageError for a number of vCPUs that is not possible, or ``kvm`` where it does not work.
    """

    vcpus: int = 4
    memory_mib: int = 2048
    cpu: str = "max,pauth-impdef=on"
    accel: str = "tcg"
    nodes: int = 1
    slower: int = 1
    mte: bool = False
    virtualization: bool = False

    def __str__(self) -> str:
        """The machine in one line: ``4 vCPUs, max, 2048 MiB, under tcg``."""
        cpu = "the host's CPUs" if self.accel == "kvm" else self.cpu
        return f"{self.vcpus} vCPU{'s' * (self.vcpus > 1)}, {cpu}, {self.memory_mib} MiB, under {self.accel}"

    @property
    def smp(self) -> str:
        """What QEMU's option -smp takes."""
        return str(self.vcpus)

    def platform(self) -> list[tuple[str, str]]:
        """QEMU's options for the board, the accelerator and the CPU."""
        kvm = self.accel == "kvm"
        more = (",mte=on" if self.mte else "") + (",virtualization=on" if self.virtualization else "")
        return [
            ("-machine", "virt,gic-version=3" + more),
            ("-accel", "kvm" if kvm else "tcg,thread=multi"),
            ("-cpu", "host" if kvm else self.cpu),
        ]

    def __post_init__(self) -> None:
        if not 1 <= self.vcpus <= MAX_VCPUS:
            raise UsageError(f"--vcpus {self.vcpus}: 1 to {MAX_VCPUS} are possible")
        if self.accel == "kvm" and not toolchain.kvm_usable():
            raise UsageError(
                "--accel kvm needs an arm64 host with a usable /dev/kvm",
                remedy="leave it out: tcg works everywhere, and only it counts TLBIs",
            )


@dataclass(frozen=True)
class X86(Machine):
    """An x86-64 machine whose clock advances by one nanosecond with each instruction, and so does its TSC.

    No time passes while no vCPU executes instructions: the clock then jumps to the next timer (``sleep=off``).
    """

    vcpus: int = 1
    cpu: str = "max"

    def platform(self) -> list[tuple[str, str]]:
        """QEMU's options for the board, the accelerator, the clock and the CPU."""
        accel = ("-accel", "tcg,thread=single")
        return [("-machine", "pc"), accel, ("-icount", "shift=0,sleep=off"), ("-cpu", self.cpu)]

    @property
    def smp(self) -> str:
        """A socket for each vCPU: without ACPI, the kernel reads the BIOS' table, which has one of each socket."""
        return f"{self.vcpus},sockets={self.vcpus}"


def numbers_of_vcpus(text: str) -> list[int]:
    """The numbers in ``1,2,4``, ascending. Raises UsageError for anything else, or a number that is not possible."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--vcpus {text}: not numbers with commas between", remedy="e.g. --vcpus 1,2,4") from None
    return [Machine(vcpus=number).vcpus for number in found]  # Machine() refuses numbers that are not possible


def command(
    qemu: Qemu,
    machine: Machine,
    *,
    kernel: Path,
    initrd: Path,
    append: str,
    results: Path,
    disk: Path | None = None,
    console: str = "stdio",
    talk: Path | None = None,
) -> list[str]:
    """The command line of a guest, without the options of the plugin and of a slower clock.

    Args:
        append: the kernel's command line.
        results: the file that takes the output of the second UART, to which the guest writes its results.
        disk: the image of a disk; the guest's writes to it are discarded.
        console: where the first UART goes: a file, or STDIO.
        talk: the socket at which the host writes to the second UART; None: nobody does.
    """
    kept = f"socket,id=results,path={escape(talk)},server=on,wait=off,logfile=" if talk else "file,id=results,path="
    options = [
        ("-display", "none"),
        ("-monitor", "none"),
        *machine.platform(),
        ("-smp", machine.smp),
        ("-m", f"{machine.memory_mib}M"),
        ("-chardev", console if console.startswith("stdio") else f"file,id=console,path={escape(console)}"),
        ("-chardev", kept + escape(results)),
        ("-serial", "chardev:console"),
        ("-serial", "chardev:results"),
        ("-kernel", str(kernel)),
        ("-initrd", str(initrd)),
        ("-append", append),
    ]
    words = [str(qemu.program), "-nodefaults", "-no-reboot", *(word for option in options for word in option)]
    words += numa(machine)
    if disk:
        words += ["-drive", f"if=none,id=disk,format=raw,snapshot=on,file={escape(disk)}"]
        words += ["-device", "virtio-blk-device,drive=disk"]
    return words


def numa(machine: Machine) -> list[str]:
    """The options for several NUMA nodes. CPUs and memory are divided equally; node 0 gets the MiB that remain."""
    if machine.nodes == 1:
        return []
    words: list[str] = []
    for node in range(machine.nodes):
        part = machine.memory_mib // machine.nodes + (machine.memory_mib % machine.nodes if node == 0 else 0)
        first, last = (machine.vcpus * n // machine.nodes for n in (node, node + 1))
        words += ["-object", f"memory-backend-ram,id=node{node},size={part}M"]
        cpus = f",cpus={first}-{last - 1}" if last > first else ""
        words += ["-numa", f"node,nodeid={node},memdev=node{node}{cpus}"]
    return words


STDIO = "stdio,id=console,signal=off,mux=on"
"""The chardev of an interactive console. Ctrl-C goes to the guest; Ctrl-A X ends QEMU."""


def machine_metrics(accel: str) -> str:
    """A sentence on what can be measured under the accelerator ``accel``."""
    if accel == "kvm":
        return "seconds and the guest's own counters (faults, /proc/vmstat); no TLBI, DSB, IPI or instruction counts"
    return "TLBIs, DSBs, IPIs and instructions counted exactly; seconds are emulated"
