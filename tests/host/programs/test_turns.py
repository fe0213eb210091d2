# SPDX-License-Identifier: GPL-2.0-only
"""guest/turns.c on the host: what it reports, and what it notices."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support import host_programs

LIAR = """
#include <stddef.h>

int mprotect(void *at, size_t size, int protection)
{
	static _Thread_local int calls;

	/* The C library has a function of its own for the stacks of threads. */
	if (++calls == 3)
		*(volatile long *)at += 1;
	(void)size, (void)protection;
	return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, for the host, and a library whose mprotect() does nothing, and writes to the page once."""
    return host_programs(tmp_path_factory.mktemp("turns"), ["turns"], LIAR)


def play(folder: Path, *words: str, **more: str) -> CompletedProcess[str]:
    """Run it with few rounds."""
    command = [folder / "turns", "rounds=4", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **more})


@pytest.mark.parametrize("place", ["pinned", "free", "moving"])
@pytest.mark.parametrize(("words", "cases"), [([], ["2", "4", "8", "16"]), (["threads=3"], ["3"])])
def test_each_number_of_threads_has_a_window(folder: Path, place: str, words: list[str], cases: list[str]) -> None:
    """Wherever the threads run."""
    done = play(folder, f"place={place}", *words)
    assert done.returncode == 0, done.stderr
    windows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(w["window"], w["case"]) for w in windows] == list(enumerate(cases, 1))
    assert {(w["operations"], w["unit"]) for w in windows} == {(4, "round")}


def test_a_page_that_changes_while_it_is_read_only_is_noticed(folder: Path) -> None:
    """The page has what was written to it while it was writable."""
    done = play(folder, LD_PRELOAD=str(folder / "liar.so"))
    assert done.returncode == 1 and "the page reads 2, not 1" in done.stderr


@pytest.mark.parametrize("words", [["place=here"], ["threads=1"], ["threads=65"], ["pages=0"], ["rounds=3"]])
def test_wrong_options(folder: Path, words: list[str]) -> None:
    """They are refused."""
    assert play(folder, *words).returncode == 2
