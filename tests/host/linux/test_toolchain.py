# SPDX-License-Identifier: GPL-2.0-only
"""The machine's compiler, and how fast the machine is."""

from __future__ import annotations

import platform
import shutil
import time
from pathlib import Path

import pytest

from lull import eta, process
from lull.commands import doctor
from lull.guest import runner
from lull.linux import toolchain


def test_an_arm64_machine_uses_its_own_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """No prefix and no package of a cross compiler; elsewhere both."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name.endswith(toolchain.GCC) else name)
    monkeypatch.setattr(process, "output_of", lambda words: f"{words[0]} 14\n")
    found = {}
    for machine in ("aarch64", "x86_64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        packages = [r.package for r in doctor.requirements()]
        compiler = toolchain.find()
        found[machine] = (compiler.gcc, compiler.nm, [p for p in packages if "arm64" in p or "aarch64" in p])
    assert found["aarch64"] == ("gcc", "nm", [])
    cross = ["gcc-12-aarch64-linux-gnu", "libc6-dev-arm64-cross"]
    assert found["x86_64"] == ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-nm", cross)


@pytest.mark.parametrize("installed", [["gcc-12", "gcc"], ["gcc-12"], ["gcc"]])
def test_gcc_12_is_taken_where_it_is_installed(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the usual one. Either of them is enough, and no package is asked for."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    commands = [f"aarch64-linux-gnu-{name}" for name in installed]
    monkeypatch.setattr(shutil, "which", lambda name: name if name in commands else None)
    monkeypatch.setattr(process, "output_of", lambda words: f"{words[0]}\n")
    assert toolchain.find().gcc == toolchain.find().version == commands[0]
    assert not [r.package for r in doctor.requirements() if "gcc-12" in r.package and not r.present()]


def test_a_slow_machine_gets_longer_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ten times slower: ten times the limit, and the forecast; a faster machine keeps both."""
    monkeypatch.setattr(eta, "slowness", toolchain.slowness)
    seen = {}
    for factor in (10, 0.5):
        monkeypatch.setattr(toolchain, "sample", lambda factor=factor: factor * toolchain.SAMPLE_SECONDS)
        toolchain.slowness.cache_clear()
        follower = runner.Follower(tmp_path / "results", 1, lambda number: 1, lambda text: None)
        follower.event({"event": "ready", "kernel": "6.12"})
        limit = (follower.deadline - time.monotonic()) / runner.POWEROFF_SECONDS
        seen[factor] = (round(limit), round(eta.expected([eta.Part("never done", 7)])))
    toolchain.slowness.cache_clear()
    assert seen == {10: (10, 70), 0.5: (1, 7)}
