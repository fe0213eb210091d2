# SPDX-License-Identifier: GPL-2.0-only
"""kernel/lab: kernel, tool and note say the same of the mutants, and the kernel does what it says."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import REAL_CACHE, Tool, lab_under_test

from lull import base as bases
from lull import plan
from lull.check import data as check_data

BASE = bases.load()
FOLDER = BASE.features["lab"].folder
MUTANTS = check_data.load_mutants(BASE.mutants)
MARKERS = {0xD503201F | number << 5 for number in (114, 115, 116, 118, 119, 120)}


def test_mutants_are_the_same_everywhere() -> None:
    """In the kernel, in the file for the tool, and in the note."""
    source = (FOLDER / "files/arch/arm64/mm/lull/lab.c").read_text()
    names = re.findall(r'\[LULL_\w+\]\s*= "([a-z-]+)"', source)
    assert names[0] == "none"
    assert sorted(MUTANTS) == sorted(names[1:])
    assert len(MUTANTS) >= 15
    note = (FOLDER / "NOTE.md").read_text()
    assert re.findall(r"(?m)^\| ([a-z]+-[a-z-]+) \|", note) == list(names[1:])


def test_each_mutant_has_its_workload() -> None:
    """What shows it is there, and runs only when it is asked for."""
    workloads = plan.load_workloads(BASE.workloads)
    for mutant in MUTANTS.values():
        assert mutant.workload in workloads, mutant.name
        assert not workloads[mutant.workload].default, mutant.name


@pytest.mark.guest
class TestKernel:
    """The kernel itself."""

    @pytest.fixture(autouse=True)
    def real_cache(self, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
        """Kernels are built into, and taken from, the user's cache."""
        monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))

    def test_markers_are_in_its_image(self) -> None:
        """All six; test_guest.py sees that no production image has one."""
        data = lab_under_test().kernel("lab").image.read_bytes()
        assert set(struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])) >= MARKERS

    @pytest.fixture
    def booted(self, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        """Boots it with parameters, to run a program; with --offline and --tree as 'lull test' was given them."""
        lab = lab_under_test()
        common = [*(["--offline"] if lab.offline else []), *(["--tree", str(lab.user_tree)] if lab.user_tree else [])]
        tool = Tool(REAL_CACHE, tmp_path, {**os.environ, "LULL_CACHE": str(REAL_CACHE)})

        def boot(append: str, *program: str) -> subprocess.CompletedProcess[str]:
            return tool("boot", *common, "--kernel", "lab", "--append", append, "--", *program, timeout=900)

        return boot

    @pytest.mark.parametrize(("append", "shown"), [("", "none"), ("lull_mutant=page-first", "page-first")])
    def test_sysfs_shows_the_mutant(
        self, booted: Callable[..., subprocess.CompletedProcess[str]], append: str, shown: str
    ) -> None:
        """So that a test knows which it has."""
        done = booted(append, "cat", "/sys/kernel/mm/lull/mutant")
        assert done.returncode == 0, done.stderr
        assert f"[{shown}]" in done.stdout

    def test_an_unknown_mutant_is_no_boot(self, booted: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        """A test must not go on with a kernel that is not broken."""
        done = booted("lull_mutant=page-nine", "true")
        assert done.returncode not in (0, 1)
        assert "lull_mutant=page-nine: no such mutant" in done.stderr

    def test_asids_of_8_bits(self, booted: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        """As many as there are numbers."""
        assert "ASID allocator initialised with 256 entries" in booted("lull_asid_bits=8", "dmesg").stdout
