# SPDX-License-Identifier: GPL-2.0-only
"""Completion scripts: as shells take them; and that every option has something to offer."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from support import AGING, LOCAL, Tool

from lull import base as bases
from lull import cli, options, plan
from lull.commands import completion

LOAD = {
    "bash": """
        source "$script"
        function=$(complete -p lull | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        $function lull "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": 'source "$script"; complete -C "$argv" | string split -f1 \\t',
}


FREE = ("PACKAGE", "RELEASE", "SOURCE", "CMDLINE", "LIST", "ADDRESS", "GLOB", "-- PROGRAM ARGS", "-- PYTEST ARGS")
"""How the values of options are called that may be any word: nothing is offered."""


@pytest.fixture(params=completion.SHELLS, scope="module")
def script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A shell that is here, and its script."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    path = tmp_path_factory.mktemp("completion") / "script"
    with open(path, "w") as file, redirect_stdout(file):
        assert cli.main(["completion", request.param]) == 0
    return request.param, path


def offered(shell: str, path: Path, *words: str) -> list[str]:
    """What a shell offers for the last of the words."""
    interactive = {"bash": ["bash", "--norc", "-c", LOAD["bash"], "bash"], "fish": ["fish", "-c", LOAD["fish"]]}[shell]
    line = ["lull", *words] if shell == "bash" else [" ".join(["lull", *words])]
    environment = {**os.environ, "script": str(path)}
    done = subprocess.run([*interactive, *line], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_the_script_is_whole(script: tuple[str, Path]) -> None:
    """The shell reads it without a word."""
    done = subprocess.run([script[0], "-n", script[1]], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["sel"], ["selftest"]),
        (["run", "--wor"], ["--workload"]),
        (["run", "--workload", "swap_bench_sh"], ["swap_bench_shared"]),
        (["run", "--workload", "comp"], ["compile"]),
        (["run", "--kernel", f"lull+{AGING}=n"], [f"lull+{AGING}=nosync", f"lull+{AGING}=none"]),
        (["boot", "--kernel", f"lull-{AGING[:-1]}"], [f"lull-{AGING}"]),
        (["run", "--kernel", "stock", "--kernel", f"lull+only={LOCAL[:-1]}"], [f"lull+only={LOCAL}"]),
        (["build", "--kernel", "l"], ["lull", "lab"]),
        (["check", "--cpu", "cortex-a7"], ["cortex-a72", "cortex-a76"]),
        (["check", "--mutant", "page-no-d"], ["page-no-dsb"]),
        (["boot", "--cpu", "cortex-a7"], ["cortex-a72", "cortex-a76"]),
        (["check", "--kpti", "o"], ["on", "off"]),
        (["selftest", "--tests", "hugetl"], ["hugetlb"]),
        (["fetch", "--suite", ""], ["host", "real", "vm"]),
        (["doctor", "--base", "6"], ["6.12"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_what_is_offered(script: tuple[str, Path], words: list[str], some: list[str]) -> None:
    """Commands, options, and the words that exist."""
    if script[0] not in LOAD:
        pytest.skip("this shell completes only as somebody types")
    assert sorted(offered(*script, *words)) == sorted(some)


def test_folders_and_files(script: tuple[str, Path]) -> None:
    """Options that take a path complete to one."""
    if script[0] not in LOAD:
        pytest.skip("this shell completes only as somebody types")
    assert "/usr" in {name.rstrip("/") for name in offered(*script, "run", "--out", "/us")}
    assert "/etc/passwd" in offered(*script, "check", "--symbols", "/etc/pass")


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_command_prints_it(tool: Tool, shell: str) -> None:
    """And nothing else."""
    done = tool("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--workload" in done.stdout or "-l workload" in done.stdout


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_value_is_thought_of(command: str) -> None:
    """An option takes a number, a path (completion.PATHS), a word of a list (completion.words), or any word (FREE)."""
    parser = cli.commands_of(cli.build_parser([command]))[command]
    known = completion.words(bases.load_base())
    missing = [
        action.dest
        for action in parser._actions
        if action.nargs != 0 and not action.choices and action.type not in (int, float, options.MEMORY)
        if str(action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar)
        not in (*completion.PATHS, *FREE)
        and f"{action.dest} {action.metavar}" not in known
    ]
    assert not missing, f"lull completion has nothing to offer for {missing} of {command}"


def test_every_word_is_one_the_tool_takes() -> None:
    """The names of kernels are kernels, under settings too."""
    base = bases.load_base()
    names = completion.kernel_names(base)
    assert len(set(names)) == len(names)
    for name in names:
        plan.parse_spec(name, base)
    assert f"lull+{LOCAL}=sticky" not in names


def test_a_command_that_is_not_loaded_has_no_options_of_its_own() -> None:
    """So a command line costs the import of its own command alone."""
    parsers = cli.commands_of(cli.build_parser(["build"]))

    def own(parser: argparse.ArgumentParser) -> int:
        return len(parser._actions)

    assert own(parsers["build"]) > own(parsers["run"]) == own(parsers["check"])
