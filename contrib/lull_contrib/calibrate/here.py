# SPDX-License-Identifier: GPL-2.0-only
"""`lull calibrate` on an arm64 machine: run guest/calibrate.c, add counts to its times, fit costs, write a cost file.

Instructions are counted by perf where the machine permits that; otherwise the lab's counts are used
(guest/calibrate.toml). TLBIs and DSBs are not counted: their numbers follow from the kernel's source.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import json
import os
import platform
import re
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lull import guest, paths, process
from lull.base import load_base
from lull.check.data import version
from lull.errors import LullError, UsageError
from lull.guest.runner import SKIPPED
from lull.lab import Lab
from lull.linux import toolchain
from lull.linux.switches import FOLDER as POLICIES
from lull.linux.switches import chosen
from lull.progress import progress
from lull.timing import Costs
from lull_contrib import calibrate
from lull_contrib.calibrate import BATCHES, CHAINS, DSB, FLUSH, PLAIN, Fit, Measurement
from lull_contrib.timing.scale import Counts

CPUINFO = Path("/proc/cpuinfo")
MELTDOWN = Path("/sys/devices/system/cpu/vulnerabilities/meltdown")
COUNTED = paths.GUEST / "calibrate.toml"
BEGINNING = "Booting Linux"
"""A kernel log without this line has lost its beginning: that it lacks another line then says nothing."""
RANGES = "detected: TLB range maintenance instructions"
KPTI = "detected: Kernel page table isolation"
"""On CPUs that Meltdown does not affect, KPTI may be on because of KASLR. Only the kernel's log says so then."""
SYNCS_REPEATED = "detected: Broken broadcast TLBI completion"
TLBIS_REPEATED = re.compile(r"detected: .*erratum [0-9, ]*1286807")
PAGES = {FLUSH: 1, BATCHES[0]: 511, BATCHES[1]: 512}
"""Case -> pages that it flushes at once."""
IN_RANGES = {1: 1, 511: 3, 512: 1}
"""Pages -> TLBIs that flush them with FEAT_TLBIRANGE; 511 pages are 1 + 62 + 448."""
LIMIT = 512
"""Without range TLBIs, Linux invalidates the whole ASID for this many pages or more."""
MANY = 4.0
"""Limit by which has_ranges() tells 511 TLBIs from 3, in times of a flush of one page. 511 TLBIs take longer than one
by more than this; 3 TLBIs by at most 2, even if each is served alone."""
PATIENCE = 1800.0
"""Seconds after which the program counts as hung: it takes ten."""
METRIC = "instructions"
PERF, LAB = "perf", "the lab"
"""The possible sources of instruction counts."""
LOG, TIME = "the kernel's log", "what 511 pages take"
"""The possible sources for whether the kernel uses range TLBIs."""
SWITCHES = [feature for feature in load_base().features.values() if feature.policies]
OFF = {feature.name: feature.off for feature in SWITCHES}
LOCAL = {feature.name: feature.default if feature.local else feature.off for feature in SWITCHES}


class Repeats(enum.StrEnum):
    """What the erratum workaround repeats: a TLBI and DSB after each broadcast sync, or each broadcast TLBI (EACH).

    Kernels before 7.0 repeat each TLBI, and so do stable series until they have the workaround for erratum 4118414,
    which also changed the line in the log. Linux 7.0 prints the old line but repeats syncs only. The difference does
    not matter for a flush of one TLBI; it does for one of 511.
    """

    NO = "no"
    SYNC = "sync"
    EACH = "each"


@dataclass(frozen=True)
class Here:
    """The properties of the machine that its flushes depend on.

    Args:
        kernel: the kernel's release.
        parts: implementer and part number of its CPUs.
        cpus: the number of CPUs.
        kpti: kernel page-table isolation is on, so that each flush is of two ASIDs.
        repeats: what the erratum workaround repeats; None: the kernel's log cannot be read.
        ranges: the kernel uses range TLBIs; None: the kernel's log cannot be read.
    """

    kernel: str
    parts: tuple[str, ...]
    cpus: int
    kpti: bool
    repeats: Repeats | None
    ranges: bool | None


@dataclass(frozen=True)
class Way:
    """The sources of what measurements know beside time.

    Args:
        counter: the source of instruction counts: PERF or LAB.
        ranges: the kernel uses range TLBIs.
        said_by: the source of ``ranges``: LOG or TIME.
    """

    counter: str
    ranges: bool
    said_by: str


def require_arm64() -> None:
    """Raise UsageError when this is not an arm64 machine."""
    if not toolchain.host_is_arm64():
        raise UsageError(
            f"this machine is {platform.machine()}: only an arm64 one has costs of TLB maintenance",
            remedy="run 'lull calibrate --out FILE.toml' there, and name the file here with --timing; or try it in a "
            "guest: 'lull calibrate --guest ampere-32'",
        )


def examine(repeats: Repeats | None) -> Here:
    """Read the properties of this machine from /proc, /sys and the kernel's log.

    Args:
        repeats: what the erratum workaround repeats, as the user says; None: as the kernel's log says.
    """
    text = CPUINFO.read_text()
    implementers, parts = (
        re.findall(rf"^CPU {word}\s*: (\S+)", text, re.MULTILINE) for word in ("implementer", "part")
    )
    log = kernel_log()
    kpti = (MELTDOWN.exists() and "PTI" in MELTDOWN.read_text()) or (log is not None and KPTI in log)
    named = tuple(sorted({f"{i}/{p}" for i, p in zip(implementers, parts, strict=False)}))
    ranges = None if log is None else RANGES in log
    return Here(platform.release(), named, os.cpu_count() or 1, kpti, repeats or repeated(log), ranges)


def kernel_log() -> str | None:
    """The kernel's log; None when it cannot be read, or has lost its beginning."""
    log = process.complete(["dmesg"], apart=True)
    return log.output if log.status == 0 and BEGINNING in log.output else None


def repeated(log: str | None) -> Repeats | None:
    """What the erratum workaround repeats, by the kernel's log; None without a log."""
    if log is None:
        return None
    if SYNCS_REPEATED in log:
        return Repeats.SYNC
    return Repeats.EACH if TLBIS_REPEATED.search(log) else Repeats.NO


def measure(lab: Lab, here: Here, ms: int, rounds: int) -> tuple[list[Measurement], list[Measurement], Way]:
    """Build guest/calibrate.c and run it: with broadcasts and, on a Lull kernel, again with local flushes.

    Args:
        ms: milliseconds of a window.
        rounds: windows of each case.

    Returns: the measurements with broadcasts, those with local flushes (empty on other kernels), and their sources.

    Raises: UsageError when policies cannot be set or the kernel cannot be calibrated; LullError when the program fails.
    """
    program = guest.build_programs(lab.toolchain) / "calibrate"
    passes = [OFF, LOCAL] if all((POLICIES / feature.name).exists() for feature in SWITCHES if feature.local) else [{}]
    told = []
    for number, settings in enumerate(passes, 1):
        with policies(settings), progress.step(f"measuring, pass {number} of {len(passes)}"):
            told.append(run_program(program, ms, rounds))
    way = way_of(told[0], here)
    found = [of_lines(lines, here, ranges=way.ranges, local=bool(place)) for place, lines in enumerate(told)]
    return found[0], found[1] if found[1:] else [], way


def way_of(lines: Sequence[Mapping[str, Any]], here: Here) -> Way:
    """The sources of instruction counts and of range TLBIs. Without the kernel's log the latter is TIME."""
    counter = PERF if METRIC in lines[0]["metrics"] else LAB
    if here.ranges is None:
        return Way(counter, has_ranges(lines), TIME)
    return Way(counter, here.ranges, LOG)


@contextlib.contextmanager
def policies(settings: Mapping[str, str]) -> Iterator[None]:
    """Set switches of a Lull kernel for the body, and restore them after it. Raises UsageError when that is refused.

    Args:
        settings: feature -> policy; features that the kernel does not have are left out.
    """
    before: dict[Path, str] = {}
    try:
        for name, value in settings.items():
            path = POLICIES / name
            if not path.exists():
                continue
            was = chosen(path)
            try:
                path.write_text(value)
            except OSError as error:
                raise UsageError(
                    f"cannot set {name} to {value}: {error.strerror}",
                    where=str(path),
                    remedy="on a Lull kernel run this as root: it measures with residency off and on, and restores it",
                ) from error
            if was:
                before[path] = was
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)


def run_program(program: Path, ms: int, rounds: int) -> list[dict[str, Any]]:
    """Run guest/calibrate.c and return its result lines.

    Raises: UsageError when it says that it cannot run on this kernel; LullError when it fails.
    """
    done = process.complete([program, f"ms={ms}", f"rounds={rounds}"], apart=True, seconds=PATIENCE)
    if done.status == SKIPPED:
        raise UsageError(
            "this kernel cannot be calibrated", tail=done.errors, remedy="boot a newer one with 4 KiB pages"
        )
    if done.status:
        raise LullError(f"the program calibrate failed with status {done.status}", where=str(program), tail=done.errors)
    return [json.loads(line) for line in done.output.splitlines()]


def by_case(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Case -> its result lines, one for each round."""
    cases: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        cases[line["case"]].append(line)
    return cases


def of_lines(lines: Iterable[Mapping[str, Any]], here: Here, *, ranges: bool, local: bool) -> list[Measurement]:
    """Measurements from result lines.

    Batches of broadcasts are left out where the log leaves open how many TLBIs the erratum workaround adds to them.

    Args:
        ranges: the kernel uses range TLBIs.
        local: flushes are local.
    """
    cases = by_case(lines)
    known = counted(here.kernel, ranges=ranges, local=local)
    unsure = BATCHES if here.repeats is Repeats.EACH and not local else ()
    found = []
    for case, windows in cases.items():
        if case in unsure:
            continue
        kind = FLUSH if is_crowd(case) else case
        own = [w["metrics"][METRIC] / w["operations"] for w in cases[kind] if METRIC in w["metrics"]]
        # The fit does not use the instructions of a load.
        insns = statistics.median(own) if own else 1.0 if case in CHAINS else known[kind]
        seconds = tuple(w["seconds"] for w in windows)
        counts = executed(kind, insns, here, ranges=ranges, local=local)
        found.append(Measurement(case, cpus_of(case), windows[0]["operations"], seconds, counts))
    return found


def is_crowd(case: str) -> bool:
    """Return true if several CPUs flush at once in the case."""
    return case.startswith(f"{FLUSH}-")


def cpus_of(case: str) -> int:
    """The number of CPUs that work in the case."""
    return int(case.partition("-")[2]) if is_crowd(case) else 1


def has_ranges(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Return true if the kernel uses range TLBIs, judged by time: whether 511 pages take 511 TLBIs or 3."""
    windows = by_case(lines).items()
    seconds: dict[str, float] = {
        case: statistics.median(w["seconds"] / w["operations"] for w in rounds) for case, rounds in windows
    }
    many, few = (seconds[case] for case in BATCHES)
    return many - few < MANY * (seconds[FLUSH] - seconds[PLAIN])


def executed(case: str, insns: float, here: Here, *, ranges: bool, local: bool) -> Counts:
    """What an operation executes, by Linux's source (arch/arm64/include/asm/tlbflush.h).

    Some CPUs need a DSB on each entry into the kernel, after a loop that clears the branch history. It counts as part
    of the instructions, because every system call has it, also one without a flush.

    Args:
        insns: instructions of the operation.
        ranges: the kernel uses range TLBIs.
        local: flushes are local.
    """
    if case == DSB:
        return Counts(insns, 0, 0, 0, 1)
    if case == PLAIN or case in CHAINS:
        return Counts(insns, 0, 0, 0, 0)
    pages = PAGES[case]
    whole = pages >= LIMIT and not ranges
    tlbis = (1 if whole else IN_RANGES[pages] if ranges else pages) * (2 if here.kpti else 1)
    # Stock's flush of a whole ASID ends with a DSB. Before 7.2 or so, the flush that calls it executes one more.
    syncs = 2 if whole and not local and version(here.kernel) < (7, 2) else 1
    again = {Repeats.SYNC: syncs, Repeats.EACH: tlbis}.get(here.repeats or Repeats.NO, 0) if not local else 0
    dsbs = 1 + syncs + again
    return Counts(insns, tlbis, 0, 0, dsbs) if local else Counts(insns, tlbis + again, tlbis + again, 1 + again, dsbs)


def counted(kernel: str, *, ranges: bool, local: bool) -> Mapping[str, float]:
    """Case -> instructions of an operation, as the lab counted them on this kernel series, or on the newest it has."""
    data: Mapping[str, Any] = tomllib.loads(COUNTED.read_text())["linux"]
    series = ".".join(kernel.split(".")[:2])
    figures = data.get(series) or data[max(data, key=lambda name: [int(n) for n in name.split(".")])]
    chosen: Mapping[str, float] = figures["local" if local else "broadcast"]["ranges" if ranges else "single"]
    return chosen


def cost_file(fit: Fit, here: Here, way: Way) -> str:
    """The text of the cost file: each cost and its source."""
    today = datetime.date.today().isoformat()
    where = f"Linux {here.kernel}, CPU parts {', '.join(here.parts) or 'unknown'}"
    repeats = {
        None: "whether flushes are repeated (erratum workaround) is not known: taken as not",
        Repeats.NO: "no flush is repeated",
        Repeats.SYNC: "each flush is repeated once (erratum workaround)",
        Repeats.EACH: "each TLBI is repeated (erratum workaround of older kernels), or each flush once (7.0, whose log "
        "says the same): batches of broadcasts are left out",
    }[here.repeats]
    ranges = f"{'TLBIs of ranges' if way.ranges else 'no TLBIs of ranges'}, by {way.said_by}"
    counts = f"instructions counted by {way.counter}" + (f" ({COUNTED.name})" if way.counter == LAB else "")
    about = f"{here.cpus} CPUs, parts {', '.join(here.parts) or 'unknown'}, measured {today} on Linux {here.kernel}"
    unmeasured = quoted("left out: not measured")
    lines = [
        "# SPDX-License-Identifier: GPL-2.0-only",
        f"# Written by 'lull calibrate' on {today}: {where}.",
        *(f"# {fact[0].upper()}{fact[1:]}." for fact in (repeats, ranges, counts)),
        "",
        f"about = {quoted(about)}",
        f"cpus = {here.cpus}",
        "",
        "[costs]                                 # ns",
        *(f"{field.name} = {getattr(fit.costs, field.name):.4g}" for field in fields(Costs)),
        "",
        "[source]",
        *(
            f"{name} = {quoted(estimate.sentence() + f' ({today}, {where})')}"
            for name, estimate in fit.estimates.items()
        ),
        *(f"{field.name} = {unmeasured}" for field in fields(Costs) if field.name not in fit.estimates),
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """``text`` as a TOML string; JSON strings are valid TOML."""
    return json.dumps(text, ensure_ascii=False)


def fitted(measured: Sequence[Measurement], near: Sequence[Measurement]) -> Fit:
    """Fit the costs to measurements on hardware."""
    return calibrate.fit(measured, near, calibrate.MIX)
