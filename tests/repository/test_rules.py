# SPDX-License-Identifier: GPL-2.0-only
"""The checker's rules: what checker/rules.toml lists is what code, traces, models, mutants and documents have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from pathlib import Path

import pytest
from support import FAKE, REPOSITORY

from lull import base
from lull.check import data, trials

RULES = data.load_rules()
KINDS = {f"{rule}/{kind}" for rule, entry in RULES.items() for kind in entry.kinds}
WORDS = {word for name in KINDS for word in name.split("/")}
CHECKER = REPOSITORY / "checker"
TESTS = REPOSITORY / "checker/tests"
NOT_IN_MODEL = {"shared", "kept"}
"""Only traces test these kinds of asid: in the reference model no CPU shares TLB entries (CnP), and none goes off."""


def lacking(names: Set[str], found: Set[str], place: str) -> None:
    """Fail if any of ``names`` is not ``found`` in ``place``."""
    missing = ", ".join(sorted(names - found))
    assert not missing, f"{place} lacks {missing}"


def test_the_limit_of_vcpus() -> None:
    """What `lull check` refuses beforehand is what the plugin refuses."""
    assert f"#define MAX_CPUS {trials.MAX_VCPUS}\n" in (CHECKER / "space.h").read_text()


def test_the_c_code_reports_each_kind() -> None:
    """By its name of checker/rules.h; a name that rules.toml does not have does not compile."""
    code = "".join(path.read_text() for path in CHECKER.glob("*.c"))
    names = {name: f"RULE_{re.sub('[/-]', '_', name).upper()}" for name in KINDS}
    lacking(KINDS, {name for name, there in names.items() if re.search(rf"\b{there}\b", code)}, "checker/*.c")


def test_sentences() -> None:
    """Each without a full stop, and with a section of the manual."""
    for entry in RULES.values():
        for says, manual in entry.kinds.values():
            assert not says.endswith(".") and manual[0] in "CD"


def test_each_kind_has_a_trace() -> None:
    """So the C code reports each kind. Traces say exactly what is reported, so it reports no other kind there."""
    last = [path.read_text().splitlines()[-1] for path in (TESTS / "traces").glob("*.txt")]
    expected = {word for line in last for word in line.split() if "/" in word}
    lacking(KINDS, expected, "checker/tests/traces/bad_*.txt")
    lacking(expected, KINDS, "checker/rules.toml")


def test_the_slow_model_has_the_rules() -> None:
    """checker/tests/reference*.py, which random traces are compared with."""
    text = "".join(path.read_text() for path in sorted(TESTS.glob("reference*.py")))
    found = set(re.findall(r'"([a-z-]+)"', text))
    lacking(WORDS - NOT_IN_MODEL, found, "checker/tests/reference*.py")
    assert not NOT_IN_MODEL & found, "checker/tests/reference*.py has them: take them off NOT_IN_MODEL"


def table_of_the_document() -> Mapping[str, set[str]]:
    """Rule -> its kinds in the table of docs/checker.md, section "The rules"."""
    section = (REPOSITORY / "docs/checker.md").read_text().split("\n## The rules\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \[`(\w+)`\]\(#[\w-]+\) \| .* \| ([^|]*) \|$", section, re.M)
    return {rule: set(re.findall(r"`([\w-]+)`", kinds)) for rule, kinds in rows}


@pytest.mark.parametrize("rule", sorted(RULES.keys() | table_of_the_document().keys()))
def test_the_document_lists_the_same_kinds(rule: str) -> None:
    """docs/checker.md, in the table of "The rules"."""
    here = {f"{rule}/{kind}" for kind in RULES[rule].kinds} if rule in RULES else set()
    there = {f"{rule}/{kind}" for kind in table_of_the_document().get(rule, ())}
    lacking(here, there, "docs/checker.md")
    lacking(there, here, "checker/rules.toml")


@pytest.mark.parametrize(
    "path",
    [base.load_base().mutants, base.load_base().suites["host"].mutants, FAKE / "mutants.toml"],
    ids=["lab", "host", "fake"],
)
def test_mutants_are_caught_by_rules_that_exist(path: Path) -> None:
    """A rule, a rule and its kind, or a text of the console."""
    place = path.relative_to(REPOSITORY)
    for mutant in (m for one in (None, base.load_base()) for m in data.load_mutants(path, one).values()):
        named = {rule for rule in mutant.rules if not rule.startswith(data.CONSOLE)}
        lacking(named, KINDS | RULES.keys(), f"checker/rules.toml, which {place} quotes: [{mutant.name}]: it")


def test_known_issues_are_reported_by_rules_that_exist() -> None:
    """checker/known-issues.toml names a rule, and a kind or none."""
    for issue in data.load_known_issues():
        named = f"{issue.rule}/{issue.kind}" if issue.kind else issue.rule
        lacking(
            {named},
            KINDS | RULES.keys(),
            f"checker/rules.toml, which checker/known-issues.toml quotes: [{issue.name}]: it",
        )
