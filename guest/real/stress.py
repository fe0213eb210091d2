#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""stress-ng's stressors of memory and processes, each in a window, so many operations of each.

    stress.py NAME[=WORKERS][@MIB]...   those of the table below, one after the other, with so many workers, in a memory
                                        cgroup that may have so many MiB

stress-ng verifies what it does (--verify); and that every stressor ran, and to its end, is looked at in its report.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import verify, window

WORKERS = 2
"""Unless said otherwise. Enough to be several; more would wait for each other most of the time, where the host has
fewer CPUs."""
STRESSORS: dict[str, tuple[int, list[str]]] = {
    "tlb-shootdown": (200, []),
    "vm": (400, ["--vm-bytes", "16M"]),
    "vma": (1000, []),
    "mprotect": (4000, []),
    "fork": (200, []),
    "vfork": (800, []),
    "exec": (40, ["--exec-max", "4"]),
    "madvise": (2, []),
    "pageswap": (400, []),
    "memfd": (8, ["--memfd-bytes", "16M"]),
    "mremap": (32, ["--mremap-bytes", "8M"]),
    "mmapfork": (1, []),
}
"""Operations, of all workers together, and options. Those that this stress-ng lacks are left out."""
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
"""Nobody: root is not let into exec, and madvise would take pages from the kernel for good (MADV_HWPOISON)."""


CGROUPS = Path("/sys/fs/cgroup")
"""The cgroups, version 2."""


@contextmanager
def limited(mib: str) -> Iterator[None]:
    """This process in a memory cgroup of its own; "": where it is."""
    if not mib:
        yield
        return
    verify(
        any(line.startswith("/dev/") for line in Path("/proc/swaps").read_text().splitlines()),
        "no swap device is in use",
    )
    ours = CGROUPS / "stress"
    ours.mkdir()
    (ours / "memory.max").write_text(f"{mib}M")
    (ours / "cgroup.procs").write_text(str(os.getpid()))
    yield
    (CGROUPS / "cgroup.procs").write_text(str(os.getpid()))
    ours.rmdir()


def known() -> set[str]:
    """The stressors that this stress-ng has."""
    return set(subprocess.run(["stress-ng", "--stressors"], capture_output=True, text=True, check=True).stdout.split())


def stress(name: str, workers: str, mib: str, folder: str) -> None:
    """One stressor; ``workers``: how many, "" for as many as usual; ``mib``: of its cgroup, "" for no limit."""
    operations, options = STRESSORS[name]
    report = f"{folder}/{name}.yaml"
    words = [
        f"--{name}",
        workers or str(WORKERS),
        f"--{name}-ops",
        str(operations),
        *options,
        "--verify",
        "--no-rand-seed",
        "--quiet",
    ]
    words += ["--metrics-brief", "--yaml", report, "--temp-path", folder]
    case = "-".join(filter(None, (name, workers, mib and f"{mib}MiB")))
    with limited(mib):
        window([*USER, "stress-ng", *words], case=case, operations=operations, unit="operation")
    with open(report) as file:
        done = re.findall(r"stressor: (\S+)\s+bogo-ops: (\d+)", file.read())
    verify(len(done) == 1 and done[0][0] == name, f"{name} did not run")
    verify(int(done[0][1]) >= operations, f"{name} did {done[0][1]} of {operations} operations")


def main() -> None:
    """Those named, one after the other."""
    have = known()
    stressors = []
    for word in sys.argv[1:]:
        what, _, mib = word.partition("@")
        name, _, workers = what.partition("=")
        stressors.append((name, workers, mib))
    verify(all(name in STRESSORS for name, _, _ in stressors), f"known are {', '.join(STRESSORS)}")
    verify(any(name in have for name, _, _ in stressors), f"this stress-ng has none of {', '.join(sys.argv[1:])}")
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    for name, workers, mib in stressors:
        if name in have:
            stress(name, workers, mib, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
