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
DEPTH = 20_000_000
QUICK_DEPTH = 1_000_000
TIME_LIMIT = 900.0

CONFIGURATIONS: dict[str, str] = {
    "base": "",
    "three": "NCPU=3 NOBJ=1",
    "three-pages": "NCPU=3 PART=1",
    "three-pages2": "NCPU=3 PART=2",
    "two": "NMM=2 NOBJ=1",
    "three-two": "NCPU=3 NMM=2 NFLUSH=1 NOBJ=1 MERGE ONE",
    "asid": "NOBJ=1 ALLOC NNUM=2",
    "asid-two": "NMM=2 NFLUSH=1 NOBJ=1 ALLOC NNUM=3 MERGE ONE",
    "exit": "NOBJ=1 ALLOC NNUM=3 EXIT MERGE",
    "freed": "NOBJ=1",
    "freed-two": "",
    "freed-three": "NCPU=3 NOBJ=1",
}
"""Name: what is defined (README.md)."""

QUICK = ("base", "asid", "freed")
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
        family = self.configuration.partition("-")[0]
        return FOLDER / ("freed.pml" if family == "freed" else "residency.pml")

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


def variant(name: str, configuration: str = "base", expected: str = FAILS) -> Case:
    """The case of a variant."""
    return Case(name, configuration, (f"V_{name}",), expected)


def cases() -> list[Case]:
    """Everything, configurations first."""
    return [
        *(Case(name, name, (), HOLDS) for name in CONFIGURATIONS),
        variant("BIT_LATE"),
        variant("NO_MB"),
        variant("NOT_BACK"),
        variant("BACK_ONE", "three"),
        variant("UNLOCKED"),
        variant("UNLOCKED_BACK"),
        variant("NO_LEAVING"),
        variant("LEAVING_FIRST"),
        variant("LEAVING_LATE"),
        variant("LEFT_EARLY"),
        variant("TWICE", "two"),
        variant("NO_TLBI"),
        variant("TLBI_FIRST", expected=HOLDS),
        variant("TTBR_FIRST"),
        variant("PASS_OWN"),
        variant("UNPARK_BLIND"),
        variant("PARK_KEEPS_ASID"),
        variant("NO_ISHST"),
        variant("ID_EARLY", "asid"),
        variant("STOCK_WINDOW", "asid-two"),
        variant("NUMBER_FREED", "exit"),
        variant("AS_LEAF", "freed"),
        variant("LOCAL_WALKED", "freed"),
        variant("ELIDE_WALKER", "freed"),
        variant("WALKER_KEEPS", "freed"),
        variant("WALKER_STORE", "freed"),
        variant("WALKER_LATE", "freed"),
        variant("WALKER_SKIPS", "freed"),
        variant("NO_TLBI_FREED", "freed"),
        variant("NO_SPAN_PENDING", "freed"),
        variant("NO_SPAN_ELIDED", "freed"),
        variant("NEW_KEEPS", "freed"),
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
        said = call("./pan", f"-m{QUICK_DEPTH if quick(case) else DEPTH}", "-w24").stdout
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


def trace(case: Case, folder: Path) -> str:
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
        line
        for line in lines
        if line.startswith(("CPU", "roll-over", "the mm gets", "spin: ")) and "trail ends" not in line
    )


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check the model of residency, and that it finds what is taken away.")
    parser.add_argument("--quick", action="store_true", help="the small configurations and their variants only")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at a time (default %(default)s)")
    parser.add_argument("--trace", action="store_true", help="print the shortest counterexample of the one case named")
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
        if arguments.trace:
            for case in chosen:
                print(f"{case.name} in {case.configuration}\n{trace(case, Path(work) / case.name.replace(' ', '-'))}")
            return 0
        results = run_all(chosen, arguments.jobs, Path(work))
    print(table(results))
    wrong = [r for r in results if not r.good()]
    for one in wrong:
        print(f"not as expected: {one.case.name}: {one.found} {one.detail}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
