# SPDX-License-Identifier: GPL-2.0-only
"""What tests of several files use."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lull import cache, qemu
from lull.fetch import Store
from lull.lab import Lab

REPOSITORY = Path(__file__).resolve().parents[1]
FAKE = REPOSITORY / "tests/fake"
SUMMARY: list[str] = []
"""What tests found that is worth a line at the end (conftest.py prints it)."""
REAL_CACHE = cache.root()
"""The user's cache: named here before any test replaces it."""


def real_qemu() -> qemu.Qemu:
    """The QEMU the lab would use here: the machine's, or the private copy of the real cache."""
    machine = qemu.of_machine()
    if machine and qemu.fits(machine):
        return machine
    store = Store(offline=True)
    store.index = REAL_CACHE / "fetched.json"
    found = store.known("qemu")
    if found is None:
        pytest.skip("no QEMU 10.x here ('./lull fetch' brings one)")
    return qemu.probe(found.path / qemu.PROGRAM)


def lab_under_test() -> Lab:
    """The lab that 'lull test' was asked to test: its --offline and --tree."""
    tree = os.environ.get("LULL_TEST_TREE")
    return Lab(user_tree=Path(tree) if tree else None, offline=bool(os.environ.get("LULL_TEST_OFFLINE")))


@dataclass
class Tool:
    """Runs the tool as a user does: another process, its own cache, the fake base."""

    cache: Path
    cwd: Path
    environment: dict[str, str]

    def command(self, *words: str) -> list[str]:
        """The command line."""
        return [sys.executable, str(REPOSITORY / "src"), *words]

    def __call__(self, *words: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*words),
            cwd=self.cwd,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.cwd,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
