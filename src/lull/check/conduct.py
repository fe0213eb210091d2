# SPDX-License-Identifier: GPL-2.0-only
"""Do a whole check: boot the trials in turn, judge them, and write and print the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from lull import cache, eta, plan
from lull.check import ci
from lull.check.boots import guests_of, one_boot
from lull.check.data import KnownIssue, unfixed
from lull.check.kernels import CheckedKernel, of_base
from lull.check.results import as_results, missed, to_json
from lull.check.show import print_check
from lull.check.trials import CheckOptions, Trial
from lull.check.verdicts import FELL_SHORT, BootResult, CheckedBoot, exit_code, judged
from lull.lab import Lab
from lull.run import loop
from lull.run.loop import Step, holding

Form = Callable[[Sequence[ci.Case]], str]
"""Writes results in the form of a CI."""


def do_check(
    lab: Lab,
    trials: Sequence[Trial],
    given: Sequence[CheckedKernel],
    options: CheckOptions,
    known_issues: Sequence[KnownIssue],
    out: Path | None,
    *,
    as_json: bool,
    files: Mapping[Form, Path | None] | None = None,
    bisect: bool = False,
) -> int:
    """Boot the trials in turn, write check.json and results.json after each, and print the results.

    Returns the exit status: 0 when every boot of a kernel passed and every mutant was caught by the rule meant for
    it in each of its boots; see ``exit_code``. A missed threshold makes it 1.

    Args:
        given: kernels that are not of the base, which the trials name.
        known_issues: known defects, whose reports do not fail a boot.
        out: the folder of the results; None: a new one in ./results.
        as_json: print check.json instead of the tables.
        files: ``ci.ktap`` and ``ci.junit`` -> the file that is written in this form.
        bisect: return a code for ``git bisect run`` (``ci.bisect_code``).
    """
    names = dict.fromkeys(trial.boot.image for trial in trials)
    own = {kernel.name: kernel for kernel in given}
    boots = [trial.boot for trial in trials]
    left = loop.left(boots, out) if out else len(boots)
    booting = eta.of_boots(boots, left, checked=options.checker)
    eta.make(lab, [name for name in names if name not in own], [booting])
    kernels = {name: own.get(name) or of_base(lab, name) for name in names}
    guests = guests_of(lab, trials, kernels, options)
    made = (f"{g.image} {g.parameters()} {g.machine} {g.initramfs} {g.disk} {g.plugin}" for g in guests)
    contents = [cache.key_of_files([kernel.image, kernel.place]) for kernel in given]
    key = plan.plan_key(boots, "check", lab.qemu.version, *made, *contents)
    results: list[BootResult] = []
    with holding(out, key) as folder:

        def write(trial: Trial, kept: CheckedBoot, place: Path) -> None:
            known = known_issues if trial.mutant else unfixed(known_issues, lab.base, trial.boot.image)
            results.append(judged(trial, trial.what(options), kept, known))
            cache.write_atomic(folder / "check.json", to_json(lab, results, options))
            cache.write_atomic(folder / "results.json", as_results(lab, results, options).to_json())

        steps = [
            Step(t.boot, CheckedBoot, partial(one_boot, lab, guest, kernels[t.boot.image], t.boot), partial(write, t))
            for t, guest in zip(trials, guests, strict=True)
        ]
        loop.do_boots(steps, folder, f"checking in {len(trials)} guest{'s' * (len(trials) > 1)}", part=booting)
    thresholds = missed(as_results(lab, results, options))
    for form, file in (files or {}).items():
        if file:
            cache.write_atomic(file, form(ci.cases(results, thresholds)))
    if as_json:
        print(to_json(lab, results, options), end="")
    else:
        print_check(results, folder, thresholds, options.walk)
    if bisect:
        return ci.bisect_code(results)
    return exit_code(results) or (FELL_SHORT if thresholds else 0)
