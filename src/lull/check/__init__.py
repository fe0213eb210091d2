# SPDX-License-Identifier: GPL-2.0-only
"""`lull check`: boot kernels under the QEMU plugin's check mode, and judge each boot by the plugin's reports.

A *trial* is one boot of one kernel on one machine, with a mutant switched on or without one. ``plan_kernels`` and
``plan_mutants`` list the trials. ``conduct`` boots them in turn, writes check.json and results.json, prints the tables
and returns the exit status.
"""

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
from lull.check import plugin_output
from lull.check import tables as check_tables
from lull.check.data import NARROW, Hardware, KnownFinding, Mutant, died_of, matches
from lull.check.tables import LOST, WALKS, BootVerdict, Score
from lull.errors import GuestGarbage, GuestHang, GuestPanic, UsageError
from lull.guest.qemu import Machine
from lull.guest.runner import BootOutcome, Guest, Plugin, launch_retrying
from lull.judge import gather
from lull.judge.tables import Grid, make_console, show_grid
from lull.kernel import symbols
from lull.lab import Lab
from lull.progress import progress, say
from lull.run import experiment
from lull.run.records import Check, Record, Results

LAB = plan.LAB
FREES = ("free_unref_page", "free_unref_folios", "__free_pages_ok", "free_huge_folio", "pgd_free")
"""Functions that free pages. The plugin hooks them in a kernel without markers; the lab kernel marks what it frees."""
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
"""Symbols whose addresses the plugin gets for every kernel: functions in which the kernel relies on a completed flush
(checker/rely.h) or on a page not being written (checker/written.h), the function in which a task sleeps
(checker/unload.h), and the variable from which the plugin computes where the struct pages are (memstart_addr)."""
APPEND = "loglevel=5 printk.time=1 nokaslr"
"""Kernel parameters of every check. loglevel: warnings reach the console. printk.time: the time stamp tells lines of
the kernel from those of programs. nokaslr: the kernel runs at the addresses it was linked to, as its symbols say."""
SILENT, REPORTS, BLIND, FAILED = check_tables.SILENT, "reports", "blind", "failed"
TROUBLE = {GuestPanic: "crashed", GuestHang: "hung", GuestGarbage: "broke off"}
"""Errors of a guest that are results of a check, and the verdict of such a boot."""
FELL_SHORT = 1
SECONDS = "seconds_checked"
"""The metric of the guest's seconds. They include the work of the checker: no run's seconds compare with them."""


@dataclass(frozen=True)
class CheckOptions:
    """Settings of every boot of a check.

    Args:
        vcpus: virtual CPUs of the guest; a mutant may ask for more.
        memory_mib: MiB of the guest; a workload may ask for more.
        append: further kernel parameters.
        speculation: the plugin models CPUs that also load translations speculatively.
        checker: load the plugin. Without it, only the kernel's own reports on the console count.
        walk: nanoseconds of one page walk, for modelled time; 0: no modelled time is shown.
    """

    vcpus: int = 4
    memory_mib: int = 2048
    append: str = ""
    speculation: bool = True
    checker: bool = True
    walk: float = 0.0


@dataclass(frozen=True)
class Trial:
    """One boot of a check: its kernel and workloads, the machine, and the mutant that is switched on, if any."""

    boot: plan.Boot
    hardware: Hardware
    mutant: Mutant | None = None

    def machine(self, options: CheckOptions) -> Machine:
        """The guest's hardware: the options', with as many vCPUs as the mutant and MiB as the workloads need."""
        vcpus = max(self.mutant.vcpus if self.mutant else 0, options.vcpus)
        return Machine(vcpus, max(options.memory_mib, self.boot.memory), self.hardware.cpu)

    def append(self, options: CheckOptions) -> str:
        """The parameters of this trial on the kernel's command line."""
        words = [APPEND, self.hardware.parameter()]
        if self.hardware.asid_bits == NARROW and self.boot.image == LAB:
            words.append(f"lull_asid_bits={NARROW}")
        if self.mutant:
            words += [f"lull_mutant={self.mutant.name}", self.mutant.append]
        return " ".join(filter(None, [*words, options.append]))

    def what(self, options: CheckOptions) -> str:
        """The line that names this trial in the output: kernel, mutant, machine, vCPUs, boot, workloads."""
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
class CheckedKernel:
    """A kernel to check.

    Args:
        name: its name in tables.
        image: the Image file.
        symbols: the symbols of this image.
        place: the file that the symbols are from.
        limit_factor: factor on the time limits of its guests.
    """

    name: str
    image: Path
    symbols: symbols.Symbols
    place: Path
    limit_factor: float = 1.0

    def narrow(self) -> Path:
        """A copy of the image that finds 8-bit ASIDs, in the cache. Raises UsageError when it cannot be made."""
        key = cache.key_of_files([self.image, self.place])

        def make(part: Path) -> None:
            data = check_image.with_8_bit_asids(self.image.read_bytes(), self.symbols, str(self.image))
            (part / "Image").write_bytes(data)

        return cache.make_entry("build", f"asid8-{key}", make) / "Image"

    def hooks(self) -> tuple[str, ...]:
        """The plugin's options ``hook=NAME@ADDRESS`` for this kernel; FREES only when the kernel has no markers."""
        frees = () if check_image.has_markers(self.image.read_bytes()) else FREES
        found = ((name, self.symbols.address(name)) for name in (*frees, *RELIES))
        return tuple(f"hook={name}@{address:#x}" for name, address in found if address is not None)


def of_base(lab: Lab, name: str) -> CheckedKernel:
    """The kernel ``name`` of the base (``stock``, ``lull``, ``lab``), built if need be."""
    built = lab.kernel(name)
    found = symbols.load(built.system_map, lab.toolchain.nm)
    return CheckedKernel(name, built.image, found, built.system_map, built.limit_factor)


def of_user(lab: Lab, image: Path, place: Path) -> CheckedKernel:
    """The user's own kernel. Raises UsageError when a file cannot be read or the symbols are another kernel's.

    Args:
        image: its Image.
        place: its System.map or vmlinux.
    """
    try:
        data = image.read_bytes()
    except OSError as error:
        what = f"the image cannot be read: {error.strerror}"
        raise UsageError(what, where=str(image), remedy=check_image.REMEDY) from error
    found = symbols.load(place, lab.toolchain.nm)
    check_image.check_fit(data, found, str(image))
    return CheckedKernel(users_name(lab, image), image, found, place)


def users_name(lab: Lab, image: Path) -> str:
    """The name of the user's kernel in tables: its file name, with ``./`` in front when a kernel of the base has it."""
    return f"./{image.name}" if image.name in lab.base.kernels else image.name


def slug(text: str) -> str:
    """``text`` with each run of characters that do not suit a file name replaced by ``_``."""
    return re.sub(r"[^\w.+=-]+", "_", text)


def on(boots: Iterable[plan.Boot], hardware: Hardware, mutant: Mutant | None = None) -> list[Trial]:
    """A trial of each boot on ``hardware``; the boots' names get the names of the machine and the mutant."""
    middle = f"{mutant.name}-" if mutant else ""
    return [
        Trial(plan.renamed(boot, slug(f"r{boot.repeat:02d}-{boot.label}-{middle}{hardware.name}")), hardware, mutant)
        for boot in boots
    ]


def plan_kernels(
    pairs: Sequence[tuple[plan.Workload, plan.Spec]], machines: Sequence[Hardware], repeat: int
) -> list[Trial]:
    """The trials of ``lull check``: ``repeat`` boots of every kernel on every machine.

    Args:
        pairs: workloads, each with a kernel it runs under.
    """
    series = [(image, image) for image in dict.fromkeys(spec.image for _, spec in pairs)]
    boots = plan.interleave(pairs, series, repeat)
    return [trial for hardware in machines for trial in on(boots, hardware)]


def plan_mutants(
    mutants: Sequence[tuple[Mutant, Sequence[plan.Workload], Sequence[Hardware]]], repeat: int
) -> list[Trial]:
    """The trials of ``lull check --mutant``: ``repeat`` boots of the lab kernel per mutant and machine.

    Args:
        mutants: each with the workloads that exercise it and the machines it is tried on.
    """
    found: list[Trial] = []
    for mutant, workloads, machines in mutants:
        spec = plan.Spec(LAB + "".join(f"+{k}={v}" for k, v in mutant.settings), LAB, mutant.settings)
        for hardware in machines:
            found += on(plan.interleave([(w, spec) for w in workloads], [(LAB, LAB)], repeat), hardware, mutant)
    return found


@dataclass
class BootResult:
    """The result of one boot.

    Args:
        trial: the trial that was booted.
        what: the line that names it (Trial.what).
        raw: the contents of boot.json: ``status`` of the jobs, ``trouble`` of the guest, ``measurements``
            (experiment.measured), ``checker`` (was the plugin loaded?), and what the plugin wrote: ``errors``, ``end``
            and ``reports``, to which the reports on the console are added.
        known: place in ``reports`` -> the known finding that describes the report.
    """

    trial: Trial
    what: str
    raw: dict[str, Any]
    known: dict[int, KnownFinding] = field(default_factory=dict)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """All reports, those of known findings included."""
        found: list[dict[str, Any]] = self.raw["reports"]
        return found

    @property
    def new(self) -> list[dict[str, Any]]:
        """The reports that no known finding describes."""
        return [r for n, r in enumerate(self.reports) if n not in self.known]

    @property
    def output(self) -> plugin_output.PluginOutput:
        """The plugin's output, as plugin_output reads it."""
        return plugin_output.PluginOutput(self.reports, self.raw["end"], self.raw["errors"])

    def failed_jobs(self) -> list[str]:
        """A phrase for each workload that neither succeeded nor was skipped."""
        status = {int(number): code for number, code in self.raw["status"].items()}
        return [
            f"{job.workload.name} ended with status {status.get(job.number, 'none')}"
            for job in self.trial.boot.jobs
            if status.get(job.number) not in (0, experiment.SKIPPED)
        ]

    def verdict(self) -> tuple[str, str]:
        """The boot's verdict and its details.

        The verdict is the first that applies: ``reports`` (new ones), the guest's trouble, ``failed`` (the plugin had
        errors), ``blind`` (the plugin saw nothing of something vital), ``failed`` (a workload failed), ``silent``.
        """
        trouble: dict[str, Any] | None = self.raw["trouble"]
        if self.new:
            seen = sum(r["count"] for r in self.new)
            detail = f"{len(self.new)}, seen {seen} time{'s' * (seen > 1)}"
            return REPORTS, f"{detail}; the guest {trouble['kind']}: {trouble['what']}" if trouble else detail
        if trouble:
            return trouble["kind"], trouble["what"]
        if self.raw["errors"]:
            return FAILED, "; ".join(self.raw["errors"])
        if self.raw["checker"] and (missing := plugin_output.blind(self.output)):
            return BLIND, f"it did not see {', '.join(missing)}"
        if failed := self.failed_jobs():
            return FAILED, "; ".join(failed)
        return SILENT, plugin_output.seen_line(self.raw["end"]) if self.raw[
            "checker"
        ] else "the kernel reported nothing"

    def lines(self) -> list[str]:
        """The boot as printed: the line that names it, a paragraph for each report, the verdict."""
        found = [self.what]
        for place, report in enumerate(self.reports):
            if place in self.known:
                finding = self.known[place]
                found.append(f"known finding {finding.name}: {finding.about} ({finding.doc})")
                found.append(f"  report {report['report']}{plugin_output.times(report['count'])}: {rule(report)}")
            else:
                found += plugin_output.render(report)
        found.append(f"verdict: {': '.join(filter(None, self.verdict()))}")
        return found

    def caught(self, rules: Sequence[str]) -> bool:
        """Return true if a report is of one of ``rules``, or the kernel died with the text of a ``console/`` rule."""
        return any(matches(report, rules) for report in self.reports) or bool(died_of(self.raw["trouble"], rules))

    def to_json(self, options: CheckOptions) -> dict[str, Any]:
        """The boot's entry in check.json."""
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
    """The rule and kind of a report: ``owed/local``."""
    return f"{report['rule']}/{report['kind']}"


def one_boot(lab: Lab, guest: Guest, kernel: CheckedKernel, boot: plan.Boot, folder: Path, tell: Any) -> dict[str, Any]:
    """Boot once, read what the plugin wrote, and return the contents of boot.json.

    If an interrupted check already finished this boot, its boot.json is read instead. A guest that crashes, hangs or
    breaks its protocol raises nothing: that is the result, in ``trouble``.

    Args:
        folder: takes the logs and boot.json.
        tell: called with the guest's progress.
    """
    done = folder / experiment.DONE
    if done.exists():
        kept: dict[str, Any] = json.loads(done.read_text())
        return kept
    checker = guest.plugin is not None
    kept = {"guest": "", "attempts": 1, "status": {}, "trouble": None, "measurements": [], "checker": checker}
    limits = plan.time_limits(boot, guest.machine.vcpus)
    outcome: BootOutcome | None = None
    try:
        outcome = launch_retrying(guest, lab.job_script(boot), folder, job_seconds=limits, tell=tell, say=say)
        kept |= {"guest": outcome.kernel, "attempts": outcome.attempts, "status": outcome.status}
    except tuple(TROUBLE) as error:
        kind = next(word for error_type, word in TROUBLE.items() if isinstance(error, error_type))
        kept["trouble"] = {"kind": kind, "what": error.what, "code": error.exit_code, "text": error.text()}
    output = plugin_output.read(sorted(folder.glob("reports*.jsonl")))
    for report in output.reports:
        plugin_output.annotate(report, kernel.symbols)
    trouble = kept["trouble"]
    # The last words of a kernel that panics are already in its trouble: do not report them a second time.
    if not trouble or trouble["kind"] != TROUBLE[GuestPanic]:
        said = (folder / "console.log").read_text(errors="replace")
        output.reports += plugin_output.of_console(said, len(output.reports))
    if outcome:
        outcome.counts = output.windows
        try:
            kept["measurements"] = experiment.measured(boot, outcome, checker)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            output.errors.append(f"what the guest reported and the plugin's windows do not fit together: {error!r}")
    kept |= {"reports": output.reports, "errors": output.errors, "end": output.end}
    cache.write_atomic(done, json.dumps(kept, indent=1) + "\n")
    return kept


def judged(trial: Trial, what: str, raw: dict[str, Any], findings: Sequence[KnownFinding]) -> BootResult:
    """The result of a boot, its reports matched with the known findings. In a boot of a mutant no report is known."""
    known = {
        place: finding
        for place, report in enumerate(raw["reports"])
        for finding in findings
        if not trial.mutant and finding.describes(report)
    }
    return BootResult(trial, what, raw, known)


def guests_of(
    lab: Lab, trials: Sequence[Trial], kernels: Mapping[str, CheckedKernel], options: CheckOptions
) -> list[Guest]:
    """Image, machine, parameters and plugin of each trial; all are built before the first boot. Raises UsageError."""
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
        found.append(replace(guest, slower=kernel.limit_factor))
    return found


def conduct(
    lab: Lab,
    trials: Sequence[Trial],
    user: CheckedKernel | None,
    options: CheckOptions,
    findings: Sequence[KnownFinding],
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Boot the trials in turn, write check.json and results.json after each, and print the results.

    Returns the exit status: 0 when every boot of a kernel was silent and every mutant was caught by the rule meant for
    it in each of its boots; see ``exit_code``. A missed goal of gather makes it 1.

    Args:
        user: the user's own kernel, when the trials are of it.
        findings: known defects, whose reports do not fail a boot.
        out: the folder of the results; None: a new one in ./results.
        as_json: print check.json instead of the tables.
    """
    names = dict.fromkeys(trial.boot.image for trial in trials)
    kernels = {name: user if user and name == user.name else of_base(lab, name) for name in names}
    guests = guests_of(lab, trials, kernels, options)
    made = (f"{g.image} {g.parameters()} {g.machine} {g.initramfs} {g.disk} {g.plugin}" for g in guests)
    contents = [cache.key_of_files([user.image, user.place])] if user else []
    key = plan.plan_key([t.boot for t in trials], "check", lab.qemu.version, *made, *contents)
    results: list[BootResult] = []
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


def settings(lab: Lab, options: CheckOptions) -> dict[str, Any]:
    """The settings that check.json and results.json record."""
    return {
        **lab.describe(),
        "checker": options.checker,
        "speculation": options.speculation,
        "memory_mib": options.memory_mib,
    }


def to_json(lab: Lab, results: Sequence[BootResult], options: CheckOptions) -> str:
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


def records_of(results: Sequence[BootResult], vcpus: int) -> list[Record]:
    """A record for each metric that the plugin and the guest counted in windows. Boots of mutants are left out.

    With several machines, the kernel's name in a record is ``KERNEL on MACHINE``.
    """
    boots = plain(results)
    several = len({r.trial.hardware for r in boots}) > 1
    measurements = [
        {**m, "kernel": f"{m['kernel']} on {r.trial.hardware.name}" if several else m["kernel"]}
        for r in boots
        for m in r.raw["measurements"]
    ]
    return experiment.records_of(measurements, vcpus, SECONDS)


def walks(records: Sequence[Record], walk: float) -> list[Record]:
    """Modelled time of the page walks that reload entries which TLBIs removed although they were still valid.

    An upper bound, summed over all CPUs: each removed entry counts as reloaded, although not each was used again.

    Args:
        walk: nanoseconds of one page walk.
    """
    lost = (r for r in records if r.metric == LOST)
    return [replace(r, metric=WALKS, unit="s", values=tuple(v * walk / 1e9 for v in r.values)) for r in lost]


def as_results(lab: Lab, results: Sequence[BootResult], options: CheckOptions) -> Results:
    """results.json in the form of a run's: the records, a check for each boot of no mutant, and the goals of gather."""
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
    """The goals of feature gather that were missed; verdicts of boots are left out."""
    return [c for c in found.checks if c.verdict == "failed" and c.name.startswith(f"{gather.FEATURE}: ")]


def mutant_scores(results: Sequence[BootResult]) -> list[Score]:
    """The score of each mutant, in the order of the trials."""
    groups: dict[Mutant, list[BootResult]] = {}
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


def plain(results: Sequence[BootResult]) -> list[BootResult]:
    """The results of boots without a mutant."""
    return [r for r in results if not r.trial.mutant]


def exit_code(results: Sequence[BootResult]) -> int:
    """The exit status of the results, without the goals.

    1 when a boot's verdict is ``reports``, ``blind`` or ``failed``, or a mutant was not caught each time by the rule
    meant for it; else the exit code of the first guest that crashed, hung or broke off; else 0.
    """
    found = [r for r in plain(results) if r.verdict()[0] != SILENT]
    if any(not s.held for s in mutant_scores(results)) or any(
        r.verdict()[0] in (REPORTS, BLIND, FAILED) for r in found
    ):
        return FELL_SHORT
    return int(found[0].raw["trouble"]["code"]) if found else 0


def overall(results: Sequence[BootResult]) -> str:
    """The last line of the output: boots by verdict, and mutants that were caught."""
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


def grids(results: Sequence[BootResult], walk: float = 0.0) -> list[Grid]:
    """The tables: verdicts of machines x kernels, valid entries that TLBIs removed, the modelled time of their page
    walks (when ``walk``, the nanoseconds of one, is not 0), and the mutants."""
    boots = [
        BootVerdict(r.trial.boot.image, r.trial.hardware.name, r.verdict()[0], tuple(f.name for f in r.known.values()))
        for r in plain(results)
    ]
    records = records_of(results, 0)
    return check_tables.grids(boots, records + (walks(records, walk) if walk else []), mutant_scores(results))


def show(results: Sequence[BootResult], folder: Path, goals: Sequence[Check], walk: float = 0.0) -> None:
    """Print each boot, the tables, missed goals, the files with the results, and last the verdict."""
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
