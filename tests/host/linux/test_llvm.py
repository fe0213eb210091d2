# SPDX-License-Identifier: GPL-2.0-only
"""Which compilers are found in a PATH of ours, with the values of LLVM that kbuild knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lull.errors import LullError, MissingError, UsageError
from lull.linux import build, toolchain, tree

GCC = "aarch64-linux-gnu-gcc"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH of a machine that is not arm64, with GCC."""
    monkeypatch.setattr(toolchain, "host_is_arm64", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    install(tmp_path, GCC)
    return tmp_path


def install(folder: Path, *names: str) -> None:
    """Put programs into ``folder`` that print their path as their version."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text('#!/bin/sh\necho "$0 (compatible with others)"\necho more\n')
        (folder / name).chmod(0o755)


def llvm(suffix: str = "") -> list[str]:
    """The names of LLVM's programs."""
    return [f"{name}{suffix}" for name in toolchain.LLVM_PROGRAMS.values()]


def test_gcc_builds_kernels_unless_llvm_is_asked_for(programs: Path) -> None:
    """Clang alone changes nothing; LLVM of the environment does not reach make."""
    install(programs, *llvm())
    found = toolchain.find()
    assert found.kernel_cc == found.gcc == GCC
    assert found.kernel_version == found.version == f"{programs}/{GCC} (compatible with others)"
    assert {"LLVM=", "CROSS_COMPILE=aarch64-linux-gnu-"} < {*found.make_variables()}


@pytest.mark.parametrize(
    ("suffix", "value", "made"),
    [("", "1", "1"), ("-22", "1", "-22"), ("-22", "-22", "-22"), ("-19", "-19", "-19")],
)
def test_llvm_by_name(programs: Path, suffix: str, value: str, made: str) -> None:
    """Of ``1``, Debian's programs have a suffix. Programs of the guest are GCC's."""
    install(programs, *llvm(suffix))
    found = toolchain.find(llvm=value)
    assert (found.kernel_cc, found.gcc, found.nm) == (f"clang{suffix}", GCC, "aarch64-linux-gnu-nm")
    assert found.kernel_version == f"{programs}/clang{suffix}, {programs}/ld.lld{suffix}"
    assert {f"LLVM={made}", "LLVM_IAS=1", "CROSS_COMPILE="} < {*found.make_variables()}


def test_llvm_in_a_folder(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is one of the folder the user is in, not of the folder that make changes to."""
    install(programs / "own", *llvm())
    monkeypatch.chdir(programs)
    for value in ("own/", f"{programs}/own/"):
        found = toolchain.find(llvm=value)
        assert found.kernel_cc == f"{programs}/own/clang"
        assert f"LLVM={programs}/own/" in found.make_variables()


def test_plain_names_come_first(programs: Path) -> None:
    """As kbuild has it: the programs with a suffix are for machines without others, or with a part of them."""
    install(programs, *llvm("-22"), *llvm()[:1])
    assert toolchain.find(llvm="1").llvm == "-22"
    install(programs, *llvm())
    assert toolchain.find(llvm="1").llvm == "1"


@pytest.mark.parametrize(
    ("value", "kind", "what", "remedy"),
    [
        ("1", MissingError, "not installed: ld.lld-22, llvm-objcopy-22", "apt-get install .* lld-22 llvm-22$"),
        ("-19", MissingError, "not installed: clang-19, ld.lld-19", "apt-get install .* clang-19 lld-19 llvm-19$"),
        ("/no/", MissingError, "not installed: /no/clang", "clang-22"),
        *(
            (bad, UsageError, "names no compiler", "unset: GCC")
            for bad in ("0", "22", "y", "-", "-x", "/a b/", "clang")
        ),
    ],
)
def test_refused(programs: Path, value: str, kind: type[LullError], what: str, remedy: str) -> None:
    """A value that kbuild does not know, and programs that are missing, with the line that installs them."""
    install(programs, "clang-22")
    with pytest.raises(kind, match=what) as caught:
        toolchain.find(llvm=value)
    assert re.search(remedy, caught.value.remedy)


def test_the_key_of_a_kernel(programs: Path) -> None:
    """Kernels of GCC, of clang and of another clang have different keys."""
    install(programs, *llvm("-22"), *llvm("-19"))
    found = [toolchain.find(llvm=value) for value in ("", "-22", "-19")]
    source = tree.Tree(programs, "key", "7.3")
    assert len({build.kernel_key(source, one, "") for one in found}) == 3
