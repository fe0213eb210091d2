# SPDX-License-Identifier: GPL-2.0-only
"""Which tests a change can break: the table for ``lull test --changed``.

The rules look at names and imports only. What they leave out is printed, and `lull test` runs it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from lull import paths, process
from lull.errors import UsageError

ALL = "test_*.py"
STYLE = "repository/test_style.py"
WHOLE_LAB = ("host/test_cli.py", "qemu/test_fake_lab.py", STYLE)
"""Tests that run the whole tool; they belong to every file of src/."""
GUESTS = "tests/guest/test_*.py"
"""Tests with real kernels. The folder is named from the top: tests/host/guest has tests of the package lull.guest."""
IN_GUESTS = ("boot", "checkpatch", "erratum", "hvo", "images", "kunit", "run", "series")
ON_HOST = ("export", "message", "tree")
KERNEL = (*(f"tests/guest/test_{n}.py" for n in IN_GUESTS), *(f"host/linux/test_{n}.py" for n in ON_HOST), STYLE)
"""Tests that belong to every file of kernel/."""
RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"kernel/(bases|config|core)/.*", (GUESTS, *KERNEL, "test_plan.py", "test_deb.py")),
    (r"kernel/lab/.*", (*KERNEL, "test_lab_kernel.py", "test_mutants.py", "test_check.py", "host/check/*")),
    (r"kernel/vmemmap/.*", (*KERNEL, "test_vmemmap*.py", "test_hvo*.py", "tests/guest/test_check.py")),
    (r"kernel/unsafe/.*", (*KERNEL, "test_plan.py", "test_vmemmap.py")),
    (r"kernel/nofb/.*", (*KERNEL, "test_plan.py", "test_vm.py")),
    (r"kernel/(?P<name>[a-z]+)(_lab)?/.*", (*KERNEL, "test_{name}*.py", "tests/guest/test_check.py")),
    (r"fixes/.*\.c", ("host/programs/test_fixes.py", STYLE)),
    (r"fixes/.*\.patch", ("host/linux/test_export.py", "tests/guest/test_checkpatch.py", "tests/guest/test_series.py")),
    (r"plugin/.*", ("plugin/*", "host/check/*", "repository/*", "test_check.py", "test_plugin.py", "test_fake_lab.py")),
    (r"src/lull/(?P<module>\w+)\.py", ("@imports", "test_{stem}.py", *WHOLE_LAB)),
    (r"src/lull/(?P<module>(?P<package>\w+)/\w+)\.py", ("@imports", "test_{stem}.py", "host/{package}/*", *WHOLE_LAB)),
    (r"src/lull/(?P<package>\w+)/.*", ("host/{package}/*",)),
    (r"guest/.*\.(c|h)|guest/init", (GUESTS, "host/programs/*", "test_{stem}*.py", STYLE)),
    (
        r"guest/(.*/)?workloads\.toml",
        tuple(f"test_{n}.py" for n in ("plan", "short", "storm", "soak", "native", "goals", "mutants")),
    ),
    (r"guest/vm/.*", ("test_plan.py", "test_vm.py", "test_encoding.py")),
    (r"guest/.*", ("test_plan.py", "test_real.py", "test_userland.py", "test_selftests.py", "test_encoding.py")),
    (r"models/.*", ("test_models.py",)),
    (r"timing/.*", ("host/timing/*", "test_timing.py", "test_modelled*.py", "host/calibrate/*", "test_calibrate.py")),
    (r"tests/(.*/)?test_\w+\.py", ("{path}", STYLE)),
    (r"tests/fake/.*", ("host/test_cli.py", "qemu/*", "test_kept.py", "@names")),
    (r"tests/plugin/.*", ("plugin/*", "test_plugin.py", "test_rules.py")),
    (r"tests/data/.*", ("@names",)),
    (r"(docs/|\.githooks/).*|.*\.(md|svg)", ("repository/*", "test_pages.py")),
    (r".*", (ALL,)),
)
"""Pattern of a changed file's path -> its tests, as patterns of the last parts of test files' paths. The first row that
fits a path is its row, and every document has the row of documents, too. In the tests, {name} and {package} are groups
of the pattern, {path} is the changed file's path, and {stem} its name without the ending. ``@imports``: the tests that
import the module or its package. ``@names``: the tests with the file's name in them."""
DOCUMENT = RULES[-2]


def changed_files() -> list[str]:
    """The paths that differ between the working tree and the commit where its branch left ``main``, and new files.

    Without a branch ``main``: the differences from HEAD. Raises UsageError outside a git work tree.
    """

    def git(*words: str) -> list[str]:
        return process.output_of(["git", "-C", paths.REPOSITORY, *words], error=UsageError).splitlines()

    main = process.complete(["git", "-C", paths.REPOSITORY, "merge-base", "HEAD", "main"], apart=True)
    since = main.output.strip() if main.status == 0 else "HEAD"
    return sorted(
        {*git("diff", "--name-only", "--no-renames", since), *git("ls-files", "--others", "--exclude-standard")}
    )


@cache
def imported(text: str) -> frozenset[str]:
    """The modules, and the names in them, that Python source imports: ``lull.plan`` and ``lull.plan.Spec``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def imports(text: str, module: str) -> bool:
    """Return true if the Python source ``text`` imports ``module`` (``linux/tree``), or anything of its package.

    Args:
        module: its path below src/lull, without the ending.
    """
    name = ".".join(["lull", *module.split("/")]).removesuffix(".__init__")
    package = name.rpartition(".")[0]
    return bool(imported(text) & {name, *([package] if "." in package else [])})


def tests_of(path: str, files: dict[Path, str]) -> set[Path]:
    """The test files that a change of ``path`` can break; all of them when its row in RULES has none.

    Args:
        files: every test file -> its text.
    """
    row = next(row for row in RULES if re.fullmatch(row[0], path))
    found: set[Path] = set()
    for pattern, tests in {row, DOCUMENT}:
        match = re.fullmatch(pattern, path)
        if not match:
            continue
        groups = {**match.groupdict(), "stem": Path(path).stem, "path": path}
        for test in tests:
            found |= {
                file
                for file, text in files.items()
                if (test == "@imports" and imports(text, groups["module"]))
                or (test == "@names" and Path(path).name in text)
                or file.match(test.format(**groups))
            }
    return found or set(files)


def select(changed: Iterable[str]) -> tuple[list[str], list[str]]:
    """The test files that the change can break, and those that it leaves out; as paths in the repository."""
    top = paths.REPOSITORY / "tests"
    files = {path.relative_to(paths.REPOSITORY): path.read_text() for path in sorted(top.rglob(ALL))}
    found = {file for path in changed for file in tests_of(path, files)}
    return sorted(map(str, found)), [str(file) for file in files if file not in found]
