# SPDX-License-Identifier: GPL-2.0-only
"""The names and addresses of a kernel's functions."""

from __future__ import annotations

from lull.linux import functions, symbols

MAP = """\
ffff800080000000 T first
ffff800080000010 t twice
ffff800080000020 t first.cold
ffff800080000030 t twice
ffff800080000040 t twice.isra.0
ffff800080000050 t third.constprop.0.isra.0
ffff800080000060 D data
ffff800080000070 B _end
"""


def test_names_and_addresses() -> None:
    """Parts are of their function, functions of one name are told apart; the plugin gets the same in its order."""
    found = functions.list_functions(symbols.parse_map(MAP, "System.map"))
    assert found.names == (
        "user space", functions.OTHER, "first", "twice", "first", "twice (2)", "twice", "third", functions.OTHER,
    )  # fmt: skip
    lines = [line.split(" ", 1) for line in found.path.read_text().splitlines()]
    starts = [int(address, 16) for address, _ in lines]
    assert starts == sorted(set(starts)) and starts[:2] == [0xFFFF000000000000, 0xFFFF800080000000]
    assert tuple(name for _, name in lines) == found.names[1:]
    assert functions.list_functions(symbols.parse_map(MAP, "another")).path == found.path
