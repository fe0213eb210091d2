# SPDX-License-Identifier: GPL-2.0-only
"""`lull soak`: check random mixes of kernels, machines, parameters, policies and workloads for a given time.

A round is one boot. The soak's seed and the round's number determine everything that is drawn for it, so that one
command repeats a failure. A round is a trial of a check, and is judged as one.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lull import __version__, cache, plan, process
from lull.base import Base
from lull.check.boots import guests_of, one_boot
from lull.check.data import Hardware, KnownIssue, load_rules
from lull.check.kernels import CheckedKernel, of_base
from lull.check.trials import CheckOptions, Trial
from lull.check.verdicts import FELL_SHORT, PASSED, BootResult, CheckedBoot, judged
from lull.judge import tables
from lull.lab import Lab
from lull.progress import clock, say
from lull.run import loop
from lull.run.loop import Step, Tell, holding
from lull.run.records import host

KERNELS = {"lab": 6, "lull": 3, "stock": 1}
"""Weights with which kernels are drawn. The lab kernel is drawn most: it marks the pages that it frees. Stock is drawn
least: it has no policies."""
VCPUS = (2, 3, 4, 4, 4, 6, 8)
"""Virtual CPUs of a guest; one of these is drawn for each round, so that 4 is the most frequent."""
PARAMETERS = ("irqchip.gicv3_pseudo_nmi=1", "hugetlb_free_vmemmap=on", "transparent_hugepage=always")
"""Further kernel parameters, each drawn for one round in three."""
JOBS = (4, 8)
"""The fewest and the most jobs of a round."""
CROWD = (2, 4)
"""The fewest and the most workloads that run at the same time, as one job."""
LONGEST = 600.0
"""Seconds. Workloads with a longer time limit are never drawn."""
LIMIT_FACTOR = 4.0
"""Factor on the time limits of a check, because a machine that soaks for hours also does other work."""
WINDOW, DEBIAN = "window", "debian"
"""Programs of the guest: ``window`` runs several programs at the same time in one window (guest/window.c), ``debian``
runs a program with Debian's root file system."""
ROUNDS = "rounds"
"""The folder with a folder for each round."""
KEPT = (loop.DONE, "command.txt", "job.sh")
"""The files that are kept of a round that passed."""


@dataclass(frozen=True)
class SoakChoice:
    """What rounds are drawn from.

    Args:
        seed: the seed of the whole soak.
        kernels: names of the kernels.
        machines: the machines, of checker/machines.toml or others.
        workloads: the workloads.
        append: kernel parameters of every round.
        memory_mib: MiB of a guest, unless a workload needs more.
        vcpus: virtual CPUs of every guest; None: drawn for each round.
        words: the options of the command that give all this except the seed.
    """

    seed: int
    kernels: tuple[str, ...]
    machines: tuple[Hardware, ...]
    workloads: tuple[plan.Workload, ...]
    append: str = ""
    memory_mib: int = 3072
    vcpus: int | None = None
    words: tuple[str, ...] = ()

    def line(self, number: int) -> str:
        """The command that repeats round ``number``."""
        return process.shown(["lull", "soak", "--seed", str(self.seed), "--round", str(number), *self.words])


@dataclass(frozen=True)
class Round:
    """One boot of a soak: its number, its trial, and the settings of its guest."""

    number: int
    trial: Trial
    options: CheckOptions

    @property
    def what(self) -> str:
        """The line that names this round's kernel, machine and workloads."""
        return self.trial.what(self.options)


def fitting(workloads: Sequence[plan.Workload], image: str) -> list[plan.Workload]:
    """The workloads that run on the kernel ``image`` and whose time limit is at most LONGEST."""
    return [
        w
        for w in workloads
        if w.timeout <= LONGEST and (not w.kernels or any(k.partition("+")[0] == image for k in w.kernels))
    ]


def soaked(workload: plan.Workload, chance: random.Random) -> plan.Workload:
    """``workload`` with its further arguments for a soak, in which ``{seed}`` becomes a number that is drawn."""
    more = tuple(word.replace("{seed}", str(chance.randrange(1, 1 << 31))) for word in workload.soak)
    return replace(workload, args=(*workload.args, *more))


def side_by_side(workloads: Sequence[plan.Workload]) -> plan.Workload:
    """One workload that runs all of ``workloads`` at the same time in one window (guest/window.c).

    It runs with Debian's root file system when one of them needs that.
    """
    words: list[str] = []
    for w in workloads:
        words += ["--and" if words else "--", *([] if w.program == DEBIAN else [w.program]), *w.args]
    debian = any(w.program == DEBIAN for w in workloads)
    return plan.Workload(
        "&".join(w.name for w in workloads),
        DEBIAN if debian else WINDOW,
        (*([WINDOW] if debian else []), *words),
        memory=max(w.memory for w in workloads),
        append=" ".join(dict.fromkeys(w.append for w in workloads if w.append)),
        timeout=sum(w.timeout for w in workloads),
    )


def kind(workload: plan.Workload) -> str:
    """The program that a workload runs: one of ours, or the one that runs with Debian's root file system."""
    return workload.args[0] if workload.program == DEBIAN else workload.program


def crowd(workloads: Sequence[plan.Workload], chance: random.Random) -> plan.Workload | None:
    """One workload that runs some of ``workloads`` at the same time, each of another program.

    Only workloads marked ``crowd`` are drawn. None when these have fewer than two programs.
    """
    programs = list(dict.fromkeys(kind(w) for w in workloads if w.crowd))
    if len(programs) < CROWD[0]:
        return None
    chosen = chance.sample(programs, min(len(programs), chance.randint(*CROWD)))
    return side_by_side(
        [soaked(chance.choice([w for w in workloads if w.crowd and kind(w) == p]), chance) for p in chosen]
    )


def policies(base: Base, image: str, chance: random.Random) -> plan.Spec:
    """The kernel ``image`` with a policy drawn for each feature, or, with probability 0.5, the feature's default."""
    settings = {}
    for feature in base.features_of(image):
        if feature.policies and chance.random() < 0.5:
            settings[feature.name] = chance.choice(feature.policies)
    return plan.Spec(image + "".join(f"+{k}={v}" for k, v in settings.items()), image, tuple(settings.items()))


def draw(base: Base, choice: SoakChoice, number: int) -> Round:
    """Draw round ``number``. The same choice and number give the same round."""
    chance = random.Random(f"{choice.seed} {number}")
    image = chance.choices(choice.kernels, [KERNELS.get(k, 1) for k in choice.kernels])[0]
    hardware = chance.choice(choice.machines)
    vcpus = chance.choice(VCPUS)  # drawn in any case, so that the other draws of a seed are the same
    words = [p for p in PARAMETERS if chance.random() < 1 / 3]
    known = fitting(choice.workloads, image)
    jobs = []
    for job in range(1, chance.randint(*JOBS) + 1):
        together = crowd(known, chance) if chance.random() < 0.6 else None
        jobs.append(plan.Job(job, together or soaked(chance.choice(known), chance), policies(base, image, chance)))
    name = plan.slug(f"{number:05d}-{image}-{hardware.name}")
    boot = plan.Boot(name, number, image, image, tuple(jobs))
    append = " ".join(filter(None, [*words, choice.append]))
    return Round(
        number,
        Trial(boot, hardware),
        CheckOptions(vcpus if choice.vcpus is None else choice.vcpus, choice.memory_mib, append),
    )


def boot(lab: Lab, kernel: CheckedKernel, drawn: Round, line: str, folder: Path, tell: Tell) -> CheckedBoot:
    """Say which round begins, with the command ``line`` that repeats it, and boot it."""
    say(f"$ {line}\n  {drawn.what}")
    (guest,) = guests_of(lab, [drawn.trial], {kernel.name: kernel}, drawn.options)
    guest = replace(guest, limit_factor=LIMIT_FACTOR * guest.limit_factor)
    return one_boot(lab, guest, kernel, drawn.trial.boot, folder, tell)


def totals(rounds: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Sums over the rounds of what the checker counted. ``settled``: those flushed before the end."""
    found: Counter[str] = Counter()
    for one in rounds:
        found.update(one["seen"])
    del found["memory"]  # bytes of the plugin on the host: it starts anew each round, so a sum means nothing
    found["settled"] = found["pending"] - found["left"]
    return found


SEEN = {
    "accesses": "accesses",
    "loads": "loads of tables' bases",
    "user_returns": "returns to user space",
    "tlbis": "TLBIs",
    "dsbs": "DSBs",
    "table_stores": "stores to page tables",
    "pending": "entries taken away",
    "settled": "of them, flushed before the end",
    "frees": "page frees",
    "table_frees": "of them, page tables",
    "cleaned": "pages cleaned, written out, copied or unlocked",
    "tlb_over_invalidated": "over-invalidated entries",
    "repointed": "entries repointed while valid",
    "published": "CPUs' notes of what they have loaded",
}
"""The checker's counters, in the order of the table, and their names there."""
COUNTERS = {name: rule.counter for name, rule in load_rules().items() if rule.counter}
"""Rule -> the counter of the events that the rule tests."""
BRIEF = ("accesses", "tlbis", "pending", "frees")
"""The counters in the line after each round."""


def brief(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The totals of the counters BRIEF, in one line."""
    found = totals(rounds)
    return ", ".join(f"{found[name]} {SEEN[name]}" for name in BRIEF)


def spent(rounds: Sequence[Mapping[str, Any]]) -> float:
    """Seconds that the rounds took together."""
    return float(sum(one["seconds"] for one in rounds))


def bad(rounds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rounds that did not pass."""
    return [one for one in rounds if one["verdict"] != PASSED]


def tally(rounds: Sequence[Mapping[str, Any]], what: str) -> dict[str, int]:
    """The number of rounds for each value of the key ``what``."""
    return dict(sorted(Counter(str(one[what]) for one in rounds).items()))


def verdict(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on the soak, in one line."""
    failed = bad(rounds)
    ended = how_many(rounds)
    return f"{len(failed)} of {ended} did not pass" if failed else f"passed in {ended}"


def how_many(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The number of rounds and the time they took: ``12 rounds in 14:05``."""
    return f"{len(rounds)} round{'s' * (len(rounds) > 1)} in {clock(spent(rounds))}"


def to_json(lab: Lab, choice: SoakChoice, rounds: Sequence[Mapping[str, Any]]) -> str:
    """The text of soak.json."""
    description = {
        "lull": __version__,
        "host": host(),
        "settings": lab.describe(),
        "seed": choice.seed,
        "words": choice.words,
        "seconds": spent(rounds),
        "seen": totals(rounds),
        "rules": {rule: {"known": known, "reports": new} for rule, (known, new) in by_rule(rounds).items()},
        **{f"by_{key}": tally(rounds, key) for key in ("kernel", "machine", "vcpus", "verdict")},
        "verdict": verdict(rounds),
        "rounds": rounds,
    }
    return json.dumps(description, indent=1) + "\n"


def do_rounds(
    lab: Lab,
    choice: SoakChoice,
    known_issues: Sequence[KnownIssue],
    out: Path | None,
    *,
    seconds: float,
    only: int | None,
    keep_going: bool,
    as_json: bool,
) -> int:
    """Do rounds until they took ``seconds`` together, write soak.json after each, and print the results.

    Returns the exit status: 0 when all rounds passed, else 1.

    Args:
        known_issues: known defects, whose reports do not fail a round.
        out: the folder of the results; None: a new one in ./results, or that of an interrupted soak of the same choice.
            Rounds that such a soak finished there count.
        only: do only the round of this number; None: rounds 1, 2, ...
        keep_going: go on after a round that did not pass.
        as_json: print soak.json instead of the tables.
    """
    kernels = {name: of_base(lab, name) for name in choice.kernels}
    made = (*(k.image for k in kernels.values()), lab.initramfs, lab.plugin, lab.disk, lab.qemu.version)
    key = plan.plan_key([], "soak", repr((choice, only)), *map(str, made))
    rounds: list[dict[str, Any]] = []
    with holding(out, key) as folder:

        def steps() -> Iterator[Step[CheckedBoot]]:
            for number in itertools.count(1) if only is None else [only]:
                drawn = draw(lab.base, choice, number)
                kernel, of_round = kernels[drawn.trial.boot.image], drawn.trial.boot
                before = loop.complete(folder / ROUNDS / of_round.name)
                if enough(rounds, seconds, keep_going) and not before:
                    return
                line = choice.line(number)
                yield Step(
                    of_round, CheckedBoot, partial(boot, lab, kernel, drawn, line), partial(write, drawn, line, before)
                )

        def write(drawn: Round, line: str, before: bool, kept: CheckedBoot, place: Path) -> None:
            result = judged(drawn.trial, drawn.what, kept, known_issues)
            rounds.append(entry(result, drawn, line))
            if result.verdict()[0] == PASSED:
                for path in place.iterdir():
                    if path.name not in KEPT:
                        path.unlink()
            if not before:
                cache.write_atomic(folder / "soak.json", to_json(lab, choice, rounds))
                say(f"  {rounds[-1]['verdict']}; so far {how_many(rounds)}: {brief(rounds)}")

        loop.do_boots(steps(), folder, "soaking", within=ROUNDS)
        cache.write_atomic(folder / "soak.json", to_json(lab, choice, rounds))
    if as_json:
        print(to_json(lab, choice, rounds), end="")
    else:
        print_rounds(rounds, folder)
    return FELL_SHORT if bad(rounds) or not rounds else 0


def enough(rounds: Sequence[Mapping[str, Any]], seconds: float, keep_going: bool) -> bool:
    """Return true if no further round is to begin; a round that runs is never cut short."""
    return spent(rounds) >= seconds or bool(bad(rounds) and not keep_going)


def entry(result: BootResult, drawn: Round, line: str) -> dict[str, Any]:
    """The entry of a round in soak.json; ``seconds`` is from its boot.json."""
    found = result.to_json(drawn.options)
    del found["measurements"], found["end"]
    if result.verdict()[0] != PASSED:
        found["lines"] = result.lines()
    return {"line": line, "what": drawn.what, **found}


def by_rule(rounds: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Rule -> how often it was broken as a known issue describes, and how often otherwise."""
    found = dict.fromkeys(COUNTERS, (0, 0))
    for one in rounds:
        for report in one["reports"]:
            known, new = found.get(report["rule"], (0, 0))
            more = report["count"]
            is_known = str(report["report"]) in {str(n) for n in one["known"]}
            found[report["rule"]] = (known + more * is_known, new + more * (not is_known))
    return found


def grids(rounds: Sequence[Mapping[str, Any]]) -> list[tables.Grid]:
    """The tables: rounds by machine and kernel, the checker's counters, and the reports of each rule."""
    kernels, machines = tally(rounds, "kernel"), tally(rounds, "machine")
    where = [
        (m, *(str(sum((one["machine"], one["kernel"]) == (m, k) for one in rounds) or "") for k in kernels))
        for m in machines
    ]
    found = totals(rounds)
    seen = [(name, f"{found[key]}") for key, name in SEEN.items()]
    rules = [
        (rule, SEEN.get(key, ""), f"{found[key]}", f"{known}", f"{new}")
        for rule, (known, new) in by_rule(rounds).items()
        for key in [COUNTERS.get(rule, "")]
    ]
    return [
        tables.Grid("rounds", ("machine", *kernels), tuple(where), 1),
        tables.Grid("seen", ("what", "times"), tuple(seen), 1),
        tables.Grid("rules", ("rule", "looked at", "times", "known issues", "reports"), tuple(rules), 2),
    ]


def print_rounds(rounds: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Print the tables, then each round that did not pass with the command that repeats it, and last the verdict."""
    console = tables.make_console()
    line = partial(console.print, markup=False, soft_wrap=True)
    for grid in grids(rounds):
        tables.show_grid(console, grid)
        line("")
    for one in bad(rounds):
        for text in one["lines"]:
            line(text)
        if one["trouble"]:
            line(f"  where: {folder}/{ROUNDS}/{one['boot']}/console.log")
        line(f"again: {one['line']}")
        line("")
    line(f"results: {folder}/soak.json; rounds: {folder}/{ROUNDS}")
    line(f"verdict: {verdict(rounds)}: {brief(rounds)}")
