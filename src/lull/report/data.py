# SPDX-License-Identifier: GPL-2.0-only
"""What a report is made of: the JSON files that runs and checks left in their folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lull.check import plugin_output
from lull.check import tables as check_tables
from lull.errors import UsageError
from lull.guest.runner import SKIPPED
from lull.judge import compare, joint
from lull.judge.tables import Grid
from lull.judge.thresholds import STOCK
from lull.run.records import Results

RUN, CHECK = FILES = ("results.json", "check.json")
T = TypeVar("T")


@dataclass(frozen=True)
class ReportedCheck:
    """A check, as check.json has it.

    Args:
        raw: everything.
        results: what stands beside it.
        boots: those of no mutant, for the tables; and how the mutants fared.
    """

    raw: dict[str, Any]
    results: Results | None
    boots: tuple[check_tables.BootVerdict, ...]
    scores: tuple[check_tables.Score, ...]

    @classmethod
    def from_json(cls, text: str, results: Results | None) -> ReportedCheck:
        """Read check.json. Raises ValueError when the file is another version's."""
        raw = json.loads(text)
        try:
            boots = tuple(
                check_tables.BootVerdict(
                    b["kernel"], b["machine"], b["verdict"], tuple(dict(b["known"]).values()), skipped(b)
                )
                for b in raw["boots"]
                if b["mutant"] is None
            )
            scores = tuple(check_tables.Score(**{**s, "ends": tuple(s["ends"])}) for s in raw["mutants"])
            found = cls(raw, results, boots, scores)
            found.reports()  # they have no text in older versions
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a check.json of this version: {error!r}") from error
        return found

    @property
    def verdict(self) -> str:
        """On everything, one line."""
        return str(self.raw["verdict"])

    def grids(self) -> list[Grid]:
        """Machines x kernels, what was lost, and the mutants."""
        return check_tables.grids(self.boots, self.results.records if self.results else [], self.scores)

    def plain(self) -> list[dict[str, Any]]:
        """The boots that are of no mutant."""
        return [boot for boot in self.raw["boots"] if boot["mutant"] is None]

    def reports(self) -> list[str]:
        """What was reported that no finding describes, as text, boot by boot."""
        return [
            "\n".join([f"{boot['boot']}: {', '.join(boot['workloads'])}", *plugin_output.lines(report)])
            for boot in self.plain()
            for report in boot["reports"]
            if str(report["report"]) not in boot["known"]
        ]


@dataclass
class ReportSource:
    """A folder: a run or a check; ``name`` is for people, ``comparison`` is of the kernels in ``run``."""

    name: str
    folder: Path
    run: Results | None = None
    comparison: compare.Comparison | None = None
    check: ReportedCheck | None = None
    unfinished: str = ""
    """How far what did not end came; empty when it did."""
    configs: dict[str, list[str]] = field(default_factory=dict)
    """Image -> its kernel configuration, stock first."""

    @property
    def boots(self) -> int:
        """Those that are kept."""
        return sum(1 for _ in self.folder.glob("boots/*/boot.json"))

    @property
    def results(self) -> Results | None:
        """Of the run, or of the check."""
        return self.run or (self.check.results if self.check else None)


def skipped(boot: dict[str, Any]) -> tuple[str, ...]:
    """The workloads of a boot of check.json that the kernel or the machine cannot run. Jobs are numbered from 1."""
    names = [words.partition(" ")[0] for words in boot["workloads"]]
    return tuple(name for number, name in enumerate(names, 1) if boot["status"].get(str(number)) == SKIPPED)


def load_sources(paths: Sequence[Path]) -> list[ReportSource]:
    """Read everything that is named, each once. Raises UsageError for what cannot be read, or is none of ours."""
    folders: dict[Path, Path] = {}
    for path in paths:
        folder = path if path.is_dir() else path.parent
        if path.is_file() and path.name not in FILES:
            raise UsageError(f"{path} is none of {', '.join(FILES)}", remedy="name such a file, or the folder it is in")
        if not any((folder / name).is_file() for name in FILES) or not path.exists():
            raise joint.no_results(path, "'lull run' or 'lull check'")
        folders.setdefault(folder.resolve(), folder)
    return [source_of(folder) for folder in folders.values()]


def source_of(folder: Path, run: joint.ComparedRun | None = None) -> ReportSource:
    """What a report shows of ``folder``; its run is read, unless it is given. Raises UsageError."""
    source = ReportSource(str(folder), folder, unfinished=joint.unfinished(folder))
    results = None
    if (folder / RUN).is_file():
        loaded = run or joint.load_one(str(folder), folder / RUN)
        results, source.comparison, source.unfinished = loaded.results, loaded.comparison, loaded.unfinished
    if (folder / CHECK).is_file():
        source.check = _read(folder / CHECK, lambda text: ReportedCheck.from_json(text, results))
    elif results:
        source.run = results
    configs = {path.name.removeprefix("config-"): path for path in sorted(folder.glob("config-*"))}
    for image in sorted(configs, key=lambda image: image != STOCK):
        source.configs[image] = configs[image].read_text(errors="replace").splitlines()
    return source


def _read(path: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path)) from error
    except (ValueError, KeyError) as error:
        raise UsageError(f"not what this version writes: {error}", where=str(path), remedy="run it again") from error
