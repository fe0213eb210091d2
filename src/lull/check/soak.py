# SPDX-License-Identifier: GPL-2.0-only
"""A long random mix of everything under the checker, until its minutes have passed.

A round is a boot that is wholly determined by the soak's seed and the round's number: so a failure is there again from
one line. What was drawn is a check's trial, and is judged as one.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lull import __version__, cache, check, plan, process
from lull.base import Base
from lull.check.data import Finding, Hardware, matrix
from lull.judge import tables
from lull.lab import Lab
from lull.progress import clock, progress, say
from lull.run import experiment

KERNELS = {"lab": 6, "lull": 3, "stock": 1}
"""How often each is drawn: the lab kernel says itself what it frees, stock has no policies."""
VCPUS = (2, 3, 4, 4, 4, 6, 8)
PARAMETERS = ("irqchip.gicv3_pseudo_nmi=1", "hugetlb_free_vmemmap=on", "transparent_hugepage=always")
"""More for the kernel's command line, each in one round of three."""
JOBS = (4, 8)
"""The fewest and the most of a round."""
CROWD = (2, 4)
"""The fewest and the most workloads that run side by side."""
LONGEST = 600.0
"""Seconds: what is allowed more than that is no part of a round."""
SLOWER = 4.0
"""Whoever soaks does other things meanwhile: how much longer everything may take than in a check."""
FELL_SHORT = 1
WINDOW, DEBIAN = "window", "debian"
"""Programs of the guest: what starts others side by side, and what gives one Debian's root."""
KEPT = ("boot.json", "command.txt", "job.sh")
"""What stays of a silent round."""


@dataclass(frozen=True)
class Choice:
    """What rounds are drawn from.

    Args:
        seed: of the whole soak.
        kernels: images.
        machines: of checker/machines.toml, or others.
        workloads: all that may be drawn.
        append: more kernel parameters, in each round.
        memory_mib: of a guest whose workloads do not need more.
        words: the command's options that say all this, but for the seed.
    """

    seed: int
    kernels: tuple[str, ...]
    machines: tuple[Hardware, ...]
    workloads: tuple[plan.Workload, ...]
    append: str = ""
    memory_mib: int = 3072
    words: tuple[str, ...] = ()

    def line(self, number: int) -> str:
        """The command that repeats a round."""
        return process.shown(["lull", "soak", "--seed", str(self.seed), "--round", str(number), *self.words])


@dataclass(frozen=True)
class Round:
    """One boot of a soak."""

    number: int
    trial: check.Trial
    options: check.Options

    @property
    def what(self) -> str:
        """Kernel, machine, workloads, for people."""
        return self.trial.what(self.options)


def every_machine(known: Mapping[str, Hardware]) -> tuple[Hardware, ...]:
    """The matrix of a check."""
    return tuple(matrix(known, None, None))


def fitting(workloads: Sequence[plan.Workload], image: str) -> list[plan.Workload]:
    """Those that an image can run, and that are short enough."""
    return [
        w
        for w in workloads
        if w.timeout <= LONGEST and (not w.kernels or any(k.partition("+")[0] == image for k in w.kernels))
    ]


def soaked(workload: plan.Workload, chance: random.Random) -> plan.Workload:
    """A workload with the arguments that it has in a soak, a seed of its own among them."""
    more = tuple(word.replace("{seed}", str(chance.randrange(1, 1 << 31))) for word in workload.soak)
    return replace(workload, args=(*workload.args, *more))


def side_by_side(workloads: Sequence[plan.Workload]) -> plan.Workload:
    """Several as one, in one window (guest/window.c); in Debian's root when one of them needs it."""
    words: list[str] = []
    for w in workloads:
        words += ["--and" if words else "--", *([] if w.program == DEBIAN else [w.program]), *w.args]
    debian = any(w.program == DEBIAN for w in workloads)
    return plan.Workload(
        "&".join(w.name for w in workloads),
        DEBIAN if debian else WINDOW,
        (*([WINDOW] if debian else []), *words),
        memory=max(w.memory for w in workloads),
        timeout=sum(w.timeout for w in workloads),
    )


def kind(workload: plan.Workload) -> str:
    """What it is that runs: a program of ours, or what is run with Debian's root."""
    return workload.args[0] if workload.program == DEBIAN else workload.program


def crowd(workloads: Sequence[plan.Workload], chance: random.Random) -> plan.Workload | None:
    """Some of those that may run side by side, each of another program; None when there are no two."""
    programs = list(dict.fromkeys(kind(w) for w in workloads if w.crowd))
    if len(programs) < CROWD[0]:
        return None
    chosen = chance.sample(programs, min(len(programs), chance.randint(*CROWD)))
    return side_by_side(
        [soaked(chance.choice([w for w in workloads if w.crowd and kind(w) == p]), chance) for p in chosen]
    )


def policies(base: Base, image: str, chance: random.Random) -> plan.Spec:
    """An image with switches as chance will have them; half are as the kernel boots."""
    settings = {}
    for feature in base.features_of(image):
        if feature.policies and chance.random() < 0.5:
            settings[feature.name] = chance.choice(feature.policies)
    return plan.Spec(image + "".join(f"+{k}={v}" for k, v in settings.items()), image, tuple(settings.items()))


def draw(base: Base, choice: Choice, number: int) -> Round:
    """The round of that number: the same each time."""
    chance = random.Random(f"{choice.seed} {number}")
    image = chance.choices(choice.kernels, [KERNELS.get(k, 1) for k in choice.kernels])[0]
    hardware = chance.choice(choice.machines)
    vcpus = chance.choice(VCPUS)
    words = [p for p in PARAMETERS if chance.random() < 1 / 3]
    if base.kernels[image].features and chance.random() < 0.5:
        words.append(f"lull.residency_limit={chance.randint(1, vcpus)}")
    known = fitting(choice.workloads, image)
    jobs = []
    for job in range(1, chance.randint(*JOBS) + 1):
        together = crowd(known, chance) if chance.random() < 0.6 else None
        jobs.append(plan.Job(job, together or soaked(chance.choice(known), chance), policies(base, image, chance)))
    name = check.slug(f"{number:05d}-{image}-{hardware.name}")
    boot = plan.Boot(name, number, image, image, tuple(jobs))
    append = " ".join(filter(None, [*words, choice.append]))
    return Round(number, check.Trial(boot, hardware), check.Options(vcpus, choice.memory_mib, append))


def boot(
    lab: Lab, kernel: check.Kernel, drawn: Round, folder: Path, tell: Any, findings: Sequence[Finding]
) -> check.Result:
    """Boot a round and judge it; of a silent one little is kept."""
    (guest,) = check.guests_of(lab, [drawn.trial], {kernel.name: kernel}, drawn.options)
    guest = replace(guest, slower=SLOWER * guest.slower)
    raw = check.one_boot(lab, guest, kernel, drawn.trial.boot, folder, tell)
    result = check.judged(drawn.trial, drawn.what, raw, findings)
    if result.verdict()[0] == check.SILENT:
        for path in folder.iterdir():
            if path.name not in KEPT:
                path.unlink()
    return result


def totals(rounds: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What the checker saw in all of them."""
    found: dict[str, int] = {}
    for one in rounds:
        for name, value in one["seen"].items():
            if name != "memory":  # of the host, each round anew
                found[name] = found.get(name, 0) + int(value)
    found["settled"] = found.get("obligations", 0) - found.get("left", 0)
    return found


SEEN = {
    "accesses": "accesses",
    "loads": "loads of tables' bases",
    "user_returns": "returns to user space",
    "tlbis": "TLBIs",
    "dsbs": "DSBs",
    "table_stores": "stores to page tables",
    "obligations": "entries taken away",
    "settled": "of them, flushed before the end",
    "frees": "page frees",
    "table_frees": "of them, page tables",
    "relied": "pages cleaned, written out, copied or unlocked",
    "tlb_lost": "true entries that TLBIs took",
    "pauses": "pauses",
}
"""What a checker saw, with names for people; the report has these, in this order."""
RULES = {
    "owed": "obligations",
    "free": "frees",
    "remap": "accesses",
    "bbm": "table_stores",
    "order": "tlbis",
    "asid": "loads",
    "pause": "pauses",
    "written": "relied",
}
"""What each of the checker's rules looks at."""
BRIEF = ("accesses", "tlbis", "obligations", "frees")


def brief(rounds: Sequence[Mapping[str, Any]]) -> str:
    """The totals in a line."""
    found = totals(rounds)
    return ", ".join(f"{found.get(name, 0)} {SEEN[name]}" for name in BRIEF)


def spent(rounds: Sequence[Mapping[str, Any]]) -> float:
    """Seconds that the rounds took."""
    return float(sum(one["seconds"] for one in rounds))


def bad(rounds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that were not silent."""
    return [one for one in rounds if one["verdict"] != check.SILENT]


def tally(rounds: Sequence[Mapping[str, Any]], what: str) -> dict[str, int]:
    """Rounds for each value of a key."""
    found: dict[str, int] = {}
    for one in rounds:
        found[str(one[what])] = found.get(str(one[what]), 0) + 1
    return dict(sorted(found.items()))


def verdict(rounds: Sequence[Mapping[str, Any]]) -> str:
    """One line on everything."""
    failed = bad(rounds)
    ended = how_many(rounds)
    return f"{len(failed)} of {ended} were not silent" if failed else f"silent in {ended}"


def how_many(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Rounds, and the time they took."""
    return f"{len(rounds)} round{'s' * (len(rounds) > 1)} in {clock(spent(rounds))}"


def to_json(lab: Lab, choice: Choice, rounds: Sequence[Mapping[str, Any]]) -> str:
    """The text of soak.json."""
    description = {
        "lull": __version__,
        "host": experiment.host(),
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


def kept(folder: Path) -> list[dict[str, Any]]:
    """The rounds that an interrupted soak did."""
    try:
        found: list[dict[str, Any]] = json.loads((folder / "soak.json").read_text())["rounds"]
    except FileNotFoundError:
        return []
    return found


def conduct(
    lab: Lab,
    choice: Choice,
    findings: Sequence[Finding],
    out: Path | None,
    *,
    seconds: float,
    only: int | None,
    keep_going: bool,
    as_json: bool,
) -> int:
    """Do rounds until ``seconds`` have passed. Returns 0 when all were silent.

    Args:
        only: the number of the one round to do.
        out: where results go; what an interrupted soak of the same seed did there counts.
    """
    kernels = {name: check.of_base(lab, name) for name in choice.kernels}
    made = (*(k.image for k in kernels.values()), lab.initramfs, lab.plugin, lab.disk, lab.qemu.version)
    key = plan.plan_key([], "soak", repr((choice, only)), *map(str, made))
    with experiment.holding(out, key) as folder:
        rounds = kept(folder)
        with progress.step("soaking") as step:
            while not enough(rounds, seconds, only, keep_going):
                number = only if only is not None else len(rounds) + 1
                drawn = draw(lab.base, choice, number)
                line = choice.line(number)
                say(f"$ {line}\n  {drawn.what}")

                def tell(text: str, drawn: Round = drawn) -> None:
                    step.update(f"round {drawn.number}: {experiment.job_name(drawn.trial.boot, text)}")

                begun = time.monotonic()
                place = folder / "rounds" / drawn.trial.boot.name
                result = boot(lab, kernels[drawn.trial.boot.image], drawn, place, tell, findings)
                rounds.append(entry(result, drawn, line, time.monotonic() - begun))
                cache.write_atomic(folder / "soak.json", to_json(lab, choice, rounds))
                say(f"  {rounds[-1]['verdict']}; so far {how_many(rounds)}: {brief(rounds)}")
        cache.write_atomic(folder / "soak.json", to_json(lab, choice, rounds))
    if as_json:
        print(to_json(lab, choice, rounds), end="")
    else:
        show(rounds, folder)
    return FELL_SHORT if bad(rounds) or not rounds else 0


def enough(rounds: Sequence[Mapping[str, Any]], seconds: float, only: int | None, keep_going: bool) -> bool:
    """Is it over? Looked at between rounds."""
    if only is not None:
        return bool(rounds)
    return spent(rounds) >= seconds or bool(bad(rounds) and not keep_going)


def entry(result: check.Result, drawn: Round, line: str, seconds: float) -> dict[str, Any]:
    """What soak.json says of a round."""
    found = result.to_json(drawn.options)
    del found["measurements"], found["end"]
    if result.verdict()[0] != check.SILENT:
        found["lines"] = result.lines()
    return {"line": line, "what": drawn.what, "seconds": round(seconds, 1), **found}


def by_rule(rounds: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Rule -> how often it was broken in ways that are known, and in others."""
    found = dict.fromkeys(RULES, (0, 0))
    for one in rounds:
        for report in one["reports"]:
            known, new = found.get(report["rule"], (0, 0))
            more = report["count"]
            is_known = str(report["report"]) in {str(n) for n in one["known"]}
            found[report["rule"]] = (known + more * is_known, new + more * (not is_known))
    return found


def grids(rounds: Sequence[Mapping[str, Any]]) -> list[tables.Grid]:
    """Rounds of each kernel on each machine, what was seen, and what each rule says of it."""
    kernels, machines = tally(rounds, "kernel"), tally(rounds, "machine")
    where = [
        (m, *(str(sum((one["machine"], one["kernel"]) == (m, k) for one in rounds) or "") for k in kernels))
        for m in machines
    ]
    found = totals(rounds)
    seen = [(name, f"{found.get(key, 0)}") for key, name in SEEN.items()]
    rules = [
        (rule, SEEN.get(key, ""), f"{found.get(key, 0)}", f"{known}", f"{new}")
        for rule, (known, new) in by_rule(rounds).items()
        for key in [RULES.get(rule, "")]
    ]
    return [
        tables.Grid("rounds", ("machine", *kernels), tuple(where), 1),
        tables.Grid("seen", ("what", "times"), tuple(seen), 1),
        tables.Grid("rules", ("rule", "looked at", "times", "known findings", "reports"), tuple(rules), 2),
    ]


def show(rounds: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Print the tables, then each round that was not silent with the line that repeats it, and the verdict last."""
    console = tables.make_console()

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    for grid in grids(rounds):
        tables.show_grid(console, grid)
        line("")
    for one in bad(rounds):
        for text in one["lines"]:
            line(text)
        if one["trouble"]:
            line(f"  where: {folder}/rounds/{one['boot']}/console.log")
        line(f"again: {one['line']}")
        line("")
    line(f"results: {folder}/soak.json; rounds: {folder}/rounds")
    line(f"verdict: {verdict(rounds)}: {brief(rounds)}")
