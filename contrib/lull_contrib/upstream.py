# SPDX-License-Identifier: GPL-2.0-only
"""`lull upstream`: do the features and fixes still apply, and what has Linux fixed? Judged by the code alone."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lull import paths
from lull.base import Base, patches_of
from lull.errors import LullError
from lull.linux import fitting
from lull.linux.fitting import Fit

FINDINGS = paths.REPOSITORY / "docs/findings.md"
HAS, FIXED, FAILS, UNKNOWN = "has it", "fixed", "no longer applies", "-"
"""Whether a Linux has a defect: its patch applies; every hunk of the patch is there; neither; there is no patch."""


@dataclass(frozen=True)
class Judgement:
    """What was found of one Linux: how each series fits, and finding -> HAS, FIXED, FAILS or UNKNOWN."""

    series: Mapping[str, Fit]
    findings: Mapping[str, str]

    def holds(self, *, fixes: bool) -> bool:
        """Return true if every series applies or is there already; with ``fixes``, every fix, too."""
        return not any(fit.failing for fit in self.series.values()) and not (fixes and FAILS in self.findings.values())


def patches(series: str) -> dict[str, dict[str, str]]:
    """Finding -> its patches, name -> text: those that the table of FINDINGS links to.

    Args:
        series: whose patches are taken where a feature has them.

    Raises: LullError when the table is not there.
    """
    found: dict[str, dict[str, str]] = {}
    for name, cells in re.findall(r"(?m)^\| \[([a-z0-9-]+)\]\(#\1\) \|(.*)\|$", FINDINGS.read_text()):
        links = [FINDINGS.parent / link for link in re.findall(r"\]\(([^)#]+)\)", cells)]
        files = [of_series(link, series) for link in links]
        found[name] = {series if is_of_feature(file) else file.stem: file.read_text() for file in files if file}
    if not found:
        raise LullError("no table of findings", where=str(FINDINGS), remedy="its rows begin with | [NAME](#NAME) |")
    return found


def is_of_feature(file: Path) -> bool:
    """Return true if the file is a patch of a feature, which is for one series; fixes say it in their names."""
    return file.parents[2] == paths.KERNEL


def of_series(link: Path, series: str) -> Path | None:
    """The patch to which FINDINGS links, or the one with the same subject for another series; None without one."""
    link = link.resolve()
    if link.suffix != ".patch" or not link.is_file():
        return None
    if not is_of_feature(link):
        return link
    subject = link.name.partition("-")[2]
    return next((paths.KERNEL / series / link.parent.name).glob(f"[0-9]*-{subject}"), None)


def needed(base: Base) -> set[str]:
    """The files of Linux that ``judge`` reads."""
    features = [patch.diff() for patch in patches_of(base.exported().values())]
    return fitting.touched([*features, *(text for texts in patches(base.series).values() for text in texts.values())])


def state(texts: Mapping[str, str], series: str, source: Path) -> str:
    """Whether ``source`` has the defect that these patches fix: those for its series, or else those for others.

    That a patch for another series does not fit says nothing.
    """
    own = {name: text for name, text in texts.items() if name == series or not is_for_one(name)}
    own |= {name: text for name, text in texts.items() if name.endswith(f"-{series}")}
    with tempfile.TemporaryDirectory(prefix="lull-fix-") as scratch:
        for name, text in texts.items():
            tree = Path(scratch) / name
            tree.mkdir()
            fitting.copied(source, fitting.touched([text]), tree)
            one = fitting.apply(tree, text)
            if len(one.taken) == one.hunks:
                return FIXED
            if name in own:
                return HAS if not one.failing and not one.taken else FAILS
    return UNKNOWN


def is_for_one(name: str) -> bool:
    """Return true if the patch ``name`` is for one series: ``7.3``, ``collapse-loses-dirty-7.3``."""
    return bool(re.fullmatch(r"(.*-)?\d+\.\d+", name))


def judge(base: Base, source: Path) -> Judgement:
    """Judge the Linux whose files ``needed`` are in ``source``, by the features of ``base``."""
    findings = {name: state(texts, base.series, source) for name, texts in patches(base.series).items()}
    return Judgement(fitting.by_series(base, source), findings)
