# SPDX-License-Identifier: GPL-2.0-only
"""One name for one thing: a word that docs/glossary.md has replaced is in no document, report, help or exit text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support import REPOSITORY

OLD = {
    r"owed|obligations?": "pending, pending invalidation",
    "silent": "passed; of a rule, not checked",
    "blind": "inconclusive",
    r"(?:checks?|goals?|thresholds?|everything) held": "passed",
    "goals?": "threshold",
    "hulls?": "flush range",
    "naive": "reference",
    "tellers?|stories": "generator, traces",
    "storms?": "stressor",
    r"tlb_lost\w*": "tlb_over_invalidated",
    "rivals?": "alternative",
    "parcels?": "bundle",
}
"""An old word -> what is said now. A part of a name with dashes (`span-hull`, a mutant) is no word."""
READ = (
    "*.md",
    "docs/**/*.md",
    *(f"{part}/*.md" for part in ("contrib", "guest", "kernel", "checker", "models", "fixes")),
)
READ += ("src/lull/**/*.py", "src/lull/**/*.html", "contrib/lull_contrib/**/*.py", "checker/*.[ch7]", "checker/*.toml")
"""What users read, or what has strings that they read. CHANGELOG.md speaks of old versions."""


def old_words(text: str) -> list[str]:
    """What is wrong with a text: each old word, and what to say."""
    found = ((m[0], new) for old, new in OLD.items() for m in re.finditer(rf"(?i)(?<![\w-])(?:{old})(?![\w-])", text))
    return [f"{word}: say {new}" for word, new in found]


def strings(path: Path) -> Iterator[str]:
    """What a user may read of a file: documents, and strings of code without those that document the code."""
    text = path.read_text()
    if path.suffix in (".c", ".h", ".toml"):
        yield from re.findall(r'"(?:[^"\\\n]|\\.)*"', text)
    elif path.suffix == ".py":
        tree = ast.parse(text)
        documenting = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documenting:
                yield node.value
    else:
        yield text


def test_old_words_are_seen() -> None:
    """In texts and names, in any case, but not in names with dashes."""
    assert len(old_words("Silent. The obligation `owed/no-dsb` of a storm")) == 4
    assert old_words("the mutant span-hull of mm_storm is pending") == []


def test_no_old_word_is_read_by_users() -> None:
    """Of the documents, the tool, the optional parts and the plugin."""
    paths = [path for pattern in READ for path in REPOSITORY.glob(pattern) if path.name != "CHANGELOG.md"]
    assert len(paths) > 200
    wrong = [(str(p.relative_to(REPOSITORY)), w) for p in paths for text in strings(p) for w in old_words(text)]
    assert wrong == []
