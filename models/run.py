#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run spin over the models (*.pml): every configuration must hold, every variant must do what the table says.

Needs spin and a C compiler. Exit codes: 0 all as expected (or spin is missing: skipped, and said so), 1 not, 2 usage.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
HOLDS = "holds"
FAILS = "fails"
MEMORY_MIB = 6000
DEPTH = 3_000_000
TIME_LIMIT = 900.0

CONFIGURATIONS: dict[str, str] = {
    "base": "",
    "limit1": "LIMIT=1",
    "limit3": "LIMIT=3",
    "tables": "NOBJ=2",
    "kpti": "KPTI",
    "idmap": "IDMAP",
    "two": "NCPU=2 NMM=2",
    "exit": "NCPU=2 ALLOC NNUM=3 EXIT MERGE",
    "exit1": "NCPU=2 ALLOC NNUM=3 EXIT MERGE LIMIT=1",
    "pin": "NCPU=2 ALLOC NNUM=4 PIN",
    "asid": "NCPU=2 NMM=2 NFLUSH=1 ALLOC NNUM=3 MERGE PART",
    "asid2": "NCPU=2 NMM=2 NFLUSH=1 ALLOC NNUM=3 MERGE",
    "asid-stores": "NCPU=2 NMM=2 NFLUSH=1 ALLOC NNUM=3 PART",
    "rename1": "NCPU=2 ALLOC NNUM=3 RENAME MERGE",
    "rename2": "NCPU=2 NMM=2 NFLUSH=1 ALLOC NNUM=3 RENAME MERGE PART",
    "leave": "NCPU=2 NOBJ=2 LIMIT=1 LEAVE",
    "leave3": "LIMIT=1 LEAVE",
    "leave3-limit2": "LEAVE",
    "leave-two": "NCPU=2 NMM=2 LIMIT=1 LEAVE",
    "leave-asid": "NCPU=2 LIMIT=1 ALLOC NNUM=3 LEAVE",
    "leave-pin": "NCPU=2 LIMIT=1 ALLOC NNUM=3 PIN LEAVE",
    "leave-rename": "NCPU=2 LIMIT=1 ALLOC NNUM=3 RENAME MERGE LEAVE",
    "switch": "",
    "switch-idmap": "IDMAP",
    "switch-twice": "TURNS=2",
    "switch-two": "NMM=2",
    "freed": "NCPU=2 ROLL",
    "freed3": "NCPU=3 NOBJ=1 ROLL",
    "freed-ntlbpa": "NCPU=2 NTLBPA",
    "pause": "",
    "pause3": "NCPU=3",
}
"""Name: what is defined (README.md)."""

TOO_LARGE = ("rename2",)
"""Configurations that are too large to be exhausted: variants fail in them, that they hold is not shown."""

QUICK = ("base", "limit1", "leave", "freed", "pause")
"""Configurations that the normal test run checks, with their variants: half a minute."""


@dataclass(frozen=True)
class Case:
    """One run of spin.

    Args:
        name: of the configuration, or of the variant (what -DV_NAME takes away).
        configuration: a key of CONFIGURATIONS.
        defines: what is defined beside it.
        expected: HOLDS or FAILS.
    """

    name: str
    configuration: str
    defines: tuple[str, ...]
    expected: str

    def model(self) -> Path:
        """The model that it is a configuration of."""
        family = self.configuration.partition("-")[0].rstrip("3")
        return FOLDER / (f"{family}.pml" if family in ("switch", "freed", "pause") else "residency.pml")

    def words(self) -> list[str]:
        """The -D words for spin."""
        return [f"-D{d}" for d in (*CONFIGURATIONS[self.configuration].split(), *self.defines)]


@dataclass(frozen=True)
class Result:
    """How a case ended. ``found``: HOLDS, FAILS or what went wrong; ``detail``: the assertion."""

    case: Case
    found: str
    states: int
    seconds: float
    detail: str

    def good(self) -> bool:
        """Is it what the table says?"""
        return self.found == self.case.expected


def variant(name: str, configuration: str = "base", expected: str = FAILS, *, third: bool = True) -> Case:
    """The case of a variant; ``third``: with invariant 3 asserted, or only what follows from breaking it."""
    defines = (f"V_{name}",) if third else (f"V_{name}", "NO_INV3")
    return Case(name if third else f"{name} without invariant 3", configuration, defines, expected)


def cases() -> list[Case]:
    """Everything, configurations first."""
    return [
        *(Case(name, name, (), HOLDS) for name in CONFIGURATIONS if name not in TOO_LARGE),
        variant("PLAIN_SAME"),
        variant("PLAIN_SET"),
        variant("NO_STALE"),
        variant("NO_RSTALE"),
        variant("NO_RSTALE_IN"),
        variant("NO_WANDERED"),
        variant("HOME_KEPT"),
        variant("LOCAL_ELSEWHERE"),
        variant("NO_ISHST"),
        variant("TTBR_FIRST"),
        variant("NO_DSB_OUT"),
        variant("NO_DSB_OUT", third=False),
        variant("PARK_KEEPS_ASID"),
        variant("LAZY_SKIPS"),
        variant("LAZY_UNCOUNTED"),
        variant("LAZY_UNCOUNTED", third=False),
        variant("IDMAP_RESURRECTS", "idmap"),
        variant("IDMAP_RESURRECTS", "idmap", third=False),
        variant("MANY_EARLY", "limit1"),
        variant("MANY_MET", "limit1"),
        variant("MANY_NO_BROADCAST"),
        variant("KPTI_HALF", "kpti"),
        variant("PIN_COUNTED", "pin"),
        variant("PIN_COUNTED", "pin", third=False),
        variant("PIN_NO_BROADCAST", "pin"),
        variant("ROLL_CLEARS_KEPT", "asid"),
        variant("ROLL_CLEARS_LATE", "asid"),
        variant("ROLL_CLEARS_LOADED", "asid", HOLDS),
        variant("ID_BEFORE_DSB", "asid-stores"),
        variant("ID_BEFORE_WORD", "rename1", HOLDS),
        variant("STOCK_WINDOW", "asid"),
        variant("RENAME_STORES_FIRST", "rename1"),
        variant("NO_RECHECK", "rename1"),
        variant("RENAME_KEEPS", "rename1"),
        variant("RENAME_REUSES", "rename2"),
        variant("RENAME_ROLLS", "rename2"),
        variant("FORK_COPIES", "exit", HOLDS),
        variant("LEAVE_NO_MB", "leave"),
        variant("LEAVE_NO_MB", "leave", third=False),
        variant("LEAVE_LOADED_LATE", "leave"),
        variant("LEAVE_LOADED_ONLY", "leave"),
        variant("LEAVE_ASIDS", "leave-asid"),
        variant("LEAVE_OUT_LATE", "leave"),
        variant("LEAVE_LEAVING_FIRST", "leave"),
        variant("LEAVE_OUT_BEFORE_DSB", "leave"),
        variant("LEAVE_OUT_BEFORE_COUNT", "leave"),
        variant("LEAVE_NO_BIT", "leave"),
        variant("LEAVE_KEPT", "leave"),
        variant("LEAVE_BLIND", "leave"),
        variant("LEAVE_NO_LOCK", "leave"),
        variant("LEAVE_NOT_HERE", "leave"),
        variant("LEAVE_UNCOUNTED", "leave"),
        variant("LEAVE_UNCOUNTED", "leave", HOLDS, third=False),
        variant("LEAVE_NARROW", "leave"),
        variant("LEAVE_NARROW_NOTED", "leave", HOLDS),
        variant("LEAVE_STALE", "leave3", HOLDS),
        variant("LEAVE_PINNED", "leave-pin"),
        variant("LEAVE_PIN_KEEPS", "leave-pin"),
        variant("NO_EPOCH", "switch-twice"),
        variant("EPOCH_LATE", "switch-twice"),
        variant("EPOCH_AFTER_TRACK", "switch-twice", HOLDS),
        variant("NEW_BY_TRACK", "switch"),
        variant("ON_BEFORE_TRACK", "switch"),
        variant("NO_RESET", "switch-twice"),
        variant("NO_RCU", "switch"),
        variant("KEY_BEFORE", "switch"),
        variant("NO_FLUSH", "switch"),
        variant("NO_RELOAD", "switch"),
        variant("ONE_KEY", "switch"),
        variant("BACK_BY_LOADED", "switch-idmap", HOLDS),
        variant("IDMAP_BY_LOADED", "switch-idmap"),
        variant("AS_LEAF", "freed"),
        variant("HOME_ONLY", "freed"),
        variant("HERE_WANDERED", "freed"),
        variant("NOT_HERE", "freed"),
        variant("RANGE", "freed"),
        variant("ALONE_RANGE", "freed"),
        variant("CLEAR_LOADED", "freed"),
        variant("HOME_STAYS", "freed"),
        variant("HOME_NONE", "freed"),
        variant("OLD_CLEARED", "freed"),
        variant("NO_WANDERED_FREED", "freed"),
        variant("RENAMES", "freed"),
        variant("FRESH_CLEARS", "freed"),
        variant("NEVER_HOME", "freed", HOLDS),
        variant("PAUSE_NO_LEAVE", "pause"),
        variant("PAUSE_LEAVE_BLIND", "pause"),
        variant("PAUSE_STAY", "pause"),
        variant("PAUSE_BEGIN_LOOKS", "pause"),
        variant("PAUSE_WAIT_EQUAL", "pause"),
        variant("PAUSE_GO_EARLY", "pause"),
        variant("PAUSE_GO_FIRST", "pause", HOLDS),
    ]


def quick(case: Case) -> bool:
    """Does it belong to the normal test run?"""
    return case.configuration in QUICK


def run(case: Case, folder: Path) -> Result:
    """Make the checker of ``case`` in ``folder``, and run it to its end."""
    folder.mkdir(parents=True)
    started = time.monotonic()

    def result(found: str, states: int = 0, detail: str = "") -> Result:
        return Result(case, found, states, time.monotonic() - started, detail)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT
        )

    made = call("spin", "-a", *case.words(), str(case.model()))
    if made.returncode != 0 or not (folder / "pan.c").exists():
        return result("no model", detail=made.stdout.strip()[-300:])
    level = "-O2" if case.expected == HOLDS and not quick(case) else "-O0"
    options = ["-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", f"-DMEMLIM={MEMORY_MIB}"]
    made = call(os.environ.get("CC", "cc"), level, "-w", *options, "-o", "pan", "pan.c")
    if made.returncode != 0:
        return result("not compiled", detail=made.stdout.strip()[-300:])
    try:
        said = call("./pan", f"-m{DEPTH}", "-w24").stdout
    except subprocess.TimeoutExpired:
        return result("too slow")
    for big in folder.glob("pan*"):
        big.unlink()
    return result(*verdict(said))


def verdict(said: str) -> tuple[str, int, str]:
    """What pan's words mean, its states, and the assertion. It holds only when the search was complete."""
    count = re.search(r"([\d.e+]+) states, stored", said)
    states = int(float(count.group(1))) if count else 0
    broken = re.search(r"pan:\d+: (assertion violated .*|invalid end state) \(at depth", said)
    if broken:
        return FAILS, states, " ".join(broken.group(1).split())
    cut = any(words in said for words in ("max search depth too small", "out of memory", "Search not completed"))
    return HOLDS if "errors: 0" in said and not cut else "incomplete", states, ""


def run_all(chosen: list[Case], jobs: int, work: Path) -> list[Result]:
    """Run them, ``jobs`` at a time, the long ones first; results in the order of the table."""
    done: dict[Case, Result] = {}
    order = sorted(chosen, key=lambda c: (c.expected != HOLDS, quick(c)))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run, case, work / str(n)) for n, case in enumerate(order)]
        for future in concurrent.futures.as_completed(futures):
            one = future.result()
            done[one.case] = one
            mark = "" if one.good() else "  <-- NOT AS EXPECTED"
            line = f"[{len(done)}/{len(chosen)}] {one.case.name}: {one.found}, {one.seconds:.0f} s{mark}"
            print(line, file=sys.stderr, flush=True)
    return [done[case] for case in chosen]


def table(results: list[Result]) -> str:
    """The results, for people."""
    rows = [("configuration or variant", "in", "expected", "found", "states", "seconds")]
    rows += [
        (r.case.name, r.case.configuration, r.case.expected, r.found, f"{r.states:,}", f"{r.seconds:.1f}")
        for r in results
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def story(case: Case, folder: Path) -> str:
    """The shortest counterexample that a bounded search finds, step by step."""
    folder.mkdir(parents=True)
    plain = {"cwd": folder, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    words = ["-DSHORTEST", *case.words()]
    subprocess.run(["spin", "-a", *words, str(case.model())], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    options = ["-DSAFETY", "-DBFS", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}"]
    subprocess.run(["cc", "-O2", "-w", *options, "-o", "pan", "pan.c"], cwd=folder, check=True)
    subprocess.run(["./pan", "-w26"], cwd=folder, check=False, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    trails = list(folder.glob("*.trail"))
    if not trails:
        return "no counterexample"
    told = subprocess.run(["spin", "-k", str(trails[0]), *words, str(case.model())], check=False, **plain)  # type: ignore[call-overload]
    lines = [line.strip() for line in told.stdout.splitlines()]
    return "\n".join(
        line for line in lines if line.startswith(("CPU", "roll-over", "spin: ")) and "trail ends" not in line
    )


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check the model of residency, and that it finds what is taken away.")
    parser.add_argument("--quick", action="store_true", help="the small configurations and their variants only")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at a time (default %(default)s)")
    parser.add_argument("--story", action="store_true", help="tell the shortest counterexample of the one case named")
    parser.add_argument("name", nargs="*", help="cases to run; default all")
    arguments = parser.parse_args(words)
    every = cases()
    unknown = set(arguments.name) - {c.name for c in every}
    if unknown:
        print(f"run.py: no such case: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [
        c for c in every if c.name in arguments.name or (not arguments.name and (quick(c) or not arguments.quick))
    ]
    if not shutil.which("spin"):
        print("skipped: no spin (Debian's package 'spin')")
        return 0
    with tempfile.TemporaryDirectory(prefix="lull-models-") as work:
        if arguments.story:
            for case in chosen:
                print(f"{case.name} in {case.configuration}\n{story(case, Path(work) / case.name.replace(' ', '-'))}")
            return 0
        results = run_all(chosen, arguments.jobs, Path(work))
    print(table(results))
    wrong = [r for r in results if not r.good()]
    for one in wrong:
        print(f"not as expected: {one.case.name}: {one.found} {one.detail}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
