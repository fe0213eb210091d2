# SPDX-License-Identifier: GPL-2.0-only
"""Progress: live on a terminal, lines elsewhere, nothing when quiet; colours only where they are wanted."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from support import REPOSITORY, Tool

from lull import progress

WORK = """
from lull.progress import progress, say
with progress.step("building [stock]") as step:
    step.update("file [a.c]")
say("a message")
print("the result")
"""


def on_a_terminal(**environment: str) -> str:
    """What WORK writes to a terminal."""
    ours, theirs = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    path = {"PYTHONPATH": ":".join([str(REPOSITORY / "src"), *sys.path[1:]]), "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdout=theirs, stderr=theirs, env={**base, **path, **environment}
    ):
        os.close(theirs)
        text = b""
        while True:
            try:
                text += (data := os.read(ours, 4096))
            except OSError:  # the other side is closed
                data = b""
            if not data:
                break
    os.close(ours)
    return text.decode()


COLOUR = "\x1b[3"


def test_a_terminal_has_a_live_line() -> None:
    """It moves, it is coloured; brackets in names are no markup; the end is said."""
    text = on_a_terminal()
    assert COLOUR in text and "\x1b[2K" in text
    assert "building [stock]" in text
    assert "building [stock]: done in 0 s  file [a.c]\r\n" in text
    assert text.endswith("a message\r\nthe result\r\n")


def test_no_color() -> None:
    """Nothing is coloured."""
    assert COLOUR not in on_a_terminal(NO_COLOR="1")


def test_a_dumb_terminal_has_lines() -> None:
    """Those of a file, without an escape."""
    text = on_a_terminal(TERM="dumb")
    assert "\x1b" not in text
    assert text.startswith("building [stock] ...\r\nbuilding [stock]: done in 0 s  file [a.c]\r\n")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_long_step_off_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    """A line now and then, none when quiet."""
    shown = progress.Progress()
    shown.quiet = quiet
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)
    with shown.step("building") as step:
        step.update("half")
    lines = ["building ...", "building  0 s  half", "building: done in 0 s  half"]
    assert capsys.readouterr().err.splitlines() == ([] if quiet else lines)


@pytest.mark.parametrize(
    "command", [["doctor"], ["run", "--dry-run"], ["check", "--dry-run"], ["soak", "--dry-run"], ["man"]]
)
def test_off_a_terminal_there_are_no_escapes(tool: Tool, command: list[str]) -> None:
    """Neither where results go nor where messages go, also with colours forced on nobody."""
    done = tool(*command, TERM="xterm-256color")
    assert done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
