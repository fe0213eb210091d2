# SPDX-License-Identifier: GPL-2.0-only
"""The lab over one base kernel: everything that commands need, each fetched or built when it is first asked for."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from lull import base as bases
from lull import cache, guest, paths, plan, process
from lull.errors import BuildError, LullError, unknown
from lull.guest import program, qemu, userland
from lull.guest.qemu import Machine, Qemu
from lull.guest.runner import BootOutcome, Guest, Plugin, launch_retrying
from lull.linux import build, functions, kept, pins, symbols, toolchain, tree
from lull.linux.fetch import Store
from lull.progress import progress, say
from lull.timing import CostModel

DISK = "real"
"""The suite whose configuration kernels have that mount a disk."""
SPIN = (
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
)
"""Prefixes of the kernel functions in which a CPU only waits for another. Under emulation the number of instructions
executed there depends on the host, which may stop the other vCPU at any time; they are counted apart."""


def made_of(kernels: Mapping[str, build.Kernel]) -> dict[str, object]:
    """Name -> what the kernel was made of, for results.json."""
    return {name: json.loads((kernel.path / "build.json").read_text()) for name, kernel in kernels.items()}


@dataclass
class Lab:
    """The lab over one base.

    Args:
        base_name: the name of the base, or the path of its file.
        user_tree: a kernel tree of the user's, in place of the package.
        offline: never use the network.
        suite_name: the suite of programs to run (``Base.suite_named``).
        program: a program of the user's, which is a further workload.
        packages: further Debian packages on the guest's disk.
    """

    base_name: str = bases.DEFAULT
    user_tree: Path | None = None
    offline: bool = False
    suite_name: str = ""
    program: program.Program | None = None
    packages: tuple[str, ...] = ()
    _kernels: dict[str, build.Kernel] = field(default_factory=dict)

    @cached_property
    def base(self) -> bases.Base:
        """The base kernel."""
        return bases.load_base(self.base_name)

    @cached_property
    def suite(self) -> bases.Suite:
        """The programs to run. If the user's program or packages need a disk, there is one."""
        found = self.base.suite_named(self.suite_name)
        if found.userland or not (self.packages or (self.program and self.program.on_disk)):
            return found
        return replace(found, fragments=self.base.suite_named(DISK).fragments, userland=program.USERLAND)

    @cached_property
    def workloads(self) -> dict[str, plan.Workload]:
        """The suite's workloads by name, and the user's program."""
        found = plan.load_workloads(self.suite.workloads)
        if self.program:
            found[self.program.name] = self.program.workload(disk=self.suite.userland is not None)
        return found

    @cached_property
    def store(self) -> Store:
        """The fetched packages, and the means to fetch more."""
        return Store(offline=self.offline)

    @cached_property
    def toolchain(self) -> toolchain.Toolchain:
        """The arm64 compilers. The variable LLVM of the environment chooses that of kernels."""
        return toolchain.find(llvm=os.environ.get("LLVM", ""))

    @cached_property
    def pristine(self) -> tree.Tree:
        """The kernel source without features: the package's, or a copy of the user's tree."""
        if self.user_tree:
            return tree.of_user(self.user_tree, self.base)
        fetched = self.store.kernel_source(self.base)
        return tree.unpack_base(fetched.path, self.base, fetched.package.sha256)

    def tree_of(self, kernel: str) -> tree.Tree:
        """The source of one of the base's kernels."""
        return tree.apply_features(self.pristine, self.base.features_of(kernel))

    def kernel(self, name: str) -> build.Kernel:
        """The kernel ``name`` of the base, built with the configuration that the suite needs."""
        if name not in self._kernels:
            self._kernels[name] = build.build_kernel(name, self.tree_of(name), self.fragments(name), self.toolchain)
        return self._kernels[name]

    def kernels(self, names: Sequence[str]) -> None:
        """Build these kernels at once: one compiles while another is linked or configured."""
        if len(names) < 2:
            for name in names:
                self.kernel(name)
            return
        trees = {name: self.tree_of(name) for name in names}
        with progress.step(f"building {', '.join(names)} (Linux {self.pristine.version})") as step:
            notes: dict[str, str] = {}

            def one(name: str) -> build.Kernel:
                def tell(note: str) -> None:
                    notes[name] = f"{name}: {note}"
                    step.update(", ".join(notes.values()))

                return build.build_kernel(name, trees[name], self.fragments(name), self.toolchain, tell)

            with ThreadPoolExecutor(len(names)) as pool, process.ended_with_us():
                built = {name: pool.submit(one, name) for name in names}
                self._kernels |= {name: future.result() for name, future in built.items()}

    def kept(self, name: str) -> build.Kernel:
        """The kernel ``name``, built in a folder that keeps its objects: to try a change, never for results."""
        folder = cache.root() / "kept" / "-".join(filter(None, (self.base.name, self.suite_name, name)))
        features = self.base.features_of(name)
        return kept.build_kept(name, folder, self.pristine, features, self.fragments(name), self.toolchain)

    def adopt(self, name: str, image: Path, place: Path) -> None:
        """Let ``name`` be the user's kernel ``image``, with the symbols in ``place``; both are copied to the cache."""

        def make(part: Path) -> None:
            shutil.copyfile(image, part / "Image")
            shutil.copyfile(place, part / "System.map")
            (part / "config").write_text("# not known\n")
            (part / "build.json").write_text(json.dumps({"kernel": name, "image": image.name}) + "\n")

        key = cache.key_of_files([image, place], name)
        path = cache.make_entry("build", f"image-{key}", make)
        self._kernels[name] = build.Kernel(name, path, "")

    def fragments(self, kernel: str) -> tuple[Path, ...]:
        """The configuration fragments of a kernel, with those that the suite needs."""
        return (*self.base.kernels[kernel].fragments, *self.suite.fragments)

    @cached_property
    def qemu(self) -> Qemu:
        """The QEMU to boot with."""
        return qemu.of_store(self.store)

    def qemu_here(self) -> Qemu | None:
        """The QEMU to boot with, or None when it would have to be fetched. Its version may be unsupported."""
        machine = qemu.of_machine()
        private = None if qemu.fits(machine) else self.store.known(qemu.entry())
        return qemu.probe(private.path / qemu.PROGRAM) if private else machine

    def check_cpu(self, cpu: str) -> None:
        """Raise UsageError for a CPU model that QEMU does not have. Properties after a comma are left to QEMU."""
        here = self.qemu_here() if cpu != Machine.cpu else None
        known = qemu.models(here.program) if here else []
        if known and cpu.partition(",")[0] not in known:
            raise unknown("CPU", cpu.partition(",")[0], known)

    @cached_property
    def generator(self) -> Path:
        """The program that writes initramfs archives."""
        return guest.gen_init_cpio(self.pristine.path)

    @cached_property
    def initramfs(self) -> Path:
        """The guest's initramfs, without a job; with the user's program, and with what guests of the guest boot."""
        busybox = self.store.busybox()
        found = guest.build_initramfs(busybox, guest.build_programs(self.toolchain), self.generator)
        if self.program and (files := self.program.files(self.toolchain)):
            found = guest.with_files(found, program.FOLDER, files, self.generator, "0755")
        if images := {name: kernel.image for name, kernel in self.guests().items()}:
            found = guest.with_files(found, "vm", {**images, "initramfs": found}, self.generator)
        return found

    def guests(self) -> dict[str, build.Kernel]:
        """The kernels that the suite's guest boots in guests of its own, by name."""
        plain = replace(self, suite_name="", program=None, packages=(), _kernels={})
        plain.kernels([name for name in self.suite.guests if not plain.has(partial(Lab.kernel, name=name))])
        return {name: plain.kernel(name) for name in self.suite.guests}

    @cached_property
    def disk(self) -> Path | None:
        """The disk with Debian programs, those of ``packages`` too; None when the suite has none.

        With ``packages`` it is made of the newest in the archives, as what these depend on is not pinned.
        """
        if not (listed := self.suite.userland):
            return None
        wanted = userland.load_userland(listed)
        wanted = replace(wanted, packages=tuple(dict.fromkeys([*wanted.packages, *self.packages])))
        return userland.build(self.store, wanted, [] if self.packages else pins.load_pins(listed.parent.name))

    @cached_property
    def plugin(self) -> Path:
        """The QEMU plugin, compiled for this machine and this QEMU."""
        more = [paths.CHECKER / name for name in ("Makefile", "rules.awk", "rules.toml")]
        key = cache.key_of_files([*sorted(paths.CHECKER.glob("*.[ch]")), *more], platform.machine())

        def make(part: Path) -> None:
            with progress.step("building the plugin"):
                process.run_logged(
                    ["make", f"-j{toolchain.jobs()}", "-C", paths.CHECKER, f"OUT={part}", "CC=gcc"],
                    part.parent / f"{part.name}.log",
                    error=BuildError,
                    what="the QEMU plugin does not compile",
                )

        return cache.make_entry("plugin", f"lull-{key}", make) / self.qemu.plugin

    def has(self, find: Callable[[Lab], object]) -> bool:
        """Return true if everything that ``find`` asks a lab for is in the cache. Nothing is fetched or built."""
        try:
            with cache.looking():
                find(replace(self, offline=True))
        except LullError:
            return False
        return True

    def guest(
        self,
        kernel: str,
        machine: Machine,
        *,
        append: str = "",
        count: bool = True,
        timing: CostModel | None = None,
        functions: bool = False,
    ) -> Guest:
        """What a boot of ``kernel`` needs.

        Args:
            append: further kernel parameters.
            count: load the counting plugin, where the accelerator permits that.
            timing: the model for modelled time; None: no modelled time.
            functions: count instructions by function of the kernel, too.
        """
        counted = count and machine.accel == "tcg"
        options = (*self.skips(kernel), *(timing.options() if timing else ())) if counted else ()
        if counted and functions:
            options += (f"functions={self.listing(kernel).path}",)
        plugin = Plugin(self.plugin, options=options) if counted else None
        built = self.kernel(kernel)
        return replace(self.guest_of(built.image, machine, append, plugin), limit_factor=built.limit_factor)

    def skips(self, kernel: str) -> tuple[str, ...]:
        """The plugin's options by which instructions in the functions SPIN are counted apart."""
        found = self.symbols_of(kernel).spans(SPIN)
        return tuple(f"skip={start:#x}-{end:#x}" for start, end in found)

    def listing(self, kernel: str) -> functions.Listing:
        """The functions of a kernel, for the plugin and with their names."""
        return functions.list_functions(self.symbols_of(kernel))

    def symbols_of(self, kernel: str) -> symbols.Symbols:
        """The symbols of a kernel."""
        return symbols.load_symbols(self.kernel(kernel).system_map, self.toolchain.nm)

    def guest_of(self, image: Path, machine: Machine, append: str, plugin: Plugin | None) -> Guest:
        """What a boot of ``image`` needs; ``append``: further kernel parameters."""
        machine = replace(machine, virtualization=bool(self.suite.guests))
        return Guest(self.qemu, machine, image, self.initramfs, self.generator, plugin, append, disk=self.disk)

    def job_script(self, boot: plan.Boot) -> str:
        """The text of the script /lull/job of a boot."""
        kind = self.base.kernels.get(boot.image)
        return plan.job_script(boot, self.base.default_policies() if kind and kind.features else {})

    def launch(self, guest_: Guest, boot: plan.Boot, folder: Path, tell: Callable[[str], None]) -> BootOutcome:
        """Run the jobs of ``boot`` in ``guest_``, with the memory and parameters they need; see ``launch_retrying``."""
        limits = plan.time_limits(boot, guest_.machine.vcpus)
        memory_mib = max(guest_.machine.memory_mib, boot.memory)
        machine = replace(guest_.machine, memory_mib=memory_mib)
        guest_ = replace(guest_, machine=machine, append=f"{guest_.append} {boot.append}".strip())
        try:
            return launch_retrying(guest_, self.job_script(boot), folder, job_seconds=limits, tell=tell, say=say)
        except LullError as error:
            error.what, error.remedy = plan.named(boot, error.what), plan.named(boot, error.remedy)
            raise

    def describe(self) -> dict[str, object]:
        """The versions of everything that was used, for results.json."""
        return {
            "base": self.base.name,
            "features": list(self.base.exported()),
            "linux": self.pristine.version,
            "source": str(self.user_tree) if self.user_tree else self.store.kernel_source(self.base).package.version,
            "qemu": self.qemu.version,
            "disk": self.disk.parent.name if self.disk else "",
            "compiler": self.toolchain.kernel_version,
            "kernels": made_of(self._kernels),
            **({"guests": made_of(self.guests())} if self.suite.guests else {}),
        }
