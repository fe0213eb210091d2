# SPDX-License-Identifier: GPL-2.0-only
"""A session over reboots: it is interrupted at every step, goes on, and leaves the machine as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from day_machine import HOME, LULL, STOCK, Fake, PowerCut

from lull.errors import LullError, UsageError
from lull_contrib.day import facts, ready, session

PLAN = [
    ("r01-stock", "stock"),
    ("r01-lull", "lull"),
    ("r01-stock.control", "stock"),
    ("r02-stock", "stock"),
    ("calibrate", "lull"),
]
RELEASES = {"stock": STOCK, "lull": LULL}


class Day:
    """A user who begins a session, and begins it again when it does not go on by itself."""

    def __init__(self, folder: Path) -> None:
        (folder / "root").mkdir()
        self.fake = Fake(folder / "root")
        self.out = folder / "results"
        self.measured: list[tuple[str, str, str]] = []
        self.ended: list[str] = []
        self.steps = [session.Step(name, kernel, self.step(name)) for name, kernel in PLAN]
        self.by_hand = 0
        self.power = True

    def step(self, name: str) -> Callable[[Path], session.Kept]:
        """A measurement of this name."""

        def run(place: Path) -> session.Kept:
            self.fake.effect()
            machine = self.fake.machine
            assert machine.read("sys/devices/system/cpu/cpufreq/policy0/scaling_governor") == "performance"
            place.mkdir(parents=True, exist_ok=True)
            self.measured.append((name, machine.release, machine.boot_id))
            return {"name": name}

        return run

    def end(self, folder: Path, ended: str) -> None:
        """What a session ends with."""
        self.fake.effect()
        assert folder == self.out
        self.ended.append(ended)

    def start(self) -> bool:
        """The command."""
        machine = self.fake.machine
        with session.held(machine):
            state = session.load_state(machine)
            if state is None:
                pair = ready.require(machine, self.out, root=True)
                state = session.begin(machine, pair, self.out, ["--repeat", "1"])
            return session.go_on(machine, state, self.steps, self.end, ["lull", "bench"], {"LULL_CACHE": "/c"})

    def live(self) -> None:
        """Start, and let the machine reboot until the session has ended."""
        while True:
            try:
                ended = self.start()
            except PowerCut:
                self.fake.cut_at = -1
                if self.power or self.fake.rebooting:
                    self.fake.boot()
                if not self.fake.goes_on:
                    if self.ended and not (self.fake.root / session.STATE).exists():
                        if not self.power:
                            self.fake.boot()
                        return
                    self.by_hand += 1
                continue
            if ended:
                if self.fake.rebooting:
                    self.fake.boot()
                return
            assert self.fake.rebooting and self.fake.goes_on
            self.fake.boot()


@pytest.fixture(autouse=True)
def no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each boot nothing is recorded here: test_day_plan.py looks at that, and it takes long."""
    monkeypatch.setattr(facts, "of_kernel", lambda machine: {})


@pytest.fixture
def day(tmp_path: Path) -> Day:
    """A day."""
    return Day(tmp_path)


def test_each_measurement_has_a_boot_of_its_own(day: Day) -> None:
    """On its kernel, in the order of the plan; then the machine is as before, and runs what it ran before."""
    day.live()
    assert [(name, release) for name, release, _ in day.measured] == [(n, RELEASES[kernel]) for n, kernel in PLAN]
    assert len({boot for _, _, boot in day.measured}) == len(PLAN)
    assert day.fake.boots == [HOME, *(RELEASES[kernel] for _, kernel in PLAN), HOME]
    assert day.ended == [session.DONE]
    assert day.fake.lasting() == day.fake.pristine
    governor = day.fake.root / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    assert governor.read_text().strip() == "schedutil"
    assert "systemctl stop apt-daily.timer" in day.fake.commands
    assert day.fake.commands.count("swapon --priority 32767 /dev/zram0") == len(PLAN)


def effects_of_a_day(folder: Path) -> int:
    """How many changes a day without interruption makes."""
    folder.mkdir()
    day = Day(folder)
    day.live()
    return day.fake.effects


@pytest.mark.parametrize("power", [True, False], ids=["power cut", "Ctrl-C"])
def test_interrupted_at_every_step(tmp_path: Path, power: bool) -> None:
    """Each measurement is complete once, on its kernel and in a fresh boot; the machine is restored."""
    effects = effects_of_a_day(tmp_path / "whole")
    assert effects > 40
    for cut in range(1, effects + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        day = Day(folder)
        day.fake.cut_at = cut
        day.power = power
        day.live()
        assert day.fake.boots[-1] == HOME, cut
        whole = [(n, RELEASES[kernel]) for n, kernel in PLAN]
        assert [(name, release) for name, release, _ in day.measured] == whole, cut
        assert len({boot for _, _, boot in day.measured}) == len(PLAN), cut
        assert set(day.ended) == {session.DONE}, cut
        assert day.fake.lasting() == day.fake.pristine, cut
        assert day.by_hand <= 1, cut
        assert len(day.fake.boots) <= len(PLAN) + 4, cut


def test_a_kernel_that_does_not_boot(day: Day) -> None:
    """What ran before is booted instead, a few times; then the session ends with what it has."""
    day.fake.broken = {LULL}
    day.live()
    assert [name for name, _, _ in day.measured] == ["r01-stock"]
    assert day.ended == [f"{LULL} was booted {session.ATTEMPTS} times for r01-lull, without a result"]
    assert day.fake.boots.count(LULL) == session.ATTEMPTS and day.fake.boots[-1] == HOME
    assert day.fake.lasting() == day.fake.pristine


def test_what_is_broken_is_measured_no_further(day: Day) -> None:
    """A measurement that fails by itself has its reason in boot.json, and the next one follows."""

    def fails(place: Path) -> session.Kept:
        raise LullError("the program hangs")

    day.steps[1] = session.Step("r01-lull", "lull", fails)
    day.live()
    assert [name for name, _, _ in day.measured] == ["r01-stock", "r01-stock.control", "r02-stock", "calibrate"]
    assert '"failed": "the program hangs"' in (day.out / "boots/r01-lull/boot.json").read_text()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("alice"), "KeyError"),
        (LullError("/home/alice/.cache/fork_exec is not installed"), "PATH is not installed"),
    ],
)
def test_a_measurement_that_fails_in_another_way(day: Day, error: Exception, says: str) -> None:
    """It is done, too; its reason names no path, and nobody."""

    def fails(place: Path) -> session.Kept:
        raise error

    day.steps[1] = session.Step("r01-lull", "lull", fails)
    day.live()
    assert day.ended == [session.DONE]
    text = (day.out / "boots/r01-lull/boot.json").read_text()
    assert f'"failed": "{says}"' in text and "alice" not in text


def test_results_that_cannot_be_written(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is restored all the same; the same command writes them later, and measures nothing again."""
    end = day.end

    def full(folder: Path, ended: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(day, "end", full)
    with pytest.raises(OSError, match="No space"):
        day.live()
    assert day.fake.rebooting
    day.fake.boot()
    assert day.fake.boots[-1] == HOME and day.fake.lasting() == day.fake.pristine
    monkeypatch.setattr(day, "end", end)
    day.live()
    assert len(day.measured) == len(PLAN) and day.ended == [session.DONE]
    assert day.fake.lasting() == day.fake.pristine


def test_the_boot_in_which_it_begins_is_not_measured(day: Day) -> None:
    """Although one of the kernels runs: somebody has used the machine in it."""
    day.steps = day.steps[1:]
    day.fake.boot()
    machine = day.fake.machine
    assert machine.release == LULL
    begun = machine.boot_id
    day.live()
    assert [name for name, _, _ in day.measured] == [name for name, _ in PLAN[1:]]
    assert begun not in {boot for _, _, boot in day.measured}


def test_a_menu_that_was_older_than_its_settings(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has other names when it is written again: the session refuses, and leaves nothing; then it begins."""
    menu = day.fake.root / "boot/grub/grub.cfg"
    menu.write_text(menu.read_text().replace("-4711'", "-0815'"))
    with pytest.raises(LullError, match="changed the names"):
        day.live()
    assert day.fake.lasting() == day.fake.pristine
    day.live()
    assert day.ended == [session.DONE]


def test_a_machine_that_is_busy_after_a_boot(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for; if it never is idle, that is in boot.json."""
    monkeypatch.setattr(session, "WAITS", 3)
    day.fake.busy = [0, 400, 300, 0]
    day.live()
    assert '"busy before": 0.0' in (day.out / "boots/r01-stock/boot.json").read_text()
    other = Day(day.out)
    other.fake.busy = [0, 400, 300, 200]
    other.live()
    assert '"busy before": 0.4' in (other.out / "boots/r01-stock/boot.json").read_text()


def test_stopped(day: Day) -> None:
    """The session ends at once, and the machine is restored; the boot that was chosen is forgotten."""
    assert day.start() is False
    state = session.load_state(day.fake.machine)
    assert state
    machine = day.fake.machine
    ended = session.State(**{**vars(state), "ended": "stopped"})
    assert session.go_on(machine, ended, day.steps, day.end, ["lull"], {})
    assert (day.measured, day.ended) == ([], ["stopped"])
    assert day.fake.lasting() == day.fake.pristine


def test_one_command_at_a_time(day: Day) -> None:
    """Another says how to follow what is under way."""
    with session.held(day.fake.machine), pytest.raises(UsageError, match="a session is at work"):
        day.start()


def test_files_of_others_are_not_replaced(day: Day) -> None:
    """A unit of the same name, without a session."""
    day.fake.machine.write(session.UNIT, "[Unit]\n")
    with pytest.raises(LullError, match="in the way"):
        day.start()


def test_the_unit(day: Day) -> None:
    """It goes on only where there is a session, after the system has started, with the cache that was used."""
    text = session.unit(["/a b/lull", "bench"], {"LULL_CACHE": "/c d"})
    assert f"ConditionPathExists=/{session.STATE}\nAfter=multi-user.target\n" in text
    assert "Environment=\"LULL_CACHE=/c d\"\nExecStart='/a b/lull' bench\n" in text
