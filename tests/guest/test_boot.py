# SPDX-License-Identifier: GPL-2.0-only
"""lull boot on real kernels: status, output, policies, parameters, and a panic."""

from __future__ import annotations

from support import AGING, Tool


def test_boot_runs_a_program_and_returns_its_status(real: Tool) -> None:
    """The guest's exit code is the tool's, its output is on standard output, policies are set."""
    script = f"cat /sys/kernel/mm/lull/{AGING}; exit 7"
    done = real("boot", "--kernel", f"lull+{AGING}=none", "--vcpus", "2", "--", "sh", "-c", script)
    assert done.returncode == 7, done.stderr
    assert "[none]" in done.stdout


def test_boot_parameter(real: Tool) -> None:
    """aging_tlbi= on the kernel's command line; an unknown value leaves the default."""
    show = ["--vcpus", "1", "--", "cat", f"/sys/kernel/mm/lull/{AGING}"]
    assert "[none]" in real("boot", "--append", "aging_tlbi=off", *show).stdout
    assert "[nosync]" in real("boot", "--append", "aging_tlbi=maybe", *show).stdout


def test_no_disk_with_debians_programs(real: Tool) -> None:
    """A program of Debian's is skipped, and the console says why."""
    done = real("boot", "--kernel", "stock", "--vcpus", "1", "--", "debian", "true")
    assert done.returncode == 77, done.stdout + done.stderr
    assert "skipped: this kernel has not mounted the disk" in done.stdout


def test_a_program_of_ones_own(real: Tool) -> None:
    """A C file as its author wrote it, with arguments; in a check it is a workload."""
    source = real.cwd / "own.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <stdio.h>\nint main(int n, char **v) { return puts(v[n - 1]) < 0; }\n"
    )
    done = real("boot", "--kernel", "stock", "--vcpus", "1", "--program", str(source), "one", "--", "-two")
    assert (done.returncode, done.stdout) == (0, "-two\n"), done.stderr
    done = real("check", "--kernel", "stock", "--vcpus", "1", "--program", str(source), "one")
    assert done.returncode == 0 and "boot 1: own.c\nverdict: passed: " in done.stdout, done.stdout + done.stderr


def test_a_real_panic_is_told(real: Tool) -> None:
    """An init that ends: exit 4 and the kernel's own words."""
    done = real("boot", "--kernel", "stock", "--vcpus", "1", "--append", "rdinit=/bin/false", "--", "true")
    assert done.returncode == 4, done.stderr
    assert "Attempted to kill init" in done.stderr
