# SPDX-License-Identifier: GPL-2.0-only
"""Machines, mutants and known issues: what their files say, and what is refused."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import FAKE

from lull import base as bases
from lull.check import data as check_data
from lull.errors import UsageError

MACHINES = check_data.load_machines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max", ("max", "max,pauth-impdef=on", None, 16, None)),
        ("max+kpti", ("max+kpti", "max,pauth-impdef=on", True, 16, None)),
        ("cortex-a76+asid8+nokpti", ("cortex-a76+nokpti+asid8", "cortex-a76", False, 8, None)),
        ("cortex-a55", ("cortex-a55", "cortex-a55", None, 16, None)),
        ("max,sve=off+asid8", ("max,sve=off+asid8", "max,sve=off", None, 8, None)),
        ("max+ntlbpa+kpti", ("max+kpti+ntlbpa", "max,pauth-impdef=on", True, 16, True)),
        ("cortex-a55+nontlbpa", ("cortex-a55+nontlbpa", "cortex-a55", None, 16, False)),
        ("max-ntlbpa", ("max-ntlbpa", "max,pauth-impdef=on", None, 16, True)),
        ("max-ntlbpa+nontlbpa", ("max-ntlbpa+nontlbpa", "max,pauth-impdef=on", None, 16, False)),
        ("max+ntlbpa+nontlbpa", ("max+nontlbpa", "max,pauth-impdef=on", None, 16, False)),
    ],
)
def test_names_of_machines(text: str, expected: tuple[object, ...]) -> None:
    """Ours, QEMU's, and settings behind either."""
    found = check_data.parse_hardware(text, MACHINES)
    assert (found.name, found.cpu, found.kpti, found.asid_bits, found.ntlbpa) == expected
    assert check_data.parse_hardware(found.name, MACHINES) == found


def test_memory_tags() -> None:
    """A setting of the machine, not of the CPU."""
    found = check_data.parse_hardware("max+mte+kpti", MACHINES)
    assert found.mte and found.name == "max+kpti+mte"
    assert not check_data.parse_hardware("max", MACHINES).mte


def test_the_erratum_of_sme() -> None:
    """A setting of CPUs that have SME."""
    found = check_data.parse_hardware("max-nolpa2+sme+asid8", MACHINES)
    assert found.sme and found.name == "max-nolpa2+asid8+sme"
    assert not check_data.parse_hardware("max", MACHINES).sme
    with pytest.raises(UsageError, match="has no SME"):
        check_data.parse_hardware("neoverse-n2+sme", MACHINES)


def test_the_matrix() -> None:
    """Each machine four times, or as often as is left open; every name stands for its cell."""
    whole = check_data.matrix(MACHINES, None, None)
    assert len(whole) == len(set(whole)) == 4 * len(MACHINES)
    assert len(check_data.matrix(MACHINES, True, None)) == 2 * len(MACHINES)
    assert {h.asid_bits for h in check_data.matrix(MACHINES, None, 8)} == {8}
    assert {h.ntlbpa for h in whole} == {None, True}  # no CPU of QEMU has it
    assert [check_data.parse_hardware(h.name, MACHINES) for h in whole] == whole
    assert {h.parameter() for h in whole} == {"kpti=0", "kpti=1"}


def test_the_machines_that_must_pass_are_there() -> None:
    """The four that issue 3 names."""
    assert {"max", "max-nolpa2", "cortex-a76", "neoverse-n1", "neoverse-n2"} <= set(MACHINES)


def test_mutants(tmp_path: Path) -> None:
    """Read, with defaults; what is missing is named."""
    found = check_data.load_mutants(FAKE / "mutants.toml")
    assert found["caught"].rules == ("pending/local", "remap") and found["caught"].vcpus == 6
    assert found["crashing"].may_crash and not found["missed"].may_crash
    with pytest.raises(UsageError, match="no mutants"):
        check_data.load_mutants(tmp_path / "none.toml")


def test_mutants_of_a_series(tmp_path: Path) -> None:
    """Those that its bases have, each with what is different there."""
    path = tmp_path / "mutants.toml"
    entry = "about=''\nworkload=''\nrules=['pending']\n"
    path.write_text(f"[a]\n{entry}on.'7.3'={{rules=['walk']}}\n[b]\n{entry}bases=['7.3']\n")
    loaded = {"": None, **{name: bases.load_base(name) for name in ("6.12", "7.3")}}
    found = {series: check_data.load_mutants(path, base) for series, base in loaded.items()}
    assert {series: "".join(mutants) for series, mutants in found.items()} == {"": "ab", "6.12": "a", "7.3": "ab"}
    assert [mutants["a"].rules for mutants in found.values()] == [("pending",), ("pending",), ("walk",)]


@pytest.mark.parametrize(
    "text",
    ["[a]\n", "[a]\nabout=''\nworkload=''\nrules='pending'\n", "[a]\nabout=''\nworkload=''\nrules=[]\n", "a=1\n", "["],
)
def test_malformed_files(tmp_path: Path, text: str) -> None:
    """The file is named."""
    path = tmp_path / "file.toml"
    path.write_text(text)
    data = check_data
    for load in (data.load_rules, data.load_mutants, data.load_machines, data.load_known_issues):
        with pytest.raises(UsageError) as caught:
            load(path)
        assert str(path) in caught.value.text()


def test_the_known_issues_file_is_whole() -> None:
    """Every known issue is documented where it says."""
    for issue in check_data.load_known_issues():
        document, _, anchor = issue.doc.partition("#")
        text = (check_data.paths.REPOSITORY / document).read_text().lower()
        assert f"#-{anchor}\n" in re.sub(r"[:,`]", "", text).replace(" ", "-"), issue.name


def test_what_a_known_issue_describes() -> None:
    """Its rule and kind, and all functions that it names, each on the stack that it names; what the entry lost, and why
    a TLBI was not enough."""
    made = partial(check_data.KnownIssue, "f", "about", "free", "doc#f")
    report = {
        "rule": "free",
        "kind": "table",
        "level": -1,
        "conflict": "gone",
        "tlbis": [{"why": "va"}, {"why": "level"}],
    }
    report |= {"changed": {"functions": ["a", "b.constprop.0.isra.0"]}, "noticed": {"functions": ["c"]}}
    right: list[dict[str, Any]] = [
        {"changed": ("b",)},
        {"changed": ("a", "b"), "noticed": ("c",)},
        {"kind": "table", "level": -1},
        {"conflict": "gone", "tlbi": "level"},
    ]
    wrong: list[dict[str, Any]] = [
        {"changed": ("c",)},
        {"changed": ("a", "d")},
        {"noticed": ("a",)},
        {"kind": "page"},
        {"level": 0},
        {"conflict": "permission"},
        {"tlbi": "local"},
    ]
    assert all(made(**fields).describes(report, "6.12.117") for fields in right)
    assert not any(made(**fields).describes(report, "6.12.117") for fields in wrong)
    assert not made().describes({**report, "rule": "pending"}, "6.12.117")
    assert not made(changed=("b",)).describes({"rule": "free", "kind": "table"}, "6.12.117")


@pytest.mark.parametrize(
    ("release", "known"),
    [("6.12.117+deb13-arm64", True), ("6.1.0-56-rt-arm64", True), ("6.14", False), ("7.3.4", False), ("", False)],
)
def test_a_defect_that_has_been_fixed(release: str, known: bool) -> None:
    """A later kernel that reports it has a defect that is not known. Of a guest that died early no release is known."""
    finding = check_data.KnownIssue("f", "about", "free", "doc#f", ("__p4d_free_tlb",), before="6.14")
    report = {"rule": "free", "kind": "table", "changed": {"functions": ["__p4d_free_tlb"]}}
    assert finding.describes(report, release) is known


def test_a_defect_that_a_feature_fixes() -> None:
    """It is known of kernels without the feature, and of the user's own ones; the features name issues that exist."""
    issues = {issue.name: issue for issue in check_data.load_known_issues()}
    for base in map(bases.load_base, ("6.12", "7.3")):
        assert {name for feature in base.features.values() for name in feature.fixes} <= issues.keys()
        for kernel, known in (("lab", False), ("lull", False), ("reclaim", True), ("stock", True), ("Image", True)):
            left = check_data.unfixed(issues.values(), base, kernel)
            assert (issues["mprotect-folds-unflushed"] in left) is known, kernel
            assert issues["hugetlb-moved-unflushed"] in left
        assert issues["reclaim-unlocks-before-dsb"] not in check_data.unfixed(issues.values(), base, "reclaim")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["pending"], True),
        (["pending/local"], True),
        (["pending/table"], False),
        (["bbm", "pending"], True),
        ([], False),
    ],
)
def test_rules(rules: list[str], expected: bool) -> None:
    """A rule stands for all its kinds."""
    assert check_data.matches({"rule": "pending", "kind": "local"}, rules) == expected


def test_rules_of_the_console() -> None:
    """Any part of what the kernel says."""
    report = {"rule": "console", "kind": "BUG", "text": ["report 1: console/BUG: BUG: Bad page state in process sh"]}
    assert check_data.matches(report, ["pending", "console/Bad page state"])
    assert not check_data.matches(report, ["pending", "console/Bad page map"])
