# SPDX-License-Identifier: GPL-2.0-only
"""guest/sparse.c and fragmented.c on the host, whose kernel is not in question: what they report, what they notice."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import host_programs

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a thread needs a CPU beside the program's")
LIAR = """
#include <sys/mman.h>
#include <sys/syscall.h>
#include <stdlib.h>
#include <unistd.h>

static int is(const char *what) { return getenv("LIE") && getenv("LIE")[0] == what[0]; }

int madvise(void *at, size_t size, int advice)
{
	return is("dontneed") && advice == MADV_DONTNEED ? 0 : syscall(SYS_madvise, at, size, advice);
}

int munmap(void *at, size_t size)
{
	return is("munmap") && size >= 1UL << 30 ? 0 : syscall(SYS_munmap, at, size);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, for the host, and a library that keeps memory which it says is gone."""
    return host_programs(tmp_path_factory.mktemp("sparse"), ["sparse", "fragmented"], LIAR)


def play(folder: Path, program: str, *words: str, lie: str = "") -> CompletedProcess[str]:
    """Run it with one thread beside it."""
    environment = {**os.environ, "LIE": lie, "LD_PRELOAD": str(folder / "liar.so")} if lie else dict(os.environ)
    command = [folder / program, "threads=1", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize(
    ("program", "words", "cases"),
    [
        ("sparse", ["gib=2"], {"munmap": 6, "dontneed": 6, "munmap-all": 6, "dontneed-all": 6}),
        ("fragmented", [], {"growing": 3, "alternate": 48}),
    ],
)
def test_each_case_is_reported_in_windows_of_its_own(
    folder: Path, program: str, words: list[str], cases: dict[str, int]
) -> None:
    """Numbered throughout, and of the same size in a case."""
    done = play(folder, program, "windows=3", *words)
    assert done.returncode == 0, done.stderr
    windows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [w["window"] for w in windows] == list(range(1, 3 * len(cases) + 1))
    assert [(w["case"], w["operations"]) for w in windows] == [case for case in cases.items() for _ in range(3)]


@pytest.mark.parametrize(
    ("program", "case", "lie", "says"),
    [
        ("sparse", "munmap", "munmap", "page 0 is still mapped"),
        ("sparse", "munmap-all", "munmap", "page 0 is still mapped"),
        ("sparse", "dontneed", "dontneed", "page 0 is not empty"),
        ("sparse", "dontneed-all", "dontneed", "page 0 is not empty"),
        ("fragmented", "growing", "dontneed", "page 0 of block 0 holds 1"),
        ("fragmented", "alternate", "dontneed", "page 0 of block 0 holds 1"),
    ],
)
def test_memory_that_stays_is_noticed(folder: Path, program: str, case: str, lie: str, says: str) -> None:
    """A kernel that gives nothing back is told."""
    done = play(folder, program, f"case={case}", lie=lie)
    assert done.returncode == 1 and says in done.stderr


@pytest.mark.parametrize("program", ["sparse", "fragmented"])
def test_unknown_cases_and_too_many_threads(folder: Path, program: str) -> None:
    """A mistake is one, a machine that is too small is not."""
    assert play(folder, program, "case=often").returncode == 2
    assert play(folder, program, "threads=16").returncode == 77
