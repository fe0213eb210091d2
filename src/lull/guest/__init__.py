# SPDX-License-Identifier: GPL-2.0-only
"""Build the guest's initramfs: the C programs of guest/, Debian's busybox, and the job of one boot.

The initramfs without a job is built once and cached. Each boot adds a second archive with its job script.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lull import cache, paths, process
from lull.base import load_base
from lull.errors import BuildError
from lull.linux import switches
from lull.linux.toolchain import Toolchain, jobs
from lull.progress import progress

LIBRARY = paths.GUEST / "lib"
"""What the programs share: headers, and the sources of the archive that each is linked with."""
CFLAGS = ["-O2", "-static", "-pthread", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
CFLAGS += [f'-DPOLICY="{switches.FOLDER / f.name}"' for f in load_base().features.values() if f.local]
APPLETS = """
sh mount umount mkdir cat echo ls dmesg ps top free vi grep sed awk head tail sleep kill mkswap swapon swapoff stty
setsid cttyhack poweroff sync uname nproc taskset test find tr cut wc true false seq sysctl hexdump less ln rm cp mv
env clear chroot date reboot insmod
"""
"""The commands of busybox that the guest has as links in /bin."""
JOB_LIST = "dir /lull 0755 0 0\nfile /lull/job job.sh 0755 0 0\n"
"""The second archive, in the language of gen_init_cpio."""
FOLDERS = ["dev", "proc", "sys", "tmp", "bin", "sbin", "lull", "lull/bin", "lull/real", "debian", "root", "etc"]


def sources() -> list[Path]:
    """The sources of the guest programs: one file for each program."""
    return sorted(paths.GUEST.glob("*.c"))


def build_library(toolchain: Toolchain) -> Path:
    """The archive of LIBRARY, for this compiler. Raises BuildError for a file that does not compile."""
    units = sorted(LIBRARY.glob("*.c"))
    key = cache.key_of_files([*units, *sorted(LIBRARY.glob("*.h"))], toolchain.version, *CFLAGS)

    def make(part: Path) -> None:
        steps: list[list[str | Path]] = [
            [toolchain.gcc, *CFLAGS, "-c", *units],
            [f"{toolchain.prefix}ar", "rcs", "liblull.a", *(f"{unit.stem}.o" for unit in units)],
        ]
        for words in steps:
            what = "what the guest programs share does not compile"
            process.run_logged(words, part.parent / f"{part.name}.log", cwd=part, error=BuildError, what=what)

    return cache.make_entry("guest", f"library-{key}", make) / "liblull.a"


def build_programs(toolchain: Toolchain, names: Collection[str] = ()) -> Path:
    """A folder with the guest programs ``names``, or all. Raises BuildError for a file that does not compile."""
    chosen = [source for source in sources() if not names or source.stem in names]
    library = build_library(toolchain)
    key = cache.key_of_files(chosen, library.parent.name)

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        log.unlink(missing_ok=True)

        def compile_one(source: Path) -> None:
            process.run_logged(
                [toolchain.gcc, *CFLAGS, "-I", LIBRARY, "-o", part / source.stem, source, library],
                log,
                error=BuildError,
                what=f"guest program {source.name} does not compile",
            )

        with progress.step("building the guest programs"), ThreadPoolExecutor(jobs()) as pool:
            list(pool.map(compile_one, chosen))

    return cache.make_entry("guest", f"programs-{key}", make)


def gen_init_cpio(tree: Path) -> Path:
    """The program that writes initramfs archives: usr/gen_init_cpio.c of the kernel ``tree``, compiled for the host."""
    source = tree / "usr/gen_init_cpio.c"
    key = cache.key_of_files([source], platform.machine())

    def make(part: Path) -> None:
        process.run_logged(
            ["gcc", "-O2", "-o", part / "gen_init_cpio", source], part.parent / f"{part.name}.log", error=BuildError
        )

    return cache.make_entry("guest", f"gen_init_cpio-{key}", make) / "gen_init_cpio"


def scripts() -> list[Path]:
    """The scripts of guest/real/ and guest/vm/ that drive Debian's programs in the guest."""
    found = [p for folder in (paths.REAL, paths.VIRTUAL) for p in folder.iterdir() if p.suffix in (".py", ".sh")]
    return sorted(found, key=lambda p: p.name)


def listing(programs: Sequence[str], scripts: Sequence[str]) -> str:
    """The description of the initramfs for gen_init_cpio. Its source files are relative to the working folder."""
    lines = [f"dir /{folder} 0755 0 0" for folder in FOLDERS]
    lines += [
        "nod /dev/console 0600 0 0 c 5 1",
        "nod /dev/null 0666 0 0 c 1 3",
        "file /init init 0755 0 0",
        "file /bin/busybox busybox 0755 0 0",
    ]
    lines += [f"slink /bin/{applet} busybox 0777 0 0" for applet in APPLETS.split()]
    lines += [f"file /lull/bin/{name} programs/{name} 0755 0 0" for name in programs]
    lines += [f"file /lull/real/{name} real/{name} 0755 0 0" for name in scripts]
    return "\n".join(lines) + "\n"


def write_cpio(generator: Path, description: str, target: Path) -> None:
    """Write a cpio archive. Time stamps are 0, so that the same content gives the same bytes.

    Args:
        generator: the compiled gen_init_cpio.
        description: the contents, in its language.

    Raises: BuildError.
    """
    spec = target.with_suffix(".list")
    spec.write_text(description)
    log = target.with_suffix(".log")
    with (
        open(target, "wb") as out,
        process.started(
            [generator, "-t", "0", spec.name], stdout=out, stderr=open(log, "wb"), cwd=target.parent
        ) as child,
    ):
        status = child.wait()
    if status != 0:
        raise BuildError("the initramfs could not be written", where=str(spec), tail=process.tail(log))


def join_cpio(archives: Sequence[Path], target: Path) -> None:
    """Write the archives to ``target``, one after the other.

    The kernel unpacks them in turn (Documentation/driver-api/early-userspace/buffer-format.rst).
    """
    with open(target, "wb") as out:
        for part in archives:
            with open(part, "rb") as archive:
                shutil.copyfileobj(archive, out)


def build_initramfs(busybox: Path, programs: Path, generator: Path) -> Path:
    """The initramfs without a job. Raises BuildError.

    Args:
        busybox: a static busybox.
        programs: the folder with the guest programs.
        generator: the compiled gen_init_cpio.
    """
    init = paths.GUEST / "init"
    text = [init.read_text(), *(text for p in scripts() for text in (p.name, p.read_text()))]
    names = [programs.name, generator.parent.name, *APPLETS.split(), *FOLDERS]
    key = cache.key_of(*names, *text, cache.key_of_files([busybox]))

    def make(part: Path) -> None:
        # gen_init_cpio cannot read paths with spaces. Copy everything to one folder and give it relative names.
        shutil.copy(busybox, part / "busybox")
        shutil.copy(init, part / "init")
        shutil.copytree(programs, part / "programs")
        (part / "real").mkdir()
        for script in scripts():
            shutil.copy(script, part / "real")
        names = sorted(p.name for p in programs.iterdir())
        write_cpio(generator, listing(names, [p.name for p in scripts()]), part / "initramfs.cpio")

    return cache.make_entry("guest", f"initramfs-{key}", make) / "initramfs.cpio"


def with_files(
    initramfs: Path, place: str, files: Mapping[str, Path | str], generator: Path, mode: str = "0644"
) -> Path:
    """The ``initramfs`` and, after it, an archive with files in /lull/PLACE: name -> a file, or its text."""
    texts = [f"{name} {text}" for name, text in files.items() if isinstance(text, str)]
    paths = {name: path for name, path in files.items() if isinstance(path, Path)}
    named = cache.key_of(*paths, *texts, mode, cache.key_of_files([*paths.values()]))
    key = cache.key_of(named, initramfs.parent.name, generator.parent.name)

    def make(part: Path) -> None:
        for name, content in files.items():
            if isinstance(content, str):
                (part / name).write_text(content)
            else:
                (part / name).symlink_to(content.resolve())
        lines = ["dir /lull 0755 0 0", f"dir /lull/{place} 0755 0 0"]
        lines += [f"file /lull/{place}/{name} {name} {mode} 0 0" for name in files]
        write_cpio(generator, "\n".join(lines) + "\n", part / f"{place}.cpio")
        join_cpio([initramfs, part / f"{place}.cpio"], part / "initramfs.cpio")

    return cache.make_entry("guest", f"initramfs-{place}-{key}", make) / "initramfs.cpio"


def with_modules(initramfs: Path, modules: Sequence[Path], generator: Path) -> Path:
    """The ``initramfs`` with uncompressed kernel modules (.ko), which init loads in their order."""
    order = "".join(f"{module.name}\n" for module in modules)
    return with_files(initramfs, "modules", {"order": order, **{module.name: module for module in modules}}, generator)


def add_job(initramfs: Path, generator: Path, job: str, target: Path) -> None:
    """Write to ``target`` the ``initramfs`` and, after it, a second archive with ``/lull/job``.

    Args:
        job: the text of the job script.
    """
    folder = target.parent
    script = folder / "job.sh"
    script.write_text(job)
    second = folder / "job.cpio"
    write_cpio(generator, JOB_LIST, second)
    join_cpio([initramfs, second], target)
    for leftover in (second, second.with_suffix(".list"), second.with_suffix(".log")):
        leftover.unlink(missing_ok=True)
