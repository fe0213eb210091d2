# SPDX-License-Identifier: GPL-2.0-only
"""What lull bench needs of a real Lull kernel: switches that it can read and set, and programs' results in a file."""

from __future__ import annotations

import json
from pathlib import Path

from support import Tool, common

from lull import base as bases
from lull_contrib.day import native


def test_a_real_kernel_and_arm64_programs(real: Tool, tmp_path: Path) -> None:
    """The switches of a Lull kernel are read as they are, root may set them, and a file takes what programs report."""
    script = """
        export LULL_RESULTS=/tmp/results LULL_JOB=1
        : >$LULL_RESULTS
        fork_exec loops=2 && cat $LULL_RESULTS
        cd /sys/kernel/mm/lull && echo sync >young && grep . *
    """
    done = real("boot", *common(), "--kernel", "lull", "--vcpus", "2", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    window, *lines = done.stdout.splitlines()
    assert json.loads(window)["operations"] == 2
    for name, _, text in (line.partition(":") for line in lines):
        (tmp_path / name).write_text(text + "\n")
    switches = native.Switches(bases.load_base(), tmp_path)
    assert switches.found == {**bases.load_base().default_policies(), "young": "sync"}
