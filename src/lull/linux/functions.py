# SPDX-License-Identifier: GPL-2.0-only
"""The functions of a kernel, numbered by address, as the plugin counts their instructions (``run --functions``)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lull import cache
from lull.linux.symbols import Symbols

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
    names, lines = [USER], []
    for address, symbol in sorted([(KERNEL_HALF, None), *symbols.functions()], key=lambda one: one[0]):
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
