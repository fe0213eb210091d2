# SPDX-License-Identifier: GPL-2.0-only
"""Read cost files (timing/NAME.toml): what an instruction, a TLBI and a DSB cost on a machine, for modelled time.

Costs are in nanoseconds. A cost file also states the source of each cost, the published numbers that the costs were
fitted to, and published numbers that they were not fitted to, which therefore test the model. docs/timing.md describes
the model.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from lull import paths
from lull.errors import UsageError, unknown

TEMPLATE = "template"
"""The file that users copy to write their own. It is not a model."""
METRIC = "seconds_modelled"
ASTRAY = "insns_astray"
"""The metric: instructions that a vCPU executed although it should have waited for slower vCPUs."""
WAITING = ("osh", "ish", "sy", "oshnxs", "ishnxs", "synxs")
"""The DSBs that wait for broadcast TLBIs, as in checker/plugin_time.c."""
MOST = 10_000_000.0
"""Nanoseconds. Every cost is less than this; the plugin has the same limit."""
MOST_ASTRAY = 0.05
"""Share of a window's instructions. With more instructions astray the window's modelled time is not trusted."""
SECONDS, FLUSH, SAVING, RATIO = MEASURES = ("seconds", "flush", "saving", "ratio")


@dataclass(frozen=True)
class Costs:
    """Costs in nanoseconds.

    Args:
        insn: executing an instruction.
        tlbi: issuing a TLBI, local or broadcast.
        broadcast: the time for which a broadcast TLBI occupies the resource that all CPUs share; broadcasts occupy it
            one after the other.
        dsb: executing a DSB, without the time for which it waits.
        latency: from the end of that occupation until the broadcast TLBI is complete.
        walk: a page walk that reloads a valid entry which a TLBI removed from a CPU that had used it. Only the checker
            sees such entries (``lull check --timing``): this is no part of a run's modelled time. 0: not known.
        receive: the time for which a broadcast TLBI holds up each CPU that receives it. No part of modelled time
            either: the workload jitter shows it by itself. 0: not known.
    """

    insn: float
    tlbi: float
    broadcast: float
    dsb: float
    latency: float = 0.0
    walk: float = 0.0
    receive: float = 0.0


@dataclass(frozen=True)
class Figure:
    """A published number.

    Args:
        what: what was measured, in one line.
        measure: ``seconds``: the time that ``operations`` took. ``flush``: the seconds of a flush by one CPU while no
            other flushes. ``saving``: the share of its time that ``workload`` saved when the kernel no longer waited
            for each broadcast. ``ratio``: the time of stock divided by that of ``kernel``.
        published: the number, in seconds or as a share.
        calibrated: the costs were fitted to this number, so that it only tests the fit.
        workload, kernel: what the lab runs for it; a flush needs neither.
        operations: operations of the lab's workload, on all CPUs together; for ``seconds``.
        cpus: the number of CPUs that worked.
        wait: ``each``: the kernel waits for each broadcast, as before Linux 6.12. ``batch``: as the lab's kernel does.
        note: anything else that the reader should know.
    """

    what: str
    measure: str
    published: float
    calibrated: bool
    workload: str = ""
    kernel: str = "stock"
    operations: int = 0
    cpus: int = 1
    wait: str = "batch"
    note: str = ""


@dataclass(frozen=True)
class CostModel:
    """A cost file.

    Args:
        name: the name of the file, without its ending.
        about: the machine, in one line.
        cpus: the number of CPUs of that machine; 0: not known.
        costs: the costs.
        sources: a sentence for each cost: what it was fitted to, where it was published, or that it is assumed.
        figures: published numbers to compare the model with.
    """

    name: str
    about: str
    cpus: int
    costs: Costs
    sources: Mapping[str, str]
    figures: tuple[Figure, ...] = ()

    def options(self) -> tuple[str, ...]:
        """The costs as options of the plugin, rounded to picoseconds; without those that it does not use."""
        named = (field.name for field in fields(Costs) if field.name not in ("walk", "receive"))
        return tuple(f"cost={name}:{getattr(self.costs, name):.3f}" for name in named)


def clock_slowdown(vcpus: int) -> int:
    """The factor by which a guest's clock is slower than the host's.

    On two idle host CPUs a guest's work is slowed down by a quarter of this factor. The rest is reserve for a busy
    host. The factor only decides how many timer ticks a window has: with a sixteenth of it, windows took 1 % longer
    (docs/timing.md).
    """
    return 48 * vcpus


def known() -> list[str]:
    """The names of the cost files in timing/."""
    return sorted(path.stem for path in paths.TIMING.glob("*.toml") if path.stem != TEMPLATE)


def load_model(name: str) -> CostModel:
    """A model by name, or by the path of its TOML file.

    Raises: UsageError when the file does not exist, or is not a cost file; the message says what is wrong in it.
    """
    path = Path(name) if name.endswith(".toml") else paths.TIMING / f"{name}.toml"
    if not path.is_file():
        if name.endswith(".toml"):
            raise UsageError(f"there is no cost file '{name}'", remedy=f"name a file, or one of {', '.join(known())}")
        raise unknown("timing model", name, known())
    try:
        return parse_costs(tomllib.loads(path.read_text()), path.stem)
    except (OSError, ValueError) as error:  # ValueError: also from the TOML parser, and of text that is not UTF-8
        remedy = f"{paths.TIMING / TEMPLATE}.toml explains each line"
        raise UsageError(f"not a cost file: {error}", where=str(path), remedy=remedy) from error


def parse_costs(raw: Mapping[str, Any], name: str) -> CostModel:
    """The model of a parsed cost file. Raises ValueError, which says what does not fit, and where."""
    _only(raw, ("about", "cpus", "costs", "source", "figure"), "the file")
    costs = _costs(_table(raw, "costs"))
    sources = _table(raw, "source")
    _only(sources, [field.name for field in fields(Costs)], "[source]")
    bare = [cost for cost in raw["costs"] if not isinstance(sources.get(cost), str) or not sources[cost].strip()]
    if bare:
        raise ValueError(f"[source] does not say where '{bare[0]}' comes from")
    entries = raw.get("figure", [])
    if not isinstance(entries, list):
        raise ValueError("write [[figure]], with two brackets")
    figures = tuple(_figure(entry, f"[[figure]] {number}") for number, entry in enumerate(entries, 1))
    cpus = raw.get("cpus", 0)
    if type(cpus) is not int or cpus < 0:
        raise ValueError(f"cpus is {cpus!r}, not a number of CPUs")
    about = raw.get("about")
    if not isinstance(about, str) or not about.strip():
        raise ValueError("'about' is missing: one line that says which machine this is")
    return CostModel(name, about, cpus, costs, dict(sources), figures)


def _costs(raw: Mapping[str, Any]) -> Costs:
    found: dict[str, float] = {}
    _complete(raw, Costs, "[costs]")
    for name, value in raw.items():
        found[name] = _number(value, f"[costs] {name}")
        if found[name] >= MOST:
            raise ValueError(f"[costs] {name} is {value!r} ns: less than 10 ms is possible")
    if round(found["insn"], 3) == 0:
        raise ValueError("[costs] insn is 0 when rounded to picoseconds: time would not advance")
    return Costs(**found)


def _figure(raw: object, where: str) -> Figure:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is not a table")
    _complete(raw, Figure, where)
    types: dict[str, type] = {field.name: type(field.default) for field in fields(Figure)}
    types |= {"what": str, "measure": str, "calibrated": bool}
    for name, value in raw.items():
        if name == "published":
            _number(value, f"{where} published")
        elif type(value) is not types[name]:
            raise ValueError(f"{where} {name} is {value!r}")
    figure = Figure(**raw)
    if figure.measure not in MEASURES:
        raise ValueError(f"{where} measure is {figure.measure!r}; known: {', '.join(MEASURES)}")
    if figure.wait not in ("batch", "each"):
        raise ValueError(f"{where} wait is {figure.wait!r}; known: batch, each")
    if figure.measure != FLUSH and not figure.workload:
        raise ValueError(f"{where} names no workload")
    if figure.measure == SECONDS and figure.operations < 1:
        raise ValueError(f"{where} does not say how many operations took its seconds")
    if figure.published == 0 or figure.cpus < 1:
        raise ValueError(f"{where}: 'published' and 'cpus' must be more than 0")
    return figure


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} is {value!r}, not a number")
    if math.isnan(value):
        raise ValueError(f"{where} is not filled in")
    if not 0 <= value < math.inf:
        raise ValueError(f"{where} is {value!r}: a finite number, at least 0, is needed")
    return float(value)


def _table(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"there is no table [{name}]")
    return found


def _complete(raw: Mapping[str, Any], kind: type[Costs | Figure], where: str) -> None:
    """Raise ValueError for a name that is no field of ``kind``, or for a field without a default that is missing."""
    _only(raw, [field.name for field in fields(kind)], where)
    missing = [field.name for field in fields(kind) if field.default is MISSING and field.name not in raw]
    if missing:
        raise ValueError(f"{where} has no '{missing[0]}'")


def _only(raw: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise ValueError for an unknown name. Otherwise a misspelt cost would silently be 0."""
    strange = [name for name in raw if name not in known]
    if strange:
        raise ValueError(f"{where} has the unknown name '{strange[0]}'; known: {', '.join(known)}")
