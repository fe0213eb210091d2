# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin says to a QEMU, a target or options that it cannot work with."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_tools import CHECKER, HERE, run

from lull.check import package

Install = Callable[..., tuple[str, str]]


@pytest.fixture(scope="session")
def install(build: Callable[[str], Path]) -> Install:
    """Loads a build of the plugin into fake_qemu; its output and its messages."""
    cc = shutil.which("cc") or "gcc"
    hosts: dict[int, list[Path]] = {}
    for version, name in ((4, "lull.so"), (7, "lull-7.so")):
        plugin = build(name)
        host = plugin.with_name(f"fake_qemu-{version}")
        words = ["-Wall", "-Werror", f"-DAPI_VERSION={version}", f"-I{CHECKER}", "-rdynamic", "-o", host]
        run(cc, *words, HERE / "fake_qemu.c", "-ldl")
        hosts[version] = [host, plugin]

    def ask(
        *options: str, version: int = 4, low: int = 2, cur: int = 4, target: str = "aarch64", kind: str = "system"
    ) -> tuple[str, str]:
        done = subprocess.run(
            [*hosts[version], str(low), str(cur), target, kind, *options],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return ask


@pytest.mark.parametrize(("version", "low", "cur"), [(4, 2, 4), (4, 2, 5), (4, 2, 6), (7, 7, 7)])
def test_installs(install: Install, tmp_path: Path, version: int, low: int, cur: int) -> None:
    out = tmp_path / "counts"
    said, errors = install(f"out={out}", "mode=count", version=version, low=low, cur=cur)
    assert said == f"version {version}\nvcpu_init 1\ntb_trans 1\natexit 1\ninstall 0\n"
    assert errors == ""
    assert json.loads(out.read_text()) == {
        "plugin": "lull",
        "version": package.version(),
        "mode": "count",
        "api": cur,
        "vcpus_max": 3,
    }


@pytest.mark.parametrize(
    ("version", "low", "cur", "fits"),
    [(4, low, cur, "4 to 6: use QEMU 9.2 to 11.0") for low, cur in ((0, 1), (2, 3), (2, 7), (5, 5))]
    + [(7, low, cur, "7 to 7: use QEMU 11.1") for low, cur in ((2, 6), (7, 8), (8, 8))],
)
def test_other_interface(install: Install, tmp_path: Path, version: int, low: int, cur: int, fits: str) -> None:
    """Refused, before anything is registered or written: what, which fits, what to do."""
    out = tmp_path / "counts"
    said, errors = install(f"out={out}", version=version, low=low, cur=cur)
    assert said == f"version {version}\ninstall 1\n"
    assert errors == (
        f"lull: this QEMU has plugin API version {cur} (minimum {low}), this build of the plugin needs {fits}\n"
    )
    assert not out.exists()


def test_other_target(install: Install, tmp_path: Path) -> None:
    for target, kind in (("x86_64", "system"), ("aarch64", "user"), ("arm", "system")):
        said, errors = install(f"out={tmp_path / 'counts'}", target=target, kind=kind)
        assert said.endswith("install 1\n")
        assert f"{target} {kind} emulation" in errors
        assert "use qemu-system-aarch64" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "option out=FILE is missing"),
        (
            ("out=counts", "colour=on"),
            "unknown option 'colour' "
            "(known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)",
        ),
        (("out=counts", "mode=colour"), "option mode='colour' is not one of: count check"),
        (("out=/nowhere/counts",), "cannot write to '/nowhere/counts': No such file or directory"),
    ],
)
def test_bad_options(install: Install, options: tuple[str, ...], message: str) -> None:
    said, errors = install(*options)
    assert said.endswith("install 1\n")
    assert errors.startswith("lull: " + message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read '{file}': No such file or directory"),
        ("", "'{file}' has no addresses"),
        ("ffff800080000000 a\n\n", "'{file}' line 2 has no address above the one before"),
        ("1000 a\n1000 b\n", "'{file}' line 2 has no address above the one before"),
        ("1000 a\n2000 b\nfff c\n", "'{file}' line 3 has no address above the one before"),
        ("1000x\n", "'{file}' line 1 has no address above the one before"),
    ],
)
def test_lists_of_functions_that_are_none(install: Install, tmp_path: Path, text: str | None, message: str) -> None:
    """The message names the file and the line, and nothing is registered."""
    file = tmp_path / "functions"
    if text is not None:
        file.write_text(text)
    said, errors = install(f"out={tmp_path / 'counts'}", f"functions={file}")
    assert (said, errors) == ("version 4\ninstall 1\n", "lull: " + message.format(file=file) + "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read '{file}': No such file or directory"),
        ("ffff800080000000 T _text\nnothing\n", "'{file}' line 2 is not of the form ADDRESS LETTER NAME"),
        ("\x7fELF\x02\x01", "'{file}' line 1 is not of the form ADDRESS LETTER NAME"),
    ],
)
def test_files_without_symbols(install: Install, tmp_path: Path, text: str | None, message: str) -> None:
    """The message names the file and the line."""
    file = tmp_path / "System.map"
    if text is not None:
        file.write_text(text)
    said, errors = install(f"out={tmp_path / 'reports'}", "mode=check", f"symbols={file}")
    assert (said, errors) == ("version 4\ninstall 1\n", "lull: " + message.format(file=file) + "\n")


def test_what_no_symbol_is_found_for(install: Install, tmp_path: Path) -> None:
    """The rules that are not checked then, and the first name of the function that they need."""
    file, out = tmp_path / "System.map", tmp_path / "reports"
    file.write_text(
        "                 U undefined\n"
        "ffff800080000000 T vectors\nffff800080001000 t schedule\nffff800080002000 T rt_spin_unlock\n"
        "ffff800080003000 t tlb_flush_rmaps [module]\n"
    )
    said, errors = install(f"out={out}", "mode=check", f"symbols={file}")
    assert (said.splitlines()[-1], errors) == ("install 0", "")
    unchecked = json.loads(out.read_text().splitlines()[1])["unchecked"]
    rules = {(one["symbol"], one["rule"]) for one in unchecked}
    assert {("tlb_flush_rmaps", "pending/rmap"), ("tlb_flush_rmaps", "written"), ("free_unref_page", "free")} <= rules
    assert not {"schedule", "_raw_spin_unlock"} & {symbol for symbol, _ in rules}


def test_a_list_of_functions(install: Install, tmp_path: Path) -> None:
    """Names are optional, as is the end of the last line; many lines are fine."""
    file = tmp_path / "functions"
    file.write_text("".join(f"{4 * n:x} name {n}\n" for n in range(5000)) + "ffff800080000000")
    said, errors = install(f"out={tmp_path / 'counts'}", f"functions={file}")
    assert (said.splitlines()[-1], errors) == ("install 0", "")
