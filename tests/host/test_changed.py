# SPDX-License-Identifier: GPL-2.0-only
"""The table of `lull test --changed`: which tests belong to which files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from support import REPOSITORY

from lull import changed, cli, paths, process

TESTS = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "tests").rglob(changed.ALL)]


def named(patterns: Iterable[str]) -> set[str]:
    """The test files that the patterns name. Each pattern names at least one."""
    found = {pattern: {test for test in TESTS if Path(test).match(pattern)} for pattern in patterns}
    assert all(found.values()), found
    return {test for tests in found.values() for test in tests}


@pytest.mark.parametrize(
    ("path", "some", "others"),
    [
        (
            "kernel/young_lab/files/arch/arm64/mm/lull/young.c",
            ["guest/test_kunit.py", "test_young.py"],
            ["test_real.py"],
        ),
        ("kernel/teardown/swap/NOTE.md", ["guest/test_kunit.py", "test_guide.py", "test_style.py"], ["test_young.py"]),
        ("kernel/bases/6.12.toml", ["guest/test_kunit.py", "guest/test_soak.py", "test_plan.py"], ["test_stats.py"]),
        ("plugin/owe.c", ["test_unit.py", "guest/test_check.py"], ["guest/test_kunit.py", "test_young.py"]),
        ("src/lull/judge/stats.py", ["test_stats.py", "test_compare.py", "test_cli.py"], ["test_ktap.py"]),
        ("src/lull/selftests/ktap.py", ["test_ktap.py", "guest/test_kunit.py"], ["test_stats.py"]),
        ("src/lull/timing/__init__.py", ["timing/test_timing.py", "test_modelled_time.py"], ["test_ktap.py"]),
        ("docs/guide.md", ["test_guide.py", "test_style.py"], ["test_cli.py"]),
        ("guest/young.c", ["test_young.py", "guest/test_kunit.py"], ["test_stats.py"]),
        ("tests/host/judge/test_stats.py", ["test_stats.py"], ["test_cli.py"]),
        ("tests/data/kunit.log", ["test_ktap.py", "selftests/test_kunit.py"], ["test_stats.py"]),
        ("requirements.txt", TESTS, []),
        ("tests/support.py", TESTS, []),
    ],
)
def test_what_a_file_can_break(path: str, some: list[str], others: list[str]) -> None:
    """The tests of its row in the table; what is not run is left out."""
    chosen, left = map(set, changed.select([path]))
    assert named(some) <= chosen and named(others) <= left
    assert not chosen & left and chosen | left == set(TESTS)


def test_the_table_names_tests_that_exist() -> None:
    """A name without a group is that of at least one test file."""
    for pattern, tests in changed.RULES:
        re.compile(pattern)
        for test in tests:
            exists = "{" in test or test.startswith("@") or any(Path(name).match(test) for name in TESTS)
            assert exists, f"{test}, which the row {pattern} names"


def test_nothing_changed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs, and that is said."""
    monkeypatch.setattr(changed, "changed_files", list)
    assert cli.main(["test", "--changed"]) == 0
    assert "nothing to run" in capsys.readouterr().err


def test_the_command_names_the_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is run, by pytest's command line, and what is left out; with --fast still without real kernels."""
    monkeypatch.setattr(changed, "changed_files", lambda: ["docs/guide.md"])
    assert cli.main(["test", "--changed", "--fast", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "-m 'not guest' " in out and "tests/repository/test_guide.py" in out and "test_cli.py" not in out
    assert "changed: docs/guide.md\nleft out: " in err and "test_cli.py" in err and "test_guide.py" not in err
    assert "left out, too: tests that are marked guest\n" in err


def test_a_new_file_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of the branch, what is not committed, what git does not know yet, and both names of what was renamed."""
    top = tmp_path / "work"
    top.mkdir()
    monkeypatch.setattr(paths, "REPOSITORY", top)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        process.output_of(["git", "-C", top, *identity, *words])

    git("init", "-q", "-b", "main")
    for name in ("kept", "edited", "moved"):
        (top / name).write_text(f"{name}\n" * 9)
    git("add", "-A")
    git("commit", "-qm", "first")
    assert changed.changed_files() == []
    git("switch", "-qc", "branch")
    git("mv", "moved", "there")
    git("commit", "-qm", "second")
    (top / "edited").write_text("other\n")
    (top / "new").touch()
    assert changed.changed_files() == ["edited", "moved", "new", "there"]
