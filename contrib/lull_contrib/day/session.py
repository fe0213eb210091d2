# SPDX-License-Identifier: GPL-2.0-only
"""A session: measurements with a reboot before each of them, and the machine as it was at the end.

The state is in one file, STATE, which is replaced as a whole. A measurement is done when its folder has a boot.json
(``run.loop``). Whatever interrupts the session, Ctrl-C, a crash of a kernel, or a power cut: the same command goes on,
and after a boot the systemd unit calls that command.

GRUB boots a kernel once (grub-reboot). Until the session has ended its default is a kernel of the distribution's, so
that a kernel that fails is followed by one that works.

An error that the session does not expect ends it: the machine is as before. What was measured stays, and the same
command goes on with what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from lull import cache, process
from lull.errors import LullError, UsageError
from lull.progress import say
from lull.run import loop
from lull_contrib.day import facts, ready
from lull_contrib.day.machine import Machine

STATE = "var/lib/lull/across.json"
NAME = "lull-across.service"
UNIT = f"etc/systemd/system/{NAME}"
DEFAULT = "etc/default/grub.d/zz-lull-across.cfg"
ATTEMPTS = 3
"""How often a kernel is booted for one measurement before the session gives up."""
WAITS = 60
"""How often the machine is watched, at most, until it is idle after a boot: for five minutes."""
SWAP = "1G"
DONE = "everything was measured"
Facts = dict[str, Any]


Kept = dict[str, Any]
"""What is kept of a step, as JSON; the session adds what it knows of the machine."""


@dataclass(frozen=True)
class Step:
    """One measurement.

    Args:
        name: the folder of its results, in the folder ``boots``.
        kernel: the kernel of the plan that it is measured on.
        run: measures, with the logs in the folder that it is given, and returns what is kept.
    """

    name: str
    kernel: str
    run: Callable[[Path], Kept]


class Ending(Protocol):
    """Writes the results of a session; called again when it was interrupted."""

    def __call__(self, folder: Path, ended: str) -> None: ...


@dataclass(frozen=True)
class State:
    """What a session must remember over a reboot.

    Args:
        folder: of the results.
        words: the options of the command, with which the steps are made again.
        kernels, entries, home: as in ``ready.Pair``.
        prepared: the unit and GRUB's default are set up.
        measured: the boots in which a measurement was begun: none is begun in a boot that was used before.
        attempts: step -> how often its kernel was booted without a result.
        ended: why the session has ended; empty while it has not.
    """

    folder: str
    words: list[str]
    kernels: dict[str, str]
    entries: dict[str, str]
    home: str
    prepared: bool = False
    measured: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    ended: str = ""


def load_state(machine: Machine) -> State | None:
    """The state of the session of this machine, if there is one."""
    text = machine.read(STATE)
    return State(**json.loads(text)) if text else None


def save(machine: Machine, state: State) -> State:
    """Write the state."""
    machine.write(STATE, json.dumps(asdict(state), indent=1) + "\n")
    return state


def begin(machine: Machine, pair: ready.Pair, folder: Path, words: Sequence[str]) -> State:
    """The state of a new session; nothing else is changed yet.

    Nothing is measured in this boot, although it may be one of the kernels: the machine has been used in it.
    """
    ready.require_new(machine, UNIT, DEFAULT)
    state = State(str(folder.absolute()), list(words), pair.kernels, pair.entries, pair.home)
    return save(machine, replace(state, measured=[machine.boot_id]))


def unit(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The systemd unit that runs ``command`` after each boot."""
    variables = "".join(f'Environment="{name}={value}"\n' for name, value in environment.items())
    return f"""[Unit]
Description=Lull: measure the kernel that runs, then boot the next one
ConditionPathExists=/{STATE}
After=multi-user.target

[Service]
Type=exec
{variables}ExecStart={process.shown(command)}

[Install]
WantedBy=multi-user.target
"""


def prepare(machine: Machine, state: State, command: Sequence[str], environment: Mapping[str, str]) -> State:
    """Let the session go on after a reboot, and a kernel that fails be followed by the distribution's."""
    machine.write(UNIT, unit(command, environment))
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", NAME)
    lines = ["# Written by 'lull bench --across', which removes it at its end."]
    lines += [f"GRUB_DEFAULT='{state.entries[state.home]}'", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX panic=30"']
    machine.write(DEFAULT, "\n".join(lines) + "\n")
    machine.run("update-grub")
    if {release: machine.entries().get(release) for release in state.entries} != state.entries:
        raise LullError(
            "update-grub changed the names of the kernels' entries",
            where="/boot/grub/grub.cfg",
            remedy="the menu was older than GRUB's settings, and is new now: the same command begins again",
        )
    return save(machine, replace(state, prepared=True))


def restore(machine: Machine, state: State) -> None:
    """Undo ``prepare``, or what there is of it; the state goes last. The next boot is of the distribution's kernel."""
    machine.remove(DEFAULT)
    # Also when the file was gone already: update-grub may have been interrupted.
    machine.run("update-grub")
    if machine.release != state.home:
        machine.run("grub-reboot", state.entries[state.home])
    elif ready.chosen(machine):
        machine.run("grub-editenv", ready.GRUBENV, "unset", "next_entry")
    if machine.exists(UNIT):
        machine.run("systemctl", "disable", NAME)
        machine.remove(UNIT)
        machine.run("systemctl", "daemon-reload")
    machine.remove(STATE)


@contextlib.contextmanager
def held(machine: Machine) -> Iterator[None]:
    """Keep other commands from the session. Raises UsageError when one is at work."""

    def refuse() -> None:
        raise UsageError(
            "a session is at work on this machine",
            remedy=f"follow it with: journalctl -f -u {NAME}; end it with: systemctl stop {NAME}, then --across --stop",
        )

    with cache.lock(machine.root / f"{STATE}.lock", refuse):
        yield


def go_on(
    machine: Machine,
    state: State,
    steps: Sequence[Step],
    end: Ending,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> bool:
    """Do what can be done in this boot: a measurement, and the next reboot or the end. Returns true at the end.

    Args:
        steps: in their order.
        end: writes the results.
        command: goes on after a reboot, with these variables of the environment.

    Raises: what ended the session, after the machine was restored.
    """
    try:
        while not state.ended:
            if not state.prepared:
                state = prepare(machine, state, command, environment)
            step = next((s for s in steps if not loop.complete(place_of(state, s))), None)
            if step is None:
                state = save(machine, replace(state, ended=DONE))
            elif machine.release == state.kernels[step.kernel] and machine.boot_id not in state.measured:
                state = save(machine, replace(state, measured=[*state.measured, machine.boot_id]))
                measure(machine, step, place_of(state, step))
            elif state.attempts.get(step.name, 0) == ATTEMPTS:
                why = f"{state.kernels[step.kernel]} was booted {ATTEMPTS} times for {step.name}, without a result"
                state = save(machine, replace(state, ended=why))
            else:
                attempts = {**state.attempts, step.name: state.attempts.get(step.name, 0) + 1}
                state = save(machine, replace(state, attempts=attempts))
                say(f"rebooting to {state.kernels[step.kernel]} for {step.name}")
                machine.run("grub-reboot", state.entries[state.kernels[step.kernel]])
                machine.run("systemctl", "reboot")
                return False
        end(Path(state.folder), state.ended)
    except Exception:
        say("the session ends, because of an error: the machine is restored")
        leave(machine, state)
        raise
    leave(machine, state)
    return True


def leave(machine: Machine, state: State) -> None:
    """Restore the machine, and boot the distribution's kernel if another one runs."""
    restore(machine, state)
    if machine.release != state.home:
        say(f"rebooting to {state.home}")
        machine.run("systemctl", "reboot")


def place_of(state: State, step: Step) -> Path:
    """The folder of a step."""
    return Path(state.folder) / loop.BOOTS / step.name


def measure(machine: Machine, step: Step, place: Path) -> None:
    """Wait until the machine is idle, measure, and write boot.json with the facts of the machine.

    A measurement that fails by itself is done, too: its boot.json says why, and the next one follows.
    """
    say(f"measuring {step.name} on {machine.release}")
    for timer in machine.ask("systemctl", "list-units", "--type=timer", "--plain", "--no-legend").splitlines():
        machine.ask("systemctl", "stop", timer.split()[0])  # until the next boot: no update begins meanwhile
    swap_to_memory(machine)
    busy = settled(machine)
    with fast(machine):
        before = {**facts.of_kernel(machine), **facts.of_moment(machine)}
        try:
            kept = step.run(place)
        except Exception as error:
            kept = {"failed": reason(error)}
        after = facts.of_moment(machine)
    busy_cpus = {"busy before": round(busy, 2), "idle limit": ready.idle(machine)}
    kept["machine"] = {**busy_cpus, "before": before, "after": after}
    cache.write_atomic(place / loop.DONE, json.dumps(kept, indent=1) + "\n", lasting=True)


def reason(error: Exception) -> str:
    """Why a measurement failed, without a path, which may have the name of a user."""
    what = error.what if isinstance(error, LullError) else type(error).__name__
    return re.sub(r"\S*/\S*", "PATH", what)


def swap_to_memory(machine: Machine) -> None:
    """Swap to compressed memory (zRAM) in this boot, as the lab's guests do; without it, workloads that need swap skip.

    A swap file or partition of the machine's stays, and is used after it.
    """
    if "/dev/zram" in machine.read("proc/swaps"):
        return
    machine.ask("modprobe", "zram")
    device = machine.ask("zramctl", "--find", "--size", SWAP)
    if device.startswith("/dev/zram"):
        machine.ask("mkswap", device)
        machine.ask("swapon", "--priority", "32767", device)


def settled(machine: Machine) -> float:
    """Wait until the machine is idle, but not for ever; how many CPUs were busy at last."""
    busy = 0.0
    for _ in range(WAITS):
        busy, _ = machine.watch(os.getpid())
        if busy <= ready.idle(machine):
            break
    return busy


@contextlib.contextmanager
def fast(machine: Machine) -> Iterator[None]:
    """In the body, the clocks of the CPUs are as high as they go, where Linux sets them; then as they were."""
    names = machine.glob(f"{facts.CPU}/cpufreq/policy*/scaling_governor")
    before = {name: machine.read(name) for name in names}
    try:
        for name in names:
            set_file(machine, name, "performance")
        yield
    finally:
        for name, governor in before.items():
            set_file(machine, name, governor)


def set_file(machine: Machine, name: str, value: str) -> None:
    """Write a file of sysfs; a machine that refuses keeps what it has, which is recorded."""
    with contextlib.suppress(OSError):
        (machine.root / name).write_text(value)
