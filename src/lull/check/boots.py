# SPDX-License-Identifier: GPL-2.0-only
"""Boot a trial of `lull check`, and collect what the guest and the plugin reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lull import plan
from lull.check import plugin_output
from lull.check.data import NARROW
from lull.check.kernels import CheckedKernel
from lull.check.trials import CheckOptions, Trial
from lull.check.verdicts import CheckedBoot, Trouble
from lull.errors import GuestGarbage, GuestHang, GuestPanic
from lull.guest.runner import BootOutcome, Guest, Plugin
from lull.lab import Lab
from lull.plan import LAB
from lull.run.loop import Tell
from lull.run.measurements import measured

TROUBLE = {GuestPanic: "crashed", GuestHang: "hung", GuestGarbage: "broke off"}
"""Errors of a guest that are results of a check, and the verdict of such a boot."""


def one_boot(lab: Lab, guest: Guest, kernel: CheckedKernel, boot: plan.Boot, folder: Path, tell: Tell) -> CheckedBoot:
    """Boot once, read what the plugin wrote, and return what is kept of the boot.

    A guest that crashes, hangs or breaks its protocol raises nothing: that is the result, in ``trouble``.

    Args:
        folder: takes the logs.
        tell: called with the guest's progress.
    """
    kept = CheckedBoot(checker=guest.plugin is not None)
    outcome: BootOutcome | None = None
    try:
        outcome = lab.launch(guest, boot, folder, tell)
        kept.guest, kept.attempts, kept.status = outcome.kernel, outcome.attempts, outcome.status
    except tuple(TROUBLE) as error:
        kind = next(word for error_type, word in TROUBLE.items() if isinstance(error, error_type))
        kept.trouble = Trouble(kind, error.what, error.exit_code, error.text())
    output = plugin_output.read_reports(sorted(folder.glob("reports*.jsonl")))
    # The last words of a kernel that panics are already in its trouble: do not report them a second time.
    if not kept.trouble or kept.trouble.kind != TROUBLE[GuestPanic]:
        said = (folder / "console.log").read_text(errors="replace")
        output.reports += plugin_output.of_console(said, len(output.reports))
    if outcome:
        outcome.counts = output.windows
        try:
            kept.measurements = measured(boot, outcome, kept.checker)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            output.errors.append(f"what the guest reported and the plugin's windows do not fit together: {error!r}")
    kept.reports, kept.errors, kept.end, kept.unchecked = output.reports, output.errors, output.end, output.unchecked
    return kept


def guests_of(
    lab: Lab, trials: Sequence[Trial], kernels: Mapping[str, CheckedKernel], options: CheckOptions
) -> list[Guest]:
    """Image, machine, parameters and plugin of each trial; all are built before the first boot. Raises UsageError."""
    found = []
    for trial in trials:
        kernel, machine = kernels[trial.boot.image], trial.machine(options)
        narrow = trial.hardware.asid_bits == NARROW and kernel.name != LAB
        words = (
            f"speculation={'on' if options.speculation else 'off'}",
            *([] if trial.hardware.ntlbpa is None else [f"ntlbpa={int(trial.hardware.ntlbpa)}"]),
            f"symbols={kernel.place}",
        )
        plugin = Plugin(lab.plugin, "check", words) if options.checker else None
        changes = trial.mutant.changes if trial.mutant else ()
        image = kernel.patched(narrow=narrow, sme=trial.hardware.sme, changes=changes)
        guest = lab.guest_of(image, machine, trial.append(options), plugin)
        found.append(replace(guest, initramfs=kernel.initramfs(lab), limit_factor=kernel.limit_factor))
    return found
