# SPDX-License-Identifier: GPL-2.0-only
"""Debian's programs on the guest's disk run in a guest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import REAL_CACHE, lab_under_test

from lull.guest.qemu import Machine
from lull.guest.runner import launch_retrying
from lull.process import shown

pytestmark = pytest.mark.whole

CHECKS = {
    "sh": ("readlink /proc/$$/exe", "/usr/bin/dash"),
    "python": ("python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'", "[1, 2]"),
    "gcc": (
        "cd /tmp; echo 'int puts(const char *); int main() { return puts(\"built\") < 0; }' >a.c; gcc a.c && ./a.out",
        "built",
    ),
    "redis": ("redis-server --version | cut -c1-12", "Redis server"),
    "stress-ng": ("stress-ng --version | cut -c1-9", "stress-ng"),
    "make": ("cd /usr/src/lull/lua && make -n none 2>&1 | grep -c skew", "0"),
    "su": ("su -s /bin/sh nobody -c 'id -un; touch /root/x 2>/dev/null || echo may not'", "nobody\nmay not"),
    "sudo": ("sudo -u nobody id -un", "nobody"),
    "fd": ("bash -c 'cat <(echo substituted)'", "substituted"),
    "tar": ("tar --version | head -n1 | cut -c1-9", "tar (GNU "),
    "tcmalloc": ("tcmalloc.sh /tmp/lh && /tmp/lh >/tmp/said && echo fine", "fine"),
}


def test_debians_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the stock kernel: each does something, whose outcome is known."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
    lab = lab_under_test()
    lab.suite_name = "real"
    script = "\n".join(f"echo 'begin {name}'; {command}; echo end" for name, (command, _) in CHECKS.items())
    job = f"program {shown(['debian', 'sh', '-c', script])}\n"
    booted = lab.guest("stock", Machine(), count=False)
    launch_retrying(booted, job, tmp_path / "boot", job_seconds=lambda n: 300, tell=print, say=print)
    console = (tmp_path / "boot/console.log").read_text(errors="replace").replace("\r\n", "\n")
    said = dict(re.findall(r"(?s)begin (\S+)\n(.*?)\nend$", console, re.MULTILINE))
    assert said == {name: expected for name, (_, expected) in CHECKS.items()}
