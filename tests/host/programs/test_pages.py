# SPDX-License-Identifier: GPL-2.0-only
"""The guest programs over a library that plays kernels with larger pages, or without huge pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import host_program

PROGRAMS = (
    "mm_storm",
    "batch_storm",
    "teardown",
    "calibrate",
    "hvo",
    "hvo_many",
    "hvo_surplus",
    "hvo_copy",
    "hvo_hammer",
)
KERNEL = """
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int getpagesize(void)
{
	return atoi(getenv("PAGES"));
}

int madvise(void *at, size_t size, int advice)
{
	if (getenv("NO_THP") && (advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE)) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_madvise, at, size, advice);
}
"""


MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a program, and prints its exit status and the KiB that it had at most."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs and the library."""
    made = tmp_path_factory.mktemp("pages")
    for name in PROGRAMS:
        host_program(name, made)
    (made / "kernel.c").write_text(KERNEL)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made / "kernel.so", made / "kernel.c"], check=True)
    return made


def play(folder: Path, kib: int, *command: str, **environment: str) -> CompletedProcess[str]:
    """Run a program of the folder that is told this size of pages."""
    environment = {**os.environ, "LD_PRELOAD": str(folder / "kernel.so"), "PAGES": str(kib << 10), **environment}
    return subprocess.run(
        [folder / command[0], *command[1:]], capture_output=True, text=True, timeout=120, env=environment
    )


def test_a_program_of_4_kib_pages_says_so(folder: Path) -> None:
    """Before it measures anything."""
    done = play(folder, 16, "calibrate")
    assert done.returncode == 77 and "pages of 4096 bytes are needed, and this kernel's have 16384" in done.stderr


@pytest.mark.parametrize("program", ["hvo", "hvo_many", "hvo_surplus", "hvo_copy", "hvo_hammer"])
def test_huge_pages_that_the_kernel_does_not_have(folder: Path, program: str) -> None:
    """What an entry of a PMD table maps follows from the size of pages. Nothing was changed."""
    done = play(folder, 1024, program)
    assert done.returncode == 77 and "this kernel has no HugeTLB pages of 134217728 KiB" in done.stderr


@pytest.mark.parametrize(
    ("kib", "status", "names"),
    [
        (4, 2, "anon-4k anon-32k anon-64k anon-2m file-4k file-2m"),
        (16, 77, "anon-16k anon-32k anon-64k anon-32m file-16k file-32m"),
        (64, 77, "anon-64k anon-32k anon-64k anon-512m file-64k file-512m"),
    ],
)
def test_kinds_of_folios_are_named_by_their_sizes(folder: Path, kib: int, status: int, names: str) -> None:
    """The smallest is a page, the largest what a PMD maps. A workload may name a case that only 4 KiB pages have."""
    done = play(folder, kib, "teardown", "case=other")
    assert done.returncode == status and done.stderr.endswith(f"with pages of {kib} KiB: {names}\n")


@pytest.mark.parametrize("kib", [4, 16, 64])
@pytest.mark.parametrize(
    ("program", "case"),
    [("mm_storm", "mremap"), ("mm_storm", "unmap_tables"), ("mm_storm", "passed"), ("batch_storm", "pieces")],
)
def test_cases_use_pages_and_not_whole_tables(folder: Path, kib: int, program: str, case: str) -> None:
    """A page table of 64 KiB pages maps 512 MiB."""
    environment = {**os.environ, "LD_PRELOAD": str(folder / "kernel.so"), "PAGES": str(kib << 10)}
    command = [folder / program, f"only={case}", "rounds=1"]
    # By a process of its own: a child inherits the most memory that its parent had before exec.
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, env=environment)
    status, most_kib = map(int, done.stdout.split()[-2:])
    assert status == 0
    assert most_kib < 128 << 10


@pytest.mark.parametrize(
    ("program", "case", "status"),
    [
        ("mm_storm", "mremap", 0),
        ("batch_storm", "nested", 0),
        ("mm_storm", "thp_split", 77),
        ("mm_storm", "thp_collapse", 77),
        ("batch_storm", "mixed", 77),
    ],
)
def test_kernels_without_huge_pages(folder: Path, program: str, case: str, status: int) -> None:
    """They refuse advice about huge pages: cases that need none run."""
    done = play(folder, 4, program, f"only={case}", "rounds=1", NO_THP="1")
    assert done.returncode == status, done.stderr
    assert status == 0 or "this kernel has no huge pages" in done.stderr


def test_huge_pages_that_memory_has_no_room_for(folder: Path) -> None:
    """Pages of 1 MiB make huge pages of 128 GiB."""
    done = play(folder, 1024, "batch_storm", "only=mixed")
    assert done.returncode == 77 and "too large for this memory" in done.stderr
