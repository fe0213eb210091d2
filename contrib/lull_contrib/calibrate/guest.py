# SPDX-License-Identifier: GPL-2.0-only
"""`lull calibrate --guest`: test calibration in a guest under modelled time, where the true costs are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lull import plan
from lull.base import Base, load_base
from lull.run.records import Results
from lull.timing import METRIC, Costs
from lull_contrib.calibrate import CROWDED, FLUSH, TOLERANCE, Fit, Measurement, modelled
from lull_contrib.calibrate.here import cpus_of
from lull_contrib.timing.scale import Counts

WORKLOAD = "calibrate"
BROADCAST = "stock"
LOCAL = next(f"lull+only={feature.name}" for feature in load_base().features.values() if feature.local)
"""The kernel whose flushes are broadcasts, and the kernel whose flushes are local."""
CPU = "cortex-a72"
"""This CPU has no range TLBIs, so that batches have many TLBIs, and needs no workaround that repeats TLBIs."""
SURELY = 1.5 * CROWDED
"""Calibration has to determine the cost broadcast when, by the model, an operation takes this many times as long with
all CPUs as on one CPU alone."""


@dataclass(frozen=True)
class CostVerdict:
    """A true cost of the model beside the cost that calibration found.

    Args:
        name: the name of the cost.
        true: the model's cost, in nanoseconds.
        found: the cost that was found; None: the measurements do not determine it.
        how: a sentence on what ``found`` comes from.
        must: calibration has to determine this cost.
    """

    name: str
    true: float
    found: float | None
    how: str
    must: bool = False

    @property
    def off(self) -> float | None:
        """The difference of ``found`` from ``true``, as a share of the latter; None without ``found``."""
        return None if self.found is None else abs(self.found - self.true) / self.true if self.true else float("inf")

    @property
    def passed(self) -> bool:
        """True if ``found`` is right to TOLERANCE, or unknown although that is allowed."""
        return not self.must if self.off is None else self.off <= TOLERANCE


def boots(base: Base, workloads: Mapping[str, plan.Workload], repeat: int) -> list[plan.Boot]:
    """The boots of both kernels, or of stock alone where the base has no residency; without an A/A control."""
    specs = [plan.parse_spec(name, base) for name in (BROADCAST, LOCAL) if plan.is_known(name, base)]
    pairs = [(workload, spec) for workload in plan.select_workloads([WORKLOAD], dict(workloads)) for spec in specs]
    return plan.interleave(pairs, [(spec.image, spec.image) for spec in specs], repeat)


def measurements(results: Results, kernel: str) -> list[Measurement]:
    """The measurements on ``kernel``: modelled seconds, with the counts of the plugin."""
    found = []
    for record in results.find(kernel=kernel, metric=METRIC):
        program, _, case = record.workload.partition("/")
        if program != WORKLOAD:
            continue
        metrics = {
            r.metric: sum(r.values) / len(r.values) / record.operations
            for r in results.find(kernel=kernel, workload=record.workload)
        }
        cpus = cpus_of(case)
        found.append(Measurement(case, cpus, record.operations, record.values, counts(metrics, alone=cpus == 1)))
    return found


def counts(metrics: Mapping[str, float], *, alone: bool) -> Counts:
    """The counts of an operation.

    Args:
        metrics: the plugin's metrics, per operation.
        alone: one CPU worked; instructions of the other CPUs, which idle, do not count.
    """
    dsbs = [value for name, value in metrics.items() if name.startswith("dsb_")]
    far = metrics["tlbi_broadcast"]
    return Counts(
        insns=metrics["insns_own" if alone else "insns"],
        tlbis=far + metrics["tlbi_local"],
        broadcasts=far,
        waits=min(far, metrics["dsb_ish"]),
        dsbs=sum(dsbs),
    )


def verdicts(fit: Fit, true: Costs, far: Sequence[Measurement]) -> list[CostVerdict]:
    """A verdict for each cost, and one for the time of a flush by one CPU, which must be right in any case.

    There is none for the cost walk, because modelled time has no page walks.

    Args:
        true: the costs of the model.
        far: the measurements with broadcasts.
    """
    must = musts(far, true)
    found = [
        CostVerdict(name, getattr(true, name), e.value if e.told else None, e.sentence(), name in must)
        for name, e in fit.estimates.items()
        if name != "walk"
    ]
    flush, by_fit = (c.tlbi + c.broadcast + c.latency + 2 * c.dsb for c in (true, fit.costs))
    return [*found, CostVerdict("flush", flush, by_fit, "a flush by one CPU: tlbi + broadcast + latency + 2 dsb")]


def musts(far: Sequence[Measurement], true: Costs) -> set[str]:
    """The costs that calibration has to determine: insn, dsb and, where CPUs wait for each other, broadcast."""
    alone = next(m for m in far if m.case == FLUSH)
    most = max((m.cpus * m.counts.broadcasts for m in far if m.cpus > 1), default=0.0)
    crowded = most * true.broadcast > SURELY * modelled(alone, true, 0)
    names = {"insn", "dsb"} | ({"broadcast"} if crowded else set())
    return {name for name in names if getattr(true, name) > 0}


def passed(judged: Iterable[CostVerdict]) -> bool:
    """Return true if every verdict holds."""
    return all(verdict.passed for verdict in judged)
