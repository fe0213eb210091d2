# SPDX-License-Identifier: GPL-2.0-only
"""tests/residency_races.py tells reports of data races in residency from others."""

from __future__ import annotations

from residency_races import of_residency, own_functions

from lull.guest import console


def test_what_is_of_residency() -> None:
    """Its functions are found in its files, and in KCSAN's reports."""
    own = own_functions()
    assert own >= {"residency_load", "__residency_flush", "res_leave", "residency_flush", "res_is_loaded"}
    assert not own & {"if", "while", "switch"}
    race = "BUG: KCSAN: data-race in "
    for title in ("res_leave.isra.0 / schedule", "schedule / res_leave", "res_leave+0x4/0x8", "do_idle / __switch_to"):
        assert of_residency(console.Report(race + title, race + title)), title
    inside = "read to 0xffff of 8 bytes by task 1 on cpu 0:\n {}+0x48/0xf4\n {}+0x4/0x8\n ret_to_user+0x4/0x8"
    assert of_residency(console.Report(race + "_find_next_bit", inside.format("_find_next_bit", "__residency_flush")))
    assert not of_residency(console.Report(race + "_find_next_bit", inside.format("_find_next_bit", "do_idle")))
    interrupt = inside.format("_find_next_bit", "call_on_irq_stack+0x30/0x64\n el1_interrupt+0x4/0x8\n res_leave")
    assert not of_residency(console.Report(race + "_find_next_bit", f"{interrupt}\n\n{inside.format('f', 'g')}"))
    twice = "read to 0xffff by task 1 on cpu 0:\n {}+0x4/0x8\n\nwrite to 0xffff by task 2 on cpu {}:\n f+0x4/0x8"
    for reader, cpu, ours in (("__switch_to", 0, False), ("__switch_to", 1, True), ("__residency_flush", 0, True)):
        assert of_residency(console.Report(f"{race}{reader} / f", twice.format(reader, cpu))) == ours, (reader, cpu)
    assert not of_residency(console.Report("WARNING: CPU: 0 PID: 1 at res_leave", ""))
