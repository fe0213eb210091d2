# SPDX-License-Identifier: GPL-2.0-only
"""What `lull check` writes: check.json, and results.json in the form of a run's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lull import __version__, process
from lull.check.tables import OVER, WALKS
from lull.check.trials import CheckOptions
from lull.check.verdicts import PASSED, BootResult, mutant_scores, overall, plain
from lull.judge import features, thresholds
from lull.lab import Lab
from lull.run import measurements
from lull.run.records import Check, Record, Results, host

SECONDS = "seconds_checked"
"""The metric of the guest's seconds. They include the work of the checker: no run's seconds compare with them."""


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
        "host": host(),
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
    found = [
        replace(m, kernel=f"{m.kernel} on {r.trial.hardware.name}" if several else m.kernel)
        for r in boots
        for m in r.kept.measurements
    ]
    return measurements.records_of(found, vcpus, SECONDS)


def walks(records: Sequence[Record], walk: float) -> list[Record]:
    """Modelled time of the page walks that reload entries which TLBIs removed although they were still valid.

    An upper bound, summed over all CPUs: each removed entry counts as reloaded, although not each was used again.

    Args:
        walk: nanoseconds of one page walk.
    """
    lost = (r for r in records if r.metric == OVER)
    return [replace(r, metric=WALKS, unit="s", values=tuple(v * walk / 1e9 for v in r.values)) for r in lost]


def as_results(lab: Lab, results: Sequence[BootResult], options: CheckOptions) -> Results:
    """results.json in the form of a run's: the records, a check for each boot without mutant, and thresholds."""
    verdicts = [(r.trial.boot.name, *r.verdict()) for r in plain(results)]
    records = records_of(results, options.vcpus)
    found = Results(
        __version__,
        lab.base.name,
        host(),
        records + (walks(records, options.walk) if options.walk else []),
        [Check(f"checker: {name}", "passed" if v == PASSED else "failed", f"{v}: {d}") for name, v, d in verdicts],
        list(dict.fromkeys(process.commands)),
        settings(lab, options),
    )
    for name, module in features.having("judge_checked", found).items():
        found.checks += thresholds.check(name, found, module.judge_checked)
    return found


def missed(found: Results) -> list[Check]:
    """The thresholds of features that were missed; verdicts of boots are left out."""
    return [c for c in found.checks if c.verdict == "failed" and c.name.partition(": ")[0] in features.having("judge")]
