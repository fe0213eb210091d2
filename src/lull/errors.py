# SPDX-License-Identifier: GPL-2.0-only
"""Errors that a user can act on: what happened, where, and what to do. Each kind has an exit code of its own.

Exit code 0 means that all checks passed, 1 that something measured or tested fell short; EXIT_CODES has the others. An
exception of another type is a defect of the tool: its traceback goes to the log, and the exit code is 70 (EX_SOFTWARE
of sysexits.h).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import ClassVar

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What it raises to read JSON of another program that is not as expected: no JSON, other types, numbers without end."""


class LullError(Exception):
    """The lab itself failed. The other errors are subclasses.

    Args:
        what: what went wrong, in one sentence.
        where: the file or command that it concerns.
        remedy: what the user can do about it.
        tail: the last lines of a log, printed unchanged.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str = "", remedy: str = "", tail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.tail = tail

    def text(self) -> str:
        """The message as printed: a line for what happened, the tail, a line for where, and a line for the remedy."""
        lines = [f"lull: {self.what}"]
        if self.tail:
            lines += [f"  | {line}" for line in self.tail.rstrip().splitlines()]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.remedy:
            lines.append(f"  to do: {self.remedy}")
        return "\n".join(lines)


class UsageError(LullError):
    """The command line, or a file that the user named, asks for something that does not exist or does not fit."""

    exit_code = 2


class MissingError(LullError):
    """A program or package that the lab needs is not installed."""


class BuildError(LullError):
    """A compiler, make or Kconfig failed. Its log is kept."""


class GuestPanic(LullError):
    """The guest kernel panicked or oopsed."""

    exit_code = 4


class GuestHang(LullError):
    """The guest exceeded a time limit."""

    exit_code = 5


class GuestGarbage(LullError):
    """The guest wrote something that its protocol does not allow, or ended without a report."""

    exit_code = 6


class FetchError(LullError):
    """A download failed or was incomplete, or its hash differs from that of the signed index."""

    exit_code = 7


class DiskFull(LullError):
    """The file system of the cache or of the results is full."""

    exit_code = 8


class ApplyError(LullError):
    """The changes of a feature do not apply to this kernel tree."""

    exit_code = 9


INTERRUPTED = 130
DEFECT = 70


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: says the nearest, or, where none is near, all that are known."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    remedy = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return UsageError(f"unknown {kind} '{name}'", remedy=remedy)


def require_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise UsageError for the first of ``names`` that is not among those ``known``."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


EXIT_CODES: dict[int, str] = {
    0: "everything passed",
    1: "something measured or tested fell short",
    2: "usage: the command line asks for something that does not exist",
    3: "the lab itself failed: a missing package, a build error",
    4: "the guest kernel panicked",
    5: "the guest hung: no progress within its time limit",
    6: "the guest broke its protocol: garbage, or an end without a report",
    7: "a download failed or did not have the announced hash",
    8: "disk full",
    9: "a feature does not apply to this kernel tree",
    DEFECT: "a defect of the tool",
    INTERRUPTED: "interrupted; the next run resumes",
}
