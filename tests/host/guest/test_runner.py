# SPDX-License-Identifier: GPL-2.0-only
"""The guest's protocol, read as it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lull.errors import GuestGarbage, LullError
from lull.guest import runner
from lull.guest.qemu import Machine

READY = '{"event":"ready","kernel":"6.12"}\n'
WINDOW = '{"job":1,"window":1001,"case":"","operations":5,"unit":"page","seconds":0.1,"metrics":{}}\n'


def follow(path: Path) -> runner.Follower:
    """A follower with generous limits."""
    return runner.Follower(path, 100, lambda number: 100, lambda text: None)


def test_a_whole_boot(tmp_path: Path) -> None:
    """Lines cut anywhere are put together."""
    path = tmp_path / "results"
    text = (
        READY
        + '{"event":"start","job":1}\n'
        + WINDOW
        + '{"event":"end","job":1,"status":0}\n{"event":"done","status":0}\n'
    )
    follower = follow(path)
    follower.poll()
    with open(path, "w") as out:
        for start in range(0, len(text), 7):
            out.write(text[start : start + 7])
            out.flush()
            follower.poll()
    outcome = follower.outcome
    assert outcome.kernel == "6.12" and outcome.done == 0 and outcome.status == {1: 0}
    assert [w["window"] for w in outcome.windows] == [1001]


def test_what_is_waited_for(tmp_path: Path) -> None:
    """Since when, until when, the end of the console, and whether the guest does anything."""
    path, console = tmp_path / "results", tmp_path / "console.log"
    path.write_text(READY + '{"event":"start","job":1}\n')
    follower = follow(path)
    assert follower.waiting(console, 1.5) == "booting, 0 s of at most 100; QEMU uses 1.5 CPUs"
    follower.poll()
    console.write_text("one\r\ntwo\r\n")
    follower.since -= 31
    follower.deadline -= 31
    assert follower.waiting(console, 0) == "job 1, 31 s of at most 100; the guest's CPUs are idle; console: two"
    assert runner.cpu_seconds(os.getpid()) > 0 == runner.cpu_seconds(2**30)


@pytest.mark.parametrize(
    "line",
    [
        "what",
        "{}",
        "[]",
        "7",
        '{"event":"dance"}',
        '{"event":"end","job":1}',
        '{"event":"ready"}',
        '{"job":1,"window":"x","case":"","operations":1}',
        '{"job":1,"window":1,"case":""}',
        "\x00\xff",
    ],
)
def test_garbage_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    """Anything outside the protocol is named."""
    path = tmp_path / "results"
    path.write_text(READY + line + "\n")
    with pytest.raises(GuestGarbage):
        follow(path).poll()


def test_endless_results_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that writes for ever does not fill the memory."""
    monkeypatch.setattr(runner, "MAX_RESULTS", 1000)
    path = tmp_path / "results"
    path.write_text("x" * 2000)
    with pytest.raises(GuestGarbage):
        follow(path).poll()


def test_a_stall_is_told_from_a_hang(tmp_path: Path) -> None:
    """Before user space it is worth another attempt; after it, it is a finding."""
    follower = follow(tmp_path / "results")
    log = tmp_path / "console.log"
    log.write_text("[    0.1] booting\n")
    assert isinstance(runner.hang(follower, log), runner.Stall)
    follower.ready = True
    assert not isinstance(runner.hang(follower, log), runner.Stall)


def test_boots_with_many_cpus_get_more_time() -> None:
    """32 vCPUs on few host CPUs boot slowly."""
    assert runner.boot_seconds(Machine(vcpus=32)) > runner.boot_seconds(Machine(vcpus=4))


def test_counts(tmp_path: Path) -> None:
    """Totals by window; an error of the plugin is an error; no file says where to look."""
    path, errors = tmp_path / "counts", tmp_path / "qemu.log"
    tlbis = ['{"aside1is/user":2,"aside1isnxs/user":1,"aside1/user":7}', '{"aside1os/user":1,"vae1is/user":9}']
    cpus = ",".join(f'{{"cpu":{n},"tlbi":{text}}}' for n, text in enumerate(tlbis))
    path.write_text(
        f'{{"plugin":"lull"}}\n{{"window":1001,"cpus":[{cpus}],"total":{{"insns":5}}}}\n'
        '{"window":"whole-run","cpus":[],"total":{"insns":9}}\n'
    )
    assert runner.read_counts(path, errors) == ({1001: {"insns": 5, "tlbi_broadcast_asid": 4}}, {})
    guests = ['{"aside1/user":3,"vale1/user":5,"rvale1/user":7}', '{"aside1/user":1,"rvae1/kernel":2,"vae1is/user":9}']
    cpus = ",".join(f'{{"cpu":{n},"tlbi":{{}},"tlbi_by_guests":{text}}}' for n, text in enumerate(guests))
    path.write_text(f'{{"window":1001,"cpus":[{cpus}],"total":{{}},"guests":[]}}\n')
    found = {"tlbi_broadcast_asid": 0, "tlbi_guests_local_asid": 4, "tlbi_guests_local_range": 9}
    assert runner.read_counts(path, errors) == ({1001: found}, {})
    path.write_text('{"window":1001,"cpus":[],"total":{"insns":5},"functions":[[0,3],[17,2]]}\n')
    assert runner.read_counts(path, errors)[1] == {1001: {0: 3, 17: 2}}
    path.write_text('{"window":1001,"cpus":[],"total":{"insns":5},"functions":[3,17]}\n')
    with pytest.raises(GuestGarbage, match="malformed line"):
        runner.read_counts(path, errors)
    path.write_text('{"error":"close without open"}\n')
    with pytest.raises(GuestGarbage, match="close without open"):
        runner.read_counts(path, errors)
    errors.write_text("plugin trouble\n")
    with pytest.raises(LullError) as caught:
        runner.read_counts(tmp_path / "absent", errors)
    assert "plugin trouble" in caught.value.text()
