# SPDX-License-Identifier: GPL-2.0-only
"""Conduct a check: boot kernels under the plugin's check mode, judge what it wrote, say what was found."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lull import __version__, cache, plan, process
from lull.check import image as check_image
from lull.check import report as check_report
from lull.check import tables as check_tables
from lull.check.data import NARROW, Finding, Hardware, Mutant, died_of, matches
from lull.check.tables import LOST, WALKS, Boot, Score
from lull.errors import GuestGarbage, GuestHang, GuestPanic, UsageError
from lull.guest.qemu import Machine
from lull.guest.runner import Guest, Outcome, Plugin, launch_retrying
from lull.judge import gather
from lull.judge.tables import Grid, make_console, show_grid
from lull.kernel import symbols
from lull.lab import Lab
from lull.progress import progress, say
from lull.run import experiment
from lull.run.records import Check, Record, Results

LAB = plan.LAB
FREES = ("free_unref_page", "free_unref_folios", "__free_pages_ok", "free_huge_folio", "pgd_free")
"""What the plugin watches in a kernel that does not mark what it frees."""
RELIES = (
    "unmap_page_range",
    "change_protection",
    "move_page_tables",
    "tlb_flush_rmaps",
    "_raw_spin_unlock",
    "schedule",
    "memstart_addr",
    "__folio_start_writeback",
    "swap_writepage",
    "folio_copy",
    "folio_mc_copy",
    "copy_highpage",
    "tlb_flush_rmap_batch",
    "folio_unlock",
)
"""What it watches in every kernel: where the kernel relies on flushes (checker/rely.h), or on it that a page is not
written (checker/written.h), where a task sleeps (checker/unload.h), and where struct pages are."""
APPEND = "loglevel=5 printk.time=1 nokaslr"
"""Warnings are to be seen, and told from what programs print. Symbols are of the addresses a kernel was linked to."""
SILENT, REPORTS, BLIND, FAILED = check_tables.SILENT, "reports", "blind", "failed"
TROUBLE = {GuestPanic: "crashed", GuestHang: "hung", GuestGarbage: "broke off"}
FELL_SHORT = 1
SECONDS = "seconds_checked"
"""What the guest's seconds are called: it had the checker to carry."""


@dataclass(frozen=True)
class Options:
    """What holds for every boot of a check."""

    vcpus: int = 4
    memory_mib: int = 2048
    append: str = ""
    speculation: bool = True
    checker: bool = True
    walk: float = 0.0
    """ns that a page walk takes, for modelled time; 0: nothing is said of it."""


@dataclass(frozen=True)
class Trial:
    """A boot, what it runs on, and the mutant that it is of."""

    boot: plan.Boot
    hardware: Hardware
    mutant: Mutant | None = None

    def machine(self, options: Options) -> Machine:
        """The guest's hardware."""
        vcpus = max(self.mutant.vcpus if self.mutant else 0, options.vcpus)
        return Machine(vcpus, max(options.memory_mib, self.boot.memory), self.hardware.cpu)

    def append(self, options: Options) -> str:
        """What is added to the kernel's command line."""
        words = [APPEND, self.hardware.parameter()]
        if self.hardware.asid_bits == NARROW and self.boot.image == LAB:
            words.append(f"lull_asid_bits={NARROW}")
        if self.mutant:
            words += [f"lull_mutant={self.mutant.name}", self.mutant.append]
        return " ".join(filter(None, [*words, options.append]))

    def what(self, options: Options) -> str:
        """One line for people: kernel, mutant, machine, workloads."""
        mutant = f" with the mutant {self.mutant.name}" if self.mutant else ""
        names = dict.fromkeys(
            j.workload.name + (f" [{j.spec.name}]" if j.spec.settings else "") for j in self.boot.jobs
        )
        cpus = self.machine(options).vcpus
        return (
            f"{self.boot.image}{mutant} on {self.hardware.name}, {cpus} vCPU{'s' * (cpus > 1)}, "
            f"boot {self.boot.repeat}: {', '.join(names)}"
        )


@dataclass
class Kernel:
    """A kernel to check.

    Args:
        name: in tables.
        image: to boot.
        symbols: of this image.
        place: the file they are from, for messages.
        slower: how much longer than others it may take.
    """

    name: str
    image: Path
    symbols: symbols.Symbols
    place: Path
    slower: float = 1.0

    def narrow(self) -> Path:
        """A copy of the image that finds 8-bit ASIDs, in the cache. Raises UsageError."""
        key = cache.key_of_files([self.image, self.place])

        def make(part: Path) -> None:
            data = check_image.with_8_bit_asids(self.image.read_bytes(), self.symbols, str(self.image))
            (part / "Image").write_bytes(data)

        return cache.make_entry("build", f"asid8-{key}", make) / "Image"

    def hooks(self) -> tuple[str, ...]:
        """The plugin's options for this kernel: fewer for one that marks what it frees."""
        frees = () if check_image.has_markers(self.image.read_bytes()) else FREES
        found = ((name, self.symbols.address(name)) for name in (*frees, *RELIES))
        return tuple(f"hook={name}@{address:#x}" for name, address in found if address is not None)


def of_base(lab: Lab, name: str) -> Kernel:
    """One of the base's kernels."""
    built = lab.kernel(name)
    found = symbols.load(built.system_map, lab.toolchain.nm)
    return Kernel(name, built.image, found, built.system_map, built.slower)


def of_user(lab: Lab, image: Path, place: Path) -> Kernel:
    """A kernel of the user's own. Raises UsageError when the symbols are not its."""
    try:
        data = image.read_bytes()
    except OSError as error:
        what = f"the image cannot be read: {error.strerror}"
        raise UsageError(what, where=str(image), remedy=check_image.REMEDY) from error
    found = symbols.load(place, lab.toolchain.nm)
    check_image.check_fit(data, found, str(image))
    return Kernel(users_name(lab, image), image, found, place)


def users_name(lab: Lab, image: Path) -> str:
    """What a kernel of the user's own is called: its file, apart from the base's kernels."""
    return f"./{image.name}" if image.name in lab.base.kernels else image.name


def slug(text: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^\w.+=-]+", "_", text)


def on(boots: Iterable[plan.Boot], hardware: Hardware, mutant: Mutant | None = None) -> list[Trial]:
    """The boots on one machine, named for it."""
    middle = f"{mutant.name}-" if mutant else ""
    return [
        Trial(plan.renamed(boot, slug(f"r{boot.repeat:02d}-{boot.label}-{middle}{hardware.name}")), hardware, mutant)
        for boot in boots
    ]


def plan_kernels(
    pairs: Sequence[tuple[plan.Workload, plan.Spec]], machines: Sequence[Hardware], repeat: int
) -> list[Trial]:
    """Every kernel on every machine."""
    series = [(image, image) for image in dict.fromkeys(spec.image for _, spec in pairs)]
    boots = plan.interleave(pairs, series, repeat)
    return [trial for hardware in machines for trial in on(boots, hardware)]


def plan_mutants(
    mutants: Sequence[tuple[Mutant, Sequence[plan.Workload], Sequence[Hardware]]], repeat: int
) -> list[Trial]:
    """The lab kernel with each mutant, with its workloads on its machines."""
    found: list[Trial] = []
    for mutant, workloads, machines in mutants:
        spec = plan.Spec(LAB + "".join(f"+{k}={v}" for k, v in mutant.settings), LAB, mutant.settings)
        for hardware in machines:
            found += on(plan.interleave([(w, spec) for w in workloads], [(LAB, LAB)], repeat), hardware, mutant)
    return found


@dataclass
class Result:
    """What is known of one boot.

    Args:
        what: the line that names it.
        raw: what boot.json keeps: ``status`` of jobs, ``trouble``, ``measurements`` (experiment.measured), and of the
            plugin, where there was one (``checker``), and of the console ``reports``, ``errors``, ``end``.
        known: report number -> the finding that describes it.
    """

    trial: Trial
    what: str
    raw: dict[str, Any]
    known: dict[int, Finding] = field(default_factory=dict)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """All reports, the known ones too."""
        found: list[dict[str, Any]] = self.raw["reports"]
        return found

    @property
    def new(self) -> list[dict[str, Any]]:
        """Reports that no finding describes."""
        return [r for n, r in enumerate(self.reports) if n not in self.known]

    @property
    def output(self) -> check_report.Output:
        """What the plugin wrote."""
        return check_report.Output(self.reports, self.raw["end"], self.raw["errors"])

    def failed_jobs(self) -> list[str]:
        """Workloads that ended badly."""
        status = {int(number): code for number, code in self.raw["status"].items()}
        return [
            f"{job.workload.name} ended with status {status.get(job.number, 'none')}"
            for job in self.trial.boot.jobs
            if status.get(job.number) not in (0, experiment.SKIPPED)
        ]

    def verdict(self) -> tuple[str, str]:
        """The boot's verdict, and what there is to say of it."""
        trouble: dict[str, Any] | None = self.raw["trouble"]
        if self.new:
            seen = sum(r["count"] for r in self.new)
            detail = f"{len(self.new)}, seen {seen} time{'s' * (seen > 1)}"
            return REPORTS, f"{detail}; the guest {trouble['kind']}: {trouble['what']}" if trouble else detail
        if trouble:
            return trouble["kind"], trouble["what"]
        if self.raw["errors"]:
            return FAILED, "; ".join(self.raw["errors"])
        if self.raw["checker"] and (missing := check_report.blind(self.output)):
            return BLIND, f"it did not see {', '.join(missing)}"
        if failed := self.failed_jobs():
            return FAILED, "; ".join(failed)
        return SILENT, check_report.seen_line(self.raw["end"]) if self.raw["checker"] else "the kernel reported nothing"

    def lines(self) -> list[str]:
        """The boot for people: first what, last the verdict."""
        found = [self.what]
        for place, report in enumerate(self.reports):
            if place in self.known:
                finding = self.known[place]
                found.append(f"known finding {finding.name}: {finding.about} ({finding.doc})")
                found.append(f"  report {report['report']}{check_report.times(report['count'])}: {rule(report)}")
            else:
                found += check_report.render(report)
        found.append(f"verdict: {': '.join(filter(None, self.verdict()))}")
        return found

    def caught(self, rules: Sequence[str]) -> bool:
        """Is there a report of one of the rules, or did the kernel die as one says?"""
        return any(matches(report, rules) for report in self.reports) or bool(died_of(self.raw["trouble"], rules))

    def to_json(self, options: Options) -> dict[str, Any]:
        """For check.json."""
        verdict, detail = self.verdict()
        trial = self.trial
        return {
            "boot": trial.boot.name,
            "kernel": trial.boot.image,
            "machine": trial.hardware.name,
            "cpu": trial.hardware.cpu,
            "vcpus": trial.machine(options).vcpus,
            "append": trial.append(options),
            "mutant": trial.mutant.name if trial.mutant else None,
            "workloads": [f"{j.workload.name} {j.spec.name}" for j in trial.boot.jobs],
            "verdict": verdict,
            "detail": detail,
            "seen": (self.raw["end"] or {}).get("seen", {}),
            "known": {self.reports[n]["report"]: finding.name for n, finding in self.known.items()},
            **self.raw,
        }


def rule(report: Mapping[str, Any]) -> str:
    """``owed/local``"""
    return f"{report['rule']}/{report['kind']}"


def one_boot(lab: Lab, guest: Guest, kernel: Kernel, boot: plan.Boot, folder: Path, tell: Any) -> dict[str, Any]:
    """Boot and read what the plugin wrote, or take what an interrupted check left. A guest in trouble is a finding."""
    done = folder / experiment.DONE
    if done.exists():
        kept: dict[str, Any] = json.loads(done.read_text())
        return kept
    checker = guest.plugin is not None
    kept = {"guest": "", "attempts": 1, "status": {}, "trouble": None, "measurements": [], "checker": checker}
    limits = plan.time_limits(boot, guest.machine.vcpus)
    outcome: Outcome | None = None
    try:
        outcome = launch_retrying(guest, lab.job_script(boot), folder, job_seconds=limits, tell=tell, say=say)
        kept |= {"guest": outcome.kernel, "attempts": outcome.attempts, "status": outcome.status}
    except tuple(TROUBLE) as error:
        kind = next(word for error_type, word in TROUBLE.items() if isinstance(error, error_type))
        kept["trouble"] = {"kind": kind, "what": error.what, "code": error.exit_code, "text": error.text()}
    output = check_report.read(sorted(folder.glob("reports*.jsonl")))
    for report in output.reports:
        check_report.annotate(report, kernel.symbols)
    trouble = kept["trouble"]
    # What a kernel says that dies is its trouble.
    if not trouble or trouble["kind"] != TROUBLE[GuestPanic]:
        said = (folder / "console.log").read_text(errors="replace")
        output.reports += check_report.of_console(said, len(output.reports))
    if outcome:
        outcome.counts = output.windows
        try:
            kept["measurements"] = experiment.measured(boot, outcome, checker)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            output.errors.append(f"what the guest reported and the plugin's windows do not fit together: {error!r}")
    kept |= {"reports": output.reports, "errors": output.errors, "end": output.end}
    cache.write_atomic(done, json.dumps(kept, indent=1) + "\n")
    return kept


def judged(trial: Trial, what: str, raw: dict[str, Any], findings: Sequence[Finding]) -> Result:
    """A boot's result, with what is known taken for known; in a mutant nothing is."""
    known = {
        place: finding
        for place, report in enumerate(raw["reports"])
        for finding in findings
        if not trial.mutant and finding.describes(report)
    }
    return Result(trial, what, raw, known)


def guests_of(lab: Lab, trials: Sequence[Trial], kernels: Mapping[str, Kernel], options: Options) -> list[Guest]:
    """Everything each trial boots with, made before the first boot."""
    hooks = {name: kernel.hooks() for name, kernel in kernels.items()}
    found = []
    for trial in trials:
        kernel, machine = kernels[trial.boot.image], trial.machine(options)
        narrow = trial.hardware.asid_bits == NARROW and kernel.name != LAB
        words = (
            f"ram={machine.memory_mib << 20}",
            f"speculation={'on' if options.speculation else 'off'}",
            *([] if trial.hardware.ntlbpa is None else [f"ntlbpa={int(trial.hardware.ntlbpa)}"]),
            *hooks[kernel.name],
        )
        plugin = Plugin(lab.plugin, "check", words) if options.checker else None
        image = kernel.narrow() if narrow else kernel.image
        guest = lab.guest_of(image, machine, trial.append(options), plugin)
        found.append(replace(guest, slower=kernel.slower))
    return found


def conduct(
    lab: Lab,
    trials: Sequence[Trial],
    user: Kernel | None,
    options: Options,
    findings: Sequence[Finding],
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Run the trials and report. Returns 0 when all was silent, or every mutant caught.

    Args:
        user: the user's own kernel, when the trials are of it.
        out: where results go.
    """
    names = dict.fromkeys(trial.boot.image for trial in trials)
    kernels = {name: user if user and name == user.name else of_base(lab, name) for name in names}
    guests = guests_of(lab, trials, kernels, options)
    made = (f"{g.image} {g.parameters()} {g.machine} {g.initramfs} {g.disk} {g.plugin}" for g in guests)
    contents = [cache.key_of_files([user.image, user.place])] if user else []
    key = plan.plan_key([t.boot for t in trials], "check", lab.qemu.version, *made, *contents)
    results: list[Result] = []
    with experiment.holding(out, key) as folder:
        left = experiment.left_over([trial.boot for trial in trials], folder)
        started = time.monotonic()
        with progress.step(f"checking in {len(trials)} guest{'s' * (len(trials) > 1)}") as step:
            for number, (trial, guest) in enumerate(zip(trials, guests, strict=True), 1):

                def tell(text: str, number: int = number, boot: plan.Boot = trial.boot) -> None:
                    step.update(f"{number}/{len(trials)} {boot.name}: {experiment.job_name(boot, text)}")

                tell("booting")
                place = folder / "boots" / trial.boot.name
                raw = one_boot(lab, guest, kernels[trial.boot.image], trial.boot, place, tell)
                results.append(judged(trial, trial.what(options), raw, findings))
                cache.write_atomic(folder / "check.json", to_json(lab, results, options))
                cache.write_atomic(folder / "results.json", as_results(lab, results, options).to_json())
            step.update(experiment.account(len(trials), left, time.monotonic() - started))
    goals = missed(as_results(lab, results, options))
    if as_json:
        print(to_json(lab, results, options), end="")
    else:
        show(results, folder, goals, options.walk)
    return exit_code(results) or (FELL_SHORT if goals else 0)


def settings(lab: Lab, options: Options) -> dict[str, Any]:
    """What everything ran with, for both files."""
    return {
        **lab.describe(),
        "checker": options.checker,
        "speculation": options.speculation,
        "memory_mib": options.memory_mib,
    }


def to_json(lab: Lab, results: Sequence[Result], options: Options) -> str:
    """The text of check.json."""
    description = {
        "lull": __version__,
        "host": experiment.host(),
        "settings": settings(lab, options),
        "boots": [r.to_json(options) for r in results],
        "mutants": [vars(s) for s in mutant_scores(results)],
        "verdict": overall(results),
        "commands": list(dict.fromkeys(process.commands)),
    }
    return json.dumps(description, indent=1) + "\n"


def records_of(results: Sequence[Result], vcpus: int) -> list[Record]:
    """What the plugin and the guest counted in each window. With several machines a kernel is named with its own."""
    boots = plain(results)
    several = len({r.trial.hardware for r in boots}) > 1
    measurements = [
        {**m, "kernel": f"{m['kernel']} on {r.trial.hardware.name}" if several else m["kernel"]}
        for r in boots
        for m in r.raw["measurements"]
    ]
    return experiment.records_of(measurements, vcpus, SECONDS)


def walks(records: Sequence[Record], walk: float) -> list[Record]:
    """What it takes CPUs to walk for the entries that TLBIs took and that were still true, all CPUs together: at most,
    since not each of them was used again.

    Args:
        walk: ns of one.
    """
    lost = (r for r in records if r.metric == LOST)
    return [replace(r, metric=WALKS, unit="s", values=tuple(v * walk / 1e9 for v in r.values)) for r in lost]


def as_results(lab: Lab, results: Sequence[Result], options: Options) -> Results:
    """The same as a run's: a record for each metric, a check for each boot that is of no mutant, and gather's goals."""
    verdicts = [(r.trial.boot.name, *r.verdict()) for r in plain(results)]
    records = records_of(results, options.vcpus)
    found = Results(
        __version__,
        lab.base.name,
        experiment.host(),
        records + (walks(records, options.walk) if options.walk else []),
        [Check(f"checker: {name}", "held" if v == SILENT else "failed", f"{v}: {d}") for name, v, d in verdicts],
        list(dict.fromkeys(process.commands)),
        settings(lab, options),
    )
    if gather.concerns(found):
        found.checks += gather.lost(found)
    return found


def missed(found: Results) -> list[Check]:
    """The goals of a feature, not the boots' verdicts, that were not reached."""
    return [c for c in found.checks if c.verdict == "failed" and c.name.startswith(f"{gather.FEATURE}: ")]


def mutant_scores(results: Sequence[Result]) -> list[Score]:
    """How the mutants fared, in their order."""
    groups: dict[Mutant, list[Result]] = {}
    for result in results:
        if result.trial.mutant:
            groups.setdefault(result.trial.mutant, []).append(result)
    scores = []
    for mutant, group in groups.items():
        rules = [{*map(rule, r.reports), *died_of(r.raw["trouble"], mutant.rules)} for r in group]
        scores.append(
            Score(
                mutant.name,
                mutant.rules[0],
                {name: sum(name in found for found in rules) for name in sorted(set().union(*rules))},
                sum(r.caught(mutant.rules) for r in group),
                sum(r.caught(mutant.rules[:1]) for r in group),
                len(group),
                tuple(dict.fromkeys(r.raw["trouble"]["kind"] for r in group if r.raw["trouble"])),
            )
        )
    return scores


def plain(results: Sequence[Result]) -> list[Result]:
    """Those that are not of mutants."""
    return [r for r in results if not r.trial.mutant]


def exit_code(results: Sequence[Result]) -> int:
    """0, or 1 when something was reported, missed or not seen, or else what the first guest in trouble deserves."""
    found = [r for r in plain(results) if r.verdict()[0] != SILENT]
    if any(not s.held for s in mutant_scores(results)) or any(
        r.verdict()[0] in (REPORTS, BLIND, FAILED) for r in found
    ):
        return FELL_SHORT
    return int(found[0].raw["trouble"]["code"]) if found else 0


def overall(results: Sequence[Result]) -> str:
    """The verdict on everything, one line."""
    parts = []
    if boots := plain(results):
        bad = [r for r in boots if r.verdict()[0] != SILENT]
        kinds = dict.fromkeys(r.verdict()[0] for r in bad)
        counts = [f"{kind} in {sum(r.verdict()[0] == kind for r in bad)} of {len(boots)} boots" for kind in kinds]
        parts.append(
            ", ".join(counts) or f"{SILENT} in {'all ' * (len(boots) > 1)}{len(boots)} boot{'s' * (len(boots) > 1)}"
        )
    if scores := mutant_scores(results):
        held = sum(s.held for s in scores)
        parts.append(f"{held} of {len(scores)} mutants caught each time by the rule that is meant")
    return "; ".join(parts)


def grids(results: Sequence[Result], walk: float = 0.0) -> list[Grid]:
    """Machines x kernels, what was lost, what that costs when ``walk`` says what one does, in ns, and the mutants."""
    boots = [
        Boot(r.trial.boot.image, r.trial.hardware.name, r.verdict()[0], tuple(f.name for f in r.known.values()))
        for r in plain(results)
    ]
    records = records_of(results, 0)
    return check_tables.grids(boots, records + (walks(records, walk) if walk else []), mutant_scores(results))


def show(results: Sequence[Result], folder: Path, goals: Sequence[Check], walk: float = 0.0) -> None:
    """Print each boot, the tables, goals that were missed, where everything is, and the verdict last."""
    console = make_console()

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    for result in results:
        for text in result.lines():
            line(text)
        if result.raw["trouble"]:
            line(f"  where: {folder}/boots/{result.trial.boot.name}/console.log")
        line("")
    for grid in grids(results, walk):
        show_grid(console, grid)
        line("")
    for goal in goals:
        line(f"{goal.name}: {goal.verdict}: {goal.detail}")
    line(f"results: {folder}/check.json, results.json; logs: {folder}/boots")
    line(f"verdict: {overall(results)}")
