# SPDX-License-Identifier: GPL-2.0-only
"""`lull search` with a made-up guest: what is found, shortened and left out, and guests that are lost."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from lull.check.verdicts import CheckedBoot, Trouble
from lull.guest.runner import Talk
from lull_contrib import search
from lull_contrib.calls import Engine, Program
from lull_contrib.search import HEADER, REACHED, Found, Lost, Search, Session

BAD, WORSE, DEADLY, STUCK = 5, 7, 9, 11
"""Kinds of calls of which the made-up kernel dies, or never comes back; BAD before WORSE is reported."""


def bad(kinds: list[int]) -> bool:
    """Whether the made-up checker reports a program of these kinds of calls."""
    return BAD in kinds and WORSE in kinds[kinds.index(BAD) :]


def guest(talk: Talk, folder: Path, while_booting: int = 0) -> CheckedBoot:
    """What QEMU, its plugin and the guest do together. Each kind of call reaches a place."""
    counts = [0] * 1024
    reports = folder / "reports.jsonl"
    reports.touch()
    ended, reached = 0, bytes(REACHED)

    def say() -> None:
        seen = sum(count > 0 for count in counts)
        with open(folder / search.COVERAGE, "r+b") as file:
            file.write(struct.pack("<QQ1024I", 0, seen, *counts) + reached)
            file.seek(0)
            file.write(struct.pack("<Q", ended))

    def report(number: int, rule: str) -> None:
        if not counts[number - 1]:
            more = {"rule": rule, "kind": "none", "text": [f"report {number}: {rule}"]}
            with open(reports, "a") as out:
                out.write(json.dumps({"report": number, **more}, separators=(",", ":")) + "\n")
        counts[number - 1] += 1

    for number in range(1, while_booting + 1):
        report(number, f"early-{number}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(talk.socket))
        server.listen()
        (folder / search.COVERAGE).write_bytes(bytes(HEADER.size + REACHED))
        stream, _ = server.accept()
        with stream, stream.makefile("rb") as heard:
            while True:
                ended += 1
                say()
                n = heard.read(1)[0]
                if not n:
                    return CheckedBoot()
                data = heard.read(4 * n)
                kinds = [data[at] % 16 for at in range(0, len(data), 4)]
                reached = bytes(at in kinds for at in range(REACHED))
                if DEADLY in kinds:
                    return CheckedBoot(trouble=Trouble("crashed", "panic", 4, ""))
                while STUCK in kinds:
                    if talk.over:
                        return CheckedBoot(trouble=Trouble("hung", "hang", 5, ""))
                if bad(kinds):
                    report(while_booting + 1, "pending")


def without(*kinds: int) -> Callable[[], Program]:
    """Programs of one call without these kinds, for which ``Engine.fresh`` is replaced."""
    chance = random.Random(1)
    left = [kind for kind in range(16) if kind not in kinds]
    return lambda: tuple((chance.choice(left), 1, 1, 1) for _ in range(8))


def searching(engine: Engine | None = None, *, known: str = "", wanted: tuple[str, ...] = ()) -> Search:
    """A search of a minute at most."""
    engine = engine or Engine(random.Random(1), 16, guided=False)
    return Search(engine, 60, lambda report: report["rule"] == known, wanted)


def test_what_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report with its text, and the two calls that it takes; a search for its rule is over then."""
    one = searching(wanted=("pending",))
    monkeypatch.setattr(one.engine, "fresh", without(DEADLY, STUCK))
    with Session(guest, tmp_path) as session:
        one.boot(session, lambda text: None)
    (found,) = one.found
    assert found.sure and [call[0] for call in found.program] == [BAD, WORSE] and one.caught and one.over
    assert found.program[0][1:] == (0, 0, 0), "values are simple"
    assert found.report["text"] == ["report 1: pending"] and found.lines(Path("f.c"))[-1].endswith(
        "again with 2 calls: f.c"
    )
    assert session.kept == CheckedBoot() and one.programs == session.ran
    said = json.loads(one.to_json())
    assert said["found"][0]["rule"] == "pending/none" and said["caught"] and said["reached"][0] <= 16


def test_known_issues_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end nothing."""
    one = searching(known="pending")
    draw = without(DEADLY, STUCK)

    def fresh() -> Program:
        if one.programs > 3:
            one.seconds = 0
        return ((BAD, 0, 0, 0), (WORSE, 0, 0, 0), *draw())

    monkeypatch.setattr(one.engine, "fresh", fresh)
    with Session(guest, tmp_path) as session:
        one.boot(session, lambda text: None)
    assert one.found == [] and (tmp_path / "reports.jsonl").read_text() and one.engine.seen.bit_count() > 5


def test_reports_while_the_guest_boots(tmp_path: Path) -> None:
    """They have no program."""
    one = searching()
    one.seconds = 0
    with Session(lambda talk, folder: guest(talk, folder, 2), tmp_path) as session:
        one.boot(session, lambda text: None)
    assert [(found.report["report"], found.program) for found in one.found] == [(1, ()), (2, ())]
    assert one.found[0].lines(Path())[-1] == "while the guest booted"


def test_a_bug_is_noted_once() -> None:
    """As well as it was found: without a program, with one, and with one that has the report again."""
    one = searching()
    report = {"rule": "pending", "kind": "none", "changed": {"functions": ["f", "g", "h", "i"]}}
    program = ((1, 1, 1, 1),)
    other = Found({**report, "changed": {"functions": ["f", "g", "x"]}}, program, False, 4, 1)
    boots, unsure, sure = (
        Found(report, p, again, 1, 1) for p, again in (((), False), (program, False), (program, True))
    )
    assert [one.note(found) for found in (boots, unsure, boots, sure, sure, unsure, other)] == [1, 1, 0, 1, 0, 0, 1]
    assert one.found == [sure, other]


@pytest.mark.parametrize(("kind", "word"), [(DEADLY, "crashed"), (STUCK, "hung")])
def test_a_guest_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, word: str) -> None:
    """The boot is over, and the program that did it is the last one."""
    monkeypatch.setattr(search, "ANSWER_SECONDS", 0.3)
    one = searching()
    monkeypatch.setattr(one.engine, "fresh", without(*({DEADLY, STUCK} - {kind})))
    session = Session(guest, tmp_path)
    with pytest.raises(Lost), session:
        one.boot(session, lambda text: None)
    assert session.kept.trouble and session.kept.trouble.kind == word
    assert kind in [call[0] for call in one.last[-1]] and session.ran == one.programs > 0


def test_a_guest_that_never_comes_up(tmp_path: Path) -> None:
    """The boot says why; an error of the lab is raised."""
    with pytest.raises(Lost), Session(lambda talk, folder: CheckedBoot(), tmp_path):
        pass

    def fails(talk: Talk, folder: Path) -> CheckedBoot:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), Session(fails, tmp_path):
        pass
