# SPDX-License-Identifier: GPL-2.0-only
"""Form: formatted, linted, typed, licensed, and free of what must not be in a repository."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import REPOSITORY, tracked

import lull
from lull import base as bases
from lull import cli
from lull.linux import pins


@pytest.mark.parametrize(
    "words",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=["lint", "format", "types"],
)
def test_python_is_clean(words: list[str], tmp_path: Path) -> None:
    """ruff and mypy strict, as pyproject.toml configures them."""
    extra = [] if "format" in words else ["--cache-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", *words, *extra], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_has_its_licence() -> None:
    """An SPDX line near the top of every file that can hold one."""
    bare = [
        str(path.relative_to(REPOSITORY))
        for path in tracked()
        if path.exists()
        and path.suffix not in (".patch", ".svg", ".log", ".map", ".json", ".jsonl", ".png")
        and path.name not in ("LICENSE", bases.LETTER)
        and not path.name.startswith("of-")
        and "SPDX-License-Identifier: GPL-2.0" not in path.read_text(errors="replace")[:600]
    ]
    assert not bare


def test_no_host_names_of_registries() -> None:
    """Mirrors come from the machine's configuration, never from here; but for the archive that keeps old versions."""
    pattern = re.compile(
        r"(deb|ftp|security|snapshot)\.debian\.org|pypi\.org|pythonhosted|files\.python", re.IGNORECASE
    )
    guilty = [
        str(p)
        for p in tracked()
        if p.exists()
        and p not in (Path(__file__), Path(pins.__file__))
        and pattern.search(p.read_text(errors="replace"))
    ]
    assert not guilty


def test_the_version_is_in_the_changelog() -> None:
    """Its section has the notes of its tag. What is newer is above it, as unreleased; another version is not."""
    headings = re.findall(r"(?m)^## ([\w.]+)", (REPOSITORY / "CHANGELOG.md").read_text())
    assert next(heading for heading in headings if heading != "Unreleased") == lull.__version__


HOOKS = (".githooks/commit-msg", ".githooks/pre-commit")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shell_scripts() -> None:
    """The launcher, the guest's init, CI and the git hooks."""
    scripts = [REPOSITORY / name for name in ("lull", "guest/init", ".ci/run", *HOOKS)]
    done = subprocess.run(["shellcheck", "-x", *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def packages() -> list[str]:
    """The packages of the tool."""
    return [lull.__name__, *(m.name for m in pkgutil.walk_packages(lull.__path__, "lull.") if m.ispkg)]


@pytest.mark.parametrize("name", packages())
def test_no_package_hides_one_of_its_modules(name: str) -> None:
    """A name it imports from elsewhere takes the place of its own module: others then import the wrong one."""
    package = importlib.import_module(name)
    modules = {m.name: importlib.import_module(f"{name}.{m.name}") for m in pkgutil.iter_modules(package.__path__)}
    assert [short for short, module in modules.items() if getattr(package, short) is not module] == []


LAYERS = (
    ("cache", "errors", "extras", "paths", "process", "progress", "requirements", "toml"),
    ("base", "picture"),
    ("linux", "plan"),
    ("guest",),
    ("eta", "lab", "timing"),
    ("run.loop", "run.measurements", "run.records"),
    ("judge",),
    ("check", "selftests"),
    ("report",),
    ("run.experiment",),
    ("pinning",),
    ("cli", "commands", "options"),
)
"""Modules and packages of the tool, lowest first: docs/architecture.md describes them."""


def imported(text: str) -> set[str]:
    """The modules, and the names in them, that Python source imports: ``lull.plan`` and ``lull.plan.Spec``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def layer(name: str) -> int | None:
    """The layer of a module, or of a name in it: that of the longest entry that it begins with."""
    found = [(e, n) for n, entries in enumerate(LAYERS) for e in entries if f"{name}.".startswith(f"lull.{e}.")]
    return max(found, key=lambda one: len(one[0]))[1] if found else None


def test_imports_point_one_way() -> None:
    """No module imports one of a higher layer, not even in a function, nor an optional part; each has a layer."""
    source = REPOSITORY / "src"
    names = {path: ".".join(path.relative_to(source).with_suffix("").parts) for path in source.rglob("lull/**/*.py")}
    wrong = []
    for path, name in names.items():
        own = layer(name)
        assert own is not None or path.name == "__init__.py", f"{name} has no layer"
        found = sorted(imported(path.read_text()))
        wrong += [f"{name}: {o}" for o in found if (layer(o) or 0) > (own or 0) or o.startswith(cli.OPTIONAL)]
    assert wrong == []


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("Do this\n\nBecause.\n# a comment\n", ""),
        ("x" * 73, "has 73 characters"),
        ("Do this.", "no full stop"),
        ("Do this\nand that\n", "is empty"),
    ],
)
def test_commit_messages(tmp_path: Path, message: str, complaint: str) -> None:
    """The git hook that a contributor can switch on."""
    (tmp_path / "message").write_text(message)
    hook = [REPOSITORY / ".githooks/commit-msg", tmp_path / "message"]
    done = subprocess.run(hook, capture_output=True, text=True, check=False)
    assert done.returncode == bool(complaint) and complaint in done.stderr


def slug(heading: str) -> str:
    """The anchor of a Markdown heading, as GitHub and GitLab make it: links and code marks gone, words joined."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def test_links_of_documents() -> None:
    """Each link of a Markdown file to another file, or to a heading, leads to one."""
    documents = [p for p in tracked() if p.suffix == ".md" and p.exists()]
    plain = {p: re.sub(r"^(```|~~~).*?^\1", "", p.read_text(), flags=re.M | re.S) for p in documents}
    anchors = {p: {slug(h) for h in re.findall(r"^#+ (.*)$", text, flags=re.M)} for p, text in plain.items()}
    broken = []
    for p, text in plain.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, anchor = link.partition("#")
            target = (p.parent / name).resolve() if name else p
            if "://" in link or link.startswith("mailto:"):
                continue
            if not target.exists() or (anchor and target in anchors and anchor not in anchors[target]):
                broken.append(f"{p.relative_to(REPOSITORY)}: {link}")
    assert broken == []


PAGES = (
    *("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/decisions/*.md", "checker/*.md", "kernel/*.md"),
    *("guest/README.md", "models/README.md"),
)
"""The documents that people read. CHANGELOG.md, generated tables and cover letters are not counted."""
WORDS = 45000


def test_documents_are_short() -> None:
    """As wc -w counts: what is added to one is cut elsewhere."""
    words = {p: len(p.read_text().split()) for glob in PAGES for p in REPOSITORY.glob(glob)}
    longest = sorted(words, key=lambda page: -words[page])[:5]
    assert len(words) > 30 and sum(words.values()) <= WORDS, (sum(words.values()), longest)


def test_ways_through_the_rooms() -> None:
    """The numbered lists of docs/architecture.md: each function is in a file of its line."""
    lines = re.findall(r"^\d+\. .*$", (REPOSITORY / "docs/architecture.md").read_text(), flags=re.M)
    assert len(lines) > 15
    for line in lines:
        names = re.findall(r"`([\w/]+\.(?:c|py))`", line)
        files = [REPOSITORY / ("checker" if name.endswith(".c") else "src/lull") / name for name in names]
        text = "".join(path.read_text() for path in files)
        missing = [f for f in re.findall(r"`(\w+)\(\)`", line) if not re.search(rf"\b{f}\(", text)]
        assert not missing, line


OLD = {"known " + "finding": "known issue", "slow " + "model": "reference model"}
"""Terms that were replaced, and by what. Patches, and comments that they have elsewhere in kernel/, may lag."""


def test_old_terms_stay_away() -> None:
    """In documents, code and tests."""
    texts = {p: p.read_text(errors="replace").lower() for p in tracked() if p.suffix in (".md", ".py", ".c", ".h")}
    found = [f"{p}: {old}: write {new}" for p, text in texts.items() for old, new in OLD.items() if old in text]
    assert found == []
