# SPDX-License-Identifier: GPL-2.0-only
"""The generated pages: each table of the results is on one, they link to each other, and no other file is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from made_up_results import checked, given_back, hvo, put, run, swapped
from support import REPOSITORY, RUNS, Tool

from lull.errors import UsageError
from lull.report import data, pages


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each kind."""
    top = tmp_path_factory.mktemp("results")
    return {
        "run": put(top / "run", "results.json", run().to_json()),
        "more": put(top / "more", "results.json", run(vcpus=8, more=(*swapped(), *hvo(), *given_back())).to_json()),
        "check": put(top / "check", "check.json", json.dumps(checked())),
    }


def made(*folders: Path) -> dict[str, str]:
    """The pages of some folders."""
    return pages.texts(data.load_sources(folders))


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of Markdown tables that begin with a cell."""
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in found if row[0] == first]


METRIC_PAGES = {"tlbi.md"}
"""Of the metrics that the fake runs have."""
OF_RUN = {pages.INDEX, "thresholds.md", "settings.md", *METRIC_PAGES}


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ({"run"}, OF_RUN),
        ({"more"}, OF_RUN | {"instructions.md"}),
        ({"check"}, {pages.INDEX, "checker.md", "settings.md"}),
        ({"run", "more", "check"}, OF_RUN | {"instructions.md", "checker.md"}),
    ],
)
def test_a_page_is_there_when_its_data_is(kinds: set[str], names: set[str], folders: dict[str, Path]) -> None:
    found = made(*(folder for kind, folder in folders.items() if kind in kinds))
    assert set(found) == names
    links = set(re.findall(r"\]\(([^)]*)\)", found[pages.INDEX]))
    assert links == names - {pages.INDEX}
    for name, text in found.items():
        assert text.startswith(pages.MARK) and "do not edit" in text.partition("\n")[0]
        assert text.splitlines()[1].startswith("# ")
        assert name == pages.INDEX or f"[Index]({pages.INDEX})" in text


def test_numbers_are_those_of_the_results(folders: dict[str, Path]) -> None:
    """The same as on report.html: medians of an operation, ratios, verdicts."""
    found = made(folders["run"])
    index, tlbi, thresholds = found[pages.INDEX], found["tlbi.md"], found["thresholds.md"]
    assert str(folders["run"]) in index.partition("\n")[0]
    assert "* 1 threshold passed, 1 failed, 1 not judged." in index
    assert ["mprotect_per_cpu", "mprotect", "4.323", "0.066"] in rows(index, "mprotect_per_cpu")
    (row,) = rows(tlbi.partition("\n## tlbi_broadcast_user")[2].partition("\n## ")[0], "stock")
    assert row[1].startswith("4.323 ±")
    failed = thresholds.partition("## What fell short")[2].partition("\n## ")[0]
    detail = "munmap 2.1 (stock 1)"
    name = f"{RUNS}: no more TLBIs: sparse on lull"
    assert rows(failed, name) == [[name, "failed", detail]] and "passed" not in failed
    assert "verified: 1 checks" in thresholds and "How to read this" in tlbi
    assert ["linux", "6.12.117"] in rows(found["settings.md"], "linux")


def test_pages_have_what_is_read(folders: dict[str, Path]) -> None:
    """Metrics of SHOWN, and kernels as they boot where there are some; comparison.md has the others."""
    found = made(folders["more"])
    for page, metrics in pages.SHOWN.items():
        text = found.get(f"{page}.md", "")
        assert set(re.findall(r"^## (\w+)$", text, re.M)) <= set(metrics)
        heads = re.findall(r"^\| workload \|.*$", text, re.M)
        assert not any("+" in head for head in heads) or all("+" in head for head in heads)


def test_all_tables_of_all_kinds(folders: dict[str, Path]) -> None:
    """Several runs side by side, and a check's."""
    found = made(*folders.values())
    assert "## Runs side by side" in found["tlbi.md"] and f"## {folders['more']}" in found["tlbi.md"]
    assert "seconds_emulated" not in found["tlbi.md"]
    assert rows(found["checker.md"], "page-none")[0][-1] == "caught"
    assert "report 1, seen 2 times: pending/no-tlbi: a valid entry was removed\n  entry " in found["checker.md"]
    assert [row[1] for row in rows(found["settings.md"], "vcpus")] == ["4", "8"]


def test_pages_that_are_not_of_these_results_go(folders: dict[str, Path], tmp_path: Path) -> None:
    """Only those that were generated; and a file of a page's name that was not generated stays as it is."""
    everything, one = data.load_sources(list(folders.values())), data.load_sources([folders["check"]])
    (tmp_path / "own.md").write_text("mine")
    written = pages.write(tmp_path, everything)
    assert written[0] == tmp_path / pages.INDEX and all(page.is_file() for page in written)
    again = pages.write(tmp_path, one)
    assert {page.name for page in tmp_path.iterdir()} == {"own.md", *(page.name for page in again)}
    (tmp_path / "thresholds.md").write_text("mine, too")
    before = {page.name: page.read_text() for page in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"thresholds\.md was not generated"):
        pages.write(tmp_path, everything)
    assert {page.name: page.read_text() for page in tmp_path.iterdir()} == before


def test_the_same_for_the_same_and_from_any_folder(folders: dict[str, Path], tmp_path: Path) -> None:
    for name in ("a", "b"):
        pages.write(tmp_path / name, data.load_sources(list(folders.values())))
    texts = [{page.name: page.read_text() for page in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert texts[0] == texts[1]


def test_a_name_cannot_end_the_first_line(tmp_path: Path) -> None:
    """A folder's name that would end the comment."""
    text = made(put(tmp_path / "a --> b", "results.json", run().to_json()))["thresholds.md"]
    first, second = text.splitlines()[:2]
    assert first.count("-->") == 1 and first.endswith("-->") and second == "# Thresholds and checks"


def test_the_command(tool: Tool, folders: dict[str, Path], tmp_path: Path) -> None:
    """It writes pages and no report.html; with --dry-run nothing; --out and --pages exclude each other."""
    folder = tmp_path / "pages"
    dry = tool("report", str(folders["run"]), "--pages", str(folder), "--dry-run")
    assert dry.returncode == 0 and f"would write {folder}/thresholds.md" in dry.stdout and not folder.exists()
    done = tool("report", str(folders["run"]), "--pages", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"pages: {folder}/{pages.INDEX} and {len(OF_RUN) - 1} others\n"
    assert {page.name for page in folder.iterdir()} == OF_RUN and not (folders["run"] / "report.html").exists()
    done = tool("report", str(folders["run"]), "--pages", str(folder), "--json")
    assert {Path(page).name for page in json.loads(done.stdout)["pages"]} == OF_RUN
    assert tool("report", str(folders["run"]), "--pages", str(folder), "--out", "x").returncode == 2
    (folder / "thresholds.md").write_text("mine")
    refused = tool("report", str(folders["run"]), "--pages", str(folder))
    assert refused.returncode == 2 and "was not generated" in refused.stderr and "to do:" in refused.stderr


@pytest.mark.parametrize("folder", ["docs/results", "docs/results/7.3", "docs/results/debian"])
def test_the_pages_of_the_repository_are_generated(folder: str) -> None:
    """docs/results/ is nothing else, and its links lead to its pages. 7.3 and Debian have their own folders."""
    found = sorted(page for page in (REPOSITORY / folder).iterdir() if page.is_file())
    assert found and all(pages.is_generated(page) for page in found)
    names = {page.name for page in found}
    links = {link for page in found for link in re.findall(r"\]\(([^)]*\.md)\)", page.read_text())}
    assert links == names


def test_the_results_that_people_read_are_two_pages() -> None:
    """Tables of a run are generated, and no part of docs/results.md."""
    assert len((REPOSITORY / "docs/results.md").read_text().splitlines()) <= 130
