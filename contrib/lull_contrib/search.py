# SPDX-License-Identifier: GPL-2.0-only
"""`lull search`: search for programs of memory management under which the checker reports something.

A guest runs thousands of programs in one boot (guest/search.c). A program is a list of calls of four bytes each
(`calls`). After each program the plugin tells what the kernel has reached (checker/cover.h). A program that reaches
something new is kept, and changed again and again. A program that is reported is made as short as possible, and
written as a C file that has the same report.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lull import cache, plan
from lull.check.boots import guests_of, one_boot
from lull.check.data import died_of, matches
from lull.check.kernels import of_base
from lull.check.trials import CheckOptions, Trial
from lull.check.verdicts import FELL_SHORT, CheckedBoot, rule
from lull.errors import GuestGarbage, GuestHang
from lull.guest.runner import Talk
from lull.lab import Lab
from lull.plan import LAB
from lull.progress import clock, progress
from lull.run.loop import BOOTS, holding
from lull_contrib import calls
from lull_contrib.calls import Engine, Program, names_of_ops, shortest, source

PROGRAM = "search"
"""The guest program."""
BOOT_SECONDS = 600.0
"""Seconds after which a guest is booted anew: what programs leave behind must not pile up."""
ANSWER_SECONDS = 60.0
"""Seconds for one program. The guest's part ends by itself within a few."""
AGAIN = 3
"""How often a shorter program is tried before it counts as one without the report: some reports are races."""
HEADER = struct.Struct("<QQ1024I")
"""The beginning of struct coverage in checker/cover.h; then come 65536 bytes."""
REACHED = 65536
COVERAGE = "coverage"
"""The file of the plugin, in the folder of a boot."""


class Lost(Exception):
    """The guest does not answer: it has ended, or hangs."""


@dataclass(frozen=True)
class Ran:
    """What a program did.

    Args:
        reached: a number of which byte n is 1 if byte n of ``reached`` (checker/cover.h) is.
        reports: the numbers of the reports that it added to.
    """

    reached: int
    reports: tuple[int, ...]


@dataclass
class Session:
    """A boot whose guest runs programs one after the other. Used as a context manager.

    Args:
        boot_once: boots the guest until it powers off, and returns what is kept of the boot; called in a thread.
        folder: takes the logs of the boot, and the file of the plugin.
    """

    boot_once: Callable[[Talk, Path], CheckedBoot]
    folder: Path
    kept: CheckedBoot = field(default_factory=CheckedBoot)
    ran: int = 0

    def __enter__(self) -> Session:
        """Boot, and wait until the guest is ready. Raises Lost when it is not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.place = Path(tempfile.mkdtemp(prefix="lull-search-"))
        self.talk = Talk(self.place / "uart")
        self.file = self.folder / COVERAGE
        self.file.unlink(missing_ok=True)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._boot, daemon=True)
        self.thread.start()
        self.stream: socket.socket | None = None
        self.map: mmap.mmap | None = None
        try:
            self._connect()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _boot(self) -> None:
        try:
            self.kept = self.boot_once(self.talk, self.folder)
        except BaseException as error:  # raised again in the thread that waits
            self.error = error

    def _connect(self) -> None:
        """Wait until the guest is ready. A guest that stalls before it comes up is booted anew: then connect again."""
        while not self.map or self._header()[0] < 1:
            self._alive()
            time.sleep(0.05)
            if not self.map and self.file.exists() and self.file.stat().st_size == HEADER.size + REACHED:
                with open(self.file, "r+b") as file:
                    self.map = mmap.mmap(file.fileno(), 0)
            if self.stream and self._drain():
                self.stream.close()
                self.stream = None
            if not self.stream:
                stream = socket.socket(socket.AF_UNIX)
                if stream.connect_ex(str(self.talk.socket)):
                    stream.close()
                else:
                    stream.setblocking(False)
                    self.stream = stream

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the guest power off, and wait for it. Raises what the boot raised."""
        if kind is None and self.stream:
            with contextlib.suppress(OSError):
                self.stream.send(b"\0")
        else:
            self.talk.over = True
        while self.thread.is_alive():
            self._drain()
            self.thread.join(0.1)
        if self.stream:
            self.stream.close()
        shutil.rmtree(self.place)
        if self.error:
            raise self.error

    def _alive(self) -> None:
        if not self.thread.is_alive():
            raise Lost

    def _drain(self) -> bool:
        """Throw away what the guest says: the file of results has it. Returns true when QEMU has ended."""
        try:
            while self.stream and self.stream.recv(4096):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _header(self) -> tuple[int, ...]:
        assert self.map
        return HEADER.unpack_from(self.map)

    @property
    def reports(self) -> int:
        """The number of the last report."""
        return self._header()[1]

    def run(self, program: Program) -> Ran:
        """Run a program. Raises Lost."""
        assert self.map and self.stream
        self.map[HEADER.size :] = bytes(REACHED)
        before = self._header()
        words = bytes([len(program)]) + bytes(byte for call in program for byte in call)
        try:
            self.stream.send(words)
        except OSError as error:
            raise Lost from error
        self.ran += 1
        deadline = time.monotonic() + ANSWER_SECONDS
        while (after := self._header())[0] <= self.ran:
            if time.monotonic() > deadline:
                raise Lost
            self._alive()
            time.sleep(0.0005)
        if not self.ran % 64:
            self._drain()
        added = tuple(n for n, (a, b) in enumerate(zip(before[2:], after[2:], strict=True), 1) if a != b)
        return Ran(int.from_bytes(self.map[HEADER.size :], "little"), added)

    def report(self, number: int) -> dict[str, Any]:
        """The report of a number, as the plugin wrote it."""
        for line in (self.folder / "reports.jsonl").read_bytes().splitlines():
            if line.startswith(b'{"report":%d,' % number):
                return {"count": 1, **json.loads(line)}
        raise GuestGarbage(f"the plugin counts report {number}, and has not written it", where=str(self.folder))


@dataclass(frozen=True)
class Found:
    """A report that a program of the search has.

    Args:
        report: as the plugin wrote it.
        program: the shortest program that has it.
        sure: it had the report again when it was tried; otherwise ``program`` is the one that ran when it came, and
            empty while the guest booted.
        programs: the number of the program, from 1.
        seconds: since the search began.
    """

    report: Mapping[str, Any]
    program: Program
    sure: bool
    programs: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The entry in search.json."""
        more = {"sure": self.sure, "programs": self.programs, "seconds": round(self.seconds, 1)}
        return {"rule": rule(self.report), "calls": self.program, **more, "report": self.report}

    @property
    def place(self) -> tuple[object, ...]:
        """What another boot's report has, too, if it is of the same bug: rule, kind, and the next functions."""
        places = (self.report.get(which, {}).get("functions", ())[:3] for which in ("changed", "noticed"))
        return (rule(self.report), *map(tuple, places))

    @property
    def worth(self) -> int:
        """How well it is found: with a program, and with one that has the report again."""
        return bool(self.program) + self.sure

    def lines(self, file: Path) -> list[str]:
        """The report as printed, with the file that has the program."""
        if not self.program:
            return [*self.report["text"], "while the guest booted"]
        count = f"{len(self.program)} call{'s' * (len(self.program) != 1)}"
        again = f"again with {count}: {file}" if self.sure else f"not seen again; the program of {count}: {file}"
        return [*self.report["text"], f"program {self.programs}, after {clock(self.seconds)}; {again}"]


@dataclass
class Search:
    """A search: how programs are chosen, and what came of them.

    Args:
        seconds: how long to search.
        known: whether a report is of a known issue.
        wanted: the search ends at the first report of these rules, as those of a mutant are; empty: it goes on.
        troubles: the boots whose guest crashed, hung or broke off, each with the programs that it ran last.
        growth: every 50 programs, the seconds, the programs, and what is reached.
    """

    engine: Engine
    seconds: float
    known: Callable[[Mapping[str, Any]], bool]
    wanted: Sequence[str] = ()
    found: list[Found] = field(default_factory=list)
    troubles: list[dict[str, Any]] = field(default_factory=list)
    growth: list[tuple[float, int, int, int]] = field(default_factory=list)
    programs: int = 0
    boots: int = 0
    last: list[Program] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    @property
    def reached(self) -> tuple[int, int]:
        """How many blocks of code, and ways in which entries were taken away, programs have reached."""
        ways = self.engine.seen >> 8 * (REACHED // 2)
        return self.engine.seen.bit_count() - ways.bit_count(), ways.bit_count()

    def account(self) -> str:
        """What was done so far, in one line."""
        blocks, ways = self.reached
        return (
            f"{self.programs} programs, {len(self.engine.corpus)} kept, "
            f"{blocks} blocks of code and {ways} ways to lose an entry reached"
        )

    @property
    def caught(self) -> bool:
        """Whether one of the rules that were wanted has reported a program."""
        died = any(died_of(trouble["what"], self.wanted) for trouble in self.troubles)
        return died or any(one.program and matches(one.report, self.wanted) for one in self.found)

    @property
    def over(self) -> bool:
        """Whether nothing more is to be done."""
        return self.spent > self.seconds or self.caught

    def boot(self, session: Session, tell: Callable[[str], None]) -> None:
        """Run programs in one boot until the search is over, or the boot's time is. Raises Lost."""
        end = time.monotonic() + BOOT_SECONDS
        judged: set[int] = set()
        self.boots += 1
        for number in range(1, session.reports + 1):
            self.note(Found(session.report(number), (), False, self.programs, self.spent))

        def run(program: Program) -> Ran:
            self.programs += 1
            self.last = [*self.last[-15:], program]
            if not self.programs % 50:
                self.growth.append((round(self.spent, 1), self.programs, *self.reached))
                tell(f"{self.account()}, {len(self.found)} reports")
            return session.run(program)

        while not self.over and time.monotonic() < end:
            program = self.engine.next()
            ran = run(program)
            self.engine.learn(program, ran.reached, lambda program=program: run(program).reached)  # type: ignore[misc]
            for number in sorted(set(ran.reports) - judged):
                judged.add(number)
                self.judge(session.report(number), number, program, run)

    def judge(self, report: Mapping[str, Any], number: int, program: Program, run: Callable[[Program], Ran]) -> None:
        """Note a report with the shortest program that has it. Raises Lost."""
        programs, seconds = self.programs, self.spent

        def fails(shorter: Program) -> bool:
            return any(number in run(shorter).reports for _ in range(AGAIN))

        if self.note(Found(report, program, False, programs, seconds)) and fails(program):
            self.note(Found(report, shortest(program, fails), True, programs, seconds))

    def note(self, found: Found) -> bool:
        """Keep what is found unless it is a known issue, or was found as well before. Returns true if it is kept."""
        same = [one for one in self.found if one.place == found.place]
        if self.known(found.report) or any(one.worth >= found.worth for one in same):
            return False
        self.found = [*(one for one in self.found if one not in same), found]
        return True

    def to_json(self, **more: object) -> str:
        """The text of search.json."""
        one = {
            **more,
            "seconds": round(self.spent, 1),
            "boots": self.boots,
            "programs": self.programs,
            "kept": len(self.engine.corpus),
            "reached": self.reached,
            "caught": self.caught,
            "found": [found.to_json() for found in self.found],
            "troubles": self.troubles,
            "growth": self.growth,
        }
        return json.dumps(one) + "\n"


def conduct(
    lab: Lab,
    trial: Trial,
    options: CheckOptions,
    search: Search,
    words: Sequence[str],
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Boot and search until the time is over or the mutant is caught; write what is found, and print it.

    Returns the exit status: 0 when nothing was reported or, with a mutant, when it was caught; else 1.

    Args:
        trial: the kernel, the machine and the mutant, of a boot without jobs.
        words: what the search was asked for; a search that was interrupted goes on with the programs that it kept.
        out: the folder of the results; None: a new one in ./results.

    Raises: GuestHang when a guest ends before it has run a program.
    """
    spec = plan.Spec(LAB, LAB, trial.mutant.settings) if trial.mutant else plan.parse_spec(trial.boot.label, lab.base)
    workload = plan.Workload(PROGRAM, PROGRAM, timeout=2 * BOOT_SECONDS)
    trial = replace(trial, boot=replace(trial.boot, jobs=(plan.Job(1, workload, spec),)))
    kernel = of_base(lab, trial.boot.image)
    (guest,) = guests_of(lab, [trial], {kernel.name: kernel}, options)
    assert guest.plugin
    given, ops = guest.plugin, names_of_ops(calls.HEADER.read_text())

    def boot_once(talk: Talk, folder: Path) -> CheckedBoot:
        more = (*given.options, f"cover={folder / COVERAGE}")
        talking = replace(guest, talk=talk, plugin=replace(given, options=more))
        return one_boot(lab, talking, kernel, trial.boot, folder, lambda text: None)

    key = plan.plan_key([trial.boot], "search", *words, str(guest.image), str(guest.initramfs), str(given.path))
    search.begun = time.monotonic()
    with holding(out, key) as folder, progress.step("searching") as step:
        file = folder / "corpus.json"
        if file.exists():
            search.engine.first = [tuple(map(tuple, program)) for program in json.loads(file.read_text())]
        while not search.over:
            session = Session(boot_once, folder / BOOTS / f"{search.boots + 1:03d}")
            with contextlib.suppress(Lost), session:
                search.boot(session, step.update)
            trouble = session.kept.trouble
            if trouble:
                search.troubles.append({**asdict(trouble), "last": search.last})
            elif not search.found:
                shutil.rmtree(session.folder)
            if not session.ran and not search.over:
                what = trouble.what if trouble else "the guest ended before it ran a program"
                raise GuestHang(what, where=str(session.folder), remedy="its console.log may say why")
            for number, found in enumerate(search.found, 1):
                if not found.program:
                    continue
                cache.write_atomic(folder / f"found-{number}.c", source(found.program, ops, found.report["text"]))
            cache.write_atomic(file, json.dumps(search.engine.corpus) + "\n")
            cache.write_atomic(folder / "search.json", search.to_json(what=trial.what(options), words=words))
    if as_json:
        print(search.to_json(what=trial.what(options), words=words), end="")
    else:
        for number, found in enumerate(search.found, 1):
            print("\n".join(found.lines(folder / f"found-{number}.c")), end="\n\n")
        for one in search.troubles:
            print(f"the guest {one['kind']}: {one['what']}")
        print(f"results: {folder}/search.json\nverdict: {verdict(search, trial)}")
    return 0 if (search.caught if trial.mutant else not search.found and not search.troubles) else FELL_SHORT


def verdict(search: Search, trial: Trial) -> str:
    """The last line of the output."""
    if trial.mutant:
        said = "caught" if search.caught else "not caught"
    else:
        said = f"{len(search.found)} reports" if search.found else "passed"
    return f"{said} in {clock(search.spent)}: {search.account()}"
