# SPDX-License-Identifier: GPL-2.0-only
"""Boot a guest, follow its protocol, and never wait for ever.

The guest writes JSON lines to its second UART (see guest/README.md); the plugin writes a line per window. A
boot's folder holds console.log, results.jsonl, counts.jsonl, command.txt and, once it is complete, boot.json.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from lull import cache, guest, process
from lull.errors import GuestGarbage, GuestHang, GuestPanic, LullError
from lull.guest import clock, console
from lull.guest.qemu import STDIO, Machine, Qemu, command, escape

APPEND = "console=ttyAMA0 panic=-1 oops=panic quiet loglevel=4 lull.vmemmap_wait_us=1000000"
"""The last: under emulation the host decides when a vCPU answers an interrupt, so HVO may wait longer than usual."""
BOOT_SECONDS = 60.0
"""Until the guest's init speaks, at up to 4 vCPUs; a boot takes a few seconds."""
BOOT_SECONDS_PER_VCPU = 4.0
"""More for each further vCPU: they are emulated by few host CPUs."""
POWEROFF_SECONDS = 30.0
ATTEMPTS = 3
POLL_SECONDS = 0.05
WHOLE_ASID = "tlbi_broadcast_asid"
"""The metric that is summed up here: TLBIs that take everything of an ASID from every CPU."""
MODELLED = ("modelled_ns", "insns_astray")
"""What the plugin says of a window that has modelled time."""
MAX_RESULTS = 8 << 20
"""Bytes of results after which a guest is talking garbage."""


BATCH = ["chrt", "--batch", "0"]
"""How QEMU is scheduled: a vCPU that wakes does not push the one that woke it off its host CPU. That one often holds a
lock still, and then both spin and wait for each other, a time slice of the host each time, where CPUs are few."""


@dataclass(frozen=True)
class Plugin:
    """The plugin as a boot loads it.

    Args:
        path: the shared object.
        mode: ``count`` or ``check``.
        options: more of its options, each ``key=value``.
    """

    path: Path
    mode: str = "count"
    options: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The file in a boot's folder that it writes."""
        return "counts.jsonl" if self.mode == "count" else "reports.jsonl"

    @property
    def slower(self) -> float:
        """How much longer a guest may take than when it is counted: 1.6 times are expected, at most."""
        return 1.0 if self.mode == "count" else 2.0

    def option(self, folder: Path) -> str:
        """QEMU's -plugin value for a boot with its logs in ``folder``."""
        words = [f"file={escape(self.path)}", f"mode={self.mode}", f"out={escape(folder / self.output)}"]
        return ",".join([*words, *map(escape, self.options)])


@dataclass
class Guest:
    """What a boot needs besides its job.

    Args:
        qemu, machine: see lull.guest.qemu.
        image: the kernel.
        initramfs, generator: see lull.guest.
        plugin: how the plugin runs, or None.
        append: more kernel parameters.
        slower: how much longer it may take than other kernels.
        disk: the image of its disk.
    """

    qemu: Qemu
    machine: Machine
    image: Path
    initramfs: Path
    generator: Path
    plugin: Plugin | None = None
    append: str = ""
    arguments: str = APPEND
    slower: float = 1.0
    disk: Path | None = None

    def parameters(self) -> str:
        """The kernel's command line."""
        return f"{self.arguments} {self.append}".strip()


@dataclass
class Outcome:
    """What a complete boot said.

    Args:
        kernel: the guest's uname -r.
        windows: result lines of the programs, in order.
        status: job number -> exit status.
        counts: window id -> totals of the plugin.
        attempts: boots it took (stalls before user space are retried).
    """

    kernel: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    status: dict[int, int] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    done: int | None = None
    attempts: int = 1


class Stall(GuestHang):
    """The guest did not reach user space in time; worth another attempt."""


class Follower:
    """Reads the results channel as it grows, and keeps the deadline of what the guest is doing.

    Args:
        path: results.jsonl.
        boot_seconds: allowed until ready.
        job_seconds: job number -> seconds allowed.
        tell: told what the guest is doing.
    """

    def __init__(
        self, path: Path, boot_seconds: float, job_seconds: Callable[[int], float], tell: Callable[[str], None]
    ) -> None:
        self.path = path
        self.handle: BinaryIO | None = None
        self.pending = b""
        self.read = 0
        self.outcome = Outcome()
        self.job_seconds = job_seconds
        self.tell = tell
        self.doing = "booting"
        self.deadline = time.monotonic() + boot_seconds
        self.ready = False

    def poll(self) -> None:
        """Take in what was written since the last call. Raises GuestGarbage."""
        if self.handle is None:
            if not self.path.exists():
                return
            self.handle = open(self.path, "rb")  # noqa: SIM115 (open until the boot ends)
        data = self.handle.read()
        self.read += len(data)
        if self.read > MAX_RESULTS:
            raise GuestGarbage(f"the guest wrote more than {MAX_RESULTS >> 20} MiB of results", where=str(self.path))
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            if line.strip():
                self.take(line)

    def take(self, raw: bytes) -> None:
        """One line of the protocol. Raises GuestGarbage."""
        try:
            message = json.loads(raw)
            if "event" in message:
                self.event(message)
            else:
                for needed, kind in (("job", int), ("window", int), ("case", str), ("operations", int)):
                    if not isinstance(message[needed], kind):
                        raise TypeError(f"{needed} is {message[needed]!r}")
                self.outcome.windows.append(message)
        except (ValueError, KeyError, TypeError) as error:
            raise GuestGarbage(
                f"the guest broke its protocol: {error!r} in {raw[:200]!r}", where=str(self.path)
            ) from error

    def event(self, message: dict[str, Any]) -> None:
        """A life sign of init."""
        kind = message["event"]
        now = time.monotonic()
        if kind == "ready":
            self.ready = True
            self.doing = "starting its jobs"
            self.outcome.kernel = str(message["kernel"])
            self.deadline = now + POWEROFF_SECONDS
        elif kind == "start":
            number = int(message["job"])
            self.doing = f"job {number}"
            self.tell(self.doing)
            self.deadline = now + self.job_seconds(number)
        elif kind == "end":
            self.outcome.status[int(message["job"])] = int(message["status"])
            self.deadline = now + POWEROFF_SECONDS
        elif kind == "done":
            self.outcome.done = int(message["status"])
            self.doing = "powering off"
            self.deadline = now + POWEROFF_SECONDS
        else:
            raise ValueError(f"unknown event {kind}")


def boot_seconds(machine: Machine) -> float:
    """Time allowed until user space."""
    return BOOT_SECONDS + BOOT_SECONDS_PER_VCPU * max(0, machine.vcpus - 4)


def launch(
    guest_: Guest,
    job: str,
    folder: Path,
    *,
    job_seconds: Callable[[int], float],
    tell: Callable[[str], None] = lambda text: None,
    interactive: bool = False,
) -> Outcome:
    """Boot once and follow the guest to its end.

    Args:
        job: the /lull/job script.
        folder: takes the logs; emptied of an earlier attempt's.
        job_seconds: seconds each job may take.
        interactive: the console is the user's terminal, and nothing times out.

    Raises: Stall (user space not reached), GuestHang, GuestPanic, GuestGarbage.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / "results.jsonl", folder / "console.log"
    plugin, slower = guest_.plugin, guest_.slower * (guest_.plugin.slower if guest_.plugin else 1.0)
    for old in (results, log, *([folder / plugin.output] if plugin else [])):
        old.unlink(missing_ok=True)
    initrd = folder / "initrd.cpio"
    guest.add_job(guest_.initramfs, guest_.generator, job, initrd)
    words = command(
        guest_.qemu,
        guest_.machine,
        kernel=guest_.image,
        initrd=initrd,
        append=guest_.parameters(),
        results=results,
        disk=guest_.disk,
        console=f"{STDIO},logfile={escape(log)}" if interactive else str(log),
    )
    if guest_.machine.slower > 1:
        words = clock.slowed(words, guest_.machine.slower, folder / "machine.dtb")
    if plugin:
        words += ["-plugin", plugin.option(folder)]
    words = BATCH + words
    again = f"(cat {guest_.initramfs}; printf {process.shown([guest.JOB_LIST])} | {guest_.generator} -) > initrd.cpio"
    cache.write_atomic(folder / "command.txt", f"{again}\n{process.shown(words)}\n")
    follower = Follower(results, slower * boot_seconds(guest_.machine), lambda n: slower * job_seconds(n), tell)
    errors = folder / "qemu.log"
    try:
        with open(errors, "wb") as stderr:
            streams: dict[str, Any] = {"stdin": process.DEVNULL, "stdout": stderr, "stderr": stderr}
            with process.started(words, new_group=not interactive, **({} if interactive else streams)) as child:
                while child.poll() is None:
                    follower.poll()
                    if not interactive and time.monotonic() > follower.deadline:
                        raise hang(follower, log)
                    time.sleep(POLL_SECONDS)
                status = child.returncode
        follower.poll()
    finally:
        initrd.unlink(missing_ok=True)
    if follower.outcome.done is None:
        error = ended_early(follower, status, log, errors)
        if not (interactive and isinstance(error, GuestGarbage)):  # Ctrl-A X is a proper end
            raise error
    if plugin and plugin.mode == "count":
        follower.outcome.counts = read_counts(folder / plugin.output, errors)
    return follower.outcome


def hang(follower: Follower, log: Path) -> LullError:
    """The error for a guest that passed its deadline."""
    verdict = console.judge(process.tail(log, 2000))
    if not follower.ready:
        return Stall(
            "the guest did not reach user space in time",
            where=str(log),
            tail=verdict.excerpt,
            remedy="on a busy machine, or with many vCPUs, try again; fewer vCPUs boot faster",
        )
    return GuestHang(
        f"the guest hung: {follower.doing} did not end in time",
        where=str(log),
        tail=verdict.excerpt,
        remedy="the console log shows what it said last",
    )


def ended_early(follower: Follower, status: int, log: Path, errors: Path) -> LullError:
    """The error for a guest that ended without saying 'done'."""
    verdict = console.judge(process.tail(log, 2000))
    where = str(log)
    if verdict.kind == "panic":
        return GuestPanic(
            f"the guest kernel panicked: {verdict.detail}",
            where=where,
            tail=verdict.excerpt,
            remedy=f"it was {follower.doing}; the whole console is in the log",
        )
    if verdict.kind == "oom":
        return GuestPanic(
            f"the guest ran out of memory: {verdict.detail}",
            where=where,
            tail=verdict.excerpt,
            remedy="give it more with --memory, or make the workload smaller",
        )
    if status != 0:
        return LullError(f"QEMU failed with status {status}", where=str(errors), tail=process.tail(errors))
    return GuestGarbage(
        f"the guest powered off while {follower.doing}, without a report", where=where, tail=verdict.excerpt
    )


def read_counts(path: Path, errors: Path) -> dict[int, dict[str, int]]:
    """Window id -> the plugin's totals, WHOLE_ASID, MODELLED. Raises GuestGarbage when it wrote errors or nothing."""
    totals: dict[int, dict[str, int]] = {}
    try:
        text = path.read_text()
    except OSError as error:
        raise LullError("the counting plugin wrote nothing", where=str(errors), tail=process.tail(errors)) from error
    for line in text.splitlines():
        try:
            message = json.loads(line)
            if isinstance(message.get("window"), int):
                modelled = {key: message[key] for key in MODELLED if key in message}
                asid = whole_asid(message["cpus"])
                totals[message["window"]] = {**message["total"], WHOLE_ASID: asid, **modelled}
        except (ValueError, KeyError, AttributeError) as error:
            raise GuestGarbage(f"the counting plugin wrote {line[:200]!r}", where=str(path)) from error
        if "error" in message:
            raise GuestGarbage(f"the counting plugin says: {message['error']}", where=str(path))
    return totals


def whole_asid(cpus: Sequence[Mapping[str, Any]]) -> int:
    """``aside1is`` and its like, issued by any CPU."""
    forms = ("aside1is", "aside1os")
    return sum(count for cpu in cpus for form, count in cpu["tlbi"].items() if form.startswith(forms))


def stalled(log: Path, attempt: int) -> Path:
    """Put the log of an attempt that stalled aside; returns where."""
    kept = log.with_suffix(f".stalled-{attempt}{log.suffix}")
    if log.exists():
        log.rename(kept)
    return kept


def launch_retrying(
    guest_: Guest,
    job: str,
    folder: Path,
    *,
    job_seconds: Callable[[int], float],
    tell: Callable[[str], None],
    say: Callable[[str], None],
) -> Outcome:
    """``launch``, again up to ATTEMPTS times when the guest stalls before user space; each stall is said."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            outcome = launch(guest_, job, folder, job_seconds=job_seconds, tell=tell)
        except Stall as stall:
            kept = stalled(folder / "console.log", attempt)
            if guest_.plugin:
                stalled(folder / guest_.plugin.output, attempt)
            if attempt == ATTEMPTS:
                raise
            say(f"{folder.name}: {stall.what} (attempt {attempt} of {ATTEMPTS}, console in {kept}); again")
        else:
            outcome.attempts = attempt
            return outcome
    raise AssertionError("unreachable")
