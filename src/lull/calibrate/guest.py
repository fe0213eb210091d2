# SPDX-License-Identifier: GPL-2.0-only
"""Try calibration where the truth is known: in a guest whose time is made by a model, with that time for a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lull import plan
from lull.base import Base
from lull.calibrate import CROWDED, FLUSH, TOLERANCE, Fit, Measurement, modelled
from lull.calibrate.here import cpus_of
from lull.run.records import Results
from lull.timing import METRIC, Costs
from lull.timing.scale import Counts

WORKLOAD = "calibrate"
BROADCAST, LOCAL = "stock", "lull+only=residency"
"""Kernels whose flushes are broadcasts, and are local."""
CPU = "cortex-a72"
"""Without TLB ranges, so that batches have many TLBIs; without the workaround that repeats them."""
SURELY = 1.5 * CROWDED
"""CPUs that must wait so much for each other, by the model, tell what a broadcast occupies."""


@dataclass(frozen=True)
class Verdict:
    """A cost of the model and what was found.

    Args:
        found: None where it could not be told.
        how: a sentence.
        must: it has to be told.
    """

    name: str
    true: float
    found: float | None
    how: str
    must: bool = False

    @property
    def off(self) -> float | None:
        """How far off, as a share."""
        return None if self.found is None else abs(self.found - self.true) / self.true if self.true else float("inf")

    @property
    def held(self) -> bool:
        """Whether it is right, or unknown where it may be."""
        return not self.must if self.off is None else self.off <= TOLERANCE


def boots(base: Base, workloads: Mapping[str, plan.Workload], repeat: int) -> list[plan.Boot]:
    """Both kernels, or stock alone where the base has no residency. No control: nothing is compared."""
    specs = [plan.parse_spec(name, base) for name in (BROADCAST, LOCAL) if plan.is_known(name, base)]
    pairs = [(workload, spec) for workload in plan.select_workloads([WORKLOAD], dict(workloads)) for spec in specs]
    return plan.interleave(pairs, [(spec.image, spec.image) for spec in specs], repeat)


def measurements(results: Results, kernel: str) -> list[Measurement]:
    """What a kernel did, in modelled seconds, with what the plugin counted."""
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
    """What an operation executed: of one CPU alone its own instructions, without those of others, which idle."""
    dsbs = [value for name, value in metrics.items() if name.startswith("dsb_")]
    far = metrics["tlbi_broadcast"]
    return Counts(
        insns=metrics["insns_own" if alone else "insns"],
        tlbis=far + metrics["tlbi_local"],
        broadcasts=far,
        waits=min(far, metrics["dsb_ish"]),
        dsbs=sum(dsbs),
    )


def verdicts(fit: Fit, true: Costs, far: Sequence[Measurement]) -> list[Verdict]:
    """Each cost against the model's, and a flush by one CPU: that must be right, whatever is told of its parts.

    Args:
        far: what was measured of broadcasts.
    """
    must = musts(far, true)
    found = [
        Verdict(name, getattr(true, name), e.value if e.told else None, e.sentence(), name in must)
        for name, e in fit.estimates.items()
    ]
    flush, by_fit = (c.tlbi + c.broadcast + c.latency + 2 * c.dsb for c in (true, fit.costs))
    return [*found, Verdict("flush", flush, by_fit, "a flush by one CPU: tlbi + broadcast + latency + 2 dsb")]


def musts(far: Sequence[Measurement], true: Costs) -> set[str]:
    """Costs that have to be told: a CPU's own and, with CPUs enough to wait for each other, that of a broadcast."""
    alone = next(m for m in far if m.case == FLUSH)
    most = max((m.cpus * m.counts.broadcasts for m in far if m.cpus > 1), default=0.0)
    crowded = most * true.broadcast > SURELY * modelled(alone, true, 0)
    names = {"insn", "dsb"} | ({"broadcast"} if crowded else set())
    return {name for name in names if getattr(true, name) > 0}


def held(judged: Iterable[Verdict]) -> bool:
    """Whether all are right, or unknown where they may be."""
    return all(verdict.held for verdict in judged)
