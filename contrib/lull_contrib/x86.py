# SPDX-License-Identifier: GPL-2.0-only
"""`lull x86`: a feature for all architectures on x86-64: stock, stock with this feature alone, and its KUnit suite.

No plugin counts here. The clock of the guest advances by one nanosecond with each instruction of any vCPU
(``qemu.X86``), and so does its TSC. Each window reads the TSC when it opens and when it closes (guest/lib/lull.h). The
kernel counts the IPIs for TLB flushes (CONFIG_DEBUG_TLBFLUSH).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import median

from lull import __version__, cache, guest, paths, plan, process, toml
from lull.base import load_base
from lull.errors import GuestGarbage, LullError, UsageError, require_known
from lull.guest import qemu
from lull.guest.runner import APPEND, BootOutcome, Guest
from lull.judge import tables
from lull.lab import Lab
from lull.linux import build, toolchain, tree
from lull.plan import Boot, Spec, Workload
from lull.progress import progress
from lull.requirements import Requirement, require
from lull.run import loop
from lull.run.experiment import job_checks, measured_boot
from lull.run.loop import Step, Tell
from lull.run.measurements import records_of
from lull.run.records import Check, MeasuredBoot, Measurement, Results, host
from lull.selftests import kunit
from lull.selftests.ktap import Case

RESULTS = "x86.json"
PROGRAM = "qemu-system-x86_64"
ARGUMENTS = APPEND.replace("ttyAMA0", "ttyS0")
CONFIG = paths.KERNEL / "config/x86.config"
KUNIT_CONFIG = paths.KERNEL / "config/x86_kunit.config"
LOOP = "loop"
"""The workload that executes a known number of instructions. Each boot begins with it."""
EXIT = "teardown_exit"
METRIC = "insns_quiet"
OWN = "insns_own"
IPIS = "nr_tlb_remote_flush_received"


@dataclass(frozen=True)
class Subject:
    """What is measured of a feature.

    Args:
        cases: its workloads.
        programs: those of LOOP and the cases.
        vcpus: of the guest. With more than one, a workload that keeps two busy has no count of instructions.
        busy: the workloads that do.
        instructions: the metric that counts them. A workload with one window has no windows without timer ticks.
    """

    cases: tuple[str, ...]
    programs: tuple[str, ...]
    vcpus: int = 1
    busy: tuple[str, ...] = ()
    instructions: str = METRIC


PROGRAM_OF_EXIT = "teardown"
BUSY = "swap_bench_threads"


def subject(cases: tuple[str, ...]) -> Subject:
    """What is measured by these workloads."""
    known = plan.load_workloads(load_base().workloads)
    programs = dict.fromkeys(PROGRAM_OF_EXIT if case == EXIT else known[case].program for case in cases)
    busy = tuple(case for case in cases if case == BUSY)
    return Subject(cases, (LOOP, *programs), 1 + len(busy), busy, OWN if busy else METRIC)


FEATURES = toml.load_toml(load_base().file)["features"]
SUBJECTS = {name: subject(tuple(feature["x86"])) for name, feature in FEATURES.items() if "x86" in feature}
REQUIREMENTS = (
    Requirement("qemu-system-x86", PROGRAM, "boots the guests"),
    Requirement("libelf-dev", "/usr/include/libelf.h", "objtool, which checks x86-64 kernels while they are built"),
)
CROSS = (
    Requirement("gcc-x86-64-linux-gnu", "x86_64-linux-gnu-gcc", "the kernels and guest programs"),
    Requirement("libc6-dev-amd64-cross", "/usr/x86_64-linux-gnu/include/stdio.h", "the guest programs"),
)
"""What other hosts than x86-64 need, too."""


def workloads(feature: str, known: dict[str, Workload]) -> list[Workload]:
    """What each boot runs. In EXIT a child ends that has memory of its own, in windows as small as the others."""
    require_known(
        "workload", (LOOP, PROGRAM_OF_EXIT, *(name for name in SUBJECTS[feature].cases if name != EXIT)), known
    )
    own = replace(known[PROGRAM_OF_EXIT], name=EXIT, args=("how=exit", "mib=4", "windows=21"))
    return [{**known, EXIT: own}[name] for name in (LOOP, *SUBJECTS[feature].cases)]


def boots(feature: str, known: dict[str, Workload], repeat: int) -> list[Boot]:
    """The boots of both kernels in turns. Within a boot the order is always the same: LOOP comes first."""
    kernels = ("stock", feature)
    pairs = [(workload, Spec(kernel, kernel)) for kernel in kernels for workload in workloads(feature, known)]
    planned = plan.interleave(pairs, [(kernel, kernel) for kernel in kernels], repeat)
    return [replace(boot, jobs=tuple(sorted(boot.jobs, key=lambda job: job.workload.name != LOOP))) for boot in planned]


@dataclass
class X86Lab:
    """The parts of the lab that x86-64 needs, each made when it is first asked for."""

    lab: Lab
    feature: str

    def __post_init__(self) -> None:
        """Raise UsageError for a base without the feature, and for LLVM, with which nothing was tried here."""
        if self.feature not in self.lab.base.features:
            raise UsageError(f"base {self.lab.base.name} has no feature {self.feature}", remedy="leave out --base")
        if os.environ.get("LLVM"):
            raise UsageError("lull x86 builds kernels with GCC only, and LLVM is set", remedy="unset LLVM")

    @property
    def subject(self) -> Subject:
        """What is measured."""
        return SUBJECTS[self.feature]

    @cached_property
    def machine(self) -> qemu.X86:
        """The guest's machine."""
        return qemu.X86(vcpus=self.subject.vcpus)

    def require(self) -> None:
        """Raise MissingError when packages are not installed."""
        native = toolchain.host_is_x86()
        require("lull x86", REQUIREMENTS if native else (*REQUIREMENTS, *CROSS))

    @cached_property
    def toolchain(self) -> toolchain.Toolchain:
        """The compiler for x86-64."""
        return toolchain.find("x86_64")

    @cached_property
    def qemu(self) -> qemu.Qemu:
        """The machine's QEMU for x86-64, of any version."""
        return qemu.probe(Path(shutil.which(PROGRAM) or PROGRAM))

    @cached_property
    def initramfs(self) -> Path:
        """The guest's initramfs, without a job."""
        programs = guest.build_programs(self.toolchain, self.subject.programs)
        return guest.build_initramfs(self.lab.store.busybox("amd64"), programs, self.lab.generator)

    def kernel(self, name: str, *fragments: Path) -> build.Kernel:
        """Stock, or the kernel that is named as the feature, with these fragments besides CONFIG."""
        features = [self.lab.base.features[name]] if name == self.feature else []
        source = tree.apply_features(self.lab.pristine, features)
        label = "-".join([f.stem for f in (CONFIG, *fragments)] + [name])
        return build.build_kernel(label, source, [CONFIG, *fragments], self.toolchain)

    def guest(self, kernel: build.Kernel, append: str = "") -> Guest:
        """What a boot of ``kernel`` needs."""
        return Guest(self.qemu, self.machine, kernel.image, self.initramfs, self.lab.generator, None, append, ARGUMENTS)


def instructions(outcome: BootOutcome, where: Path) -> BootOutcome:
    """``outcome`` with the metric tsc of its windows under the name of what it counts here. Raises GuestGarbage."""
    for window in outcome.windows:
        metrics = window.get("metrics", {})
        if "tsc" not in metrics:
            what = f"window {window['window']} has no TSC"
            raise GuestGarbage(what, where=str(where), remedy="look in results.jsonl there")
        metrics[OWN] = metrics.pop("tsc")
    return outcome


def check_clock(measurements: Sequence[Measurement], where: Path) -> None:
    """Raise LullError when the TSC did not advance by exactly one with each instruction.

    The counts of two loops must differ by the number of instructions that the longer one has more.
    """
    loops = {m.workload: m for m in measurements if m.workload.startswith(f"{LOOP}/")}
    if len(loops) != 2:
        raise LullError(f"the guest did not measure {LOOP}", where=str(where), remedy="look in console.log there")
    short, long = loops[f"{LOOP}/short"], loops[f"{LOOP}/long"]
    executed = long.operations - short.operations
    counted = long.metrics[METRIC] - short.metrics[METRIC]
    if counted != executed:
        raise LullError(
            f"the guest's TSC does not count instructions: it advanced by {counted:.0f} while {executed} were executed",
            where=str(where / "command.txt"),
            remedy="use another version of QEMU, in which -icount shift=0 advances the clock by 1 ns an instruction",
        )


def kunit_check(suite: str, cases: Sequence[Case]) -> Check:
    """Whether all cases of the feature's KUnit suites ran and none failed."""
    bad = [f"{case.name} {case.verdict}" for case in cases if case.verdict != "ok"]
    detail = ", ".join(bad) or f"{len(cases)} cases"
    return Check(f"KUnit: {suite}", "failed" if bad or not cases else "passed", detail)


def grid(results: Results, feature: str, metric: str) -> tables.Grid:
    """The table of a metric a page: the medians of the boots."""
    found = {(r.kernel, r.workload): r for r in results.records if r.metric == metric}
    busy = SUBJECTS[feature].busy if metric != IPIS else ()
    kernels = ("stock", feature)
    rows = []
    for workload in dict.fromkeys(name for _, name in found if name.partition("/")[0] not in (LOOP, *busy)):
        both = [found[kernel, workload] for kernel in kernels if (kernel, workload) in found]
        each = [median(record.values) / record.operations for record in both]
        if len(each) == 2 and all(min(record.values) for record in both):
            spread = max(max(record.values) / min(record.values) - 1 for record in both)
            rows.append((workload, *(f"{value:.4g}" for value in each), f"{each[1] / each[0]:.3f}", f"{spread:.2%}"))
    note = "spread: by how much the highest boot of a kernel is above its lowest"
    titles = {
        METRIC: "instructions a page, without timer ticks",
        OWN: "instructions a page",
        IPIS: "IPIs for TLB flushes, a page",
    }
    return tables.Grid(f"x86-64: {titles[metric]}", ("", *kernels, "ratio", "spread"), tuple(rows), 1, (note,))


def grids(results: Results, feature: str) -> list[tables.Grid]:
    """The tables that have rows."""
    metrics = (SUBJECTS[feature].instructions, IPIS)
    return [table for metric in metrics if (table := grid(results, feature, metric)).rows]


def measure(x86: X86Lab, planned: Sequence[Boot], out: Path | None) -> tuple[Results, Path]:
    """Do the boots, or those that an interrupted command left, then KUnit. Returns the results, and their folder."""
    x86.require()
    guests = {name: x86.guest(x86.kernel(name)) for name in ("stock", x86.feature)}
    suites = x86.lab.base.features[x86.feature].kunit[:1]
    tested = [x86.guest(x86.kernel(x86.feature, KUNIT_CONFIG), f"kunit.filter_glob={suite}") for suite in suites]
    made = (f"{g.image} {g.initramfs}" for g in (*guests.values(), *tested))
    key = plan.plan_key(planned, repr(x86.machine), x86.qemu.version, *made)
    settings = {
        "machine": asdict(x86.machine),
        "linux": x86.lab.pristine.version,
        "qemu": x86.qemu.version,
        "compiler": x86.toolchain.version,
    }
    results = Results(__version__, x86.lab.base.name, host(), settings=settings)
    measurements: list[Measurement] = []
    statuses: dict[str, dict[int, int]] = {}

    def one(boot: Boot, place: Path, tell: Tell) -> MeasuredBoot:
        outcome = instructions(x86.lab.launch(guests[boot.image], boot, place, tell), place)
        found = measured_boot(boot, outcome, place, counted=False)
        check_clock(found.measurements, place)
        return found

    def ended(boot: Boot, found: MeasuredBoot, place: Path) -> None:
        measurements.extend(found.measurements)
        statuses[boot.name] = found.status

    with loop.holding(out, key) as folder:
        steps = [Step(boot, MeasuredBoot, partial(one, boot), partial(ended, boot)) for boot in planned]
        loop.do_boots(steps, folder, f"running {len(planned)} guests, {x86.machine}")
        results.records = records_of(measurements, x86.machine.vcpus, "seconds_virtual")
        results.checks = job_checks(planned, statuses)
        for suite, guest_ in zip(suites, tested, strict=True):
            with progress.step("running the KUnit suite") as step:
                cases = kunit.cases(guest_, folder / "kunit", step.update)
            results.checks.append(kunit_check(suite, cases))
        results.commands = list(dict.fromkeys(process.commands))
        cache.write_atomic(folder / RESULTS, results.to_json())
    return results, folder
