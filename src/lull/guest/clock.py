# SPDX-License-Identifier: GPL-2.0-only
"""Give a guest a clock that runs slower than the host's, for modelled time.

An emulated CPU needs many times longer for the same work than a real one. With a clock at the host's speed, the guest
would handle that many times more timer ticks and wake-ups during the same work, and their number would depend on the
load of the host. Therefore the guest's counter ticks slowly, and the device tree states a higher frequency.

QEMU makes the device tree from its whole command line, and writes it to a file when asked to (dumpdtb).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lull import process
from lull.errors import LullError
from lull.guest.qemu import escape
from lull.requirements import Requirement

COUNTER_HZ = 500_000
"""Ticks of the guest's counter (CNTVCT_EL0) in a second of the host."""
MOST = (2**32 - 1) // COUNTER_HZ
"""The largest factor: the frequency that the device tree states, COUNTER_HZ times the factor, must fit 32 bits."""
FDTPUT = Requirement("device-tree-compiler", "fdtput", "changes the guest's device tree")


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
    changing = [FDTPUT.probe, "-t", "u", str(tree), "/timer", "clock-frequency", str(factor * COUNTER_HZ)]
    for words, what in (asking, "QEMU did not write its device tree"), (changing, "the device tree was not changed"):
        done = process.complete(words)
        if done.status != 0:
            raise LullError(what, where=process.shown(words), tail=done.output[-500:])
    return [*here, "-dtb", str(tree)]
