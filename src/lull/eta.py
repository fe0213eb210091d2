# SPDX-License-Identifier: GPL-2.0-only
"""How long things took on this machine, kept in the cache: what a command says beforehand about its own time.

A first time has nothing to go by but what it took on the machine that ``FIRST`` was measured on.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lull import cache, plan
from lull.lab import Lab
from lull.linux.toolchain import jobs, slowness
from lull.progress import clock, progress, say

FIRST_CPUS = 2
"""CPUs of the machine that FIRST was measured on."""
FIRST = {"source": 20.0, "tools": 15.0, "kernel": 206.0, "boot": 4.0, "job": 1.0, "checked": 15.0, "end": 8.0}
"""Seconds: of fetching and unpacking the kernel source; of QEMU, busybox, the plugin and the guest programs; of each
kernel, where several are built at once; of a boot; of a workload, and of one under the checker, where a soak of an hour
did 229; of judging and drawing."""
KERNELS = "kernels"
"""How the name of the part begins in which kernels are built; their names follow."""
LONG, SHARE = 250.0, 0.25
"""A workload with a timeout above LONG seconds is taken to need SHARE of it. On that machine ``kernel``, whose timeout
is 3000 s, took 600 s; redis, compile and stress_ng_shootdown, with 400, 300 and 600 s, took 340 s together."""


@dataclass(frozen=True)
class Part:
    """A part of what a command does.

    Args:
        name: what its time is kept under.
        first: seconds, where it was never done.
        count: how often it is done; times are of one.
    """

    name: str
    first: float
    count: int = 1


def known() -> dict[str, float]:
    """Seconds that each part took last; empty where nothing is kept, or it cannot be read."""
    try:
        raw = json.loads((cache.root() / "eta.json").read_text())
        return {str(name): float(seconds) for name, seconds in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def expected(parts: Sequence[Part]) -> float:
    """Seconds that these parts will take."""
    before = known()
    return sum(part.count * before.get(part.name, part.first * slowness()) for part in parts)


@contextlib.contextmanager
def keeping(part: Part) -> Iterator[None]:
    """Keep what the body takes, if it ends well."""
    started = time.monotonic()
    yield
    if part.count:
        keep(part.name, (time.monotonic() - started) / part.count)


def keep(name: str, seconds: float) -> None:
    """Keep the time of one part. What cannot be kept is not: it is only a help."""
    kept = {**known(), name: round(seconds, 1)}
    with contextlib.suppress(OSError):
        cache.write_atomic(cache.root() / "eta.json", json.dumps(kept, indent=1) + "\n")


END = Part("end", FIRST["end"])
"""Judging, and drawing the report."""


@dataclass(frozen=True)
class Making:
    """Something that is made before the first boot, unless it is in the cache."""

    part: Part
    make: Callable[[Lab], object]


def makings(lab: Lab, images: Sequence[str]) -> list[Making]:
    """What is to be made for boots of these kernels, in this order; what is in the cache is left out."""
    wanted = [image for image in images if not lab.has(lambda lab, image=image: lab.kernel(image))]  # type: ignore[misc]
    tools: tuple[Callable[[Lab], object], ...] = (
        lambda lab: lab.qemu,
        lambda lab: lab.initramfs,
        lambda lab: lab.plugin,
    )
    found = []
    if not lab.has(lambda lab: lab.pristine):
        found.append(Making(Part("source", FIRST["source"]), lambda lab: lab.pristine))
    if not all(lab.has(tool) for tool in tools):
        found.append(Making(Part("tools", FIRST["tools"]), lambda lab: [tool(lab) for tool in tools]))
    if wanted:
        seconds = FIRST["kernel"] * len(wanted) * FIRST_CPUS / jobs()
        found.append(Making(Part(" ".join([KERNELS, *wanted]), seconds), lambda lab: lab.kernels(wanted)))
    return found


def make(lab: Lab, images: Sequence[str], then: Sequence[Part]) -> None:
    """Make what boots of these kernels need, before the first boot, so that no build disturbs a measurement.

    How long that takes together with ``then``, and which kernels are built, is said first.
    """
    making = makings(lab, images)
    parts = [thing.part for thing in making]
    if not progress.quiet:
        built = [part for part in parts if part.name.startswith(KERNELS)]
        said = "".join(f"; building the {part.name} is {clock(expected([part]))} of it" for part in built)
        say(f"this takes about {clock(expected([*parts, *then]))}{said}")
    for thing in making:
        with keeping(thing.part):
            thing.make(lab)


def of_boots(boots: Sequence[plan.Boot], left: int, *, checked: bool = False) -> Part:
    """The boots of a plan, of which ``left`` are still to be done; ``checked``: under the checker."""
    work = sorted({f"{b.label} {job.spec.name} {job.workload}" for b in boots for job in b.jobs})
    timeouts = [job.workload.timeout for boot in boots for job in boot.jobs]
    usual = FIRST["checked" if checked else "job"]
    seconds = sum(timeout * SHARE if timeout > LONG else usual for timeout in timeouts)
    return Part(f"{'check' if checked else 'boot'} {cache.key_of(*work)}", FIRST["boot"] + seconds / len(boots), left)
