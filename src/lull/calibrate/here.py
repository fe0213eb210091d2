# SPDX-License-Identifier: GPL-2.0-only
"""Measure costs on the arm64 machine that this is: run guest/calibrate.c, add what nobody counts, write a cost file.

Instructions are counted by perf where the machine permits it, else they are the lab's (guest/calibrate.toml). TLBIs and
DSBs follow from how Linux flushes.
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

from lull import calibrate, guest, paths, process
from lull.calibrate import BATCHES, DSB, FLUSH, PLAIN, Fit, Measurement
from lull.errors import LullError, UsageError
from lull.kernel import toolchain
from lull.lab import Lab
from lull.progress import progress
from lull.run.experiment import SKIPPED
from lull.timing import Costs
from lull.timing.scale import Counts

POLICIES = Path("/sys/kernel/mm/lull")
CPUINFO = Path("/proc/cpuinfo")
MELTDOWN = Path("/sys/devices/system/cpu/vulnerabilities/meltdown")
COUNTED = paths.GUEST / "calibrate.toml"
BEGINNING = "Booting Linux"
"""Without this a log has lost its beginning, and what it does not say is not known."""
RANGES = "detected: TLB range maintenance instructions"
KPTI = "detected: Kernel page table isolation"
"""The only place that tells of it where randomized addresses are why, on CPUs that Meltdown does not affect."""
SYNCS_REPEATED = "detected: Broken broadcast TLBI completion"
TLBIS_REPEATED = re.compile(r"detected: .*erratum [0-9, ]*1286807")
PAGES = {FLUSH: 1, BATCHES[0]: 511, BATCHES[1]: 512}
IN_RANGES = {1: 1, 511: 3, 512: 1}
"""TLBIs that so many pages take with FEAT_TLBIRANGE: 511 are 1 + 62 + 448."""
LIMIT = 512
"""Pages from which on Linux invalidates the whole ASID, without ranges."""
MANY = 4.0
"""511 TLBIs take more than so many flushes longer than one; 3 take at most two of them, if each is served alone."""
METRIC = "instructions"
PERF, LAB = "perf", "the lab"
"""Who counted instructions."""
LOG, TIME = "the kernel's log", "what 511 pages take"
"""Who told of TLB ranges."""
OFF = {"residency": "off", "gather": "off"}
LOCAL = {**OFF, "residency": "counted"}


class Repeats(enum.StrEnum):
    """What the erratum workaround repeats: a TLBI and DSB after each broadcast sync, or each broadcast TLBI.

    Kernels before 7.0 did the latter, and those of stable series until they had erratum 4118414, with which the line in
    the log changed too. Between, 7.0 says what older ones say and does what newer ones do. A flush of one TLBI is the
    same either way, one of 511 is not.
    """

    NO = "no"
    SYNC = "sync"
    EACH = "each"


@dataclass(frozen=True)
class Here:
    """The machine, as far as its flushes depend on it.

    Args:
        kernel: its release.
        parts: part numbers of its CPUs, with the implementer's.
        cpus: how many it has.
        kpti: page tables are isolated, so that each flush is of two ASIDs.
        repeats: what the erratum workaround repeats; None: the kernel's log cannot be read.
        ranges: it has TLBIs of ranges; None as above.
    """

    kernel: str
    parts: tuple[str, ...]
    cpus: int
    kpti: bool
    repeats: Repeats | None
    ranges: bool | None


@dataclass(frozen=True)
class Way:
    """How measurements came to what a clock does not tell.

    Args:
        counter: who counted instructions.
        ranges: TLBIs of ranges are used.
        teller: who told of ranges.
    """

    counter: str
    ranges: bool
    teller: str


def require_arm64() -> None:
    """Raise UsageError when this is no arm64 machine."""
    if not toolchain.host_is_arm64():
        raise UsageError(
            f"this machine is {platform.machine()}: only an arm64 one has costs of TLB maintenance",
            remedy="run 'lull calibrate --out FILE.toml' there, and name the file here with --timing; or try it in a "
            "guest: 'lull calibrate --guest ampere-32'",
        )


def examine(repeats: Repeats | None) -> Here:
    """What the machine says of itself.

    Args:
        repeats: what the user says of the workaround; None: as the kernel's log says.
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
    """What the workaround repeats, by the kernel's log."""
    if log is None:
        return None
    if SYNCS_REPEATED in log:
        return Repeats.SYNC
    return Repeats.EACH if TLBIS_REPEATED.search(log) else Repeats.NO


def measure(lab: Lab, here: Here, ms: int, rounds: int) -> tuple[list[Measurement], list[Measurement], Way]:
    """Build the program and run it: with broadcasts and, on a Lull kernel, with local flushes; and how it was done.

    Raises: UsageError when its policies cannot be set; LullError when the program fails.
    """
    program = guest.build_programs(lab.toolchain) / "calibrate"
    passes = [OFF, LOCAL] if (POLICIES / "residency").exists() else [{}]
    told = []
    for number, settings in enumerate(passes, 1):
        with policies(settings), progress.step(f"measuring, pass {number} of {len(passes)}"):
            told.append(run_program(program, ms, rounds))
    way = way_of(told[0], here)
    found = [of_lines(lines, here, ranges=way.ranges, local=bool(place)) for place, lines in enumerate(told)]
    return found[0], found[1] if found[1:] else [], way


def way_of(lines: Sequence[Mapping[str, Any]], here: Here) -> Way:
    """Who counted instructions, and who told of TLB ranges: the kernel, or time where its log cannot be read."""
    counter = PERF if METRIC in lines[0]["metrics"] else LAB
    if here.ranges is None:
        return Way(counter, has_ranges(lines), TIME)
    return Way(counter, here.ranges, LOG)


@contextlib.contextmanager
def policies(settings: Mapping[str, str]) -> Iterator[None]:
    """Run-time switches of a Lull kernel, in the body; then as before. Raises UsageError when they cannot be set."""
    before: dict[Path, str] = {}
    try:
        for name, value in settings.items():
            path = POLICIES / name
            if not path.exists():
                continue
            chosen = re.search(r"\[(\S+)\]", path.read_text())
            try:
                path.write_text(value)
            except OSError as error:
                raise UsageError(
                    f"cannot set {name} to {value}: {error.strerror}",
                    where=str(path),
                    remedy="on a Lull kernel run this as root: it measures with residency off and on, and restores it",
                ) from error
            if chosen:
                before[path] = chosen.group(1)
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)


def run_program(program: Path, ms: int, rounds: int) -> list[dict[str, Any]]:
    """The program's result lines. Raises LullError when it fails."""
    done = process.complete([program, f"ms={ms}", f"rounds={rounds}"], apart=True)
    if done.status == SKIPPED:
        raise UsageError(
            "this kernel cannot be calibrated", tail=done.errors, remedy="boot a newer one with 4 KiB pages"
        )
    if done.status:
        raise LullError(f"calibrate failed with status {done.status}", where=str(program), tail=done.errors)
    return [json.loads(line) for line in done.output.splitlines()]


def by_case(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The program's result lines of each case: its rounds."""
    cases: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        cases[line["case"]].append(line)
    return cases


def of_lines(lines: Iterable[Mapping[str, Any]], here: Here, *, ranges: bool, local: bool) -> list[Measurement]:
    """Measurements from the program's result lines; no batches of broadcasts whose number is not sure."""
    cases = by_case(lines)
    known = counted(here.kernel, ranges=ranges, local=local)
    unsure = BATCHES if here.repeats is Repeats.EACH and not local else ()
    found = []
    for case, windows in cases.items():
        if case in unsure:
            continue
        kind = FLUSH if is_crowd(case) else case
        own = [w["metrics"][METRIC] / w["operations"] for w in cases[kind] if METRIC in w["metrics"]]
        insns = statistics.median(own) if own else known[kind]
        seconds = tuple(w["seconds"] for w in windows)
        counts = executed(kind, insns, here, ranges=ranges, local=local)
        found.append(Measurement(case, cpus_of(case), windows[0]["operations"], seconds, counts))
    return found


def is_crowd(case: str) -> bool:
    """Whether a case is of several CPUs at once."""
    return case.startswith(f"{FLUSH}-")


def cpus_of(case: str) -> int:
    """How many CPUs it is of."""
    return int(case.partition("-")[2]) if is_crowd(case) else 1


def has_ranges(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Whether TLBIs of ranges are used, by time: 510 TLBIs more, or 2, show in an operation of a batch."""
    windows = by_case(lines).items()
    seconds: dict[str, float] = {
        case: statistics.median(w["seconds"] / w["operations"] for w in rounds) for case, rounds in windows
    }
    many, few = (seconds[case] for case in BATCHES)
    return many - few < MANY * (seconds[FLUSH] - seconds[PLAIN])


def executed(case: str, insns: float, here: Here, *, ranges: bool, local: bool) -> Counts:
    """What an operation executes, by Linux's source (arch/arm64/include/asm/tlbflush.h).

    DSBs on entry into the kernel, which some CPUs need behind a loop that clears their branch history, are taken for
    part of its instructions: each system call has one, also those without a flush.
    """
    if case == DSB:
        return Counts(insns, 0, 0, 0, 1)
    if case == PLAIN:
        return Counts(insns, 0, 0, 0, 0)
    pages = PAGES[case]
    whole = pages >= LIMIT and not ranges
    tlbis = (1 if whole else IN_RANGES[pages] if ranges else pages) * (2 if here.kpti else 1)
    # Stock's flush of a whole ASID waits, and then the flush that it is part of waits once more.
    syncs = 2 if whole and not local else 1
    again = {Repeats.SYNC: syncs, Repeats.EACH: tlbis}.get(here.repeats or Repeats.NO, 0) if not local else 0
    dsbs = 1 + syncs + again
    return Counts(insns, tlbis, 0, 0, dsbs) if local else Counts(insns, tlbis + again, tlbis + again, 1 + again, dsbs)


def counted(kernel: str, *, ranges: bool, local: bool) -> Mapping[str, float]:
    """Instructions of an operation of each case as the lab counted them, on the nearest kernel it knows."""
    data: Mapping[str, Any] = tomllib.loads(COUNTED.read_text())["linux"]
    series = ".".join(kernel.split(".")[:2])
    figures = data.get(series) or data[max(data, key=lambda name: [int(n) for n in name.split(".")])]
    chosen: Mapping[str, float] = figures["local" if local else "broadcast"]["ranges" if ranges else "single"]
    return chosen


def cost_file(fit: Fit, here: Here, way: Way) -> str:
    """The text of the cost file: each cost with where it comes from."""
    today = datetime.date.today().isoformat()
    where = f"Linux {here.kernel}, CPU parts {', '.join(here.parts) or 'unknown'}"
    repeats = {
        None: "whether flushes are repeated (erratum workaround) is not known: taken as not",
        Repeats.NO: "no flush is repeated",
        Repeats.SYNC: "each flush is repeated once (erratum workaround)",
        Repeats.EACH: "each TLBI is repeated (erratum workaround of older kernels), or each flush once (7.0, whose log "
        "says the same): batches of broadcasts are left out",
    }[here.repeats]
    ranges = f"{'TLBIs of ranges' if way.ranges else 'no TLBIs of ranges'}, by {way.teller}"
    counts = f"instructions counted by {way.counter}" + (f" ({COUNTED.name})" if way.counter == LAB else "")
    about = f"{here.cpus} CPUs, parts {', '.join(here.parts) or 'unknown'}, measured {today} on Linux {here.kernel}"
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
        f"walk = {quoted('left out: not measured')}",
    ]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A TOML string: JSON's are."""
    return json.dumps(text, ensure_ascii=False)


def fitted(measured: Sequence[Measurement], near: Sequence[Measurement]) -> Fit:
    """The fit of what hardware did."""
    return calibrate.fit(measured, near, calibrate.MIX)
