# SPDX-License-Identifier: GPL-2.0-only
"""Paths and commands of the checker's tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support import REPOSITORY

HERE = REPOSITORY / "checker/tests"
CHECKER = REPOSITORY / "checker"
CROSS = "aarch64-linux-gnu-"


def run(*command: str | Path, text: str = "") -> str:
    """Run a command that must succeed; its output."""
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Talk:
    """A program that answers each line with a line: thousands of questions in one process."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )

    def ask(self, *words: str | int) -> list[str]:
        """Numbers go in hexadecimal; the words of the answer."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.write(" ".join(w if isinstance(w, str) else f"{w:x}" for w in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.split()

    def close(self) -> None:
        """It ends when there are no more lines; a sanitizer may have something to say then."""
        _, errors = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, errors
