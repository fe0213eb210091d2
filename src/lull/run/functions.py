# SPDX-License-Identifier: GPL-2.0-only
"""The instructions of a case, by function of the kernel (``lull run --functions``).

The plugin counts by address, and writes pairs [number, count] for each window. A ``Listing`` has the name of each
number.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lull import cache
from lull.linux.symbols import Symbols
from lull.run.records import Breakdown

USER = "user space"
OTHER = "kernel, in no function"
"""Code of modules, and code between functions."""
KERNEL_HALF = 0xFFFF << 48
"""Where the kernel's half of the address space begins."""
SUFFIXES = re.compile(r"(\.(isra|constprop|part|cold|lto_priv|llvm)(\.\d+)*)+$")
"""What compilers append to the name of a function that they split or specialise."""


@dataclass(frozen=True)
class Listing:
    """The functions of one kernel.

    Args:
        path: the file that the plugin reads: a line for each number from 1 on, with the address where its code begins.
        names: the name of each number. Parts of one function (``foo`` and ``foo.cold``) have the same name. The second
            function that is called ``foo`` in the source is ``foo (2)``.
    """

    path: Path
    names: tuple[str, ...]


def list_functions(symbols: Symbols) -> Listing:
    """The functions of the kernel with these symbols. The file is an entry of the cache."""
    found: Counter[str] = Counter()
    names, lines = [USER, OTHER], [f"{KERNEL_HALF:016x} {OTHER}\n"]
    for address, symbol in symbols.functions():
        name = SUFFIXES.sub("", symbol) if symbol else OTHER
        if symbol:
            found[symbol] += 1
            name += f" ({found[symbol]})" * (found[symbol] > 1)
        names.append(name)
        lines.append(f"{address:016x} {name}\n")
    text = "".join(lines)
    entry = cache.make_entry(
        "functions", cache.key_of(text), lambda part: cache.write_atomic(part / "functions.txt", text)
    )
    return Listing(entry / "functions.txt", tuple(names))


def by_name(windows: Sequence[Mapping[int, int]], names: Sequence[str], scale: int) -> dict[str, float]:
    """Name -> count, the mean of these windows times ``scale``. Raises IndexError for a number without a name."""
    counts: Counter[str] = Counter()
    for window in windows:
        for number, count in window.items():
            counts[names[number]] += count
    return {name: scale * count / len(windows) for name, count in counts.items()}


def breakdowns(measurements: Sequence[Mapping[str, Any]]) -> list[Breakdown]:
    """The breakdown of each kernel and workload: that of the boot with the median total.

    With an even number of boots it is the mean of the two in the middle. So the counts add up to the median of the
    metric.
    """
    boots: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for m in measurements:
        if "functions" in m:
            boots[m["kernel"], m["workload"]].append(m)
    found = []
    for (kernel, workload), series in boots.items():
        series = sorted(series, key=lambda m: sum(m["functions"].values()))
        middle = series[(len(series) - 1) // 2 : len(series) // 2 + 1]
        names = dict.fromkeys(name for m in middle for name in m["functions"])
        counts = {name: statistics.fmean(m["functions"].get(name, 0.0) for m in middle) for name in names}
        metric = "insns_quiet" if "insns_quiet" in middle[0]["metrics"] else "insns_own"
        found.append(Breakdown(kernel, workload, metric, counts, middle[0]["operations"], middle[0]["unit"]))
    return found
