# SPDX-License-Identifier: GPL-2.0-only
"""What a console says, on logs of real boots (tests/data)."""

from __future__ import annotations

import pytest
from support import DATA

from lull.guest.console import diagnose, reports


@pytest.mark.parametrize(
    ("log", "kind", "detail"),
    [
        ("panic-no-root.log", "panic", "VFS: Unable to mount root fs"),
        ("oom.log", "oom", "Out of memory: Killed process 51 (tail)"),
    ],
)
def test_real_logs(log: str, kind: str, detail: str) -> None:
    """The kind, the telling line without its time stamp, and lines around it."""
    verdict = diagnose((DATA / log).read_text(errors="replace"))
    assert verdict.kind == kind
    assert verdict.detail.startswith(detail)
    assert detail in verdict.excerpt
    assert len(verdict.excerpt.splitlines()) <= 12


def test_the_kernel_command_line_is_no_panic() -> None:
    """'panic=-1 oops=panic' stands in every log."""
    text = (DATA / "oom.log").read_text(errors="replace")
    fine = "\n".join(line for line in text.splitlines() if "Out of memory" not in line and "oom" not in line.lower())
    assert diagnose(fine).kind == "fine"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Unable to handle kernel paging request at virtual address ffff", "panic"),
        ("Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP", "panic"),
        ("kernel BUG at mm/rmap.c:123!", "panic"),
        ("Unable to handle kernel write to read-only memory at virtual address ffff", "panic"),
        ("Kernel panic - not syncing: System is deadlocked on memory", "oom"),
        ("Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled", "oom"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "stall"),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", "stall"),
        ("", "fine"),
    ],
)
def test_lines(line: str, kind: str) -> None:
    """Each with the stamps printk may put before it."""
    for stamp in ("", "[   12.345678] ", "[   12.345678][   T42] "):
        assert diagnose(f"[    0.0] before\n{stamp}{line}\r\nafter\n").kind == kind


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 1 PID: 80 at arch/arm64/mm/context.c:215 check_and_switch_context+0x1c/0x2c0",
        "WARNING: possible circular locking dependency detected",
        "WARNING: suspicious RCU usage",
        "[ BUG: Invalid wait context ]",
        "BUG: KASAN: slab-use-after-free in residency_load+0x20/0x1d0",
        "BUG: KCSAN: data-race in residency_load / res_pin",
        "BUG: sleeping function called from invalid context at mm/vmalloc.c:3406",
        "BUG: using __this_cpu_read() in preemptible [00000000] code: sh/61",
        "BUG: Bad page state in process mm_storm  pfn:48f2a",
        "BUG: Bad rss-counter state mm:00000000d4a3d40e type:MM_ANONPAGES val:1",
        "BUG kmalloc-64 (Not tainted): Right Redzone overwritten",
        "BUG: MAX_LOCKDEP_CHAINS too low!",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [mm_storm:80]",
        "kernel BUG at mm/page_table_check.c:118!",
        "INFO: task mm_storm:80 blocked for more than 122 seconds.",
        "INFO: trying to register non-static key.",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... } 5 jiffies s: 9 root: 0x2/.",
        "pagealloc: memory corruption",
        "Unable to handle kernel paging request at virtual address ffff",
        "Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP",
        "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000",
    ],
)
def test_a_report(line: str) -> None:
    """What counts as one, with the stamps printk may put before it, and the lines that belong to it."""
    for stamp in ("[   12.345678] ", "[   12.345678][   T42] "):
        (found,) = reports(f"[    0.000000] before\n{stamp}{line}\r\n{stamp}Call trace:\r\n{stamp} f+0x4/0x8\r\n")
        assert found.title == line
        assert found.kind and found.kind in line
        assert found.text.splitlines()[1:] == ["Call trace:", " f+0x4/0x8"]


def test_what_programs_say_is_no_report() -> None:
    """Only the kernel stamps its lines; one of a program may have no end yet."""
    (found,) = reports("WARNING: overcommit_memory is 0\nhalf a line[    1.000000] BUG: Bad page state\nBUG: mine\n")
    assert (found.title, found.kind, found.text) == ("BUG: Bad page state", "BUG", "BUG: Bad page state")


def test_reports_are_told_apart() -> None:
    """One begins where the one before it ends."""
    lines = ("BUG: KASAN: one", " one's line", "later", "WARNING: CPU: 0 two", " two's line")
    found = reports("".join(f"[    1.000000] {line}\n" for line in lines))
    assert [r.text for r in found] == ["BUG: KASAN: one\n one's line\nlater", "WARNING: CPU: 0 two\n two's line"]


@pytest.mark.parametrize(
    ("log", "titles"),
    [
        ("kunit.log", []),
        ("oom.log", []),
        ("panic-no-root.log", ["Kernel panic - not syncing"]),
        (
            "hot-unplug.log",
            [
                "Unable to handle kernel NULL pointer dereference at virtual address 00000000000003d8",
                "Internal error",
                "Kernel panic - not syncing",
            ],
        ),
    ],
)
def test_reports_of_real_logs(log: str, titles: list[str]) -> None:
    """A kernel that boots, and says what it supports and was told, reports nothing; one that crashes does."""
    found = reports((DATA / log).read_text(errors="replace"))
    assert [r.title.partition(":")[0] for r in found] == titles
    assert not found or found[0].text.startswith(found[0].title)
