# SPDX-License-Identifier: GPL-2.0-only
"""What a console says, on logs of real boots (tests/data)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull.console import judge

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("log", "kind", "detail"),
    [
        ("panic-no-root.log", "panic", "VFS: Unable to mount root fs"),
        ("oom.log", "oom", "Out of memory: Killed process 51 (tail)"),
    ],
)
def test_real_logs(log: str, kind: str, detail: str) -> None:
    """The kind, the telling line without its time stamp, and lines around it."""
    verdict = judge((DATA / log).read_text(errors="replace"))
    assert verdict.kind == kind
    assert verdict.detail.startswith(detail)
    assert detail in verdict.excerpt
    assert len(verdict.excerpt.splitlines()) <= 12


def test_the_kernel_command_line_is_no_panic() -> None:
    """'panic=-1 oops=panic' stands in every log."""
    text = (DATA / "oom.log").read_text(errors="replace")
    fine = "\n".join(line for line in text.splitlines() if "Out of memory" not in line and "oom" not in line.lower())
    assert judge(fine).kind == "fine"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Unable to handle kernel paging request at virtual address ffff", "panic"),
        ("Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP", "panic"),
        ("kernel BUG at mm/rmap.c:123!", "panic"),
        ("Kernel panic - not syncing: System is deadlocked on memory", "oom"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "stall"),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", "stall"),
        ("", "fine"),
    ],
)
def test_lines(line: str, kind: str) -> None:
    """Each with the stamps printk may put before it."""
    for stamp in ("", "[   12.345678] ", "[   12.345678][   T42] "):
        assert judge(f"[    0.0] before\n{stamp}{line}\r\nafter\n").kind == kind
