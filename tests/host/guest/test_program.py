# SPDX-License-Identifier: GPL-2.0-only
"""A program of the user's: what it is, what it needs, and the workload that it becomes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from plugin_tools import CROSS

from lull import guest
from lull.errors import BuildError, UsageError
from lull.guest import program
from lull.linux import toolchain
from lull.options import behind

needs_cross = pytest.mark.skipif(not shutil.which(f"{CROSS}gcc"), reason="no compiler for arm64")
WINDOWED = '#include "lull.h"\nint main(void) { open_window(); close_window(); report("", 1, "x", ""); }\n'
PLAIN = "#define _GNU_SOURCE\n#include <stdio.h>\nint main() { int unused; return 0; }\n"


def made(folder: Path, name: str, content: str | bytes, *args: str) -> program.Program:
    """The program of a file with this content."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return program.of([str(file), *args], [], "", 60.0, ["taken", "loop.sh"])


@pytest.mark.parametrize(
    ("line", "on_disk"),
    [("#!/bin/sh", False), ("#! /bin/sh -e", False), ("#!/bin/bash", True), ("#!/usr/bin/env python3", True)],
)
def test_scripts(tmp_path: Path, line: str, on_disk: bool) -> None:
    """Those of the guest's busybox need no disk."""
    assert made(tmp_path, "a.sh", f"{line}\ntrue\n").on_disk is on_disk


@needs_cross
@pytest.mark.parametrize(("flags", "on_disk"), [(["-static"], False), (["-static-pie"], False), ([], True)])
def test_binaries(tmp_path: Path, flags: list[str], on_disk: bool) -> None:
    """A dynamic one needs the disk's libraries; a window of its own is found in the machine code."""
    library = guest.build_library(toolchain.find())
    for text, windows in ((PLAIN, False), (WINDOWED, True)):
        (tmp_path / "a.c").write_text(text)
        words = [*flags, "-I", guest.LIBRARY, "-o", tmp_path / "a", tmp_path / "a.c", library]
        subprocess.run([f"{CROSS}gcc", *words], check=True)
        found = program.of([str(tmp_path / "a")], [], "", 60.0, [])
        assert (found.on_disk, found.windows) == (on_disk, windows)


@needs_cross
def test_c_file_is_compiled_as_by_its_author(tmp_path: Path) -> None:
    """_GNU_SOURCE and warnings are no errors, as in our own programs; headers count for the key."""
    tools = toolchain.find()
    (tmp_path / "a.h").write_text("#define N 1\n")
    own = made(tmp_path, "a.c", PLAIN.replace("<stdio.h>", '"a.h"'))
    (first,) = own.files(tools).values()
    assert isinstance(first, Path) and first.read_bytes().startswith(program.ELF)
    (tmp_path / "a.h").write_text("#define N 2\nint n = N;\n")
    assert own.files(tools)["a.c"] != first
    with pytest.raises(BuildError, match="does not compile") as error:
        made(tmp_path, "b.c", "int main(void) { return lacking; }\n").files(tools)
    assert "lacking" in error.value.tail
    assert isinstance(made(tmp_path, "w.c", WINDOWED).files(tools)["w.c"], Path)


def test_workload(tmp_path: Path) -> None:
    """It runs in a window unless it opens its own, and with the disk's root where there is a disk."""
    own = made(tmp_path, "my loop.sh", "#!/bin/sh\n", "5", "-v")
    assert own.name == "my_loop.sh"
    assert made(tmp_path, "loop.sh", "#!/bin/sh\n").name == "own-loop.sh"
    work = own.workload(disk=False)
    assert [work.program, *work.args] == ["window", "--", "/lull/own/my_loop.sh", "5", "-v"]
    assert (work.timeout, work.default) == (60.0, False)
    work = program.of([str(own.file)], [], "", 60.0, [], 30).workload(disk=False)
    assert ([work.program, *work.args], work.timeout) == (["window", "seconds=30", "--", "/lull/own/my_loop.sh"], 90.0)
    work = made(tmp_path, "w.sh", "#!/bin/sh\n/lull/bin/window -- true\n").workload(disk=True)
    assert [work.program, *work.args] == ["debian", "/lull/own/w.sh"]
    with pytest.raises(UsageError, match="windows of its own"):
        program.of([str(tmp_path / "w.sh")], [], "", 60.0, [], 30)


def test_command_of_a_package() -> None:
    """A name that is no file is looked for on the disk, where there is one."""
    found = program.of(["no-such-file", "."], ["jq"], "", 60.0, [])
    assert (found.file, found.on_disk, found.words(disk=True)) == (None, True, ["debian", "no-such-file", "."])
    assert program.of(["no-such-file"], [], "real", 60.0, []).file is None
    for name, packages in (("no-such-file", []), ("./no-such-file", ["jq"])):
        with pytest.raises(UsageError, match="cannot be read"):
            program.of([name], packages, "", 60.0, [])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\0" + bytes(60), "no 64-bit arm64 program"),
        (program.ELF + bytes(12) + program.AARCH64 + bytes(4), "no 64-bit arm64 program"),
        (b"text\n", "no program"),
    ],
)
def test_what_cannot_run(tmp_path: Path, content: bytes, what: str) -> None:
    """Another machine's binary, half of one, and text."""
    with pytest.raises(UsageError, match=what):
        made(tmp_path, "a", content)


def test_arguments_behind() -> None:
    """Behind ``--`` are the program's arguments if there is one; else it stays with the command line."""
    assert behind(["run", "--program", "a", "--", "-n", "--"]) == (["run", "--program", "a"], ["-n", "--"])
    assert behind(["boot", "--", "a", "--program"]) == (["boot", "--", "a", "--program"], [])
