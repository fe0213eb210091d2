# SPDX-License-Identifier: GPL-2.0-only
"""Measure costs on the arm64 machine that this is: run guest/calibrate.c, add what nobody counts, write a cost file.

Instructions are counted by perf where the machine permits it, else they are the lab's (guest/calibrate.toml). TLBIs and
DSBs follow from how Linux flushes.
"""

from __future__ import annotations

import contextlib
import datetime
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

from lull import calibrate, guest, paths, process, toolchain
from lull.calibrate import BATCHES, DSB, FLUSH, PLAIN, Fit, Measurement
from lull.errors import LullError, UsageError
from lull.experiment import SKIPPED
from lull.lab import Lab
from lull.progress import progress
from lull.scale import Counts
from lull.timing import Costs

POLICIES = Path("/sys/kernel/mm/lull")
CPUINFO = Path("/proc/cpuinfo")
MELTDOWN = Path("/sys/devices/system/cpu/vulnerabilities/meltdown")
COUNTED = paths.GUEST / "calibrate.toml"
REPEATS = re.compile(r"detected: .*(Broken broadcast TLBI completion|erratum [0-9, ]*1286807)")
"""What Linux says when it issues each broadcast sync twice, in newer kernels and older ones."""
PAGES = {FLUSH: 1, BATCHES[0]: 511, BATCHES[1]: 512}
IN_RANGES = {1: 1, 511: 3, 512: 1}
"""TLBIs that so many pages take with FEAT_TLBIRANGE: 511 are 1 + 62 + 448."""
LIMIT = 512
"""Pages from which on Linux invalidates the whole ASID, without ranges."""
MANY = 8.0
"""511 TLBIs take more than so many flushes longer than one, and 3 do not: all that tells user space of ranges."""
METRIC = "instructions"
PERF, LAB = "perf", "the lab"
"""Who counted instructions."""
OFF = {"residency": "off", "gather": "off"}
LOCAL = {**OFF, "residency": "counted"}


@dataclass(frozen=True)
class Here:
    """The machine, as far as its flushes depend on it.

    Args:
        kernel: its release.
        parts: part numbers of its CPUs, with the implementer's.
        cpus: how many it has.
        kpti: page tables are isolated, so that each flush is of two ASIDs.
        repeats: each flush is repeated (erratum workaround); None: its log cannot be read.
    """

    kernel: str
    parts: tuple[str, ...]
    cpus: int
    kpti: bool
    repeats: bool | None


def require_arm64() -> None:
    """Raise UsageError when this is no arm64 machine."""
    if not toolchain.host_is_arm64():
        raise UsageError(
            f"this machine is {platform.machine()}: only an arm64 one has costs of TLB maintenance",
            remedy="run 'lull calibrate --out FILE.toml' there, and name the file here with --timing; or try it in a "
            "guest: 'lull calibrate --guest ampere-32'",
        )


def examine(repeats: bool | None) -> Here:
    """What the machine says of itself.

    Args:
        repeats: what the user says of the workaround; None: look into the kernel's log.
    """
    text = CPUINFO.read_text()
    implementers, parts = (
        re.findall(rf"^CPU {word}\s*: (\S+)", text, re.MULTILINE) for word in ("implementer", "part")
    )
    if repeats is None:
        log = process.complete(["dmesg"], apart=True)
        # A log that has lost its beginning does not say either.
        if log.status == 0 and "Booting Linux" in log.output:
            repeats = bool(REPEATS.search(log.output))
    kpti = MELTDOWN.exists() and "PTI" in MELTDOWN.read_text()
    named = tuple(sorted({f"{i}/{p}" for i, p in zip(implementers, parts, strict=False)}))
    return Here(platform.release(), named, os.cpu_count() or 1, kpti, repeats)


def measure(lab: Lab, here: Here, ms: int, rounds: int) -> tuple[list[Measurement], list[Measurement], str]:
    """Build the program and run it: with broadcasts and, on a Lull kernel, with local flushes; and who counted.

    Raises: UsageError when its policies cannot be set; LullError when the program fails.
    """
    program = guest.build_programs(lab.toolchain) / "calibrate"
    passes = [OFF, LOCAL] if (POLICIES / "residency").exists() else [{}]
    told = []
    for number, settings in enumerate(passes, 1):
        with policies(settings), progress.step(f"measuring, pass {number} of {len(passes)}"):
            told.append(run_program(program, ms, rounds))
    ranges = has_ranges(told[0])
    found = [of_lines(lines, here, ranges=ranges, local=bool(place)) for place, lines in enumerate(told)]
    return found[0], found[1] if found[1:] else [], PERF if METRIC in told[0][0]["metrics"] else LAB


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
    """Measurements from the program's result lines."""
    cases = by_case(lines)
    known = counted(here.kernel, ranges=ranges, local=local)
    found = []
    for case, windows in cases.items():
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
    """Whether TLBIs of ranges are used: 510 TLBIs more, or 2, show in an operation of a batch."""
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
    # The flush of a whole ASID waits, and then the flush that it is part of waits once more.
    syncs = 2 if whole else 1
    again = syncs if here.repeats and not local else 0
    dsbs = 1 + syncs + again
    return Counts(insns, tlbis, 0, 0, dsbs) if local else Counts(insns, tlbis + again, tlbis + again, 1 + again, dsbs)


def counted(kernel: str, *, ranges: bool, local: bool) -> Mapping[str, float]:
    """Instructions of an operation of each case as the lab counted them, on the nearest kernel it knows."""
    data: Mapping[str, Any] = tomllib.loads(COUNTED.read_text())["linux"]
    series = ".".join(kernel.split(".")[:2])
    figures = data.get(series) or data[max(data, key=lambda name: [int(n) for n in name.split(".")])]
    chosen: Mapping[str, float] = figures["local" if local else "broadcast"]["ranges" if ranges else "single"]
    return chosen


def cost_file(fit: Fit, here: Here, counter: str) -> str:
    """The text of the cost file: each cost with where it comes from."""
    today = datetime.date.today().isoformat()
    where = f"Linux {here.kernel}, CPU parts {', '.join(here.parts) or 'unknown'}"
    repeats = {True: "each flush is repeated (erratum workaround)", False: "no flush is repeated", None: ""}[
        here.repeats
    ]
    unknown = "whether flushes are repeated (erratum workaround) is not known: taken as not"
    counts = f"counted by {counter}" + (f" ({COUNTED.name})" if counter == LAB else "")
    about = f"{here.cpus} CPUs, parts {', '.join(here.parts) or 'unknown'}, measured {today} on Linux {here.kernel}"
    lines = [
        "# SPDX-License-Identifier: GPL-2.0-only",
        f"# Written by 'lull calibrate' on {today}: {where}; {repeats or unknown}; instructions {counts}.",
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
