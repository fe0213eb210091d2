# SPDX-License-Identifier: GPL-2.0-only
"""A guest's clock that goes slower than the host's.

An emulated CPU takes many times a machine's time for what it does. By a clock that goes at the host's speed its guest
has as many times more ticks, and wakes as many more sleepers, in the same work; and how many depends on the host's
load. So for modelled time the guest's counter ticks slowly, and the device tree says that it ticks fast.

QEMU makes the device tree from the whole command line, and writes it out when asked to.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from lull import cache, process
from lull.errors import LullError
from lull.guest.qemu import escape

COUNTER_HZ = 500_000
"""What the guest's counter (CNTVCT_EL0) really has in a second of the host. What it is said to have fits 32 bits."""
MOST = (2**32 - 1) // COUNTER_HZ
"""Times that a clock can be slower."""


def slowed(words: Sequence[str], factor: int, tree: Path) -> list[str]:
    """QEMU's command line for a guest whose clock goes ``factor`` times slower than the host's.

    The timer node's clock-frequency has precedence over CNTFRQ_EL0 (drivers/clocksource/arm_arch_timer.c).

    Args:
        words: its command line, without a plugin.
        factor: from 2 to MOST.
        tree: takes the device tree.
    """
    if not 2 <= factor <= MOST:
        raise ValueError(f"a clock can be 2 to {MOST} times slower, not {factor}")
    here = list(words)
    here[here.index("-cpu") + 1] += f",cntfrq={COUNTER_HZ}"
    asking = list(here)
    asking[asking.index("-machine") + 1] += f",dumpdtb={escape(tree)}"
    done = process.complete(asking)
    if done.status != 0:
        raise LullError("QEMU does not write its device tree", where=process.shown(asking), tail=done.output[-500:])
    with warnings.catch_warnings():  # about the library's own text, when Python compiles it
        warnings.simplefilter("ignore")
        import fdt
    parsed = fdt.parse_dtb(tree.read_bytes())
    parsed.get_node("timer").append(fdt.PropWords("clock-frequency", factor * COUNTER_HZ))
    cache.write_atomic(tree, parsed.to_dtb(version=17))
    return [*here, "-dtb", str(tree)]
