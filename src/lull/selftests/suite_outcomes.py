# SPDX-License-Identifier: GPL-2.0-only
"""Read the output of Linux's own tests, and judge it: against the first kernel, and against the baseline.

The tests of this module use output of real guests.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lull import paths, toml
from lull.guest import console
from lull.judge import tables
from lull.judge.tables import Grid, grid_markdown
from lull.selftests import ktap

BASELINE = paths.GUEST / "selftests-baseline.toml"
BEGIN, MESSAGES, END = "--- tests", "--- messages", "--- end"
"""Lines that the job prints: before the output of the tests, between it and the kernel's log, and after the log."""


@dataclass(frozen=True)
class SuiteOutcome:
    """How a suite ended.

    Args:
        verdicts: test or case -> ``ok``, ``failed``, ``skipped`` or ``unfinished``.
        reports: the kernel's reports of defects of its own during the suite.
        trouble: how the guest ended, if not normally.
    """

    verdicts: Mapping[str, str]
    reports: Sequence[str] = ()
    trouble: str = ""


Found = Mapping[tuple[str, str], Sequence[SuiteOutcome]]
"""(setting, suite) -> the outcome of each boot."""


@dataclass(frozen=True)
class Baseline:
    """Known results of stock. Each field maps a name, in which ``*`` stands for any text, to a reason.

    Args:
        failed, skipped: tests and cases that fail or are skipped.
        varies: tests and cases whose result changes from boot to boot; they are shown but not compared.
        reports: first lines of reports of the kernel.
    """

    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    varies: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict)

    def names(self, kind: str, name: str) -> bool:
        """Return true if the field ``kind`` has a pattern for ``name``; false for ``ok``, which has no field."""
        patterns: Mapping[str, str] = getattr(self, kind, {})
        return any(matches(pattern, name) for pattern in patterns)


def matches(pattern: str, name: str) -> bool:
    """Return true if a pattern of the baseline, with ``*`` for any text, matches ``name``."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def load_baseline(path: Path = BASELINE) -> Baseline:
    """The baseline of a TOML file. Raises UsageError when it is not well formed."""
    remedy = "write tables [failed], [skipped], [varies] and [reports] with lines NAME = REASON"
    with toml.reading("a baseline of selftests", path, remedy):
        return Baseline(**{kind: dict(entry.items()) for kind, entry in toml.load_toml(path).items()})


TITLE = re.compile(r"^# running (?:bash )?(?:\./)?(.*)$")
LINE = re.compile(r"^# -+$")
PART = re.compile(r"^# # \[RUN\] (.*)$")
TAP = re.compile(r"^(?P<inner># )?(?P<not>not )?ok \d+ ?(?:- )?(?P<name>[^#]*?)(?: *# ?(?P<directive>.*))?$")
PLAN = re.compile(r"(?m)^1\.\.\d+$")
UFFD_CASE = re.compile(r"^# Testing (.*)\.\.\. (done|skipped|failed)")
UFFD_VERDICTS = {"done": "ok", "skipped": "skipped", "failed": "failed"}
CHANGING = re.compile(r"0x[0-9a-f]+|\d+(?=MB of memory allocations)|(?<=transact_test Extra pages ).*")
"""Parts of a name that differ from boot to boot; ``read`` replaces them by ``*``."""


def verdicts_in(output: str) -> dict[str, str]:
    """Test, or ``test / case`` -> verdict, from the output of run_vmtests.sh.

    A test that began and has no verdict is ``unfinished``. The second test of a name gets `` (2)`` added, and so on.
    """
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    test = part = ""

    def unique(name: str) -> str:
        name = CHANGING.sub("*", name)
        seen[name] += 1
        return name if seen[name] == 1 else f"{name} ({seen[name]})"

    lines = output.splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if LINE.match(before) and (match := TITLE.match(line)):
            test, part = unique(match[1].strip()), ""
            found[test] = "unfinished"
        elif match := PART.match(line):
            part = match[1].strip()
        elif match := UFFD_CASE.match(line):
            found[unique(f"{test} / {match[1].strip()}")] = UFFD_VERDICTS[match[2]]
        elif test and (match := TAP.match(line)):
            directive = match["directive"] or ""
            skipped = directive.upper().startswith("SKIP")
            verdict = "failed" if match["not"] else "skipped" if skipped else "ok"
            if not match["inner"]:
                found[test] = verdict
            else:
                case = match["name"].strip() or directive
                found[unique(f"{test} / {f'{part}: {case}' if part else case}")] = verdict
    return found


def of_tests(text: str, trouble: str = "") -> SuiteOutcome:
    """The outcome of run_vmtests.sh, from the console.

    Reports of stalls are left out, because a busy host alone can cause them.

    Args:
        text: the console: the output of the tests, then the kernel's log.
        trouble: how the guest ended, if not normally. Then there is no kernel's log, all of the console is searched for
            reports, and stalls count.
    """
    text = text.replace("\r", "")
    output, _, messages = text.partition(f"{BEGIN}\n")[2].partition(f"{MESSAGES}\n")
    reports = console.reports(text if trouble else messages.partition(f"{END}\n")[0])
    verdicts = verdicts_in(output)
    # The script ends with its plan (1..N). Without it, or without any test, two empty outcomes would compare as equal.
    if not trouble and not (verdicts and PLAN.search(output) and f"{END}\n" in messages):
        trouble = f"run_vmtests.sh did not come to its end: {output.strip()[-200:]}"
    told = [report.text for report in reports if trouble or not console.STALL.search(report.title)]
    return SuiteOutcome(verdicts, told, trouble)


def of_kunit(text: str, trouble: str = "") -> SuiteOutcome:
    """The outcome of the KUnit suites, from the console.

    The kernel's reports are not read: cases provoke some, and a case fails when it meets one that it does not expect.

    Args:
        trouble: how the guest ended, if not normally.
    """
    cases: list[ktap.Case] = []
    try:
        cases = ktap.parse(text)
    except ValueError as error:
        trouble = trouble or f"KUnit's suites did not all end: {error}"
    if not cases:
        trouble = trouble or "KUnit ran no suite"
    return SuiteOutcome({f"{case.suite} / {case.name}": case.verdict for case in cases}, (), trouble)


def ends(outcomes: Iterable[SuiteOutcome], name: str) -> str:
    """The results of a test over all boots: ``ok``, or ``failed or ok``; ``missing`` where it did not run."""
    return " or ".join(sorted({outcome.verdicts.get(name, "missing") for outcome in outcomes}))


def names(outcomes: Iterable[SuiteOutcome]) -> list[str]:
    """The names of all tests and cases, in their order."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.verdicts))


DIFFERS, REPORTED, NEWS = "differs", "reported", "not in the baseline"
VARIES, BETTER = "varies, not compared", "named in the baseline, ended well"
FAILING = (DIFFERS, REPORTED, NEWS)
"""The kinds of findings that make the command fail."""


def findings_of(found: Found, baseline: Baseline) -> dict[str, list[str]]:
    """Kind of finding -> its lines. Settings are compared with the first one, and the first one with the baseline."""
    first = next(iter(found))[0]
    lines: dict[str, list[str]] = defaultdict(list)
    for (setting, suite), outcomes in found.items():
        for outcome in outcomes:
            told = [f"the guest: {outcome.trouble}"] if outcome.trouble else []
            told += [report for report in outcome.reports if not baseline.names("reports", report.splitlines()[0])]
            lines[REPORTED] += [f"{suite} on {setting}: {report}" for report in told]
        for name in names([*found[first, suite], *outcomes]):
            here, there = ends(outcomes, name), ends(found[first, suite], name)
            if baseline.names("varies", name):
                if here != "ok":
                    lines[VARIES].append(f"{name}: {here} on {setting}")
            elif here == "missing" and ends(outcomes, name.partition(" / ")[0]) == "unfinished":
                continue  # its test is unfinished, which has a line of its own
            elif here != there:
                lines[DIFFERS].append(f"{name}: {here} on {setting}, {there} on {first}")
            elif setting == first and here != "ok" and not baseline.names(here, name):
                lines[NEWS].append(f"{name}: {here} on {setting}")
            elif (
                setting == first
                and here == "ok"
                and (baseline.names("failed", name) or baseline.names("skipped", name))
            ):
                lines[BETTER].append(f"{name} on {setting}")
    return {kind: lines[kind] for kind in (*FAILING, VARIES, BETTER)}


def grid(found: Found) -> Grid:
    """The table of suites x settings: how many tests and cases passed, failed and were skipped."""
    settings = list(dict.fromkeys(setting for setting, _ in found))
    rows = []
    for suite in dict.fromkeys(suite for _, suite in found):
        cells = [counted(found[setting, suite]) if (setting, suite) in found else "" for setting in settings]
        rows.append((suite, *cells))
    everything = [[o for (s, _), outcomes in found.items() if s == setting for o in outcomes] for setting in settings]
    rows.append(("all", *(counted(outcomes) for outcomes in everything)))
    header = ("tests and cases: passed, failed, skipped", *settings)
    return Grid("Linux's own tests", header, tuple(rows), 1)


def counted(outcomes: Iterable[SuiteOutcome]) -> str:
    """``12, 0, 3``: how many tests and cases passed, failed or did not end, and were skipped."""
    counts = Counter(verdict for outcome in outcomes for verdict in outcome.verdicts.values())
    return f"{counts['ok']}, {counts['failed'] + counts['unfinished']}, {counts['skipped']}"


def details(found: Found) -> Grid:
    """The table of tests x settings, without tests that passed everywhere."""
    settings = list(dict.fromkeys(setting for setting, _ in found))
    rows = []
    for suite in dict.fromkeys(suite for _, suite in found):
        here = {setting: found[setting, suite] for setting in settings if (setting, suite) in found}
        for name in names(outcome for outcomes in here.values() for outcome in outcomes):
            cells = [ends(here[setting], name) if setting in here else "" for setting in settings]
            if {*cells} - {"ok", ""}:
                rows.append((suite, name, *cells))
    return Grid("What did not pass", ("suite", "test", *settings), tuple(rows), 2 + len(settings))


def described(found: Found) -> dict[str, dict[str, str]]:
    """Test or case -> setting -> result, for selftests.json."""
    every: dict[str, dict[str, str]] = defaultdict(dict)
    for (setting, _), outcomes in found.items():
        for name in names(outcomes):
            every[name][setting] = ends(outcomes, name)
    return every


def findings(judged: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of the findings, and the verdict as the last line."""
    lines = [f"{kind}: {line}" for kind, lines in judged.items() for line in lines]
    verdict = "something differs" if any(judged[kind] for kind in FAILING) else "nothing differs"
    return [*lines, f"verdict: {verdict}"]


def print_outcomes(found: Found, judged: Mapping[str, Sequence[str]]) -> None:
    """Print the table and the findings."""
    console = tables.make_console()
    tables.show_grid(console, grid(found))
    for line in findings(judged):
        tables.say_line(console, line)


def markdown(found: Found, judged: Mapping[str, Sequence[str]]) -> str:
    """The table and the findings as Markdown, with a table of the tests that did not pass everywhere."""
    return "\n".join([grid_markdown(grid(found)), *findings(judged), "", grid_markdown(details(found))]) + "\n"
