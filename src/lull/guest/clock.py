# SPDX-License-Identifier: GPL-2.0-only
"""Give a guest a clock that runs slower than the host's, for modelled time.

An emulated CPU needs many times longer for the same work than a real one. With a clock at the host's speed, the guest
would handle that many times more timer ticks and wake-ups during the same work, and their number would depend on the
load of the host. Therefore the guest's counter ticks slowly, and the device tree states a higher frequency.

QEMU makes the device tree from its whole command line, and writes it to a file when asked to (dumpdtb).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from lull import cache, process
from lull.errors import LullError
from lull.guest.qemu import escape

COUNTER_HZ = 500_000
"""Ticks of the guest's counter (CNTVCT_EL0) in a second of the host."""
MOST = (2**32 - 1) // COUNTER_HZ
"""The largest factor: the frequency that the device tree states, COUNTER_HZ times the factor, must fit 32 bits."""


def slowed(words: Sequence[str], factor: int, tree: Path) -> list[str]:
    """QEMU's command line for a guest whose clock runs ``factor`` times slower than the host's.

    The timer node's clock-frequency has precedence over CNTFRQ_EL0 (drivers/clocksource/arm_arch_timer.c).

    Args:
        words: the command line with the host's clock and without a plugin.
        factor: from 2 to MOST.
        tree: the file that takes the device tree.

    Raises: ValueError for another factor, LullError when QEMU does not write a device tree.
    """
    if not 2 <= factor <= MOST:
        raise ValueError(f"a clock can be 2 to {MOST} times slower, not {factor}")
    here = list(words)
    here[here.index("-cpu") + 1] += f",cntfrq={COUNTER_HZ}"
    asking = list(here)
    asking[asking.index("-machine") + 1] += f",dumpdtb={escape(tree)}"
    done = process.complete(asking)
    if done.status != 0:
        raise LullError("QEMU did not write its device tree", where=process.shown(asking), tail=done.output[-500:])
    with warnings.catch_warnings():  # Python warns of invalid escapes in the library's source when it compiles that
        warnings.simplefilter("ignore")
        import fdt
    parsed = fdt.parse_dtb(tree.read_bytes())
    parsed.get_node("timer").append(fdt.PropWords("clock-frequency", factor * COUNTER_HZ))
    cache.write_atomic(tree, parsed.to_dtb(version=17))
    return [*here, "-dtb", str(tree)]
