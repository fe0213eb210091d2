# SPDX-License-Identifier: GPL-2.0-only
"""results.json as it is read back: whole, or refused with the file and the field; and what is never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lull import cli
from lull.run.records import Check, Record, Results

RECORDS = [
    Record(kernel, "count", 4, "tlbi_broadcast_user", "count", (40.0, 41.0), 10, "page") for kernel in ("stock", "lull")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a run's results."""
    found = tmp_path / "run"
    found.mkdir()
    results = Results("0.1", "6.12", {"cpus": 4}, RECORDS, [Check("a", "passed", "")], ["$ x"], {"linux": "6.12.0"})
    (found / "results.json").write_text(results.to_json())
    return found


def test_what_was_written_is_read(folder: Path) -> None:
    """All of it, and types are as they were."""
    found = Results.load(folder / "results.json")
    assert found.records == RECORDS and found.checks == [Check("a", "passed", "")] and found.host == {"cpus": 4}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vcpus": "4"}, "records[1]: vcpus is not a whole number"),
        ({"vcpus": True}, "records[1]: vcpus is not a whole number"),
        ({"values": []}, "records[1]: values is not a list of numbers, one at least"),
        ({"values": ["1"]}, "records[1]: values is not a list of numbers"),
        ({"kernel": None}, "records[1]: kernel is not a text"),
        ({"more": 1}, "records[1]: more is not known"),
        ("text", "records[1] is no table"),
        (None, "the file: records is not a list"),
    ],
)
def test_values_of_another_type_are_named(
    change: object, said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file and the field, by all who read results."""
    raw = json.loads((folder / "results.json").read_text())
    (tmp_path / "good.json").write_text(json.dumps(raw))
    if change is None:
        raw["records"] = "text"
    else:
        raw["records"][1] = {**raw["records"][1], **change} if isinstance(change, dict) else change
    (folder / "results.json").write_text(json.dumps(raw))
    for words in (["report", str(folder)], ["compare", str(tmp_path / "good.json"), str(folder)]):
        assert cli.main(words) == 2
        shown = capsys.readouterr().err
        assert said in shown and str(folder / "results.json") in shown and "to do: " in shown


def test_a_report_replaces_pages_only(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own; not what it reads, nor what is somebody's, which is named, by --dry-run too."""
    notes = tmp_path / "notes"
    notes.write_text("mine")
    page = tmp_path / "page.html"
    for _ in range(2):
        assert cli.main(["report", str(folder), "--out", str(page)]) == 0
    capsys.readouterr()
    before = (folder / "results.json").read_bytes()
    for out in (folder / "results.json", notes, Path("/dev/null"), folder):
        for more in ([], ["--dry-run"]):
            assert cli.main(["report", str(folder), "--out", str(out), *more]) == 2
            shown = capsys.readouterr().err
            assert str(out) in shown and "to do: " in shown
    (folder / "report.html").write_text("mine")
    assert cli.main(["report", str(folder)]) == 2
    assert (folder / "results.json").read_bytes() == before and notes.read_text() == "mine"
    assert (folder / "report.html").read_text() == "mine"
