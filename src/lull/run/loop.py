# SPDX-License-Identifier: GPL-2.0-only
"""What commands that make several boots share: the folder of their results, and the loop over boots.

A command says how a boot is made and what is done with its result (``Step``). The loop stores what is kept of the boot
in its boot.json. An interrupted command that is run again reads this file and does not repeat the boot.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Generic, TypeVar

from lull import cache, eta, plan
from lull.errors import UsageError
from lull.progress import clock, progress, say
from lull.run.records import Kept, from_json

Tell = Callable[[str], None]
"""Shows what a boot is doing."""
R = TypeVar("R", bound=Kept)
"""The type of what is kept of a boot. The loop sets its ``seconds``."""
BOOTS = "boots"
"""The folder with a folder for each boot."""
DONE = "boot.json"
"""The file with what is kept of a boot: a boot that has one is complete."""


@dataclass(frozen=True)
class Step(Generic[R]):
    """One boot of the loop.

    Args:
        boot: the boot; its name is the name of its folder.
        kind: the type of what is kept of it.
        run: boots once, with the logs in the folder that it is given, and returns what is to be kept. It is not called
            for a boot that is complete.
        ended: judges the boot and writes the results. It is called with what is kept of the boot, and the boot's
            folder, as soon as the boot is complete, also for a boot that an earlier command completed.
    """

    boot: plan.Boot
    kind: type[R]
    run: Callable[[Path, Tell], R]
    ended: Callable[[R, Path], None]


def do_boots(
    steps: Iterable[Step[R]], folder: Path, title: str, *, part: eta.Part | None = None, within: str = BOOTS
) -> None:
    """Do all steps in their order.

    Args:
        steps: a list or, when the results decide how many there are, a generator: each step is taken when the one
            before it has ended.
        folder: the folder of the results, held by ``holding``. The folders of the boots are in its folder ``within``.
        title: the title of the step that is shown.
        part: the time of one boot is stored under its name (lull.eta), for estimates of later commands.
    """
    total = len(steps) if isinstance(steps, Sequence) else 0
    booted = before = 0
    with progress.step(title) as shown:
        for number, step in enumerate(steps, 1):

            def tell(text: str, number: int = number, boot: plan.Boot = step.boot) -> None:
                shown.update(f"{number}/{total} " * bool(total) + f"{boot.name}: {plan.named(boot, text)}")

            tell("booting")
            place = folder / within / step.boot.name
            if complete(place):
                before += 1
                kept = read_boot(step.kind, place / DONE)
            else:
                booted += 1
                begun = time.monotonic()
                kept = step.run(place, tell)
                kept.seconds = round(time.monotonic() - begun, 1)
                cache.write_atomic(place / DONE, json.dumps(asdict(kept), indent=1) + "\n")
            step.ended(kept, place)
        if part and booted:
            eta.keep(part.name, shown.elapsed / booted)
        shown.update(account(booted, before, shown.elapsed))


def read_boot(kind: type[R], file: Path) -> R:
    """What is kept of a complete boot; what else the file has is left out. Raises UsageError."""
    try:
        raw = json.loads(file.read_text())
        found: R = from_json(kind, {f.name: raw[f.name] for f in fields(kind) if f.name in raw}, file.name)
    except ValueError as error:
        remedy = "name another folder with --out"
        raise UsageError(f"not a boot of this version: {error}", where=str(file), remedy=remedy) from error
    return found


def complete(place: Path) -> bool:
    """Return true if the boot with the folder ``place`` is complete."""
    return (place / DONE).exists()


def left(boots: Sequence[plan.Boot], folder: Path) -> int:
    """How many of these boots are still to be done in the folder of the results."""
    return sum(not complete(folder / BOOTS / boot.name) for boot in boots)


def account(booted: int, before: int, seconds: float) -> str:
    """How many boots were done in this time, and how many an interrupted command had completed before."""
    note = f"{booted} boot{'s' * (booted != 1)} in {clock(seconds)}"
    return f"{note}, {before} kept from before" if before else note


def results_folder(named: Path | None, key: str) -> Path:
    """Where a run writes: the folder named, or in ./results the unfinished run of the same plan, or a new one.

    Raises UsageError when the folder holds another plan's run.
    """
    if named:
        check_plan(named, key)
        named.mkdir(parents=True, exist_ok=True)
        return named
    top = Path("results")
    runs = sorted(p for p in top.glob("[0-9][0-9][0-9]") if p.is_dir())
    if runs and held_plan(runs[-1]) == key and not (runs[-1] / "complete").exists():
        return runs[-1]
    number = int(runs[-1].name) + 1 if runs else 1
    while True:  # another run may take a number at the same moment
        try:
            (top / f"{number:03d}").mkdir(parents=True)
            return top / f"{number:03d}"
        except FileExistsError:
            number += 1


def check_plan(folder: Path, key: str) -> None:
    """Raise UsageError when ``folder`` holds another plan's run, or something that is no run of ours."""
    check_free(folder)
    if held_plan(folder) not in (None, key):
        raise UsageError(f"{folder} holds a run of another plan", remedy="name another folder with --out")


def check_free(folder: Path) -> None:
    """Raise UsageError when ``folder`` holds something that is no run of ours. Cheap: done before anything is built."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", remedy="name a new or empty folder with --out")
    if folder.exists() and held_plan(folder) is None and any(folder.iterdir()):
        raise UsageError(f"{folder} holds other files", remedy="name a new or empty folder with --out")


def held_plan(folder: Path) -> str | None:
    """The key of the plan a results folder was begun with."""
    try:
        return (folder / "plan").read_text().strip()
    except OSError:
        return None


@contextlib.contextmanager
def holding(out: Path | None, key: str) -> Iterator[Path]:
    """The results folder of the plan ``key``, held against other runs; complete when the body ends well."""
    with cache.disk_errors(out or Path("results")):
        folder = results_folder(out, key)
    with cache.disk_errors(folder), cache.lock(folder / "lock", lambda: say(f"another run writes {folder}; waiting")):
        if held_plan(folder) not in (None, key):
            raise UsageError(f"{folder} was taken by another run meanwhile", remedy="run again")
        cache.write_atomic(folder / "plan", key + "\n")
        yield folder
        (folder / "complete").touch()
