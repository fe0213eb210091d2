# SPDX-License-Identifier: GPL-2.0-only
"""`lull compare`: show several runs side by side, with a column for the ratios of each run.

Runs may be of different machines, days or kernels, so that their values must not be compared directly. Each ratio is
taken within one run, by ``judge.compare``; only ratios of different runs are shown beside each other.
"""

from __future__ import annotations

import json
import string
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lull.errors import UsageError
from lull.judge import tables
from lull.judge.compare import Comparison, Row, compare
from lull.run.records import Results

if TYPE_CHECKING:
    from rich.console import Console

FILE = "results.json"
SENT = ".tar.gz"
"""How the names of files end that `lull bench --across` makes to send."""
LABELS = string.ascii_uppercase
"""Names of runs in tables. They are single letters, so that many columns fit."""
TIMES = ("seconds", "seconds_modelled")
"""The metrics of time: on hardware, and by a model. Seconds of an emulator are not among them."""
Key = tuple[str, str, str, int]
"""Metric, workload, kernel, vCPUs: comparisons of different runs with the same key are shown in one line."""


@dataclass(frozen=True)
class ComparedRun:
    """One run and its comparison.

    Args:
        label: its letter in tables.
        path: its results.json.
        results: what it measured.
        comparison: its kernels compared with its own baseline.
    """

    label: str
    path: Path
    results: Results
    comparison: Comparison

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.path.parent

    @property
    def unfinished(self) -> str:
        """A remark when the run is not complete; empty when it is."""
        return unfinished(self.folder, self.results)

    def rows(self) -> dict[Key, Row]:
        """Its comparisons by key."""
        return {(row.metric, row.workload, row.kernel, row.vcpus): row for row in self.comparison.rows}


def load_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """The runs at ``paths``, each a results.json or the folder of a run.

    Raises: UsageError for a path without results, a run named twice, fewer than two runs, or more than LABELS has.
    """
    for path in paths:
        if not (path / FILE if path.is_dir() else path).is_file():
            raise no_results(path, "'lull run' or 'lull check'")
    files = [path / FILE if path.is_dir() else path for path in paths]
    if not 2 <= len(files) <= len(LABELS):
        raise UsageError(f"2 to {len(LABELS)} runs can be compared, not {len(files)}", remedy=f"name a {FILE} of each")
    for place, path in enumerate(files):
        if path.resolve() in [other.resolve() for other in files[:place]]:
            raise UsageError(f"named twice: {path}", remedy="name each run once")
    return [load_one(label, path) for label, path in zip(LABELS, files, strict=False)]


def no_results(path: Path, commands: str) -> UsageError:
    """The error for a path without results; ``commands`` are those that write results."""
    return UsageError(f"{path} holds no results", remedy=f"name a folder that {commands} wrote, or its {FILE}")


def unfinished(folder: Path, results: Results | None = None) -> str:
    """A remark when the results in ``folder`` are not complete; empty when they are.

    A run's folder has the file ``complete`` when the run is. Results that were copied elsewhere lack this file and the
    file ``plan``; they are complete when their setting ``boots`` says that all boots were done.
    """
    boots = str(results.settings.get("boots", "")) if results else ""
    done, _, planned = boots.partition(" of ")
    if (folder / "complete").exists() or (done == planned and not (folder / "plan").exists()):
        return ""
    return "interrupted, or still running" + (f": {boots} boots" if planned else "")


def load_one(label: str, path: Path) -> ComparedRun:
    """The run whose results.json is ``path``. Raises UsageError when it cannot be read or is malformed."""
    try:
        results = Results.from_json(text_of(path))
        return ComparedRun(label, path, results, compare(results))
    except (OSError, ValueError, TypeError, tarfile.TarError, KeyError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"not the results of a run: {reason}",
            where=str(path),
            remedy=f"name a {FILE} that 'lull run' or 'lull check' wrote, or its folder",
        ) from error


def text_of(path: Path) -> str:
    """The text of a results.json, or of the one in a file that 'lull bench --across' made to send."""
    if not path.name.endswith(SENT):
        return path.read_text()
    with tarfile.open(path) as tar:
        member = tar.extractfile(f"lull-results/{FILE}")
        return member.read().decode() if member else ""


def header(runs: Sequence[ComparedRun]) -> list[str]:
    """The lines above the tables: the path of each run, what all have in common, and in what they differ."""
    lines = [f"{run.label}: {run.path}" for run in runs]
    lines += [f"{run.label}: {run.unfinished}" for run in runs if run.unfinished]
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for run in runs:
        for name, value in tables.common(run.results, run.comparison):
            found[name][run.label] = value
    alike = {name: of for name, of in found.items() if len(of) == len(runs) and len(set(of.values())) == 1}
    lines += [f"{name}: {of[runs[0].label]}" for name, of in alike.items()]
    lines += [f"{name} differs: {per_run(runs, of)}" for name, of in found.items() if name not in alike]
    return lines + sizes(runs)


def per_run(runs: Sequence[ComparedRun], values: dict[str, str]) -> str:
    """The value of each run in one line: ``A 6.12; B 6.13``; a run without a value has a dash."""
    return "; ".join(f"{run.label} {values.get(run.label, '-')}" for run in runs)


def sizes(runs: Sequence[ComparedRun]) -> list[str]:
    """A line for each workload whose number or kind of operations differs between the runs."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for run in runs:
        for row in run.comparison.rows:
            size = f"{row.operations} x {row.operation}" if row.operations > 0 else "a window"
            found[row.workload][run.label] = size
    unlike = {name: of for name, of in found.items() if len(set(of.values())) > 1}
    return [f"size of {name} differs: {per_run(runs, of)}" for name, of in unlike.items()]


def grids(runs: Sequence[ComparedRun], metrics: Sequence[str], width: int = tables.WIDTH) -> list[tables.Grid]:
    """The tables of each metric that is not 0 everywhere, with as many runs side by side as ``width`` permits."""
    found = []
    for metric in metrics:
        asks = list(dict.fromkeys(key for run in runs for key in run.rows() if key[0] == metric))
        rows = [row for run in runs for row in run.comparison.rows if row.metric == metric]
        if tables.any_value(rows):
            found += tables.fitting(runs, width, partial(grid, asks))
    return found


def times(runs: Sequence[ComparedRun], width: int = tables.WIDTH) -> list[tables.Grid]:
    """The ratios of seconds that were measured on hardware beside those of modelled ones, whatever the vCPUs are.

    None unless there are both. Of a run with several numbers of vCPUs, the ratios with the most are shown.
    """
    kinds = {run.label: next((m for m in TIMES if any(key[0] == m for key in run.rows())), "") for run in runs}
    if not {*TIMES} <= {*kinds.values()}:
        return []
    rows: dict[str, dict[tuple[str, str], Row]] = {}
    for run in runs:
        mine = sorted((r for r in run.comparison.rows if r.metric == kinds[run.label]), key=lambda row: row.vcpus)
        rows[run.label] = {(row.workload, row.kernel): row for row in mine}
    asks = list(dict.fromkeys(ask for run in runs for ask in rows[run.label]))

    def part(some: Sequence[ComparedRun]) -> tables.Grid:
        body = []
        for ask in asks:
            answers = [rows[run.label].get(ask) for run in some]
            body.append((*ask, *(tables.change(row) if row else "" for row in answers)))
        heads = [f"{run.label} {'measured' if kinds[run.label] == TIMES[0] else 'modelled'}" for run in some]
        return tables.Grid(f"time, {tables.VERSUS} of its own run", ("workload", "kernel", *heads), tuple(body), 2)

    return tables.fitting(runs, width, part)


def grid(asks: Sequence[Key], runs: Sequence[ComparedRun]) -> tables.Grid:
    """The table of one metric: a line for each key of ``asks``, a column for each run."""
    rows = {run.label: run.rows() for run in runs}
    several = len({vcpus for *_, vcpus in asks}) > 1
    body = []
    for key in asks:
        _, workload, kernel, vcpus = key
        answers = [rows[run.label].get(key) for run in runs]
        cells = [tables.change(answer) if answer else "" for answer in answers]
        body.append((workload, kernel, *([str(vcpus)] if several else []), *cells))
    labels = ("workload", "kernel", *(["vcpus"] if several else []))
    title = f"{tables.metric_title(asks[0][0])}, {tables.VERSUS} of its own run"
    return tables.Grid(title, (*labels, *(run.label for run in runs)), tuple(body), len(labels))


def remarks(runs: Sequence[ComparedRun]) -> list[str]:
    """Remarks on single runs: the control, checks that failed, and what could not be compared."""
    lines = []
    for run in runs:
        control = run.comparison.control.check
        lines.append(f"{run.label}: {control.name}: {control.verdict}: {control.detail}")
        failed = [check.name for check in run.results.checks if check.verdict == "failed"]
        if failed:
            lines.append(f"{run.label}: failed in that run: {', '.join(failed)}")
        lines += [f"{run.label}: not compared: {problem}" for problem in run.comparison.problems]
    return lines


def print_runs(console: Console, runs: Sequence[ComparedRun]) -> None:
    """Print the header, the tables and the remarks."""
    for line in header(runs):
        tables.say_line(console, line)
    for one in [*times(runs), *grids(runs, tables.MAIN_METRICS)]:
        tables.say_line(console, "")
        tables.show_grid(console, one)
    tables.say_line(console, "")
    for line in [*remarks(runs), ""]:
        tables.say_line(console, line)
    text = tables.how_to_read_changes(row for run in runs for row in run.comparison.rows)
    tables.say_line(console, f"How to read this: {text}", style="dim")


def to_json(runs: Sequence[ComparedRun]) -> str:
    """The runs and the comparisons of every metric, as JSON."""
    asks = dict.fromkeys(key for run in runs for key in run.rows())
    found = {run.label: run.rows() for run in runs}
    described: dict[str, Any] = {
        "runs": {
            run.label: {
                "path": str(run.path),
                "unfinished": run.unfinished,
                "lull": run.results.lull,
                "base": run.results.base,
                "host": run.results.host,
                "settings": run.results.settings,
            }
            for run in runs
        },
        "rows": [
            {
                **dict(zip(("metric", "workload", "kernel", "vcpus"), key, strict=True)),
                "runs": {label: asdict(rows[key]) for label, rows in found.items() if key in rows},
            }
            for key in asks
        ],
        "remarks": remarks(runs),
    }
    return json.dumps(described, indent=1) + "\n"
