# SPDX-License-Identifier: GPL-2.0-only
"""guest/hvo_hammer.c on the host: options that it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support import host_program


def test_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    """Before anything is changed: it would change the host's pools."""
    program = host_program("hvo_hammer", tmp_path)
    done = subprocess.run([program, "second=1"], capture_output=True, text=True)
    assert done.returncode == 2 and "unknown option" in done.stderr
    done = subprocess.run([program, "actors=walk,pool"], capture_output=True, text=True)
    assert done.returncode == 2 and "walk, pools, hold, churn, blocks, take, peek, recycle and hog" in done.stderr
    done = subprocess.run([program, "until=walked,moves"], capture_output=True, text=True)
    assert done.returncode == 2 and "until=walked,moves" in done.stderr
