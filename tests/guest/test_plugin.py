# SPDX-License-Identifier: GPL-2.0-only
"""The plugin under a booting Linux: events that the bare-metal programs do not cause."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lull.guest.qemu import Qemu
from lull.lab import Lab


def test_segments_count_every_instruction(build: Callable[[str], Path], qemu: Qemu, lab: Lab, tmp_path: Path) -> None:
    """Two copies of the plugin in one boot, adding in segments and at each instruction, agree.

    The kernel finds no root file system and panics, which ends QEMU: two hundred million instructions,
    with faults, interrupts, device memory, self-modifying code and four vCPUs.
    """
    plugin = build(qemu.plugin)
    command = [
        str(qemu.program), "-M", "virt,gic-version=3", "-cpu", "max", "-smp", "4", "-m", "512", "-nic", "none",
        "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot",
        "-kernel", str(lab.kernel("stock").image), "-append", "console=ttyAMA0 panic=-1",
    ]  # fmt: skip
    outs = []
    for mode in ("segment", "each"):
        copy = shutil.copy(plugin, tmp_path / f"{mode}.so")  # QEMU loads one path once
        outs.append(tmp_path / mode)
        command += ["-plugin", f"{copy},out={outs[-1]},insns={mode}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "Unable to mount root fs" in done.stdout, done.stdout[-2000:]
    segment, each = ([json.loads(line) for line in out.read_text().splitlines()] for out in outs)
    assert segment == each
    whole = segment[-1]
    assert whole["window"] == "whole-run"
    assert all(cpu["insns"] > 1_000_000 for cpu in whole["cpus"])
    assert whole["total"]["tlbi_broadcast_kernel"] > 0
    assert whole["total"]["ipi"] > 0
