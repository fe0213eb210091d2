# SPDX-License-Identifier: GPL-2.0-only
"""What to run: kernels and workloads by name, and the interleaved order of boots and jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from lull import cache, process, toml
from lull.base import Base, Feature
from lull.errors import UsageError, require_known, unknown

Item = TypeVar("Item")

CONTROL = "stock.control"
"""Name of the second, identical set of boots of the baseline: the A/A control."""
BASELINE = "stock"
LAB = "lab"
"""The kernel with markers, mutants, and policies that Lull does not have."""
UNSAFE = "unsafe"
"""Stock with Linux's own HVO forced on, which is wrong on arm64: the baseline for the cost of HVO."""
ONLY = "+only"
"""In a kernel's name: one feature alone."""


@dataclass(frozen=True)
class Spec:
    """A kernel as named on the command line: an image, run-time settings (feature, value), and kernel parameters."""

    name: str
    image: str
    settings: tuple[tuple[str, str], ...] = ()
    append: str = ""


@dataclass(frozen=True)
class Workload:
    """A guest program with its arguments (guest/workloads.toml).

    Args:
        name: as on the command line and in tables.
        program: name of the binary in the guest.
        args: its arguments.
        about: one line for ``--help`` and tables.
        default: part of the default selection.
        short: part of the short selection, which is run when nothing is asked for.
        brief: more arguments that it has there.
        check: checked by default too, although it is not part of that selection.
        policies: settings (``young=sync``) it is also run under on ``lull`` when no kernel is named, or another kernel
            with its settings (``lab+residency=sticky``).
        kernels: what it is run under then, when that is not stock and lull.
        memory: MiB that its guest needs, when that is more than others have.
        append: kernel parameters that its guest needs. In a run, it shares boots only with workloads of the same
            parameters.
        timeout: seconds it may take at 4 vCPUs before the guest counts as hung.
        soak: more arguments that it has in a soak; {seed} in them is a number.
        crowd: it verifies itself also while others run beside it.
        harmless: it changes nothing of the machine but what it has itself, and may run on anybody's.
    """

    name: str
    program: str
    args: tuple[str, ...] = ()
    about: str = ""
    default: bool = True
    short: bool = False
    brief: tuple[str, ...] = ()
    check: bool = False
    policies: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    memory: int = 0
    append: str = ""
    timeout: float = 120.0
    soak: tuple[str, ...] = ()
    crowd: bool = False
    harmless: bool = False


@dataclass(frozen=True)
class Job:
    """One run of a workload under one kernel spec, inside a boot."""

    number: int
    workload: Workload
    spec: Spec


@dataclass(frozen=True)
class Boot:
    """One boot of an image with its jobs in order.

    Args:
        name: ``r01-stock``: its folder in the results.
        repeat: from 1.
        image: kernel image to boot.
        label: kernel name of records from plain specs (``stock.control`` for the control's boots).
    """

    name: str
    repeat: int
    image: str
    label: str
    jobs: tuple[Job, ...] = field(default_factory=tuple)

    @property
    def memory(self) -> int:
        """MiB that the guest needs at least: the most that any of its workloads does."""
        return max((job.workload.memory for job in self.jobs), default=0)

    @property
    def append(self) -> str:
        """The kernel parameters that its jobs need."""
        return " ".join(dict.fromkeys(text for job in self.jobs if (text := needed(job.workload, job.spec))))


def needed(workload: Workload, spec: Spec) -> str:
    """The kernel parameters that a workload needs on a kernel."""
    return f"{workload.append} {spec.append}".strip()


def load_workloads(path: Path) -> dict[str, Workload]:
    """The workloads of a TOML file, in its order. Raises UsageError when it is not well formed."""
    with toml.reading("a workload file", path):
        return {
            name: toml.made(
                Workload,
                {**entry, "brief": entry.get("short", ())},
                name=name,
                about=str(entry["about"]),
                short="short" in entry,
            )
            for name, entry in toml.load_toml(path).items()
        }


def parse_spec(text: str, base: Base) -> Spec:
    """A kernel name: IMAGE, then ``+FEATURE=POLICY`` or ``-FEATURE`` (off) any number of times.

    ``+only=FEATURE`` is that feature alone: every other one that has a switch is off.

    Raises: UsageError naming what exists.
    """
    match = re.fullmatch(r"([a-z0-9_.]+)((?:[+-][a-z0-9_]+(?:=[a-z0-9_]+)?)*)", text)
    if not match:
        raise UsageError(
            f"'{text}' is not a kernel name",
            remedy="write NAME, NAME+FEATURE=POLICY or NAME-FEATURE; 'lull list' shows them",
        )
    image, rest = match.groups()
    require_known("kernel", [image], base.kernels)
    settings: dict[str, str] = {}
    switchable = {f.name: f for f in base.features.values() if f.policies}
    for sign, name, value in re.findall(r"([+-])([a-z0-9_]+)(?:=([a-z0-9_]+))?", rest):
        sole = sign + name == ONLY
        require_known("feature", [value if sole else name], base.features if sole else switchable)
        if not base.kernels[image].features:
            raise UsageError(f"kernel {image} has no features to set", where=text)
        if sole:
            settings = alone(base.features[value], base)
            continue
        feature = switchable[name]
        if sign == "-":
            if value:
                raise UsageError(f"'-{name}' takes no policy: it means off", where=text)
            value = feature.off
        policies = (*feature.policies, *(feature.lab if image == LAB else ()))
        if value not in policies:
            raise unknown(f"policy of {name}", value, policies)
        settings[name] = value
    # Switched off at run time, it would still do all that a flush could ask for later.
    off = [
        f"{base.features[name].boot}={value}"
        for name, value in settings.items()
        if base.features[name].boot and value == base.features[name].off
    ]
    return Spec(text, image, tuple(settings.items()), "" if image == LAB else " ".join(off))


def alone(feature: Feature, base: Base) -> dict[str, str]:
    """The settings under which only ``feature`` and those without a switch do anything, under the policy it boots with.

    If that policy is off, it has the first that is on. A feature without a switch is always on.
    """
    settings = {f.name: f.off for f in base.features.values() if f.policies}
    on = [policy for policy in (feature.default, *feature.policies) if policy != feature.off]
    return {**settings, feature.name: on[0]} if feature.policies else settings


def select_workloads(names: Sequence[str], known: dict[str, Workload]) -> list[Workload]:
    """The workloads named, or the default selection."""
    require_known("workload", names, known)
    return [known[n] for n in dict.fromkeys(names)] or [w for w in known.values() if w.default]


def short_selection(known: dict[str, Workload]) -> list[Workload]:
    """The workloads of the short run; none when the suite has no such run."""
    return [replace(w, args=(*w.args, *w.brief)) for w in known.values() if w.short]


def features_named(policy: str) -> set[str]:
    """The features in a workload's policy: residency and young of ``only=residency+young=none``."""
    words = (word.partition("=") for word in policy.split("+"))
    return {value if f"+{name}" == ONLY else name for name, _, value in words}


def further(policy: str, base: Base) -> str | None:
    """The kernel's name of an entry of a workload's policies; None when the base lacks the kernel or a feature."""
    image, _, settings = policy.partition("+")
    if "=" in image:
        image, settings = base.default_kernels[-1], policy
    has = image in base.kernels and features_named(settings) <= set(base.features)
    return f"{image}+{settings}" if has else None


def is_known(kernel: str, base: Base) -> bool:
    """Whether the base has the image, the features and the policies of a kernel's name."""
    try:
        parse_spec(kernel, base)
    except UsageError:
        return False
    return True


def specs_for(workload: Workload, named: Sequence[Spec], base: Base, *, alternatives: bool = False) -> list[Spec]:
    """The kernel specs a workload runs under: those named, else its own, else the usual ones.

    The usual ones are stock, lull, with ``alternatives`` the base's, and those of its policies. Kernels that the base
    lacks, and policies for a feature that it lacks, are left out.
    """
    if named:
        return list(named)
    if workload.kernels:
        return [parse_spec(kernel, base) for kernel in workload.kernels if is_known(kernel, base)]
    specs = [Spec(name, name) for name in (*base.default_kernels, *(base.alternatives if alternatives else ()))]
    extra = [parse_spec(kernel, base) for policy in workload.policies if (kernel := further(policy, base))]
    return specs + [s for s in extra if s not in specs]


def rotate(items: Sequence[Item], by: int) -> list[Item]:
    """``items`` starting at another place, so that no one is always first."""
    by %= max(1, len(items))
    return [*items[by:], *items[:by]]


def make_plan(
    workloads: Sequence[Workload],
    named: Sequence[Spec],
    base: Base,
    repeat: int,
    possible: Callable[[Spec], bool] = lambda spec: True,
    *,
    alternatives: bool = False,
    control: bool = True,
) -> list[Boot]:
    """Interleave: each repeat boots every image once (the baseline twice, for the A/A control).

    Workloads that need further kernel parameters have boots of their own.

    Args:
        possible: whether there can be a kernel here; left out otherwise.
        alternatives: the base's alternatives are among the usual kernels.
        control: whether there is a control.
    """
    pairs = [(w, s) for w in workloads for s in specs_for(w, named, base, alternatives=alternatives) if possible(s)]
    images = list(dict.fromkeys(s.image for _, s in pairs))
    sets = [(image, image) for image in images]
    if control and BASELINE in images and len(sets) > 1:
        sets.append((BASELINE, CONTROL))
    return interleave(pairs, sets, repeat)


def interleave(pairs: Sequence[tuple[Workload, Spec]], sets: Sequence[tuple[str, str]], repeat: int) -> list[Boot]:
    """Boots of each set (image, label) with the pairs of its image, in each repeat; all orders rotate.

    A set has a boot for each choice of kernel parameters that its jobs need.
    """
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: at least one is needed")
    boots: list[Boot] = []
    for number in range(1, repeat + 1):
        for image, label in rotate(sets, number - 1):
            mine = rotate([(w, s) for w, s in pairs if s.image == image], number - 1)
            if label == CONTROL:
                mine = [(w, s) for w, s in mine if not s.settings]
            for append in dict.fromkeys(needed(w, s) for w, s in mine):
                alike = [(w, s) for w, s in mine if needed(w, s) == append]
                jobs = tuple(Job(n, w, s) for n, (w, s) in enumerate(alike, 1))
                name = f"r{number:02d}-{label}" + (f"-{re.sub(r'[^a-z0-9]+', '_', append)}" if append else "")
                boots.append(Boot(name, number, image, label, jobs))
    return boots


def slug(text: str) -> str:
    """``text`` with each run of characters that do not suit a file name replaced by ``_``."""
    return re.sub(r"[^\w.+=-]+", "_", text)


def as_json(boots: Sequence[Boot]) -> list[dict[str, Any]]:
    """What would be booted, for --dry-run."""
    return [
        {"boot": b.name, "image": b.image, "jobs": [f"{j.spec.name} {j.workload.name}" for j in b.jobs]} for b in boots
    ]


def job_script(boot: Boot, defaults: dict[str, str]) -> str:
    """The /lull/job of a boot: settings and runs, in order.

    Args:
        defaults: policy each feature of the image has unless a spec sets another; set also when it is the one the
            kernel boots with, which a kernel parameter may have changed.
    """
    lines = [f"# {boot.name}"]
    current: dict[str, str] = {}
    for job in boot.jobs:
        wanted = {**defaults, **dict(job.spec.settings)}
        lines += [f"setting {k} {v}" for k, v in wanted.items() if current.get(k) != v]
        current = wanted
        lines.append(f"run {job.number} {process.shown([job.workload.program, *job.workload.args])}")
    return "\n".join(lines) + "\n"


def time_limits(boot: Boot, vcpus: int) -> Callable[[int], float]:
    """Job number -> seconds it may take."""
    limits = {job.number: job.workload.timeout * max(1.0, vcpus / 4) for job in boot.jobs}
    return lambda number: limits.get(number, 60.0)


def named(boot: Boot, text: str) -> str:
    """``text`` with each ``job 3`` as the name of the workload that this job of ``boot`` runs."""
    names = {j.number: j.workload.name + f" [{j.spec.name}]" * bool(j.spec.settings) for j in boot.jobs}
    return re.sub(r"\bjob (\d+)\b", lambda found: names.get(int(found[1]), found[0]), text)


def plan_key(boots: Sequence[Boot], *extra: str) -> str:
    """Identity of a plan: an interrupted run resumes only the same one."""
    return cache.key_of(repr(list(boots)), *extra)
