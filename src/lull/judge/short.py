# SPDX-License-Identifier: GPL-2.0-only
"""The table that a short run ends with: one line for each workload, stock beside Lull."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from lull.judge import tables
from lull.judge.thresholds import BROADCASTS, STOCK, TOGETHER
from lull.run.records import Results

LULL = TOGETHER[0]


@dataclass(frozen=True)
class Line:
    """A line of the table: a workload as in the records, with its case; its metric; what is counted, for people."""

    workload: str
    metric: str
    text: str


TLBIS = "broadcast TLBIs, per"
LINES = (
    Line("swap_bench", BROADCASTS, f"{TLBIS} page swapped out"),
    Line("mprotect_threaded", BROADCASTS, f"{TLBIS} mprotect()"),
    Line("fork_exec", BROADCASTS, f"{TLBIS} fork and exec"),
    Line("sort_compute", BROADCASTS, f"{TLBIS} sort process"),
    Line("young", BROADCASTS, f"{TLBIS} page whose accessed bit is cleared"),
    Line("teardown_munmap/anon-4k", "insns_quiet", "instructions, per 4 KiB page unmapped"),
    Line("hvo_one/allocate-1g", "memmap_given_back", "pages of struct pages given back, per 1 GiB HugeTLB page"),
    Line("sparse/munmap", BROADCASTS, f"{TLBIS} scattered page unmapped"),
    Line("pingpong/same-cpu", "insns_quiet", "a cost: instructions, per two context switches"),
)
"""What each system was published with, and where Lull is worse."""
MORE_IS_BETTER = ("memmap_given_back",)
"""Of the metrics of LINES those that are better if they are larger."""


def value(results: Results, kernel: str, line: Line) -> str:
    """What an operation took on a kernel: the median of all boots."""
    for record in results.find(kernel=kernel, workload=line.workload, metric=line.metric):
        return tables.number(statistics.median(record.values) / (record.operations or 1), record.unit)
    return "-"


def grid(results: Results) -> tables.Grid:
    """The table; what was not measured has no line."""
    rows = [(line.workload, line.text, *(value(results, k, line) for k in (STOCK, LULL))) for line in LINES]
    measured = tuple(row for row in rows if row[2:] != ("-", "-"))
    return tables.Grid("stock Linux beside Lull", ("workload", "counted", STOCK, LULL), measured, labels=2)
