# SPDX-License-Identifier: GPL-2.0-only
"""Plan the boots of `lull check`: the trials.

A *trial* is one boot of one kernel on one machine, with a mutant switched on or without one. ``plan_kernels`` and
``plan_mutants`` list the trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lull import plan
from lull.check.data import NARROW, Hardware, Mutant
from lull.errors import UsageError
from lull.guest.qemu import Machine
from lull.plan import LAB

APPEND = "loglevel=5 printk.time=1"
"""Kernel parameters of every check. loglevel: warnings reach the console. printk.time: the time stamp tells lines of
the kernel from those of programs."""
MAX_VCPUS = 64
"""The most virtual CPUs that the checker follows: MAX_CPUS of checker/space.h."""


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
        """The guest's hardware: the options', with as many vCPUs as the mutant and MiB as the workloads need.

        Raises: UsageError for more vCPUs than the checker follows, or than QEMU has.
        """
        vcpus = max(self.mutant.vcpus, options.vcpus) if self.mutant else options.vcpus
        if options.checker and vcpus > MAX_VCPUS:
            raise UsageError(f"--vcpus {vcpus}: 1 to {MAX_VCPUS} are possible under the checker", remedy="name fewer")
        memory_mib = max(options.memory_mib, self.boot.memory)
        return Machine(vcpus, memory_mib, self.hardware.cpu, mte=self.hardware.mte)

    def append(self, options: CheckOptions) -> str:
        """The parameters of this trial on the kernel's command line."""
        words = [APPEND, self.hardware.parameter()]
        if self.hardware.asid_bits == NARROW and self.boot.image == LAB:
            words.append(f"lull_asid_bits={NARROW}")
        if self.mutant:
            words += ["" if self.mutant.changes else f"lull_mutant={self.mutant.name}", self.mutant.append]
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


def on(boots: Iterable[plan.Boot], hardware: Hardware, mutant: Mutant | None = None) -> list[Trial]:
    """A trial of each boot on ``hardware``; the boots' names get the names of the machine and the mutant."""
    middle = f"{mutant.name}-" if mutant else ""
    return [
        Trial(replace(boot, name=plan.slug(f"{boot.name}-{middle}{hardware.name}")), hardware, mutant) for boot in boots
    ]


def plan_kernels(
    pairs: Sequence[tuple[plan.Workload, plan.Spec]], machines: Sequence[Hardware], repeat: int
) -> list[Trial]:
    """The trials of ``lull check``: ``repeat`` boots of every kernel on every machine.

    Args:
        pairs: workloads, each with a kernel it runs under.
    """
    sets = [(image, image) for image in dict.fromkeys(spec.image for _, spec in pairs)]
    boots = plan.interleave(pairs, sets, repeat)
    return [trial for hardware in machines for trial in on(boots, hardware)]


def plan_mutants(
    mutants: Sequence[tuple[Mutant, Sequence[plan.Workload], Sequence[Hardware]]], repeat: int, image: str = LAB
) -> list[Trial]:
    """The trials of ``lull check --mutant``: ``repeat`` boots of the lab kernel per mutant and machine.

    Args:
        image: the kernel that has the mutants.
        mutants: each with the workloads that exercise it and the machines it is tried on.
    """
    found: list[Trial] = []
    for mutant, workloads, machines in mutants:
        spec = plan.Spec(image + "".join(f"+{k}={v}" for k, v in mutant.settings), image, mutant.settings)
        for hardware in machines:
            found += on(plan.interleave([(w, spec) for w in workloads], [(image, image)], repeat), hardware, mutant)
    return found
