# SPDX-License-Identifier: GPL-2.0-only
"""Which of KCSAN's reports concern residency."""

from __future__ import annotations

import re

from support import LOCAL

from lull import base as bases
from lull.guest import console
from lull.linux.hunks import name_of, sections_of

HOOKED = {
    "check_and_switch_context",
    "cpu_do_switch_mm",
    "arm64_mm_context_get",
    "__switch_to",
    "__switch_mm",
    "switch_mm",
    "enter_lazy_tlb",
    "idle_task_exit",
}
"""Linux's functions that residency has a say in, and those they are inlined in."""


def own_functions() -> set[str]:
    """The functions that residency defines: in its header, and in context.c."""
    sections = (s for patch in bases.load_base().features[LOCAL].patches for s in sections_of(patch.diff()))
    own = [section for section in sections if name_of(section).endswith(("/tlb_residency.h", "/mm/context.c"))]
    text = "".join(line[1:] for section in own for line in section.splitlines(True) if line[0] == "+")
    return set(re.findall(r"(?m)^(?:[a-z][\w *]*[ *])?(\w+)\([^;{]*?\)\n\{", text))


def of_residency(report: console.Report) -> bool:
    """Is it KCSAN's, of a race in a hook, or in what residency does or calls? ``data-race in f.isra.0 / g+0x4/0x8``."""
    _, race, places = report.title.partition("race in ")
    racing = {place.group() for name in places.split(" / ") if (place := re.match(r"\w+", name))}
    # What an interrupt came in between has no part in it.
    stacks = (re.split(r"(?m)^ (?:call_on_irq_stack|el1_interrupt)\+", stack)[0] for stack in report.text.split("\n\n"))
    callers = {name for stack in stacks for name in re.findall(r"(?m)^ (\w+)\S*\+0x", stack)}
    # One CPU, preempted half way, meets itself: __switch_to() reads the flags of a task that was changing them.
    # What residency has of a CPU is its own functions' affair.
    hooked = racing & HOOKED and len(set(re.findall(r"by (?:task \d+|interrupt) on cpu (\d+)", report.text))) != 1
    return bool(race and (hooked or (racing | callers) & own_functions()))
