# SPDX-License-Identifier: GPL-2.0-only
"""The lab kernel: markers in its image, the mutant that it shows, and 8-bit ASIDs."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import REAL_CACHE, Tool, common, lab_under_test

MARKERS = {0xD503201F | number << 5 for number in (114, 115, 116, 119, 120)}


@pytest.mark.bases(whole=True)
class TestKernel:
    """The kernel itself."""

    def test_markers_are_in_its_image(self) -> None:
        """All five; test_images.py sees that no production image has one."""
        data = lab_under_test().kernel("lab").image.read_bytes()
        assert set(struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])) >= MARKERS

    @pytest.fixture
    def booted(self, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        """Boots it with parameters, to run a program."""
        tool = Tool(REAL_CACHE, tmp_path, {**os.environ, "LULL_CACHE": str(REAL_CACHE)})

        def boot(append: str, *program: str) -> subprocess.CompletedProcess[str]:
            return tool("boot", *common(), "--kernel", "lab", "--append", append, "--", *program, timeout=3600)

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
