# SPDX-License-Identifier: GPL-2.0-only
"""Programs of `lull search`: how they are chosen, shortened and written down."""

from __future__ import annotations

import random
import re

from lull_contrib import calls
from lull_contrib.calls import Engine, Program, shortest, source

OPS = calls.names_of_ops(calls.HEADER.read_text())
DEEP = (3, 7, 1, 12, 5, 29, 0, 14, 31, 8, 21, 17)
"""Kinds of calls: each reaches a place of its own if those before it have come before it."""


def reached(program: Program) -> int:
    """What a made-up kernel reaches: byte n for the first n kinds of DEEP, in this order."""
    found, depth = 0, 0
    for call in program:
        if depth < len(DEEP) and call[0] == DEEP[depth]:
            depth += 1
            found |= 1 << 8 * depth
    return found


def depth(engine: Engine, programs: int) -> int:
    """How many places the engine reaches with so many programs."""
    for _ in range(programs):
        program = engine.next()
        engine.learn(program, reached(program), lambda program=program: reached(program))  # type: ignore[misc]
    return engine.seen.bit_count()


def test_names_of_ops() -> None:
    """As C has them, each once, without the number of them."""
    assert OPS[0] == "MAP" and "UNMAP" in OPS and "OPS" not in OPS and len(set(OPS)) == len(OPS)


def test_the_same_seed_has_the_same_programs() -> None:
    """With what was kept in between; every program can be sent, and C knows its calls."""
    first, second, other = (Engine(random.Random(seed), len(OPS)) for seed in (1, 1, 2))
    for engine in (first, second, other):
        depth(engine, 300)
    assert first.corpus == second.corpus != other.corpus
    for program in [first.next() for _ in range(300)]:
        assert 0 < len(program) <= calls.MOST
        assert all(call[0] < len(OPS) and max(call) < 256 for call in program)


def test_what_programs_reach_guides_the_search() -> None:
    """It goes deeper than as many programs that are drawn without regard to the others."""
    engines = [Engine(random.Random(seed), 32, guided) for guided in (True, False) for seed in range(3)]
    depths = [depth(engine, 3000) for engine in engines]
    assert sum(depths[:3]) > 1.4 * sum(depths[3:]) > 0, depths
    assert engines[3].corpus, "it keeps what it finds, and does not use it"


def test_only_what_is_reached_again_is_kept() -> None:
    """Interrupts reach code, too."""
    engine = Engine(random.Random(0), 16)
    program = engine.next()
    assert not engine.learn(program, 0b1, lambda: 0)
    assert not engine.learn(program, 0b1, lambda: 0b1), "it counts as seen"
    assert engine.learn(program, 0b110, lambda: 0b10) and engine.corpus == [program]
    assert engine.seen == 0b111


def test_first_programs_come_first() -> None:
    """Those of a search that goes on."""
    engine = Engine(random.Random(0), 16, first=[((1, 2, 3, 4),)])
    assert engine.next() == ((1, 2, 3, 4),) and not engine.first


def test_shortest() -> None:
    """Calls that do not matter go; fields that do not matter become 0; what is left still fails."""
    chance = random.Random(4)
    program = tuple((chance.randrange(16), chance.randrange(256), 9, 9) for _ in range(40))
    needed = ((20, 0x82, 5, 0), (21, 1, 0, 7))
    program = (*program[:10], (20, 0x82, 5, 3), *program[10:30], (21, 0x81, 200, 7), *program[30:])

    def fails(shorter: Program) -> bool:
        first = [n for n, call in enumerate(shorter) if call[:3] == needed[0][:3]]
        last = [n for n, call in enumerate(shorter) if (call[0], call[1] & 1, call[3]) == (21, 1, 7)]
        return bool(first and last and first[0] < last[-1])

    assert shortest(program, fails) == needed


def test_source() -> None:
    """Calls by name, and the report in the comment, which nothing in it ends."""
    program = ((OPS.index("UNMAP") + len(OPS), 0x81, 5, 0x10), (0, 2, 0, 255))
    text = source(program, OPS, ["report 1: pending/no-tlbi: a */ b", "  changed by f"])
    assert re.findall(r"\{ (.*) \}", text) == [
        ".op = UNMAP, .actor = 1 | AT_ONCE, .place = 0x5, .how = 0x10",
        ".op = MAP, .actor = 2, .place = 0x0, .how = 0xff",
    ]
    assert text.count("*/") == 1 and " *   changed by f\n" in text
