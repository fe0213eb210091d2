# SPDX-License-Identifier: GPL-2.0-only
"""Results that tests of reports make up: of a run and a check."""

from __future__ import annotations

from pathlib import Path

from support import HVO, LOCAL, RUNS

from lull.base import load_base
from lull.judge import features
from lull.run.records import Check, Record, Results

STICKY = f"lab+{LOCAL}=sticky"
HVO_THRESHOLDS = features.modules()[HVO]
KINDS = ("tlbi_broadcast_asid", "tlbi_broadcast_kernel", "tlbi_broadcast_all", "tlbi_broadcast_other")


def records(kernel: str, broadcasts: float, local: float = 0.0, vcpus: int = 4, seconds: float = 0.02) -> list[Record]:
    """mprotect_per_cpu on a kernel, three repeats of 1000 operations."""
    counts = {
        "tlbi_broadcast_user": broadcasts,
        "tlbi_broadcast": broadcasts,
        "tlbi_local": local,
        **dict.fromkeys(KINDS, 0.0),
    }
    made = [
        Record(kernel, "mprotect_per_cpu", vcpus, metric, "count", (value, value + 2, value + 4), 1000, "mprotect")
        for metric, value in counts.items()
    ]
    times = (seconds, seconds * 1.1, seconds * 1.2)
    return [*made, Record(kernel, "mprotect_per_cpu", vcpus, "seconds_emulated", "s", times, 1000, "mprotect")]


CHECKS = [
    Check(f"{LOCAL}: broadcasts of mprotect_per_cpu", "passed", "64, stock 4321: 1.5 %"),
    Check(f"{LOCAL}: broadcasts of sleeper", "skipped", "sleeper was not measured"),
    Check(f"{RUNS}: no more TLBIs: sparse on lull", "failed", "munmap 2.1 (stock 1)"),
    Check("verified: mprotect_per_cpu on stock", "passed", "3 runs"),
]


def run(vcpus: int = 4, lull: str = "lull", more: tuple[Record, ...] = ()) -> Results:
    """A run of stock twice, sticky and Lull."""
    found = [
        *records("stock", 4321, vcpus=vcpus),
        *records("stock.control", 4321, vcpus=vcpus),
        *records(STICKY, 987, 3334, vcpus),
        *records(lull, 64, 4257, vcpus, 0.01),
        *more,
    ]
    settings = {
        "linux": "6.12.117",
        "qemu": "10.0.2",
        "features": list(load_base().exported()),
        "machine": {"cpu": "max", "vcpus": vcpus, "accel": "tcg"},
    }
    host = {"architecture": "x86_64", "cpus": 2, "model": "A Model of CPU"}
    return Results("0.1.0", "6.12", host, found, list(CHECKS), ["qemu --one <two>"], settings)


def swapped() -> tuple[Record, ...]:
    """System A's program on stock and Lull."""
    return tuple(
        Record(kernel, "swap_bench", 8, "tlbi_broadcast_user", "count", (value, value), 1000, "page")
        for kernel, value in (("stock", 1004.0), ("lull", 0.0))
    )


def hvo() -> tuple[Record, ...]:
    """HVO's four operations on Lull and on the kernel unsafe."""
    metrics = {"insns": 9e6, HVO_THRESHOLDS.WORK: 8e6}
    return tuple(
        Record(kernel, operation.workload, 8, metric, "count", (value, value), 2, "HugeTLB page")
        for operation in HVO_THRESHOLDS.OPERATIONS
        for kernel in ("lull", *HVO_THRESHOLDS.UNSAFE)
        for metric, value in metrics.items()
    )


def given_back() -> tuple[Record, ...]:
    """munmap of 100 pages on stock and on Lull: the least of the repeats counts."""
    insns = {"stock": (90_000.0, 80_000.0), "lull": (52_000.0, 60_000.0)}
    return tuple(
        Record(kernel, "teardown_munmap/anon-4k", 8, "insns_quiet", "count", values, 100, "page")
        for kernel, values in insns.items()
    )


def checked() -> dict[str, object]:
    """check.json of two boots, one with a report, and of a mutant."""
    report_ = {
        "report": 1,
        "count": 2,
        "rule": "pending",
        "kind": "no-tlbi",
        "text": ["report 1: pending/no-tlbi: a valid entry was removed", "  entry    0x5ce000, ASID 2"],
    }
    plain = {"machine": "max", "mutant": None, "known": {}, "reports": []}
    plain |= {"workloads": ["fork_exec stock"], "status": {"1": 0}}
    boots = [
        {**plain, "boot": "r01-stock-max", "kernel": "stock", "verdict": "passed"},
        {**plain, "boot": "r01-lull-max", "kernel": "lull", "verdict": "reports", "reports": [report_]},
        {
            **plain,
            "boot": "r01-lab",
            "kernel": "lab",
            "verdict": "reports",
            "mutant": "page-none",
            "reports": [report_],
        },
    ]
    score = {
        "mutant": "page-none",
        "meant": "pending/no-tlbi",
        "seen": {"pending/no-tlbi": 1},
        "caught": 1,
        "as_meant": 1,
        "boots": 1,
        "ends": [],
    }
    verdict = "reports in 1 of 2 boots; 1 of 1 mutants caught each time by the rule that is meant"
    return {"boots": boots, "mutants": [score], "verdict": verdict, "commands": []}


def put(folder: Path, name: str, text: str) -> Path:
    """A file of a results folder; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder
