# SPDX-License-Identifier: GPL-2.0-only
"""Judge a run: add the checks that need its numbers, and write and print its tables.

This module imports NumPy, which is slow: import it only when needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lull import cache
from lull.judge import compare, features, functions, short, tables, thresholds
from lull.judge.joint import ComparedRun
from lull.run.records import Check, Results

FUNCTIONS = "functions.md"
"""The file with the instructions of each function."""
KERNELS_OWN = 500
"""The most barriers that the kernel may add in the window of ``exact``. The workload executes numbers of each kind that
differ by more than this, so that confused kinds are noticed."""


def exact_counting(results: Results) -> list[Check]:
    """Check the plugin's counts with the workload ``exact``, which reports how many instructions it executed.

    For each value, ``expect_NAME`` of the guest must equal NAME of the plugin. For ``atleast_NAME`` the kernel may add
    up to KERNELS_OWN.
    """
    checks = []
    for expected in results.records:
        kind, _, name = expected.metric.partition("_")
        if kind not in ("expect", "atleast") or not expected.workload.startswith("exact") or not name:
            continue
        for counted in results.find(kernel=expected.kernel, workload=expected.workload, metric=name):
            pairs = list(zip(expected.values, counted.values, strict=True))
            passed = all(c == e if kind == "expect" else e <= c < e + KERNELS_OWN for e, c in pairs)
            detail = "; ".join(f"{e:.0f} executed, {c:.0f} counted" for e, c in dict.fromkeys(pairs))
            title = f"counting: {name} in {expected.workload} on {expected.kernel}"
            checks.append(Check(title, thresholds.verdict(passed), detail))
    return checks


def judge(results: Results, folder: Path) -> compare.Comparison:
    """Add the checks that need all numbers to ``results``, and write comparison.md to ``folder``.

    Returns: the kernels compared with the baseline.
    """
    comparison = compare.compare(results)
    results.checks += exact_counting(results)
    for module in features.having("check", results).values():
        results.checks += module.check(results)
    if results.settings.get("thresholds", True):
        for name, feature in features.having("judge", results).items():
            results.checks += thresholds.check(name, results, feature.judge)
    results.checks.append(comparison.control.check)
    grids = [tables.checks_grid(worth_showing(results.checks)), *published(results)]
    texts = [tables.markdown(results, comparison), *(f"{tables.grid_markdown(grid)}\n" for grid in grids)]
    cache.write_atomic(folder / "comparison.md", "\n".join(texts))
    if results.functions:
        cache.write_atomic(folder / FUNCTIONS, functions.markdown(results))
    return comparison


def published(results: Results) -> list[tables.Grid]:
    """The tables that show results beside the published ones of the systems A to D."""
    return [grid for feature in features.published(results) for grid in feature.published(results)]


def worth_showing(checks: Sequence[Check]) -> list[Check]:
    """The checks to print. Counts and verifications that passed have a line each; so have skipped thresholds."""
    kinds: dict[str, list[Check]] = {}
    for check in checks:
        kinds.setdefault(check.name.partition(":")[0], []).append(check)
    shown: list[Check] = []
    for kind, group in kinds.items():
        summed = "passed" if kind in SAYS else "skipped" if kind in THRESHOLDS else ""
        alike = [c for c in group if c.verdict == summed]
        shown += [c for c in group if c.verdict != summed]
        if alike and kind in SAYS:
            shown.append(Check(f"{kind}: {len(alike)} checks", summed, SAYS[kind]))
        elif alike:
            shown.append(Check(f"{kind}: {len(alike)} thresholds", summed, thresholds.why_skipped(alike)))
    return shown


THRESHOLDS = tuple(features.having("judge"))
"""The kinds of checks that are thresholds: those of features, and those of real programs."""
SAYS = {
    "verified": "each workload verified its own work, in every repeat",
    "counting": "what the guest says it executed is what was counted",
}


def show_short(results: Results, folder: Path) -> None:
    """Print what a short run is for: one table, where everything is, and what to do next."""
    console = tables.make_console()
    tables.show_grid(console, short.grid(results))
    console.print()
    show_functions(console, results, folder)
    for check in worth_showing(results.checks):
        if check.verdict == "failed":
            console.print(f"failed: {check.name}: {check.detail}", markup=False, soft_wrap=True)
    console.print(
        f"report: {folder}/report.html; numbers: results.json, comparison.md; logs: {folder}/boots", markup=False
    )
    console.print("next:   ./lull run --full      every workload under every policy, with the thresholds judged")
    console.print("        ./lull check           the same kernels under a TLB that keeps every entry")


def show_functions(console: Console, results: Results, folder: Path) -> None:
    """Print the tables by function, if the run counted functions, and where the same tables are with all lines."""
    for grid in functions.grids(results):
        tables.show_grid(console, grid)
        console.print()
    if results.functions:
        console.print(
            f"the same tables with all functions that differ: {folder}/{FUNCTIONS}", markup=False, soft_wrap=True
        )


def print_run(run: ComparedRun) -> None:
    """Print the comparison, the checks, and the paths of the results."""
    console, results, folder = tables.make_console(), run.results, run.folder
    tables.print_comparison(console, results, run.comparison)
    console.print()
    for grid in [tables.checks_grid(worth_showing(results.checks)), *published(results)]:
        tables.show_grid(console, grid)
        console.print()
    show_functions(console, results, folder)
    console.print(
        f"results: {folder}/report.html, results.json, comparison.md; logs: {folder}/boots",
        markup=False,
        soft_wrap=True,
    )
