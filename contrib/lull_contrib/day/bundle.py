# SPDX-License-Identifier: GPL-2.0-only
"""The results of a session: judged, and packed into one file to send.

The file has only what is listed here, so that no log, path or name of the machine gets into it.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lull import __version__, cache, plan
from lull.errors import LullError
from lull.run import experiment, loop
from lull.run.loop import Tell
from lull.run.records import Check, MeasuredBoot, Results, host
from lull_contrib.day import session

CALIBRATE = "calibrate"
"""The step that measures the costs of the machine."""
COSTS = "calibrate.toml"
UNLIKE = ("release", "switches")
"""Facts of the kernel that differ between boots: all others must be alike."""
SHOWN = ("model", "midr", "virtualization", "memory GiB", "sockets", "NUMA nodes", "smt", "errata workarounds",
         "range TLBIs", "BBML2", "nTLBPA")  # fmt: skip
"""Facts that stand above the tables."""


def kept_of(folder: Path, names: Sequence[str]) -> dict[str, session.Kept]:
    """What was kept of those steps that are done."""
    places = {name: folder / loop.BOOTS / name for name in names}
    return {n: json.loads((place / loop.DONE).read_text()) for n, place in places.items() if loop.complete(place)}


def checks(kept: Mapping[str, session.Kept]) -> list[Check]:
    """What can mislead: measurements that failed, a machine that was not idle, hot or not the same in each boot."""
    found = [
        Check(f"ran: {name}", "skipped" if name == CALIBRATE else "failed", boot["failed"])
        for name, boot in kept.items()
        if "failed" in boot
    ]
    machines = {name: boot["machine"] for name, boot in kept.items()}

    def check(name: str, bad: Sequence[str], good: str, known: bool = True) -> None:
        verdict = "failed" if bad else "passed" if known else "skipped"
        found.append(Check(f"machine: {name}", verdict, "; ".join(bad) or good))

    busy = [
        f"{name}: {m['busy before']} CPUs were busy"
        for name, m in machines.items()
        if m["busy before"] > m["idle limit"]
    ]
    check("idle before each measurement", busy, "no more CPUs were busy than on an idle machine")
    hot = [f"{name}: {n} of them" for name, m in machines.items() if (n := m["after"]["CPUs slowed by heat"])]
    cooled = any(m["after"]["CPUs slowed by heat"] is not None for m in machines.values())
    cool = "after none of the measurements" if cooled else "this machine does not tell Linux"
    check("no CPUs slowed by heat", hot, cool, cooled)
    facts = list(dict.fromkeys(f for m in machines.values() for f in m["before"] if f not in (*UNLIKE, *m["after"])))
    unlike = [
        f"{fact}: {', '.join(values)}"
        for fact in facts
        if len(values := list(dict.fromkeys(json.dumps(m["before"].get(fact)) for m in machines.values()))) > 1
    ]
    check("the same in each boot", unlike, ", ".join(facts))
    return found


def assemble(folder: Path, boots: Sequence[plan.Boot], kernels: Mapping[str, str], cpus: int, ended: str) -> None:
    """Write results.json and comparison.md, of the boots that were done.

    Args:
        kernels: kernel of the plan -> its release.
        cpus: of the machine.
        ended: why the session ended.
    """
    kept = kept_of(folder, [*(boot.name for boot in boots), CALIBRATE])
    done = [boot for boot in boots if boot.name in kept and "failed" not in kept[boot.name]]
    before: dict[str, Any] = next((boot["machine"]["before"] for boot in kept.values()), {})
    settings: dict[str, Any] = {
        "linux": " and ".join(kernels.values()),
        "metrics": "faults and /proc/vmstat counted by the kernel; seconds are this machine's; a reboot before each "
        "measurement",
        "session": ended,
        "machine": {fact: shown(before.get(fact)) for fact in SHOWN},
    }
    results = Results(__version__, "", host(), settings=settings)
    further = checks(kept)

    def never(boot: plan.Boot, place: Path, tell: Tell) -> MeasuredBoot:
        raise LullError(f"{boot.name} has no results", where=str(place))

    experiment.run_boots(results, done, folder, "judging", cpus, "seconds", never, further=further)
    results.checks += further if not done else []
    results.settings["boots"] = f"{len(done)} of {len(boots)}"
    cache.write_atomic(folder / "results.json", replace(results, commands=[]).to_json())


def shown(fact: Any) -> str:
    """A fact in one line."""
    if isinstance(fact, dict):
        return ", ".join(f"{number} x {value}" for value, number in fact.items())
    return "not known" if fact is None else ", ".join(fact) if isinstance(fact, list) else str(fact)


def pack(folder: Path, boots: Sequence[plan.Boot]) -> Path:
    """Write FOLDER.tar.gz, and return its path."""
    kept = kept_of(folder, [*(boot.name for boot in boots), CALIBRATE])
    files = {
        name: (folder / name).read_text() for name in ("results.json", "comparison.md") if (folder / name).exists()
    }
    files["machine.json"] = json.dumps({name: boot["machine"] for name, boot in kept.items()}, indent=1) + "\n"
    if CALIBRATE in kept:
        files["calibrate.json"] = json.dumps({**kept[CALIBRATE], "machine": None}, indent=1) + "\n"
    costs = folder / loop.BOOTS / CALIBRATE / COSTS
    if costs.exists():
        files[COSTS] = costs.read_text()
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"lull-results/{name}")  # owned by root, of 1970: it names nobody
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    target = folder.with_name(f"{folder.name}.tar.gz")
    cache.write_atomic(target, data.getvalue())
    return target
