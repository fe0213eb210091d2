# SPDX-License-Identifier: GPL-2.0-only
"""lull compare: runs side by side, each by its own ratios."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import Tool

from lull.errors import UsageError
from lull.judge import joint, tables
from lull.run.records import Check, Record, Results

STOCK, LULL = [800.0, 810.0, 805.0, 802.0, 803.0, 806.0], [80.0, 81.0, 80.5, 80.2, 80.3, 80.6]


def record(kernel: str, values: list[float], **other: Any) -> Record:
    """A record of swap_bench, unless said otherwise."""
    one = Record(kernel, "swap_bench", 4, "tlbi_broadcast_user", "count", tuple(values), 100, "page")
    return replace(one, **other)


def results(*records: Record, factor: float = 1, **other: Any) -> Results:
    """A run on a server; ``factor`` is what all its values are multiplied by."""
    host = {"architecture": "aarch64", "model": "server"}
    settings: dict[str, Any] = {"linux": "6.12.117", "machine": {"accel": "tcg"}}
    found = records or (record("stock", STOCK), record("lull", LULL))
    scaled = [replace(r, values=tuple(factor * v for v in r.values)) for r in found]
    return replace(Results("0.1", "6.12", host, scaled, settings=settings), **other)


def written(folder: Path, *runs: Results) -> list[Path]:
    """The folders of runs, 001 and so on."""
    paths = []
    for number, run in enumerate(runs, 1):
        path = folder / f"{number:03d}"
        path.mkdir()
        (path / "results.json").write_text(run.to_json())
        paths.append(path)
    return paths


def table(text: str, metric: str = "tlbi_broadcast_user") -> list[list[str]]:
    """The lines of a metric's table, as words set apart by two spaces."""
    lines = text.partition(f"\n{metric}, ")[2].partition("\n\n")[0].splitlines()[1:]
    return [re.split(r" {2,}", line.strip()) for line in lines]


def test_ratios_stand_side_by_side(tool: Tool, tmp_path: Path) -> None:
    """A column per run; a machine on which everything takes ten times as much has the same ratios."""
    other = results(factor=10, host={"architecture": "x86_64", "model": "server"})
    done = tool("compare", *map(str, written(tmp_path, results(), other)))
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [
        ["workload", "kernel", "A", "B"],
        ["swap_bench", "lull", "0.100 [0.0994, 0.101]", "0.100 [0.0994, 0.101]"],
    ]
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{name}: {tmp_path}/00{n}/results.json" for n, name in enumerate("AB", 1)]
    assert {"host model: server", "linux: 6.12.117", "repeats: 6"} < set(lines)
    assert "host architecture differs: A aarch64; B x86_64" in lines


def test_no_value_of_one_run_meets_another(tmp_path: Path) -> None:
    """A run without the baseline has no ratio, although another run has the baseline; and that is said."""
    runs = joint.load_runs(written(tmp_path, results(), results(record("lull", LULL))))
    (grid,) = joint.grids(runs, tables.MAIN_METRICS)
    assert grid.rows == (("swap_bench", "lull", "0.100 [0.0994, 0.101]", ""),)
    assert "B: not compared: stock was not measured: there is nothing to compare with" in joint.remarks(runs)


def test_what_differs_is_said(tmp_path: Path) -> None:
    """Base, Linux, workload sizes, settings that one run alone has, and the vCPUs."""
    more = {"linux": "6.12.90", "qemu": "10.0.2"}
    larger = [record(r.kernel, list(r.values), operations=200, vcpus=16) for r in results().records]
    runs = joint.load_runs(written(tmp_path, results(), results(*larger, base="6.12-lts", settings=more)))
    said = joint.header(runs)
    assert "base differs: A 6.12; B 6.12-lts" in said
    assert "linux differs: A 6.12.117; B 6.12.90" in said
    assert "qemu differs: A -; B 10.0.2" in said
    assert "size of swap_bench differs: A 100 x page; B 200 x page" in said
    assert "vcpus differs: A 4; B 16" in said
    (grid,) = joint.grids(runs, tables.MAIN_METRICS)
    assert grid.header == ("workload", "kernel", "vcpus", "A", "B")
    assert [(row[2], bool(row[3]), bool(row[4])) for row in grid.rows] == [("4", True, False), ("16", False, True)]


def test_alike_sizes_are_not_said_to_differ(tmp_path: Path) -> None:
    """Nor anything else."""
    assert not [
        line for line in joint.header(joint.load_runs(written(tmp_path, results(), results()))) if "differs" in line
    ]


def test_checks_that_failed_are_said(tmp_path: Path) -> None:
    """With the run they are of; those that passed are not."""
    checks = [Check("counting: dsb", "failed", "1 of 2"), Check("verified: a", "passed", "")]
    runs = joint.load_runs(written(tmp_path, results(), results(checks=checks)))
    assert [line for line in joint.remarks(runs) if "failed" in line] == ["B: failed in that run: counting: dsb"]


def test_tables_that_are_too_wide_are_divided(tmp_path: Path) -> None:
    """As many runs side by side as fit, each once."""
    runs = joint.load_runs(written(tmp_path, *[results() for _ in range(7)]))
    grids = joint.grids(runs, tables.MAIN_METRICS)
    assert len(grids) > 1 and all(grid.width <= tables.WIDTH for grid in grids)
    assert "".join(name for grid in grids for name in grid.header[2:]) == "ABCDEFG"


def test_zeros_and_metrics_of_one_run(tmp_path: Path) -> None:
    """What is 0 everywhere has no table; what one run alone has, has an empty column for the others."""
    zero = [record(kernel, [0.0] * 6, metric="dsb_ish") for kernel in ("stock", "lull")]
    timed = [record(kernel, [2.0] * 6, metric="seconds", unit="s") for kernel in ("stock", "lull")]
    runs = joint.load_runs(written(tmp_path, results(*results().records, *zero), results(*timed)))
    grids = joint.grids(runs, tables.MAIN_METRICS)
    assert [grid.title.partition(",")[0] for grid in grids] == ["tlbi_broadcast_user", "seconds"]
    assert [row[2:] for row in grids[1].rows] == [("", "~ (p=1)")]


def test_a_run_that_did_not_end_is_said(tool: Tool, tmp_path: Path) -> None:
    """By its folder, and by its own results where they are without it; n of m boots; not of one that ended."""
    partial, ended = {"boots": "3 of 12"}, {"boots": "12 of 12"}
    runs = [results(settings=partial), results(settings=ended), results(settings=ended), results()]
    paths = written(tmp_path, *runs)
    for path in paths[1:]:
        (path / "plan").touch()
    (paths[1] / "complete").touch()
    said = [
        "interrupted, or still running: 3 of 12 boots",
        "",
        "interrupted, or still running: 12 of 12 boots",  # and was not judged
        "interrupted, or still running",
    ]
    assert [run.unfinished for run in joint.load_runs(paths)] == said
    lines = tool("compare", *map(str, paths)).stdout.splitlines()
    assert [line for line in lines if "interrupted" in line] == [f"A: {said[0]}", f"C: {said[2]}", f"D: {said[3]}"]
    found = json.loads(tool("compare", "--json", *map(str, paths)).stdout)
    assert [run["unfinished"] for run in found["runs"].values()] == said


def test_json(tool: Tool, tmp_path: Path) -> None:
    """Every metric, with each run's baseline, other kernel and effect; runs apart."""
    odd = [record(kernel, [7.0, 7.0], metric="faults") for kernel in ("stock", "lull")]
    paths = written(tmp_path, results(), results(*results().records, *odd, factor=10))
    found = json.loads(tool("compare", "--json", *(f"{path}/results.json" for path in paths)).stdout)
    assert [run["host"]["model"] for run in found["runs"].values()] == ["server", "server"]
    assert [(row["metric"], sorted(row["runs"])) for row in found["rows"]] == [
        ("tlbi_broadcast_user", ["A", "B"]),
        ("faults", ["B"]),
    ]
    a, b = found["rows"][0]["runs"].values()
    assert (a["baseline"]["median"], b["baseline"]["median"]) == (804.0, 8040.0)
    assert a["effect"]["estimate"] == pytest.approx(0.1, rel=1e-3)
    assert found["rows"][1]["runs"]["B"]["effect"]["verdict"] == "equal"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[]", "not a results.json of this version"),
        ('{"rounds": []}', "base is missing"),
        ('{"records": [], "checks": []}', "missing"),
        ('{"lull": "", "base": "", "host": 7, "records": [], "checks": []}', "host is not a table"),
        (results(record("stock", [1.0]), record("stock", [1.0])).to_json(), "recorded twice"),
        (results(record("stock", [1.0])).to_json().replace("1.0", "NaN"), "not a finite number"),
        (results(record("stock", [1.0])).to_json().replace("1.0", '"a"'), "values is not a list of numbers"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With the file's name, what is wrong in it, and what to name instead."""
    good = written(tmp_path, results())
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    with pytest.raises(UsageError) as refused:
        joint.load_runs([*good, bad])
    assert said in refused.value.what
    assert refused.value.where == str(bad) and "lull run" in refused.value.remedy


def test_wrong_files_and_numbers_of_them(tool: Tool, tmp_path: Path) -> None:
    """A file that is not there, a folder that is no run's, one run, a run twice: exit 2."""
    (path,) = written(tmp_path, results())
    for paths, said in [
        ([path, tmp_path / "no"], f"{tmp_path}/no holds no results"),
        ([path, tmp_path], f"{tmp_path} holds no results"),
        ([path, path / "results.json"], "named twice"),
    ]:
        with pytest.raises(UsageError) as refused:
            joint.load_runs(paths)
        assert said in refused.value.text()
    done = tool("compare", str(path))
    assert done.returncode == 2 and "2 to 26 runs" in done.stderr


def seconds(metric: str, vcpus: int, *, half: bool = True) -> list[Record]:
    """A time of stock, and of Lull, which takes half of it."""
    of_stock = record("stock", STOCK, metric=metric, unit="s", vcpus=vcpus)
    return [of_stock, replace(of_stock, kernel="lull", values=tuple(v / 2 if half else v / 4 for v in STOCK))]


def test_hardware_beside_the_model(tmp_path: Path) -> None:
    """Measured seconds of 64 CPUs and modelled ones of 32 are in one line, each against its own stock."""
    model = [*seconds("seconds_modelled", 8, half=False), *seconds("seconds_modelled", 32)]
    runs = joint.load_runs(written(tmp_path, results(*seconds("seconds", 64)), results(*model)))
    (grid,) = joint.times(runs)
    assert grid.header == ("workload", "kernel", "A measured", "B modelled")
    ((workload, kernel, *cells),) = grid.rows
    assert (workload, kernel) == ("swap_bench", "lull") and [cell[:5] for cell in cells] == ["0.500", "0.500"]
    assert not joint.times(
        joint.load_runs([tmp_path / "001", *written_again(tmp_path, results(*seconds("seconds", 4)))])
    )
    emulated = results(*seconds("seconds_emulated", 4))
    assert not joint.times(joint.load_runs([tmp_path / "001", *written_again(tmp_path, emulated)]))


def written_again(folder: Path, run: Results) -> list[Path]:
    """The folder of one more run."""
    more = folder / "more"
    more.mkdir(exist_ok=True)
    (more / "results.json").write_text(run.to_json())
    return [more]
