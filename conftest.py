# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures for all tests: a cache of their own, and the fake kernel's lab."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from plugin_tools import CHECKER, CROSS, run
from support import BASE_OF_TEST, FAKE, REAL_CACHE, REPOSITORY, SUMMARY, Tool, lab_under_test, newer_qemu, real_qemu

from lull import cli, eta, paths, process
from lull.base import DEFAULT
from lull.guest.qemu import Qemu
from lull.lab import Lab
from lull.linux import toolchain
from lull.linux.fetch import busybox_entry
from lull.progress import clock

# Machines here are busy and slow; and a failure must be there again in the next run.
settings.register_profile("lull", deadline=None, derandomize=True)
settings.load_profile("lull")

# A shell without job control has what it starts with "&" ignore SIGINT, for good: programs that tests interrupt, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


GATES = {"": "host", "qemu": "fake kernel under QEMU", "guest": "real kernels", "whole": "what only --all runs"}
"""Marker -> what its tests need, the fast first; tests/repository/test_style.py is a gate of its own."""
BASES = sorted(base.stem for base in paths.BASES.glob("*.toml"))
FOLDERS = {"qemu", "guest"}
"""The folders of tests/ and contrib/tests/ whose tests get the marker of the same name."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked ``bases`` on each base, or on the only one that 'lull test' was asked for."""
    if mark := metafunc.definition.get_closest_marker("bases"):
        only = os.environ.get("LULL_TEST_ONLY")
        whole = [pytest.mark.whole] if mark.kwargs.get("whole") else []
        bases = [only] if only else [pytest.param(base, marks=whole if base != DEFAULT else []) for base in BASES]
        metafunc.parametrize("base_of_test", bases, indirect=True)


@pytest.fixture(autouse=True)
def base_of_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base of the lab under test, in a test that is marked ``bases``."""
    if hasattr(request, "param"):
        monkeypatch.setenv(BASE_OF_TEST, request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fast first: host tests, then those with a QEMU, then those with real kernels, last what is long."""
    for item in items:
        parts = item.path.relative_to(REPOSITORY).parts
        folder = parts[parts.index("tests") + 1]
        if folder in FOLDERS:
            item.add_marker(folder)
        gate = [marker for marker in GATES if not marker or item.get_closest_marker(marker)][-1]
        item.user_properties.append(("gate", gate))
    items.sort(key=lambda item: list(GATES).index(gate_of(item)))


def gate_of(test: pytest.Item | pytest.TestReport) -> str:
    """The last marker of GATES that a test has; if its process died, its report does not say."""
    return next((str(value) for name, value in test.user_properties if name == "gate"), "")


def gates(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each gate: its time, and how its tests ended."""
    seconds: Counter[str] = Counter()
    ends: dict[str, Counter[str]] = {name: Counter() for name in ("lint, types, style", *GATES.values())}
    for report in reports:
        name = "lint, types, style" if "test_style.py" in report.nodeid else GATES[gate_of(report)]
        seconds[name] += report.duration
        if report.when == "call" or report.outcome != "passed":
            ends[name][report.outcome] += 1
    return [
        f"{name:24} {clock(seconds[name]):>7}  {', '.join(f'{n} {end}' for end, n in sorted(found.items()))}"
        for name, found in ends.items()
        if found
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs a part of the tests gives what it has for the end to the one that writes the end."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["summary"] = SUMMARY


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process has for the end. ``node`` is pytest-xdist's, which has no types."""
    SUMMARY.extend(node.workeroutput.get("summary", []) if hasattr(node, "workeroutput") else [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What kernels and mutants said, in a table each; then a line for each gate."""
    for line in SUMMARY:
        terminalreporter.write_line(line)
    told = [r for key in ("passed", "failed", "error", "skipped", "") for r in terminalreporter.stats.get(key, ())]
    for line in gates(r for r in told if isinstance(r, pytest.TestReport)):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Every test has an empty cache. Only real kernels are built into the user's, and taken from it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE if request.node.get_closest_marker("guest") else folder))
    monkeypatch.setenv("LULL_ARCHIVES", "")  # a test names the archives that it means
    monkeypatch.setattr(eta, "slowness", lambda: 1.0)  # forecasts do not depend on the machine
    process.commands.clear()
    return folder


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Lab:
    """The lab over the user's cache."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
    return lab_under_test()


@pytest.fixture
def tool(own_cache: Path, tmp_path: Path) -> Tool:
    """The tool with an empty cache and no network needed before it fetches."""
    environment = {**os.environ, "LULL_CACHE": str(own_cache), "COLUMNS": "200"}
    return Tool(own_cache, tmp_path, environment)


@pytest.fixture
def real(tmp_path: Path) -> Tool:
    """The tool over the user's cache. It may have to build a kernel, or wait for another test that does."""
    return Tool(REAL_CACHE, tmp_path, {**os.environ, "LULL_CACHE": str(REAL_CACHE)}, patience=3600)


@pytest.fixture
def fake_tree(tmp_path: Path) -> Path:
    """A copy of the fake kernel tree, free to be broken."""
    return Path(shutil.copytree(FAKE / "linux", tmp_path / "linux"))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Guest programs and plugin, built once for all tests with a guest."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def fake(tool: Tool, fake_tree: Path, shared_cache: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of the tool on the fake kernel under real QEMU: ``fake("run", "--workload", "count")``."""
    machine = real_qemu()
    for kind in ("guest", "plugin"):
        (shared_cache / kind).mkdir(exist_ok=True)
        (tool.cache / kind).symlink_to(shared_cache / kind)
    busybox = tool.cache / "busybox/bin"
    busybox.mkdir(parents=True)
    (busybox / "busybox").write_bytes(b"never run: the fake kernel has no user space")
    entries = {busybox_entry(): str(busybox.parent)}
    tool.environment["LULL_QEMU"] = str(machine.program)
    package = {"name": "test", "version": "0", "sha256": ""}
    index = {name: {"package": package, "path": path} for name, path in entries.items()}
    (tool.cache / "fetched.json").write_text(json.dumps(index))
    base = str(FAKE / "bases/fake.toml")

    def run(command: str, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
        tree = ["--tree", str(fake_tree)] * ("--tree" not in cli.refused(command))
        offline = ["--offline"] * ("--offline" not in cli.refused(command))
        return tool(command, "--base", base, *tree, *offline, *words, **options)

    return run


@pytest.fixture
def heard() -> Iterator[None]:
    """A lost terminal is heard, also where what started the tests (nohup) has it ignored: children inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a target of checker/Makefile, once, and says where it is."""
    out = tmp_path_factory.mktemp("checker")

    def make(target: str) -> Path:
        goal = out / target if target.endswith(".so") else target
        run("make", "-s", "-C", CHECKER, f"OUT={out}", goal)
        return out / target

    return make


@pytest.fixture(scope="session")
def cross() -> str:
    """The prefix of the arm64 binutils and compiler."""
    if shutil.which(CROSS + "as") is None:
        pytest.skip(f"{CROSS}as is not installed (apt install gcc-12-aarch64-linux-gnu)")
    return CROSS


@pytest.fixture(scope="session")
def gcc(cross: str) -> str:
    """The compiler for arm64."""
    del cross  # skips where there is none
    return toolchain.find().gcc


@pytest.fixture(scope="session", params=[real_qemu, newer_qemu], ids=["lab", "newer"])
def qemu(request: pytest.FixtureRequest) -> Qemu:
    """A test that asks for a QEMU runs with the lab's, and with one that needs the plugin's other build."""
    found: Qemu = request.param()
    return found
