# SPDX-License-Identifier: GPL-2.0-only
"""Cost files: what an instruction, a TLBI and a DSB are said to take on a machine (timing/NAME.toml).

A cost is in nanoseconds. Where each comes from stands beside it in the file, and so do the published numbers that it
was fitted to, and those that it was not and which therefore test it. docs/timing.md has the model.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from lull import paths
from lull.errors import UsageError
from lull.plan import unknown

TEMPLATE = "template"
"""The file that a user copies; no model itself."""
METRIC = "seconds_modelled"
ASTRAY = "insns_astray"
"""Instructions that a vCPU executed although it was to wait for slower ones."""
WAITING = ("osh", "ish", "sy", "oshnxs", "ishnxs", "synxs")
"""DSBs that wait for broadcasts, as in checker/plugin_time.c."""
MOST = 10_000_000.0
"""ns below which a cost is, as the plugin has it."""
MOST_ASTRAY = 0.05
"""Of a window's instructions: beyond that its time is not to be trusted."""
SECONDS, FLUSH, SAVING, RATIO = MEASURES = ("seconds", "flush", "saving", "ratio")


@dataclass(frozen=True)
class Costs:
    """What things take, in ns.

    Args:
        insn: each instruction.
        tlbi: issuing a TLBI, local or broadcast.
        broadcast: how long a broadcast TLBI occupies what all CPUs share.
        dsb: each DSB, beside what it waits for.
        latency: from there until the broadcast is complete.
        walk: each entry that a TLBI took from a CPU which had used it, though it was still true. Only the checker
            sees those (``lull check --timing``); it is no part of a run's modelled time. 0: not known.
    """

    insn: float
    tlbi: float
    broadcast: float
    dsb: float
    latency: float = 0.0
    walk: float = 0.0


@dataclass(frozen=True)
class Figure:
    """A published number.

    Args:
        what: one line for people.
        measure: ``seconds`` that ``operations`` took; of a ``flush``, the seconds that one CPU alone sees;
            ``saving``, the share of its time that ``workload`` lost when it did not wait for each broadcast any more;
            ``ratio``, the time of stock to that of ``kernel``.
        published: the number, in seconds or as a share.
        calibrated: the costs were fitted to it, so that it tests nothing but that the fit is right.
        workload, kernel: what the lab runs for it; none for a flush.
        operations: operations of the lab's workload, on all CPUs together; for ``seconds``.
        cpus: CPUs that worked.
        wait: ``each``: a kernel that waits for each broadcast, as before Linux 6.12; ``batch``: as the kernel has it.
        note: what else the reader should know.
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
class Model:
    """A cost file.

    Args:
        name: of the file, without its ending.
        about: one line for people.
        cpus: of the machine that the costs are of; 0: not known.
        costs: the costs.
        sources: a sentence for each cost: fitted to what, published where, or assumed.
        figures: published numbers.
    """

    name: str
    about: str
    cpus: int
    costs: Costs
    sources: Mapping[str, str]
    figures: tuple[Figure, ...] = ()

    def options(self) -> tuple[str, ...]:
        """The costs as options of the plugin, to a picosecond. It does not know of walks."""
        named = (field.name for field in fields(Costs) if field.name != "walk")
        return tuple(f"cost={name}:{getattr(self.costs, name):.3f}" for name in named)


def slower(vcpus: int) -> int:
    """How many times the guest's clock is to go slower than the host's: four times what its work does on two host CPUs
    that do nothing else, so that it still does on a busy host.

    It decides how many ticks there are, and no more: a sixteenth of it adds a hundredth to a window (docs/timing.md).
    """
    return 48 * vcpus


def known() -> list[str]:
    """The models there are."""
    return sorted(path.stem for path in paths.TIMING.glob("*.toml") if path.stem != TEMPLATE)


def load(name: str) -> Model:
    """A model by name, or by the path of its TOML file.

    Raises: UsageError when there is none, or when it is not one: what is wrong, in which file.
    """
    path = Path(name) if name.endswith(".toml") else paths.TIMING / f"{name}.toml"
    if not path.is_file():
        if name.endswith(".toml"):
            raise UsageError(f"there is no cost file '{name}'", remedy=f"name one, or a model: {', '.join(known())}")
        raise unknown("timing model", name, known())
    try:
        return parse(tomllib.loads(path.read_text()), path.stem)
    except (OSError, ValueError) as error:  # of TOML and of its encoding, too
        remedy = f"{paths.TIMING / TEMPLATE}.toml explains each line"
        raise UsageError(f"not a cost file: {error}", where=str(path), remedy=remedy) from error


def parse(raw: Mapping[str, Any], name: str) -> Model:
    """The model in parsed TOML. Raises ValueError: what does not fit, and where."""
    _only(raw, ("about", "cpus", "costs", "source", "figure"), "the file")
    costs = _costs(_table(raw, "costs"))
    sources = _table(raw, "source")
    _only(sources, [field.name for field in fields(Costs)], "[source]")
    given = _table(raw, "costs")
    bare = [cost for cost in given if not isinstance(sources.get(cost), str) or not sources[cost].strip()]
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
    return Model(name, about, cpus, costs, dict(sources), figures)


def _costs(raw: Mapping[str, Any]) -> Costs:
    _only(raw, [field.name for field in fields(Costs)], "[costs]")
    found: dict[str, float] = {}
    for field in fields(Costs):
        value = raw.get(field.name, None if field.default is MISSING else field.default)
        if value is None:
            raise ValueError(f"[costs] has no '{field.name}'")
        found[field.name] = _number(value, f"[costs] {field.name}")
        if found[field.name] >= MOST:
            raise ValueError(f"[costs] {field.name} is {value!r} ns: less than 10 ms is possible")
    if round(found["insn"], 3) == 0:
        raise ValueError("[costs] insn is 0, to a picosecond: time would stand still")
    return Costs(**found)


def _figure(raw: object, where: str) -> Figure:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is no table")
    _only(raw, [field.name for field in fields(Figure)], where)
    missing = [field.name for field in fields(Figure) if field.default is MISSING and field.name not in raw]
    if missing:
        raise ValueError(f"{where} has no '{missing[0]}'")
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
        raise ValueError(f"{where}: 'published' and 'cpus' are more than 0")
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


def _only(raw: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise ValueError for a name that means nothing: a cost that is misspelt would be silently 0."""
    strange = [name for name in raw if name not in known]
    if strange:
        raise ValueError(f"{where} has '{strange[0]}', which means nothing; known: {', '.join(known)}")
