# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests (tools/testing/selftests/mm): built from the kernel's source, run on stock and on Lull, compared.

What fails or is skipped on stock is the baseline; whatever is otherwise on Lull differs, and that is a failure.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lull import cache, console, guest, paths, process
from lull.errors import BuildError, UsageError
from lull.lab import Lab
from lull.progress import progress
from lull.qemu import Machine
from lull.runner import launch_retrying
from lull.tables import Grid
from lull.toolchain import Toolchain, jobs
from lull.tree import Tree, waiting

SUITES = paths.GUEST / "selftests.toml"
SOURCES = "tools/testing/selftests/mm"
SHARED = ("vm_util.c", "thp_settings.c")
"""Files that are in each program, as the folder's Makefile has it."""
FOLDER = "lull/selftests"
"""Where the programs are in the guest."""
PAGES = 128
"""Pages of 2 MiB that run_vmtests.sh asks for: 256 MiB."""
VERDICTS = {0: "passed", 4: "skipped"}
"""What exit codes mean (kselftest.h); any other is a failure."""
OPTIMIZE = "/proc/sys/vm/hugetlb_optimize_vmemmap"
BEGIN, MESSAGES, END = "--- suite", "--- messages", "--- end"


@dataclass(frozen=True)
class Suite:
    """A program of the folder, and what it needs.

    Args:
        name: what it is called in tables.
        program: its source, without ``.c``.
        args: its arguments.
        pages: pages of 2 MiB in the pool.
        before: shell lines.
        timeout: seconds it may take.
    """

    name: str
    program: str
    args: tuple[str, ...] = ()
    pages: int = PAGES
    before: tuple[str, ...] = ()
    timeout: float = 120.0


@dataclass(frozen=True)
class Setting:
    """What suites run under.

    Args:
        name: what it is called in tables.
        kernel: a kernel of the base.
        lines: shell lines at its beginning.
    """

    name: str
    kernel: str
    lines: tuple[str, ...] = ()


SETTINGS = (
    Setting("stock", "stock"),
    Setting("lull, before", "lull", (f"echo 0 >{OPTIMIZE}",)),
    Setting("lull, after", "lull", (f"echo 1 >{OPTIMIZE}",)),
)
"""The baseline first; then without and with struct pages given back."""


@dataclass(frozen=True)
class Outcome:
    """How a suite ended.

    Args:
        status: its exit status.
        cases: the verdict of each case that it counts itself (TAP), by name.
        reports: what the kernel held to be wrong with itself meanwhile.
        output: what it said.
    """

    status: int
    cases: tuple[tuple[str, str], ...]
    reports: tuple[str, ...]
    output: str

    @property
    def verdict(self) -> str:
        """``passed``, ``skipped`` or ``failed``."""
        return VERDICTS.get(self.status, "failed") if not self.reports else "failed"

    def same(self, other: Outcome) -> bool:
        """Whether it ended as the other did, case by case."""
        return (self.status, self.cases, bool(self.reports)) == (other.status, other.cases, bool(other.reports))


def load(path: Path = SUITES) -> list[Suite]:
    """The suites of a TOML file, in its order. Raises UsageError when it is not well formed."""
    try:
        raw: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
        return [
            Suite(
                name=name,
                program=str(entry.get("program", name)),
                args=tuple(str(a) for a in entry.get("args", ())),
                pages=int(entry.get("pages", PAGES)),
                before=tuple(str(line) for line in entry.get("before", ())),
                timeout=float(entry.get("timeout", 120)),
            )
            for name, entry in raw.items()
        ]
    except (OSError, tomllib.TOMLDecodeError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"not a file of selftests: {error}", where=str(path)) from error


def headers(tree: Tree, toolchain: Toolchain) -> Path:
    """The kernel's headers for user space."""

    def make(part: Path) -> None:
        words = ["make", "-C", str(tree.path), f"O={part}", *toolchain.make_variables(), "headers"]
        with progress.step("the kernel's headers for user space"):
            process.run_logged(words, part.parent / f"{part.name}.log", error=BuildError)
        for other in part.iterdir():
            if other.name != "usr":
                shutil.rmtree(other) if other.is_dir() and not other.is_symlink() else other.unlink()

    return cache.make_entry("guest", f"headers-{tree.key}", make, waiting=waiting) / "usr/include"


def build(tree: Tree, toolchain: Toolchain, suites: Sequence[Suite]) -> Path:
    """The folder with the suites' programs, compiled for arm64. Raises BuildError naming the file."""
    folder = tree.path / SOURCES
    include = headers(tree, toolchain)
    # Not our programs: their warnings are no news. The folders are known by the tree's key.
    flags = ["-O2", "-static", "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE=", "-w"]
    folders = ["-I", str(tree.path), "-isystem", str(include), "-isystem", str(tree.path / "tools/include/uapi")]
    programs = sorted({suite.program for suite in suites})
    key = cache.key_of(tree.key, toolchain.version, *programs, *flags)

    def make(part: Path) -> None:
        log = part.parent / f"{part.name}.log"
        log.unlink(missing_ok=True)

        def compile_one(program: str) -> None:
            files = [folder / f"{program}.c", *(folder / name for name in SHARED)]
            libraries = ["-lrt", "-lpthread", "-lm"]
            process.run_logged(
                [toolchain.gcc, *flags, *folders, "-o", part / program, *files, *libraries],
                log,
                error=BuildError,
                what=f"selftest {program}.c does not compile",
            )

        with progress.step("building Linux's selftests"), ThreadPoolExecutor(jobs()) as pool:
            list(pool.map(compile_one, programs))

    return cache.make_entry("guest", f"selftests-{key}", make, waiting=waiting)


def initramfs(lab: Lab, programs: Path) -> Path:
    """The guest's userland, with the programs."""
    key = cache.key_of(lab.initramfs.parent.name, programs.name)

    def make(part: Path) -> None:
        names = sorted(p.name for p in programs.iterdir())
        shutil.copytree(programs, part / "programs")
        listing = [f"dir /{FOLDER} 0755 0 0", *(f"file /{FOLDER}/{n} programs/{n} 0755 0 0" for n in names)]
        guest.write_cpio(lab.generator, "\n".join(listing) + "\n", part / "selftests.cpio")
        guest.join_cpio([lab.initramfs, part / "selftests.cpio"], part / "initramfs.cpio")
        shutil.rmtree(part / "programs")

    return cache.make_entry("guest", f"initramfs-{key}", make, waiting=waiting) / "initramfs.cpio"


def script(setting: Setting, suites: Sequence[Suite]) -> str:
    """The /lull/job that runs all suites under a setting.

    Between marks on the console stand what a suite says, and what the kernel says meanwhile.
    """
    pools = "/sys/kernel/mm/hugepages/hugepages-*kB"
    lines = [*setting.lines, f"cd /{FOLDER}", "dmesg -c >/dev/null"]
    for number, suite in enumerate(suites, 1):
        lines += [
            # Pools of other sizes are empty.
            f"for pool in {pools}; do echo 0 >$pool/nr_hugepages; done",
            f"echo {suite.pages} >/proc/sys/vm/nr_hugepages",
            *suite.before,
            f"echo '{BEGIN} {number}'",
            f"run {number} {process.shown([f'./{suite.program}', *suite.args])} 2>&1",
            f"echo '{MESSAGES} {number}'",
            "dmesg -c",
            f"echo '{END} {number}'",
        ]
    return "\n".join(lines) + "\n"


TAP = re.compile(r"^(?P<not>not )?ok \d+ ?(?:- )?(?P<name>[^#]*?)(?: *# ?(?P<directive>.*))?$")


def cases(output: str) -> tuple[tuple[str, str], ...]:
    """The cases that a program counts itself (TAP), by name."""
    found = []
    for line in output.splitlines():
        if match := TAP.match(line):
            skipped = (match["directive"] or "").upper().startswith("SKIP")
            found.append((match["name"].strip(), "failed" if match["not"] else "skipped" if skipped else "ok"))
    return tuple(found)


def read(text: str, status: Mapping[int, int]) -> dict[int, Outcome]:
    """Job number -> how it ended, from a guest's console and its exit codes."""
    found = {}
    pattern = rf"(?ms)^{BEGIN} (\d+)\n(.*?)^{MESSAGES} \1\n(.*?)^{END} \1$"
    for match in re.finditer(pattern, text.replace("\r", "")):
        number = int(match[1])
        reports = tuple(report.text for report in console.reports(match[3]))
        found[number] = Outcome(status[number], cases(match[2]), reports, match[2])
    return found


def conduct(
    lab: Lab, suites: Sequence[Suite], folder: Path, settings: Sequence[Setting] = SETTINGS, memory: int = 4096
) -> dict[tuple[str, str], Outcome]:
    """Run the suites under each setting, in a boot of its own: a page that was poisoned stays in its pool for good.

    Returns: (setting, suite) -> how it ended.
    Raises: BuildError; what a guest in trouble raises.
    """
    userland = initramfs(lab, build(lab.pristine, lab.toolchain, suites))
    found: dict[tuple[str, str], Outcome] = {}
    for setting in settings:
        booted = replace(lab.guest(setting.kernel, Machine(memory_mib=memory), count=False), initramfs=userland)
        # The console is the suites'; what the kernel has to say is read from its log.
        booted.arguments = booted.arguments.replace("loglevel=4", "loglevel=1")
        place = folder / setting.name.replace(", ", "-")
        with progress.step(f"Linux's selftests on {setting.name}") as step:
            outcome = launch_retrying(
                booted,
                script(setting, suites),
                place,
                job_seconds=lambda number: suites[number - 1].timeout,
                tell=step.update,
                say=step.update,
            )
        ended = read((place / "console.log").read_text(errors="replace"), outcome.status)
        found |= {(setting.name, suite.name): ended[number] for number, suite in enumerate(suites, 1)}
    return found


def differing(found: Mapping[tuple[str, str], Outcome], baseline: str = SETTINGS[0].name) -> list[tuple[str, str]]:
    """The (setting, suite) that did not end as on the baseline, or whose kernel reported something."""
    return [
        (setting, suite)
        for (setting, suite), outcome in found.items()
        if outcome.reports or not outcome.same(found[baseline, suite])
    ]


def grid(found: Mapping[tuple[str, str], Outcome]) -> Grid:
    """Suites x settings."""
    settings = list(dict.fromkeys(setting for setting, _ in found))
    differ = differing(found)
    rows = []
    for suite in dict.fromkeys(suite for _, suite in found):
        cells = []
        for setting in settings:
            outcome = found[setting, suite]
            passed = sum(verdict == "ok" for _, verdict in outcome.cases)
            counted = f" ({passed} of {len(outcome.cases)} cases)" if outcome.cases else ""
            cells.append(outcome.verdict + counted + (", differs" if (setting, suite) in differ else ""))
        rows.append((suite, *cells))
    return Grid("Linux's selftests", ("suite", *settings), tuple(rows), 1 + len(settings))
