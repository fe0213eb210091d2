# SPDX-License-Identifier: GPL-2.0-only
"""Errors a user can act on: what happened, where, what to do; each kind with its own exit code.

0 held, 1 something measured or tested fell short, and the codes below. Anything else that escapes is a
defect of the tool and ends with a traceback in the log and exit code 70 (sysexits' EX_SOFTWARE).
"""

from __future__ import annotations

from typing import ClassVar


class LullError(Exception):
    """The lab itself failed.

    Args:
        what: what went wrong, one sentence.
        where: the file, command or place it concerns.
        remedy: what the user can do about it.
        tail: last lines of a log, shown as they are.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str = "", remedy: str = "", tail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.tail = tail

    def text(self) -> str:
        """The message for people: one line for what, one each for where and the remedy, then the tail."""
        lines = [f"lull: {self.what}"]
        if self.tail:
            lines += [f"  | {line}" for line in self.tail.rstrip().splitlines()]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.remedy:
            lines.append(f"  to do: {self.remedy}")
        return "\n".join(lines)


class UsageError(LullError):
    """The command line, or a file the user gave, asks for something that does not exist or fit."""

    exit_code = 2


class MissingError(LullError):
    """A program or package this needs is not on the machine."""

    exit_code = 3


class BuildError(LullError):
    """A compiler, make or Kconfig failed; the log is kept."""

    exit_code = 3


class GuestPanic(LullError):
    """The guest kernel panicked or oopsed."""

    exit_code = 4


class GuestHang(LullError):
    """The guest made no progress within its time limit."""

    exit_code = 5


class GuestGarbage(LullError):
    """The guest ended, or said something, that its protocol does not allow."""

    exit_code = 6


class FetchError(LullError):
    """A download failed, was cut short or did not have the announced hash."""

    exit_code = 7


class DiskFull(LullError):
    """No space left where the cache or the results live."""

    exit_code = 8


class ApplyError(LullError):
    """A feature does not apply to this kernel tree."""

    exit_code = 9


INTERRUPTED = 130
DEFECT = 70
EXIT_CODES: dict[int, str] = {
    0: "everything held",
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
