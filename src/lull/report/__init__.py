# SPDX-License-Identifier: GPL-2.0-only
"""report.html: what runs and checks found, on one page that needs nothing but itself."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from lull import cache, picture
from lull.judge import compare, features, joint, tables, verdict
from lull.judge.tables import Grid
from lull.judge.thresholds import CONTROL
from lull.report import plots as report_plots
from lull.report import systems as report_systems
from lull.report.data import ReportSource, load_sources, source_of
from lull.report.headline import Head, Tally, head_of
from lull.report.plots import Plot
from lull.report.systems import kind
from lull.run.records import Check, Results

NAME = "report.html"
TEMPLATES = Path(__file__).parent / "templates"
THRESHOLDS = features.modules()
"""Kinds of checks that are thresholds; all others are of the measuring itself."""
GOOD, BAD, QUIET = "good", "bad", "quiet"
MOODS = {
    **dict.fromkeys(("passed", "agrees", "caught", "nothing"), GOOD),
    **dict.fromkeys(("failed", "differs", "missed", "reports", "crashed", "hung"), BAD),
    **dict.fromkeys(("skipped", "not", "not judged", "inconclusive"), QUIET),
}
"""By the first word of a cell."""


@dataclass(frozen=True)
class Cell:
    """Of a table: a figure's ``tail`` is its interval, set apart so that figures stand under each other."""

    text: str
    tail: str = ""
    mood: str = ""


@dataclass(frozen=True)
class Table:
    """The cells of a Grid as HTML wants them. ``tails``: for each column whether any of its cells has a tail."""

    rows: tuple[tuple[Cell, ...], ...]
    tails: tuple[bool, ...]


@dataclass
class Folded:
    """Something to be unfolded: text as it is."""

    title: str
    text: str


@dataclass
class Page:
    """Everything the template needs. What is empty is left out of the page."""

    head: Head
    sources: list[ReportSource]
    facts: list[tuple[str, str]]
    differing: Grid | None
    failed: list[Check]
    measuring: list[Check]
    sections: list[report_systems.Section]
    others: list[Check]
    pictures: list[tuple[str, list[Plot]]]
    """Run -> its pictures; what several runs say together is of none."""
    folded: list[Folded]
    drawn: int = 0

    def inline(self, plot: Plot) -> Markup:
        """A picture as markup, which matplotlib has escaped."""
        self.drawn += 1
        return Markup(picture.inline(plot.svg, self.drawn, plot.title))


def of_folders(paths: Sequence[Path]) -> str:
    """The page of what is at ``paths``. Raises UsageError."""
    return render(load_sources(paths))


def write(run: joint.ComparedRun) -> None:
    """report.html of a run, into its folder."""
    cache.write_atomic(run.folder / NAME, render([source_of(run.folder, run)]))


def render(sources: Sequence[ReportSource]) -> str:
    """The page's text: the same for the same sources."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = lambda text: escape(text).replace("_", Markup("_<wbr>"))
    environment.globals.update(
        table_of=table_of,
        tally=Tally.of,
        moods=MOODS,
        style=Markup((TEMPLATES / "report.css").read_text()),
        metrics=metrics,
        of_control=of_control,
        side_by_side=side_by_side,
        tables=tables,
        worth_showing=verdict.worth_showing,
    )
    return environment.get_template(NAME).render(page=page_of(list(sources))).strip() + "\n"


def page_of(sources: list[ReportSource]) -> Page:
    """What is said of the sources."""
    runs = [source.run for source in sources if source.run]
    several = len(sources) > 1
    checks = told([(source.name if several else "", check) for source in sources for check in checks_of(source)])
    thresholds = [check for check in checks if kind(check) in THRESHOLDS]
    named = {source.name if len(runs) > 1 else "": source.run for source in sources if source.run}
    sections = report_systems.sections(named, thresholds)
    placed = {check for section in sections for check in section.thresholds}
    common, differing = facts(sources)
    return Page(
        head_of(sources, thresholds, checks),
        sources,
        common,
        differing,
        [check for check in checks if check.verdict == "failed"],
        verdict.worth_showing([check for check in checks if kind(check) not in THRESHOLDS]),
        sections,
        [check for check in thresholds if check not in placed],
        pictures(named),
        [part for source in sources for part in folded(source)],
    )


def pictures(runs: Mapping[str, Results]) -> list[tuple[str, list[Plot]]]:
    """What is drawn of runs, by their names."""
    together = report_plots.scaling(list(runs.values()))
    found = [("", [together] if together else [])]
    found += [(name, list(report_plots.of_run(results))) for name, results in runs.items()]
    return [(name, plots) for name, plots in found if plots]


def checks_of(source: ReportSource) -> list[Check]:
    """The checks of everything in a folder."""
    return list(source.results.checks if source.results else [])


def told(checks: Sequence[tuple[str, Check]]) -> list[Check]:
    """The checks of all sources, with the source's name; what one of them skipped and another judged is not skipped."""
    judged = {check.name for _, check in checks if check.verdict != "skipped"}
    found: dict[Check, None] = {}
    skipped: set[str] = set()
    for name, check in checks:
        if check.verdict != "skipped":
            found[replace(check, detail=f"{check.detail} ({name})" if name else check.detail)] = None
        elif check.name not in judged | skipped:
            skipped.add(check.name)
            found[check] = None
    return list(found)


def facts(sources: Sequence[ReportSource]) -> tuple[list[tuple[str, str]], Grid | None]:
    """What was compared: what is alike in all sources, and the rest as a table."""
    each = [facts_of(source) for source in sources]
    said: dict[str, list[str]] = {}
    for name, value in (item for of in each for item in of.items()):
        said.setdefault(name, []).append(value)
    common = [(name, values[0]) for name, values in said.items() if len(set(values)) == 1]
    rest = [name for name, values in said.items() if len(set(values)) > 1]
    rows = tuple((s.name, *(of.get(name, "") for name in rest)) for s, of in zip(sources, each, strict=True))
    return common, Grid("What differs", ("folder", *rest), rows, 1 + len(rest)) if rest else None


def facts_of(source: ReportSource) -> dict[str, str]:
    """A folder in a few words each."""
    found = {"Job": "lull run", **_facts(source.results)} if source.results else {}
    if source.check:
        machines = dict.fromkeys(boot["machine"] for boot in source.check.raw["boots"])
        kernels = dict.fromkeys(boot["kernel"] for boot in source.check.raw["boots"])
        found |= {"Job": "lull check", "Kernels": ", ".join(kernels), "CPU": ", ".join(machines)}
    return {name: value for name, value in found.items() if value}


def _facts(results: Results) -> dict[str, str]:
    settings, host = results.settings, results.host
    machine = settings.get("machine", {})
    kernels = list(dict.fromkeys(record.kernel for record in results.records))
    repeats = sorted({len(record.values) for record in results.records})
    again = " (stock twice)" if CONTROL in kernels else ""
    package = f" ({settings['source']})" if settings.get("source") else ""
    return {
        "Kernels": ", ".join(kernel for kernel in kernels if kernel != CONTROL),
        "Linux": f"{settings.get('linux', results.base)}{package}",
        "CPU": machine.get("cpu", ""),
        "vCPUs": ", ".join(map(str, sorted({record.vcpus for record in results.records}))),
        "Command line": settings.get("append", ""),
        "Repeats": " to ".join(map(str, dict.fromkeys((repeats[0], repeats[-1])))) + again if repeats else "",
        "QEMU": settings.get("qemu", ""),
        "Host": ", ".join(str(host[name]) for name in ("model", "architecture", "system") if host.get(name))
        + (f", {host['cpus']} CPUs" if host.get("cpus") else ""),
        "Counted": settings.get("metrics", ""),
        "Lull": results.lull,
    }


def table_of(grid: Grid) -> Table:
    """A table, its figures apart from their intervals."""
    rows = tuple(tuple(_cell(text, place, grid) for place, text in enumerate(row)) for row in grid.rows)
    columns = range(len(grid.header))
    return Table(rows, tuple(any(row[column].tail for row in rows) for column in columns))


def _cell(text: str, place: int, grid: Grid) -> Cell:
    figure = re.fullmatch(r"(.+?) ([±\[(?].*)", text)
    if grid.header[place] == "verdict" or (place and grid.title == "check"):
        return Cell(text, mood=MOODS.get(re.split(r"\W", text)[0], ""))
    if place >= grid.labels and figure:
        return Cell(*figure.groups())
    return Cell(text)


def metrics(comparison: compare.Comparison) -> list[tuple[str, list[Grid]]]:
    """The tables of each metric that has any, by its name."""
    found = [(tables.metric_title(metric), tables.metric_grids(comparison, metric)) for metric in tables.MAIN_METRICS]
    return [(name, grids) for name, grids in found if grids]


def of_control(comparison: compare.Comparison) -> compare.Comparison:
    """Stock beside a second sample of itself, as if that were another kernel."""
    return replace(comparison, kernels=(CONTROL,), rows=comparison.control.rows, geomeans=())


def side_by_side(sources: Sequence[ReportSource]) -> list[Grid]:
    """Runs beside each other, each with its own ratios; their letters are explained under each table."""
    runs = [
        joint.ComparedRun(label, source.folder, source.run, source.comparison)
        for label, source in zip(joint.LABELS, sources, strict=False)
        if source.run and source.comparison
    ]
    if len(runs) < 2:
        return []
    letters = ", ".join(f"{run.label} {run.path}" for run in runs)
    return [replace(grid, notes=(*grid.notes, letters)) for grid in joint.grids(runs, tables.MAIN_METRICS)]


def folded(source: ReportSource) -> list[Folded]:
    """Commands and configuration of a folder."""
    found: list[Folded] = []
    if results := source.results:
        settings = {"lull": results.lull, "base": results.base, "host": results.host, "settings": results.settings}
        found.append(Folded(f"{source.name}: commands", "\n".join(results.commands)))
        found.append(Folded(f"{source.name}: settings and host", json.dumps(settings, indent=1)))
    first = next(iter(source.configs), "")
    for image, lines in source.configs.items():
        title, shown = (
            f"{source.name}: configuration of {image}",
            [line for line in lines if line.startswith("CONFIG_")],
        )
        if image != first:
            title += f", to {first}"
            shown = list(difflib.unified_diff(source.configs[first], lines, first, image, lineterm="", n=0))
        found.append(Folded(title, "\n".join(shown)))
    return [part for part in found if part.text]
