# SPDX-License-Identifier: GPL-2.0-only
"""The plugin's lines: read, with what only the last of them says."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from lull.check import plugin_output
from lull.errors import GuestGarbage

CHECK = DATA / "check"


def sample() -> plugin_output.PluginOutput:
    """The sample's reports."""
    return plugin_output.read_reports([CHECK / "reports.jsonl"])


def test_the_text_of_reports() -> None:
    """As tests/data/check/reports.log has it."""
    text = "\n".join(line for report in sample().reports for line in plugin_output.lines(report)) + "\n"
    assert text == (CHECK / "reports.log").read_text()


def test_counts_of_repeated_reports_come_last() -> None:
    """A report is written when it is first seen; how often it was, at the end."""
    output = sample()
    assert [r["count"] for r in output.reports] == [17, 1]
    assert output.reports[0]["changed"]["functions"][:2] == ["ptep_clear_flush", "do_wp_page"]
    assert plugin_output.unseen(output.end) == ""


def test_a_killed_qemu(tmp_path: Path) -> None:
    """Half a last line is nobody's fault, and there is no verdict."""
    path = tmp_path / "reports.jsonl"
    lines = (CHECK / "reports.jsonl").read_bytes().splitlines()
    path.write_bytes(lines[0] + b"\n" + lines[1] + b"\n" + lines[2][:40])
    output = plugin_output.read_reports([path])
    assert len(output.reports) == 1 and output.end is None
    assert "no verdict" in plugin_output.unseen(output.end)


NO_TEXT = '{"report":1,"rule":"a","kind":"b"}'
NO_NUMBER = '{"report":"x","rule":"a","kind":"b","text":["a"]}'


@pytest.mark.parametrize("line", ["what", "[]", "7", '{"report":1}', NO_TEXT, NO_NUMBER, "\udcff"])
def test_garbage_is_named(tmp_path: Path, line: str) -> None:
    """Anything else stops the check."""
    path = tmp_path / "reports.jsonl"
    path.write_bytes(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(GuestGarbage, match="the plugin wrote"):
        plugin_output.read_reports([path])


JSON = st.recursive(st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c))


@given(st.dictionaries(st.sampled_from(["report", "rule", "kind", "text", "verdict", "by", "error", "seen"]), JSON))
def test_any_line(tmp_path_factory: pytest.TempPathFactory, message: dict[str, object]) -> None:
    """Read, or refused as garbage."""
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_text(json.dumps(message) + "\n")
    with contextlib.suppress(GuestGarbage):
        plugin_output.read_reports([path])


def test_unseen() -> None:
    """In the plugin's words, also beside reports; nothing if it saw everything."""
    end = {"verdict": "reports", "text": "it did not see frees of pages", "unseen": ["frees"]}
    assert plugin_output.unseen(end) == "it did not see frees of pages"
    assert plugin_output.unseen({**end, "unseen": []}) == ""


def test_what_is_not_checked(tmp_path: Path) -> None:
    """The rules that are not checked, and the symbol that is missing."""
    path = tmp_path / "reports.jsonl"
    lines = [{"unchecked": [{"rule": "pending/rmap", "symbol": "tlb_flush_rmaps"}]}, {"slide": "0x10000"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert plugin_output.read_reports([path]).unchecked == ["pending/rmap (no tlb_flush_rmaps)"]


def test_what_the_kernel_reports_itself() -> None:
    """Numbered behind the plugin's, in its own words; a busy host makes every kernel wait."""
    waits = [
        "watchdog: BUG: soft lockup - CPU#0 stuck for 49s! [swapper/0:0]",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    ]
    lines = [*waits, "BUG: Bad page state in process sh  pfn:48f2a", "Call trace:"]
    (found,) = plugin_output.of_console("".join(f"[    1.000000] {line}\n" for line in lines), 2)
    assert plugin_output.lines(found) == [f"report 3: console/BUG: {lines[-2]}", "  Call trace:"]
