# SPDX-License-Identifier: GPL-2.0-only
"""Judge the boots of `lull check`: the verdict of each boot, the score of each mutant, and the exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lull.check import plugin_output
from lull.check import tables as check_tables
from lull.check.data import KnownIssue, Mutant, died_of, matches
from lull.check.tables import Score
from lull.check.trials import CheckOptions, Trial
from lull.guest.runner import SKIPPED
from lull.run.records import MeasuredBoot

PASSED, REPORTS, INCONCLUSIVE, FAILED = check_tables.PASSED, "reports", "inconclusive", "failed"
FELL_SHORT = 1


@dataclass
class Trouble:
    """How a guest ended that did not end well: its kind (boots.TROUBLE), the error, its exit code and text."""

    kind: str
    what: str
    code: int
    text: str


@dataclass(kw_only=True)
class CheckedBoot(MeasuredBoot):
    """What is kept of a boot of a check.

    Args:
        trouble: how the guest ended, if not well.
        checker: was the plugin loaded?
        reports, errors, end, unchecked: what the plugin wrote (PluginOutput), and the reports on the console.
    """

    trouble: Trouble | None = None
    checker: bool = True
    reports: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    end: dict[str, Any] | None = None
    unchecked: list[str] = field(default_factory=list)


@dataclass
class BootResult:
    """The result of one boot.

    Args:
        trial: the trial that was booted.
        what: the line that names it (Trial.what).
        kept: what is kept of the boot.
        known: place in ``reports`` -> the known issue that describes the report.
    """

    trial: Trial
    what: str
    kept: CheckedBoot
    known: dict[int, KnownIssue] = field(default_factory=dict)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """All reports, those of known issues included."""
        return self.kept.reports

    @property
    def last_words(self) -> str:
        """What a guest said that did not end well."""
        return self.kept.trouble.what if self.kept.trouble else ""

    @property
    def new(self) -> list[dict[str, Any]]:
        """The reports that no known issue describes."""
        return [r for n, r in enumerate(self.reports) if n not in self.known]

    def failed_jobs(self) -> list[str]:
        """A phrase for each workload that neither succeeded nor was skipped."""
        status = self.kept.status
        return [
            f"{job.workload.name} ended with status {status.get(job.number, 'none')}"
            for job in self.trial.boot.jobs
            if status.get(job.number) not in (0, SKIPPED)
        ]

    def skipped_jobs(self) -> list[str]:
        """The workloads that this kernel or machine cannot run; each says why on the console."""
        status = self.kept.status
        return [job.workload.name for job in self.trial.boot.jobs if status.get(job.number) == SKIPPED]

    def verdict(self) -> tuple[str, str]:
        """The boot's verdict and its details.

        The verdict is the first that applies: ``reports`` (new ones), the guest's trouble, ``failed`` (the plugin had
        errors), ``inconclusive`` (the plugin saw nothing of something vital), ``failed`` (a workload did), ``passed``.
        """
        trouble = self.kept.trouble
        if self.new:
            seen = sum(r["count"] for r in self.new)
            detail = f"{len(self.new)}, seen {seen} time{'s' * (seen > 1)}"
            return REPORTS, f"{detail}; the guest {trouble.kind}: {trouble.what}" if trouble else detail
        if trouble:
            return trouble.kind, trouble.what
        if self.kept.errors:
            return FAILED, "; ".join(self.kept.errors)
        if self.kept.checker and (missing := plugin_output.unseen(self.kept.end)):
            return INCONCLUSIVE, missing
        if failed := self.failed_jobs():
            return FAILED, "; ".join(failed)
        if not self.kept.checker:
            return PASSED, "the kernel reported nothing"
        return PASSED, str((self.kept.end or {})["text"])

    def lines(self) -> list[str]:
        """The boot as printed: the line that names it, a paragraph for each report, the verdict."""
        found = [self.what]
        for place, report in enumerate(self.reports):
            if place in self.known:
                issue = self.known[place]
                found.append(f"known issue {issue.name}: {issue.about}" + f" ({issue.doc})" * bool(issue.doc))
                found.append(f"  report {report['report']}{plugin_output.times(report['count'])}: {rule(report)}")
            else:
                found += plugin_output.lines(report)
        if skipped := self.skipped_jobs():
            found.append(f"skipped, see the console: {', '.join(skipped)}")
        if unchecked := self.kept.unchecked:
            found.append(f"not checked, for lack of a symbol: {', '.join(unchecked)}")
        verdict, detail = self.verdict()
        found.append(
            f"verdict: {': '.join(filter(None, (how_passed([self]) if verdict == PASSED else verdict, detail)))}"
        )
        return found

    def caught(self, rules: Sequence[str]) -> bool:
        """Return true if a new report is of one of ``rules``, or the kernel died with a ``console/`` text."""
        return any(matches(report, rules) for report in self.new) or bool(died_of(self.last_words, rules))

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
            "seen": (self.kept.end or {}).get("seen", {}),
            "known": {self.reports[n]["report"]: issue.name for n, issue in self.known.items()},
            **asdict(self.kept),
        }


def rule(report: Mapping[str, Any]) -> str:
    """The rule and kind of a report: ``pending/local``."""
    return f"{report['rule']}/{report['kind']}"


def judged(trial: Trial, what: str, kept: CheckedBoot, known_issues: Sequence[KnownIssue]) -> BootResult:
    """The result of a boot, its reports matched with the known issues, or with those beside its mutant."""
    known = {
        place: issue
        for place, report in enumerate(kept.reports)
        for issue in known_issues
        if (not trial.mutant or issue.name in trial.mutant.beside) and issue.describes(report, kept.guest)
    }
    return BootResult(trial, what, kept, known)


def plain(results: Sequence[BootResult]) -> list[BootResult]:
    """The results of boots without a mutant."""
    return [r for r in results if not r.trial.mutant]


def mutant_scores(results: Sequence[BootResult]) -> list[Score]:
    """The score of each mutant, in the order of the trials."""
    groups: dict[Mutant, list[BootResult]] = {}
    for result in results:
        if result.trial.mutant:
            groups.setdefault(result.trial.mutant, []).append(result)
    scores = []
    for mutant, group in groups.items():
        rules = [{*map(rule, r.reports), *died_of(r.last_words, mutant.rules)} for r in group]
        scores.append(
            Score(
                mutant.name,
                mutant.rules[0],
                {name: sum(name in found for found in rules) for name in sorted(set().union(*rules))},
                sum(r.caught(mutant.rules) for r in group),
                sum(r.caught(mutant.rules[:1]) for r in group),
                len(group),
                tuple(dict.fromkeys(r.kept.trouble.kind for r in group if r.kept.trouble)),
            )
        )
    return scores


def how_passed(results: Sequence[BootResult]) -> str:
    """What is said of boots that passed: ``passed`` or, with reports of known issues, how many of these."""
    known = {issue.name for result in results for issue in result.known.values()}
    return f"{check_tables.NEWS}; {check_tables.defects(len(known))}" if known else PASSED


def nothing_ran(results: Sequence[BootResult]) -> bool:
    """Return true if there were programs to run, and each was skipped in each boot."""
    return 0 < sum(len(r.trial.boot.jobs) for r in results) == sum(len(r.skipped_jobs()) for r in results)


def exit_code(results: Sequence[BootResult]) -> int:
    """The exit status of the results, without the thresholds.

    1 when a boot's verdict is ``reports``, ``inconclusive`` or ``failed``, all programs were skipped, or a mutant not
    caught each time by the rule meant for it; else the exit code of the first guest that crashed, hung or broke off;
    else 0.
    """
    found = [r for r in plain(results) if r.verdict()[0] != PASSED]
    wrong = any(r.verdict()[0] in (REPORTS, INCONCLUSIVE, FAILED) for r in found)
    if wrong or nothing_ran(results) or any(not s.passed for s in mutant_scores(results)):
        return FELL_SHORT
    trouble = found[0].kept.trouble if found else None
    return trouble.code if trouble else 0


def overall(results: Sequence[BootResult]) -> str:
    """The last line of the output: boots by verdict, and mutants that were caught."""
    if nothing_ran(results):
        return f"{INCONCLUSIVE}: every program was skipped"
    parts = []
    if boots := plain(results):
        bad = [r for r in boots if r.verdict()[0] != PASSED]
        kinds = dict.fromkeys(r.verdict()[0] for r in bad)
        counts = [f"{kind} in {sum(r.verdict()[0] == kind for r in bad)} of {len(boots)} boots" for kind in kinds]
        parts.append(
            ", ".join(counts)
            or f"{how_passed(boots)} in {'all ' * (len(boots) > 1)}{len(boots)} boot{'s' * (len(boots) > 1)}"
        )
    if scores := mutant_scores(results):
        passed = sum(s.passed for s in scores)
        parts.append(f"{passed} of {len(scores)} mutants caught each time by the rule that is meant")
    return "; ".join(parts)
