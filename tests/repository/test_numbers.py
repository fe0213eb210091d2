# SPDX-License-Identifier: GPL-2.0-only
"""A number that several documents quote is the same in all of them, and that of the run or the file it comes from."""

from __future__ import annotations

import re

import pytest
from support import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
QUOTES = {
    "redis on 6.12": (
        ("docs/results.md", r"redis 0 and 1 of (\d+)"),
        ("docs/upstream.md", r"BGSAVE while a client writes: (\d+) broadcasts"),
    ),
    "redis on 7.3": (
        ("docs/linux-7.3.md", r"\| redis \| (\d+ \| \d+ \| \d+) \|"),
        ("README.md", r"\| redis: .* \| (\d+ \| \d+ \| \d+) \|"),
    ),
    "an mprotect() on 7.3": (
        (
            "docs/results/7.3/instructions.md",
            r"\A(?:.*\n)*?\*\*insns_work\*\*\n(?:.*\n)*?\| mprotect_threaded \| .* \| ([\d.]+) \?",
        ),
        ("README.md", r"executes ([\d.]+) times stock's instructions"),
        ("kernel/*/residency/cover-letter.txt", r"becomes local takes ([\d.]+) times stock's"),
        ("docs/upstream.md", r"On 7\.3 an mprotect\(\) executes ([\d.]+) times"),
    ),
    "lines of residency": (
        ("docs/decisions/*.md", r"add (\d+) lines of code, neither"),
        ("kernel/7.3/*/cover-letter.txt", r"this series\nhas (\d+) lines of code, without"),
        ("docs/linux-7.3.md", r"residency (\d+)\."),
        ("docs/upstream.md", r"On 7\.3 residency adds (\d+) \["),
        ("README.md", r"Lull's residency has (\d+)\."),
    ),
    "lines of active_cpu": (
        ("docs/decisions/*.md", r"adds 68 lines on 7\.3, of which (\d+) are code"),
        ("kernel/7.3/*/cover-letter.txt", r"in (\d+) lines of our own"),
        ("docs/linux-7.3.md", r"active_cpu adds (\d+) \["),
        ("docs/upstream.md", r"On 7\.3 residency adds .*, `active_cpu` (\d+)\."),
        ("README.md", r"in (\d+) lines of our own code"),
    ),
    "mutants reported on 6.12": (
        ("docs/results.md", r"Each of the (\d+) mutants"),
        ("docs/upstream.md", r"reported each of (\d+) mutants"),
    ),
}
"""What is quoted: the document that it comes from (one of those that match), those that quote it, and where it is."""


@pytest.mark.parametrize("what", QUOTES)
def test_quotes_agree(what: str) -> None:
    """Each document has the number where the table says, and it is that of the first."""
    found = {}
    for name, pattern in QUOTES[what]:
        texts = [path.read_text() for path in REPOSITORY.glob(name)]
        (found[name],) = {m[1].replace(" ", "") for text in texts for m in re.finditer(pattern, text)}
    assert len(set(found.values())) == 1, found


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the rows of the table whose head begins with ``first``."""
    table = re.search(rf"(?m)^\| {re.escape(first)} \|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", text)
    assert table, first
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def test_counts_of_readme_are_those_of_the_run() -> None:
    """Broadcasts of stock, active_cpu and Lull on 7.3; redis is of another run (QUOTES)."""
    counts: dict[tuple[str, str], str] = {}
    kernels: list[str] = []
    for line in (REPOSITORY / "docs/results/7.3/tlbi.md").read_text().partition("## tlbi_local")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line or cells[0] == "workload":
            kernels = cells
        elif cells[0] and len(cells) == len(kernels):
            numbers = (cell.partition(" ")[0] for cell in cells)
            counts.update(((cells[0], kernel), number) for kernel, number in zip(kernels, numbers, strict=True))
    quoted = [cells for cells in rows(README, "workload") if not cells[1].endswith("a run")]
    assert len(quoted) >= 5
    for name, _, *numbers in quoted:
        workload = name.partition(":")[0]
        assert numbers == [counts[workload, kernel] for kernel in ("stock", "active_cpu", "lull")], workload


def test_costs_of_readme_are_those_that_were_judged() -> None:
    """The shares of stock's instructions, and which of them miss their limit, by each base's page of thresholds."""
    for column, page in ((2, "docs/results/7.3/thresholds.md"), (3, "docs/results/thresholds.md")):
        thresholds = (REPOSITORY / page).read_text()
        for cells in rows(README, "one operation is"):
            named = re.search(r"\((\S+)\)", cells[0])
            threshold = f"instructions of {named[1]}" if named else r"instructions with \w+=off"
            line = re.search(rf"{threshold}(?: \| |: )(\w+)(?: \| |: )\D*?([-+][\d.]+) %", thresholds)
            assert line, (threshold, page)
            share = re.match(r"[\d.]+", cells[column])
            words = {"failed": "missed", "undecided": "undecided"}
            said = [word for word in words.values() if word in cells[column]]
            assert share and f"+{share[0]}" == line[2] and said == [words[w] for w in words if w == line[1]], cells


def test_findings_of_readme_are_those_of_the_table() -> None:
    """How many defects only the checker saw on arm64; how many of them 7.3 has, and others fixed."""
    table = rows((REPOSITORY / "docs/findings.md").read_text(), "finding")
    seen = [cells for cells in table if "(not seen" in cells[2]]
    here = [cells for cells in seen if cells[3].startswith("yes")]
    others = [cells for cells in seen if "fixed in" in cells[3] or "by others" in cells[4]]
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    said = re.search(
        r"checker found\n?\s*(\w+) \[defects\].*, of which 7\.3 has (\w+)\.[^.]*others have fixed (\w+)\.", README
    )
    assert said and said.groups() == tuple(words[len(each)] for each in (seen, here, others))


def test_readme_is_short_and_quotes_the_run_of_the_tutorial() -> None:
    """At most 110 lines; the lines of the short run's table, and of the report of a mutant, are the same in both."""
    assert len(README.splitlines()) <= 110
    tutorial = (REPOSITORY / "docs/tutorial.md").read_text()
    run = re.findall(r"(?m)^    \S+ +(?:broadcast TLBIs|a cost: instructions), .*$", README)
    mutant = re.findall(r"(?m)^(?:    report \d|      (?:entry|changed|TLBIs) ).*$", README)
    assert len(run) >= 3 and len(mutant) >= 4
    assert [line for line in (*run, *mutant) if f"{line}\n" not in tutorial] == []
