# SPDX-License-Identifier: GPL-2.0-only
"""The models: the protocol holds, and each trap's removal fails. LULL_MODELS=all for every configuration (minutes)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from support import REPOSITORY

FOLDER = REPOSITORY / "models"
EVERYTHING = os.environ.get("LULL_MODELS") == "all"


def script(name: str) -> ModuleType:
    """A script of models/, as a module."""
    spec = importlib.util.spec_from_file_location(f"models_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run = script("run")
judge = script("judge")


def test_every_switch_of_the_model_is_tried() -> None:
    """No variant of a model without a case, and no case without its variant."""
    for model in FOLDER.glob("*.pml"):
        switches = set(re.findall(r"\bV_\w+", model.read_text()))
        tried = {d for case in run.cases() if case.model() == model for d in case.defines if d.startswith("V_")}
        assert tried == switches, model.name


def test_the_table_has_every_case() -> None:
    """README.md says what each variant takes away."""
    text = (FOLDER / "README.md").read_text()
    assert not [c.name for c in run.cases() if f"`{c.name.partition(' ')[0]}`" not in text]


def test_mutants_of_variants_are_there() -> None:
    """The mutant in parentheses behind a variant is one of the lab kernel's, and the variant must fail."""
    mutants = set(tomllib.loads((REPOSITORY / "kernel/mutants.toml").read_text()))
    failing = {c.name for c in run.cases() if c.expected == run.FAILS}
    named = re.findall(r"(?m)^\* `([A-Z_]+)` \(`([a-z-]+)`\): ", (FOLDER / "README.md").read_text())
    assert len({mutant for _, mutant in named}) == 12
    assert {variant for variant, _ in named} <= failing and {mutant for _, mutant in named} <= mutants


def test_an_incomplete_search_is_no_proof() -> None:
    """Out of depth or memory, or with an error: never 'holds'."""
    said = "State-vector 72 byte, depth reached 9, errors: 0\n   123 states, stored\n"
    assert run.verdict(said) == (run.HOLDS, 123, "")
    assert run.verdict("error: max search depth too small\n" + said)[0] == "incomplete"
    assert run.verdict("Warning: Search not completed\n" + said)[0] == "incomplete"
    assert run.verdict("")[0] == "incomplete"
    broken = "pan:1: assertion violated (pte[j]!=0) (at depth 54)\n  errors: 1\n 1.5e+06 states, stored\n"
    assert run.verdict(broken) == (run.FAILS, 1500000, "assertion violated (pte[j]!=0)")
    assert run.verdict("pan:1: invalid end state (at depth 5)\n")[0] == run.FAILS


def test_litmus_tests_say_what_they_ask() -> None:
    """Each has its result, its name, and its question in the README."""
    text = (FOLDER / "litmus/README.md").read_text()
    assert judge.tests()
    for test in judge.tests():
        row = next((line for line in text.splitlines() if f"`{test.path.stem}`" in line), "")
        assert row.rstrip(" |").endswith(test.expected), test.path.stem


@pytest.mark.skipif(not judge.herd(), reason="no herd7")
def test_litmus_verdicts() -> None:
    """herd7 says what the files say."""
    assert {t.path.stem: judge.run(judge.herd(), t) for t in judge.tests()} == {
        t.path.stem: t.expected for t in judge.tests()
    }


@pytest.mark.skipif(not shutil.which("spin"), reason="no spin")
def test_protocol_and_variants(tmp_path: Path) -> None:
    """Configurations hold, variants do what the table says."""
    chosen = [c for c in run.cases() if EVERYTHING or run.quick(c)]
    results = run.run_all(chosen, len(os.sched_getaffinity(0)), tmp_path)
    assert all(r.good() for r in results), run.table(results)
