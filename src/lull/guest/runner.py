# SPDX-License-Identifier: GPL-2.0-only
"""Boot a guest, read the results that it writes, and end it when it exceeds a time limit.

The guest writes JSON lines to its second UART (see guest/README.md). The plugin writes a line per window. The folder of
a boot has console.log, results.jsonl, counts.jsonl or reports.jsonl, command.txt and, once it is complete, boot.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from lull import cache, guest, process
from lull.errors import MALFORMED, GuestGarbage, GuestHang, GuestPanic, LullError
from lull.guest import clock, console
from lull.guest.qemu import STDIO, Machine, Qemu, command, escape
from lull.linux import toolchain

APPEND = "console=ttyAMA0 panic=-1 oops=panic quiet loglevel=4"
"""Kernel parameters of every guest."""
BOOT_SECONDS = 60.0
"""Time limit until the guest's init writes its first line, with up to 4 vCPUs. A boot takes a few seconds."""
BOOT_SECONDS_PER_VCPU = 4.0
"""Added to the limit for each vCPU beyond 4, because a few host CPUs emulate them all."""
POWEROFF_SECONDS = 30.0
"""Time limit between jobs, and from the last job until QEMU ends; longer on a slow machine, as all limits are."""
ATTEMPTS = 3
"""Boots that are tried when the guest does not reach user space."""
POLL_SECONDS = 0.05
TELL_SECONDS = 5.0
"""How often it is told what is waited for."""
IDLE = 0.1
"""CPUs of the host. A guest that waits uses less: its CPUs sleep, but for ticks."""
SAID = 80
"""The most characters of the console's last line that are told."""
SKIPPED = 77
"""Exit status of a guest program that this kernel or machine cannot run."""
WHOLE_ASID = "tlbi_broadcast_asid"
"""A metric that read_counts() computes: broadcast TLBIs that invalidate a whole ASID."""
MODELLED = ("modelled_ns", "insns_astray")
"""The plugin's keys of a window that has modelled time."""
MAX_RESULTS = 8 << 20
"""Bytes of results. A guest that writes more has broken its protocol."""


BATCH = ["chrt", "--batch", "0"]
"""Run QEMU under SCHED_BATCH: a vCPU thread that wakes up does not preempt the thread that woke it. That thread often
still holds a lock; with few host CPUs both would then wait for each other, for a time slice of the host each time."""


@dataclass(frozen=True)
class Plugin:
    """The QEMU plugin, as a boot loads it.

    Args:
        path: the shared object.
        mode: ``count`` or ``check``.
        options: further options of the plugin, each ``key=value``.
    """

    path: Path
    mode: str = "count"
    options: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The name of the file that the plugin writes to the boot's folder."""
        return "counts.jsonl" if self.mode == "count" else "reports.jsonl"

    @property
    def limit_factor(self) -> float:
        """Factor on the time limits of mode ``count``. A checked guest should take at most 1.6 times as long."""
        return 1.0 if self.mode == "count" else 2.0

    def option(self, folder: Path) -> str:
        """QEMU's -plugin value for a boot with its logs in ``folder``."""
        words = [f"file={escape(self.path)}", f"mode={self.mode}", f"out={escape(folder / self.output)}"]
        return ",".join([*words, *map(escape, self.options)])


@dataclass
class Talk:
    """How a thread of the host talks to a program of the guest by the second UART.

    Args:
        socket: the path of QEMU's socket, at most 100 characters.
        over: the thread has given the guest up: it counts as hung.
    """

    socket: Path
    over: bool = False


@dataclass
class Guest:
    """Everything that a boot needs except its job.

    Args:
        qemu, machine: see lull.guest.qemu.
        image: the kernel's Image.
        initramfs, generator: the initramfs without a job, and gen_init_cpio (see lull.guest).
        plugin: the plugin, or None to boot without.
        append: further kernel parameters.
        arguments: kernel parameters that ``append`` is added to.
        limit_factor: factor on the time limits, for kernels that are slower than others.
        disk: the image of the guest's disk.
        talk: who talks to the guest; None: nobody.
    """

    qemu: Qemu
    machine: Machine
    image: Path
    initramfs: Path
    generator: Path
    plugin: Plugin | None = None
    append: str = ""
    arguments: str = APPEND
    limit_factor: float = 1.0
    disk: Path | None = None
    talk: Talk | None = None

    def parameters(self) -> str:
        """The kernel's command line."""
        return f"{self.arguments} {self.append}".strip()


@dataclass
class BootOutcome:
    """The results of a complete boot.

    Args:
        kernel: the output of uname -r in the guest.
        windows: result lines of the programs, in order.
        status: job number -> exit status.
        counts: window id -> the plugin's totals.
        functions: window id -> the instructions of each function, by its number, if the plugin counted these.
        done: the worst exit status of the jobs; None until the guest reports that all have ended.
        attempts: boots that were needed; a boot that stalls before user space is repeated.
    """

    kernel: str = ""
    windows: list[dict[str, Any]] = field(default_factory=list)
    status: dict[int, int] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    functions: dict[int, dict[int, int]] = field(default_factory=dict)
    done: int | None = None
    attempts: int = 1


class Stall(GuestHang):
    """The guest did not reach user space in time. ``launch_retrying`` boots it again."""


class Follower:
    """Reads the guest's results as they are written, and keeps the deadline of what the guest is doing.

    Args:
        path: results.jsonl.
        boot_seconds: time limit, in seconds, until user space.
        job_seconds: job number -> its time limit in seconds.
        tell: called with what the guest begins to do.
    """

    def __init__(
        self, path: Path, boot_seconds: float, job_seconds: Callable[[int], float], tell: Callable[[str], None]
    ) -> None:
        self.path = path
        self.handle: BinaryIO | None = None
        self.pending = b""
        self.read = 0
        self.outcome = BootOutcome()
        self.job_seconds = job_seconds
        self.tell = tell
        self.ready = False
        self.begins("booting", boot_seconds)

    def begins(self, doing: str, seconds: float) -> None:
        """Note what the guest begins to do, and how long it may take."""
        self.doing, self.since = doing, time.monotonic()
        self.deadline = self.since + seconds

    def waiting(self, log: Path, busy: float) -> str:
        """What is waited for, for people: for how long, and what the guest does.

        Args:
            log: the console.
            busy: how many CPUs of the host QEMU has used lately.
        """
        now = time.monotonic()
        words = [f"{self.doing}, {now - self.since:.0f} s of at most {self.deadline - self.since:.0f}"]
        words.append(f"QEMU uses {busy:.1f} CPUs" if busy >= IDLE else "the guest's CPUs are idle")
        if said := process.tail(log, 1).strip():
            words.append(f"console: {said[-SAID:]}")
        return "; ".join(words)

    def poll(self) -> None:
        """Read the lines written since the last call. Raises GuestGarbage when they break the protocol."""
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
        """Process one line of the protocol. Raises GuestGarbage when it is malformed."""
        try:
            message = json.loads(raw)
            if "event" in message:
                self.event(message)
            else:
                for needed, kind in (("job", int), ("window", int), ("case", str), ("operations", int)):
                    if not isinstance(message[needed], kind):
                        raise TypeError(f"{needed} is {message[needed]!r}")
                self.outcome.windows.append(message)
        except MALFORMED as error:
            raise GuestGarbage(
                f"the guest broke its protocol: {error!r} in {raw[:200]!r}", where=str(self.path)
            ) from error

    def event(self, message: dict[str, Any]) -> None:
        """Process an event of the guest's init: note it, and set the next deadline. Raises ValueError, KeyError."""
        kind = message["event"]
        between = POWEROFF_SECONDS * toolchain.slowness()
        if kind == "ready":
            self.ready = True
            self.outcome.kernel = str(message["kernel"])
            self.begins("starting its jobs", between)
        elif kind == "start":
            number = int(message["job"])
            self.begins(f"job {number}", self.job_seconds(number))
            self.tell(self.doing)
        elif kind == "end":
            self.outcome.status[int(message["job"])] = int(message["status"])
            self.begins(self.doing, between)
        elif kind == "done":
            self.outcome.done = int(message["status"])
            self.begins("powering off", between)
        else:
            raise ValueError(f"unknown event {kind}")


def boot_seconds(machine: Machine) -> float:
    """The time limit, in seconds, from the start of QEMU until user space."""
    return BOOT_SECONDS + BOOT_SECONDS_PER_VCPU * max(0, machine.vcpus - 4)


def launch(
    guest_: Guest,
    job: str,
    folder: Path,
    *,
    job_seconds: Callable[[int], float],
    tell: Callable[[str], None] = lambda text: None,
    interactive: bool = False,
) -> BootOutcome:
    """Boot once, wait until the guest ends, and return what it reported.

    Args:
        guest_: the machine, the kernel and the plugin.
        job: the text of the script /lull/job.
        folder: takes the logs; those of an earlier attempt are deleted.
        job_seconds: job number -> its time limit in seconds.
        tell: called with what the guest begins to do.
        interactive: the console is the user's terminal, and there is no time limit.

    Raises: Stall when user space is not reached in time; GuestHang when a job takes too long; GuestPanic when the
        kernel panics or runs out of memory; GuestGarbage when the guest breaks its protocol; LullError when QEMU fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / "results.jsonl", folder / "console.log"
    plugin = guest_.plugin
    limit_factor = guest_.limit_factor * (plugin.limit_factor if plugin else 1.0) * toolchain.slowness()
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
        talk=guest_.talk.socket if guest_.talk else None,
    )
    if guest_.machine.slower > 1:
        words = clock.slowed(words, guest_.machine.slower, folder / "machine.dtb")
    if plugin:
        words += ["-plugin", plugin.option(folder)]
    words = BATCH + words
    again = f"(cat {guest_.initramfs}; printf {process.shown([guest.JOB_LIST])} | {guest_.generator} -) > initrd.cpio"
    cache.write_atomic(folder / "command.txt", f"{again}\n{process.shown(words)}\n")
    follower = Follower(
        results, limit_factor * boot_seconds(guest_.machine), lambda n: limit_factor * job_seconds(n), tell
    )
    errors = folder / "qemu.log"
    try:
        with open(errors, "wb") as stderr:
            streams: dict[str, Any] = {"stdin": process.DEVNULL, "stdout": stderr, "stderr": stderr}
            with process.started(words, new_group=not interactive, **({} if interactive else streams)) as child:
                told, used = time.monotonic(), 0.0
                while child.poll() is None:
                    follower.poll()
                    now = time.monotonic()
                    late = now > follower.deadline or bool(guest_.talk and guest_.talk.over)
                    if not interactive and late:
                        raise hang(follower, log)
                    if now - told >= TELL_SECONDS:
                        before, used = used, cpu_seconds(child.pid)
                        tell(follower.waiting(log, (used - before) / (now - told)))
                        told = now
                    time.sleep(POLL_SECONDS)
                status = child.returncode
        follower.poll()
    finally:
        initrd.unlink(missing_ok=True)
    if follower.outcome.done is None:
        error = ended_early(follower, status, log, errors)
        if not (interactive and isinstance(error, GuestGarbage)):  # the user may end QEMU with Ctrl-A X
            raise error
    if plugin and plugin.mode == "count":
        follower.outcome.counts, follower.outcome.functions = read_counts(folder / plugin.output, errors)
    return follower.outcome


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU that a process has used, by proc(5); 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


LOOK = "look for the last messages in the console log"
"""A remedy."""


def hang(follower: Follower, log: Path) -> LullError:
    """The error for a guest that exceeded a time limit."""
    error, what, remedy = GuestHang, f"the guest hung: {follower.doing} did not end in time", LOOK
    if not follower.ready:
        error, what = Stall, "the guest did not reach user space in time"
        remedy = "on a busy machine, or with many vCPUs, try again; fewer vCPUs boot faster"
    return error(what, where=str(log), tail=console.diagnose(process.tail(log, 2000)).excerpt, remedy=remedy)


def ended_early(follower: Follower, status: int, log: Path, errors: Path) -> LullError:
    """The error for a guest that ended without the event ``done``."""
    verdict = console.diagnose(process.tail(log, 2000))
    if verdict.kind not in ("panic", "oom") and status != 0:
        remedy = f"command.txt in {errors.parent} has the command that repeats this boot"
        what = f"QEMU failed with status {status}"
        return LullError(what, where=str(errors), tail=process.tail(errors), remedy=remedy)
    error: type[LullError] = GuestPanic
    if verdict.kind == "panic":
        what = f"the guest kernel panicked: {verdict.detail}"
        remedy = f"it was {follower.doing}; the whole console is in the log"
    elif verdict.kind == "oom":
        what = f"the guest ran out of memory: {verdict.detail}"
        remedy = "give it more with --memory, or make the workload smaller"
    else:
        error, what, remedy = GuestGarbage, f"the guest powered off while {follower.doing}, without a report", LOOK
    return error(what, where=str(log), tail=verdict.excerpt, remedy=remedy)


def read_counts(path: Path, errors: Path) -> tuple[dict[int, dict[str, int]], dict[int, dict[int, int]]]:
    """Window id -> the plugin's totals, with WHOLE_ASID and, under modelled time, the keys MODELLED.

    The second value is window id -> the instructions of each function, for windows that have them.

    Args:
        path: counts.jsonl.
        errors: QEMU's stderr, for the message.

    Raises: LullError when there is no such file, GuestGarbage when the plugin wrote an error or a malformed line.
    """
    totals: dict[int, dict[str, int]] = {}
    functions: dict[int, dict[int, int]] = {}
    try:
        text = path.read_text()
    except OSError as error:
        raise LullError(
            "the plugin wrote no counts",
            where=str(errors),
            tail=process.tail(errors),
            remedy="look for messages of QEMU and of the plugin there",
        ) from error
    for line in text.splitlines():
        try:
            message = json.loads(line)
            if isinstance(message.get("window"), int):
                modelled = {key: message[key] for key in MODELLED if key in message}
                asid = whole_asid(message["cpus"])
                found = by_guests(message["cpus"]) if "guests" in message else {}
                totals[message["window"]] = {**message["total"], WHOLE_ASID: asid, **found, **modelled}
                if "functions" in message:
                    functions[message["window"]] = {number: count for number, count in message["functions"]}
        except MALFORMED as error:
            raise GuestGarbage(f"the plugin wrote a malformed line: {line[:200]!r}", where=str(path)) from error
        if "error" in message:
            raise GuestGarbage(f"the plugin reports an error: {message['error']}", where=str(path))
    return totals, functions


def whole_asid(cpus: Sequence[Mapping[str, Any]]) -> int:
    """Broadcast TLBIs of a whole ASID (``aside1is``, ``aside1os`` and their nXS forms), summed over all CPUs."""
    forms = ("aside1is", "aside1os")
    return sum(count for cpu in cpus for form, count in cpu["tlbi"].items() if form.startswith(forms))


def by_guests(cpus: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Metrics of guests of the guest: their local TLBIs of a whole ASID, and of ranges; all others name one page."""
    forms = {"tlbi_guests_local_asid": "aside1/", "tlbi_guests_local_range": ("rvae1/", "rvale1/")}
    local = [(form, count) for cpu in cpus for form, count in cpu["tlbi_by_guests"].items()]
    return {metric: sum(n for form, n in local if form.startswith(names)) for metric, names in forms.items()}


def stalled(log: Path, attempt: int) -> Path:
    """Rename a log of an attempt that stalled, so that the next attempt does not delete it. Returns the new path."""
    kept = log.with_suffix(f".stalled-{attempt}{log.suffix}")
    if log.exists():
        log.rename(kept)
    return kept


@contextlib.contextmanager
def logs(command: str) -> Iterator[Path]:
    """A temporary folder for the logs of a boot. An exception removes it, except a LullError, which names its logs."""
    place = Path(tempfile.mkdtemp(prefix=f"lull-{command}-"))
    try:
        yield place
    except BaseException as error:
        if not isinstance(error, LullError):
            shutil.rmtree(place)
        raise


def launch_retrying(
    guest_: Guest,
    job: str,
    folder: Path,
    *,
    job_seconds: Callable[[int], float],
    tell: Callable[[str], None],
    say: Callable[[str], None],
) -> BootOutcome:
    """``launch``, repeated up to ATTEMPTS times when the guest does not reach user space in time.

    Args:
        say: called with a message for each such attempt.

    Raises: as ``launch``.
    """
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
