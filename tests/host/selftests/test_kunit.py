# SPDX-License-Identifier: GPL-2.0-only
"""What `lull kunit` prints of a console, without a guest: the consoles are those of real ones (tests/data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import DATA

from lull import cli
from lull.guest.runner import APPEND, BootOutcome, Guest
from lull.lab import Lab
from lull.selftests import kunit

LOG = (DATA / "kunit.log").read_text(errors="replace")


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Guest]:
    """The guests that were asked for; each prints what is in the file ``console``."""
    asked: list[Guest] = []

    def guest_of(self: Lab, image: Path, machine: Any, append: str, plugin: None) -> Guest:
        return Guest(None, machine, image, image, image, plugin, append)  # type: ignore[arg-type]

    def launch(guest: Guest, job: str, folder: Path, **more: object) -> BootOutcome:
        asked.append(guest)
        folder.mkdir(exist_ok=True)
        (folder / "console.log").write_text((tmp_path / "console").read_text())
        return BootOutcome(done=0)

    monkeypatch.setattr(Lab, "guest_of", guest_of)
    monkeypatch.setattr(kunit, "launch_retrying", launch)
    (tmp_path / "Image").touch()
    return asked


@pytest.mark.parametrize(
    ("console", "code", "said"),
    [
        (LOG, 0, " 0 failed"),
        (LOG.replace("    ok 2 young_test_unknown", "    not ok 2 young_test_unknown"), 1, "failed  "),
        (LOG[: len(LOG) // 2], 6, "are incomplete"),
        ("[    0.1] 1..0\n", 2, "no KUnit case matches 'lull_x*'"),
    ],
    ids=["good", "failed", "cut", "none"],
)
def test_cases_are_told(
    boots: list[Guest], tmp_path: Path, capsys: pytest.CaptureFixture[str], console: str, code: int, said: str
) -> None:
    """A line for each, and the exit code; the kernel is told which suites, and to print them."""
    (tmp_path / "console").write_text(console)
    assert cli.main(["kunit", "lull_x*", "--image", str(tmp_path / "Image"), "--append", "quick"]) == code
    assert said in "".join(capsys.readouterr())
    (guest,) = boots
    given = APPEND.replace("quiet loglevel=4", "loglevel=7 maxcpus=4 hugetlb_free_vmemmap=on")
    assert guest.parameters() == given + " kunit.filter_glob=lull_x* quick" and guest.machine.vcpus > 4
    assert guest.machine.memory_mib == kunit.MEMORY_MIB and guest.limit_factor == kunit.LIMIT_FACTOR


def test_cases_as_json(boots: list[Guest], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same cases, with what was printed before each."""
    (tmp_path / "console").write_text(LOG)
    assert cli.main(["kunit", "--json", "--image", str(tmp_path / "Image")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found and {"suite", "name", "verdict", "diagnostics"} == set(found[0])
