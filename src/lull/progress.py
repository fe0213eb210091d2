# SPDX-License-Identifier: GPL-2.0-only
"""What is being done, and for how long: a live line on a terminal, plain lines elsewhere, on stderr; and results."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

PLAIN_INTERVAL = 30.0
"""Seconds between two plain lines of one long step when there is no terminal."""


def clock(seconds: float) -> str:
    """Seconds as people write them: ``7 s`` or ``3:07``."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02d}"


@functools.cache
def console() -> Console:
    """rich's console on standard error. Raises ImportError for the commands that need Python alone."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def live() -> Console | None:
    """The console, if it can show a line that changes; a dumb terminal (an editor's) cannot, and rich would show none.

    It is for progress and messages; standard output is for results.
    """
    with contextlib.suppress(ImportError):
        if sys.stderr.isatty() and not console().is_dumb_terminal:
            return console()
    return None


class Step:
    """One step under way; ``update`` says how far it is.

    Args:
        title: what is done.
        status: the live line on a terminal.
        plain: without a live line, say so now and then.
    """

    def __init__(self, title: str, status: Status | None = None, *, plain: bool = True) -> None:
        self.title = title
        self.status = status
        self.plain = plain
        self.started = time.monotonic()
        self.shown = self.started
        self.note = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def update(self, note: str) -> None:
        """Show ``note`` beside the title and the time; cheap enough to call often."""
        self.note = note
        now = time.monotonic()
        if self.status:
            from rich.markup import escape

            self.status.update(f"{escape(self.title)}  {clock(self.elapsed)}  [dim]{escape(note)}[/dim]")
        elif self.plain and now - self.shown >= PLAIN_INTERVAL:
            self.shown = now
            say(f"{self.title}  {clock(self.elapsed)}  {note}")


class Progress:
    """Shows the steps of a command. ``quiet`` shows none of them."""

    def __init__(self) -> None:
        self.quiet = False

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Run the body as one step; its end is shown with the time it took."""
        if self.quiet:
            yield Step(title, plain=False)
            return
        if shown := live():
            from rich.markup import escape

            with shown.status(escape(title)) as status:
                step = Step(title, status)
                yield step
        else:
            say(f"{title} ...")
            step = Step(title)
            yield step
        note = f"  {step.note}" if step.note else ""
        say(f"{title}: done in {clock(step.elapsed)}{note}")


def say(text: str) -> None:
    """A line for people, as it is (no markup)."""
    if shown := live():
        shown.print(text, markup=False, soft_wrap=True)
    else:
        print(text, file=sys.stderr)


progress = Progress()


def print_result(lines: Iterable[str], data: object, *, as_json: bool) -> int:
    """Print ``lines`` for people, or ``data`` as JSON, on standard output. Returns 0, the status of such a command."""
    print(json.dumps(data, indent=1) if as_json else "\n".join(lines))
    return 0
