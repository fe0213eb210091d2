# SPDX-License-Identifier: GPL-2.0-only
"""The command line: help, mistakes, plans, and the launcher."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from support import REPOSITORY, Tool

from lull.cli import COMMANDS
from lull.errors import EXIT_CODES


def test_help_names_every_command_and_exit_code(tool: Tool) -> None:
    """What there is, is said."""
    done = tool("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert name in done.stdout
    for code in EXIT_CODES:
        assert f"\n  {code:3} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_common_options(tool: Tool, command: str) -> None:
    """--offline, --dry-run, --json, --tree everywhere."""
    done = tool(command, "--help")
    assert done.returncode == 0
    for option in ("--offline", "--dry-run", "--json", "--tree"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frob"], "unknown command 'frob'"),
        (["run", "--kernel", "luul"], "did you mean lull"),
        (["run", "--workload", "agin"], "did you mean aging"),
        (["run", "--kernel", "lull+young=never"], "sync"),
        (["run", "--frob"], "--frob"),
        (["run", "--vcpus", "0"], "1 to"),
        (["run", "--vcpus", "many"], "invalid int"),
        (["run", "--repeat", "0"], "--repeat 0"),
        (["run", "--accel", "kvm"], "arm64 host"),
        (["build", "--kernel", "stok"], "did you mean stock"),
        (["boot", "--base", "9.9"], "unknown base"),
        (["build", "--suite", "reel"], "unknown suite 'reel'"),
        (["doctor", "--suite", "reel"], "known: real"),
        (["check", "--kernel", "luul"], "did you mean lull"),
        (["check", "--workload", "agin"], "did you mean aging"),
        (["check", "--cpu", "max+kptj"], "did you mean kpti"),
        (["check", "--repeat", "0"], "--repeat 0"),
        (["check", "--vcpus", "0"], "1 to"),
        (["check", "--image", "Image"], "belong together"),
        (["check", "--image", "Image", "--symbols", "map", "--mutants"], "choose one"),
        (["check", "--mutants", "--machines"], "--machines does not go"),
        (["check", "--image", "/nonexistent", "--symbols", "map"], "cannot be read"),
        (["check", "--asid-bits", "7"], "invalid choice"),
        (["test", "--fast", "--all"], "not allowed with"),
        (["save", "/nonexistent"], "lull tree DIR"),
        (["tree"], "DIR"),
    ],
)
def test_mistakes_exit_2_and_say_what_there_is(tool: Tool, words: list[str], said: str) -> None:
    """A mistake on the command line costs a second and teaches something."""
    done = tool(*words, "--offline")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_dry_run_shows_the_plan_and_does_nothing(tool: Tool) -> None:
    """The plan as JSON, and an empty cache."""
    done = tool("run", "--dry-run", "--json", "--repeat", "2", "--workload", "young")
    assert done.returncode == 0, done.stderr
    boots = json.loads(done.stdout)
    assert len(boots) == 6
    assert {j for b in boots for j in b["jobs"]} >= {"lull+young=none young", "stock young"}
    assert not any(tool.cache.iterdir())


@pytest.mark.parametrize(
    "command", [["fetch"], ["fetch", "--suite", "real"], ["build"], ["boot"], ["check"], ["test"], ["tree", "x"]]
)
def test_dry_run_everywhere(tool: Tool, command: list[str]) -> None:
    """Says 'would', leaves the cache empty."""
    done = tool(*command, "--dry-run", LULL_QEMU="")
    assert done.returncode == 0, done.stderr
    assert "would" in done.stderr
    assert not any(tool.cache.iterdir())


def test_a_suites_kernels_have_its_configuration(tool: Tool) -> None:
    """And say so before they are built."""
    done = tool("build", "--dry-run", "--suite", "real", "--kernel", "lull")
    assert re.search(r"lull\.config \S*real\.config", done.stderr)


@pytest.mark.parametrize(
    ("words", "said"), [(["--fast"], "-m 'not guest'"), ([], "-m 'not whole'"), (["--all"], "--durations=8\n")]
)
def test_tiers(tool: Tool, words: list[str], said: str) -> None:
    """Which tests are left out."""
    assert said in tool("test", "--dry-run", *words).stderr


def test_offline_with_an_empty_cache(tool: Tool) -> None:
    """Exit 7, and the command that helps."""
    done = tool("build", "--offline")
    assert done.returncode == 7
    assert "lull fetch" in done.stderr


def test_doctor_as_json(tool: Tool) -> None:
    """Machine-readable, and says which metrics exist in which mode."""
    done = tool("doctor", "--json")
    findings = {f["name"]: f for f in json.loads(done.stdout)}
    assert "counted exactly" in findings["accel tcg"]["detail"]
    assert findings["gcc"]["state"] == "ok"


def launcher(path: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ./lull with a PATH of ours."""
    return subprocess.run(
        [str(REPOSITORY / "lull"), *words],
        text=True,
        capture_output=True,
        env={**os.environ, "PATH": path, **environment},
    )


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with what every system has, and none of what the lab needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "readlink", "uname", "id", "cat", "cut", "sha256sum", "tail", "sed", "mkdir"):
        found = next(Path(p) / name for p in [*os.defpath.split(":"), "/usr/bin", "/bin"] if (Path(p) / name).exists())
        (folder / name).symlink_to(found)
    return folder


def test_launcher_names_everything_missing_in_one_line(bare_path: Path) -> None:
    """An ordinary user (or root with --dry-run) gets one apt line, exit 3, and nothing is installed."""
    (bare_path / "apt-get").write_text("#!/bin/sh\necho apt-get was run >&2\n")
    (bare_path / "apt-get").chmod(0o755)
    done = launcher(str(bare_path), "run", "--dry-run")
    assert done.returncode == 3
    line = next(x for x in done.stderr.splitlines() if "apt-get install" in x)
    for package in ("python3", "python3-venv", "flex", "bison", "make"):
        assert f" {package}" in line
    assert "apt-get was run" not in done.stderr


def test_launcher_through_a_link(bare_path: Path, tmp_path: Path) -> None:
    """It finds its repository: the packages that it names are of a list there."""
    (tmp_path / "lull").symlink_to(REPOSITORY / "lull")
    words = [str(tmp_path / "lull"), "run", "--dry-run"]
    done = subprocess.run(words, text=True, capture_output=True, env={**os.environ, "PATH": str(bare_path)})
    assert done.returncode == 3 and " flex" in done.stderr


def test_launcher_without_apt_names_tree(bare_path: Path) -> None:
    """A host of another kind is told what is missing and about --tree."""
    done = launcher(str(bare_path), "run")
    assert done.returncode == 3
    assert "--tree" in done.stderr


def test_launcher_offline_without_environment(tmp_path: Path) -> None:
    """No environment in the cache and no network allowed: exit 7 and what to do."""
    done = launcher(os.environ["PATH"], "doctor", "--offline", LULL_CACHE=str(tmp_path / "empty cache"))
    assert done.returncode == 7
    assert "lull fetch" in done.stderr
