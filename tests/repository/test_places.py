# SPDX-License-Identifier: GPL-2.0-only
"""A feature is named in few places.

A place is a file, outside the folders of the feature's mails, that somebody who adds, renames or removes a feature has
to change by hand: code, tests, configuration, and tables or lists of features. There, a feature is named by a string or
a key that is its name, or in which the name stands for it (``lull+young=sync``, ``only=young``, ``young: threshold``,
``kernel/7.3/young/``), by an import of its module, and by the name of its module or of that module's test.

No places are: sentences and examples, of documents, messages, comments and docstrings; results, of reviews as well;
CHANGELOG.md; the tables that this file writes (``tables``); and mails, of other features and of the lab, which has its
switches there.
"""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from support import FACTS, REPOSITORY, tracked

from lull import base as bases
from lull import plan, toml
from lull.base import Feature

FEATURES = bases.load_base().exported()
MOST = 4
"""The most places in which a feature is named."""
NO_PLACE = re.compile(r"\.patch$|^(?:CHANGELOG|results/|docs/(?:results/|reviews|glossary)|tests/data/)")
WORDS = {word for w in plan.load_workloads(bases.load_base().workloads).values() for word in (w.name, w.program)}
"""Workloads and their programs, some of which are named as a feature."""
NO_WORKLOADS = re.compile(r"kernel/|src/lull/(?!judge/)")
"""Where these words are the features."""


def tables(features: Sequence[Feature]) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Document -> the head of its table of features, and its rows."""
    phrases = {f: FACTS[f.name]["about"] for f in features if "about" in FACTS[f.name]}
    about = [f"[{f.name}](kernel/7.3/{f.name}/{bases.LETTER}) | {does} | {f.parameter}" for f, does in phrases.items()]
    titles = {f.name: bases.title_of(f.letter).partition(": ")[2] for f in features}
    series = [f"{f.name} | [{titles[f.name]}](7.3/{f.name}/{bases.LETTER}) | {', '.join(f.needs)}" for f in features]
    return {
        "README.md": ("| feature | what it does | boot parameter (default first) |", about),
        "kernel/README.md": ("| feature | cover letter | applied before it |", series),
    }


def with_table(name: str, text: str, features: Sequence[Feature]) -> str:
    """A document with the table of these features in the place of the one that it has."""
    head, rows = tables(features).get(name, ("\0", ()))
    written = "".join(f"| {row} |\n".replace("|  |", "| |") for row in rows)
    return re.sub(rf"(?m)(?<=^{re.escape(head)}\n)(\|[-|]+\|\n)(?:\|.*\n)*", lambda m: m[1] + written, text)


@pytest.mark.parametrize("document", tables([]))
def test_tables_of_features(document: str) -> None:
    """They say what kernel/bases/7.3.toml and the cover letters say. LULL_WRITE=1 in the environment writes them."""
    path = REPOSITORY / document
    text, due = path.read_text(), with_table(document, path.read_text(), [*FEATURES.values()])
    if os.environ.get("LULL_WRITE"):
        path.write_text(due)
    assert text == due, f"the table of {document} is old: LULL_WRITE=1 ./lull test --fast -- -k tables_of_features"


def of_python(text: str) -> Iterator[str]:
    """The strings that are no docstrings, and what is imported."""
    tree = ast.parse(text)
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.value
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [name.name for name in node.names] + [getattr(node, "module", None) or ""]
            yield from (f"import {name.rpartition('.')[2]}" for name in names)


def of_table(value: object) -> Iterator[str]:
    """The keys and the values of a TOML table, but for arguments of programs."""
    inner: Sequence[object] = value if isinstance(value, list) else ()
    if isinstance(value, Mapping):
        yield from value
        inner = [one for key, one in value.items() if key != "args"]
    for one in inner:
        yield from of_table(one)
    if not inner:
        yield str(value)


def of_document(text: str) -> Iterator[str]:
    """The first cells of tables."""
    yield from re.findall(r"(?m)^\| (?:`|\[)?(\w+)(?:`|\]\(\S+\))? \|", text)


@functools.cache
def said() -> Mapping[str, Sequence[str]]:
    """File -> what it says that is no sentence, and its own name."""
    found = {}
    for path in tracked():
        name = str(path.relative_to(REPOSITORY))
        if NO_PLACE.search(name) or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".py":
            found[name] = [f"import {path.stem.removeprefix('test_')}", *of_python(text)]
        elif path.suffix == ".toml":
            found[name] = [*of_table(toml.load_toml(path))]
        elif path.suffix == ".md":
            found[name] = [*of_document(with_table(name, text, []))]
        else:
            found[name] = re.findall(r"\S*mm/lull/\w+", text)
    return found


def names(text: str, feature: str) -> bool:
    """Return true if a string stands for the feature, or names it in a way of its own."""
    ways = rf"(?<![\w-]){feature}=|only={feature}(?![\w-])|lull-{feature}\b|mm/lull/{feature}\b|^setting {feature} "
    ways += rf"|^{feature}: |^{feature}/0|(?:kernel/[\w.]+/|features\.){feature}\b|^import {feature}$"
    return text == feature or bool(re.search(ways, text))


def places(feature: str) -> list[str]:
    """The files that name it. A word that is a workload's, too, is mostly the workload."""

    def here(file: str, text: str) -> bool:
        workload = text in WORDS and not NO_WORKLOADS.match(file)
        return names(text, feature) and not workload

    return [file for file, texts in said().items() if any(here(file, text) for text in texts)]


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_is_named_in_few_places(feature: str) -> None:
    """Whoever adds, renames or removes one has no more files to change."""
    found = places(feature)
    assert "kernel/bases/7.3.toml" in found and len(found) <= MOST, found
