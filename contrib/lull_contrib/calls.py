# SPDX-License-Identifier: GPL-2.0-only
"""Programs of memory management as `lull search` has them: choosing, shortening and writing them down.

A program is a list of calls of four bytes each; guest/lib/calls.h says what they mean, and runs them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lull import guest

HEADER = guest.LIBRARY / "calls.h"
MOST = 120
"""The most calls of a program."""
FIELDS = ("op", "actor", "place", "how")
AT_ONCE = 0x80

Call = tuple[int, int, int, int]
"""The bytes of struct call: FIELDS."""
Program = tuple[Call, ...]


def names_of_ops(text: str) -> tuple[str, ...]:
    """The names of the kinds of calls, in their order, from the text of guest/lib/calls.h."""
    found = re.search(r"enum op \{(.*?)\bOPS\b", text, re.DOTALL)
    assert found, f"{HEADER} has no enum op"
    return tuple(re.findall(r"\w+", found[1]))


def changed(call: Call, which: int, value: int) -> Call:
    """``call`` with another value of field ``which``."""
    op, actor, place, how = (value if n == which else old for n, old in enumerate(call))
    return op, actor, place, how


@dataclass
class Engine:
    """Chooses programs: new ones, and variants of those that reached something that no program had.

    Args:
        chance: the source of all choices.
        ops: the number of kinds of calls.
        guided: make variants at all; without it every program is new, for a comparison.
        first: programs to run before all others.
        gains: how many of the last new programs, and of the last variants, were kept; and how many there were.
        corpus: the programs that are kept.
        seen: what programs have reached, as ``Ran.reached`` has it.
    """

    chance: random.Random
    ops: int
    guided: bool = True
    first: list[Program] = field(default_factory=list)
    corpus: list[Program] = field(default_factory=list)
    seen: int = 0
    variant: bool = False
    gains: list[list[float]] = field(default_factory=lambda: [[1.0, 2.0], [1.0, 2.0]])

    def call(self, near: Sequence[Call] = ()) -> Call:
        """A call, often MAP or WRITE, often of the place and size of one of ``near``, so that calls meet."""
        draw, choice = self.chance.randrange, self.chance.choice
        op = choice((0, 1, *(draw(self.ops) for _ in range(6))))
        actor = choice((0, 0, 0, 1, 2, 3, 4)) | AT_ONCE * (draw(4) == 0)
        place = choice((0, 0, 0, 1, 2, 3)) | 4 * choice((0, 0, 0, draw(16)))
        size = choice((1, 7, 13, draw(16), draw(16)))
        if near and draw(2):
            place = choice(near)[2]
        if near and draw(2):
            size = choice(near)[3] >> 4
        return op, actor, place, size << 4 | draw(16)

    def fresh(self) -> Program:
        """A new program. Beginning and ending its processes takes as long as some twenty calls."""
        calls: list[Call] = []
        for _ in range(self.chance.randint(10, 40)):
            calls.append(self.call(calls[:2]))
        return tuple(calls)

    def varied(self, program: Program) -> Program:
        """A variant of ``program``, with a few changes."""
        calls, draw = list(program), self.chance.randrange
        for _ in range(self.chance.choice((1, 1, 2, 3, 5))):
            at, kind = draw(len(calls) + 1), draw(8)
            if kind < 3 or not calls:
                calls.insert(at, self.call(calls))
            elif kind < 5:
                at, which = draw(len(calls)), draw(4)
                calls[at] = changed(calls[at], which, self.call(calls)[which])
            elif kind == 5:
                del calls[draw(len(calls))]
            elif kind == 6:
                calls.insert(at, calls[draw(len(calls))])
            else:
                other = self.chance.choice(self.corpus)
                calls[at:] = other[draw(len(other)) :]
        return tuple(calls[:MOST]) or self.fresh()

    def next(self) -> Program:
        """The next program to run."""
        if self.first:
            return self.first.pop()
        if not self.guided or not self.corpus:
            return self.fresh()
        # The more of either kind were kept of late, the more there are: new programs at first, then variants.
        fresh, varied = (kept / tried for kept, tried in self.gains)
        self.variant = self.chance.random() * (fresh + varied) > fresh
        if not self.variant:
            return self.fresh()
        # Programs that came late reach further.
        return self.varied(self.corpus[int(len(self.corpus) * self.chance.random() ** 0.3)])

    def learn(self, program: Program, first: int, again: Callable[[], int]) -> bool:
        """Keep ``program`` if it reaches something new, and does so a second time.

        Args:
            first: what it reached.
            again: runs it again, and returns what it reached then.
        """
        new = first & ~self.seen
        if new:
            new &= again()
            self.seen |= first
            if new:
                self.corpus.append(program)
        gain = self.gains[self.variant]
        gain[:] = [0.99 * gain[0] + bool(new), 0.99 * gain[1] + 1]
        return bool(new)


def shortest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The shortest part of ``program`` found for which ``fails`` is true still, with simple values in its calls."""
    size = len(program)
    while size:
        at = 0
        while at < len(program):
            less = program[:at] + program[at + size :]
            if less and fails(less):
                program = less
            else:
                at += size
        size //= 2
    for at, which in ((at, which) for at in range(len(program)) for which in (1, 2, 3)):
        old = program[at][which]
        for value in sorted({0, old & ~AT_ONCE if which == 1 else 0} - {old}):
            simple = (*program[:at], changed(program[at], which, value), *program[at + 1 :])
            if fails(simple):
                program = simple
                break
    return program


def source(program: Program, ops: Sequence[str], says: Sequence[str]) -> str:
    """A C file that runs ``program`` again and again, for `lull check --program`.

    Args:
        ops: the names of the kinds of calls.
        says: the lines of the report, for the comment.
    """

    def line(call: Call) -> str:
        op, actor, place, how = call
        by = f"{actor & ~AT_ONCE}" + (" | AT_ONCE" if actor & AT_ONCE else "")
        return f"\t{{ .op = {ops[op % len(ops)]}, .actor = {by}, .place = {place:#x}, .how = {how:#x} }},"

    comment = "\n".join(f" * {line}".rstrip().replace("*/", "* /") for line in says)
    calls = "\n".join(map(line, program))
    return (
        f"// SPDX-License-Identifier: GPL-2.0-only\n/*\n * Found by lull search; calls.h says what the calls do.\n *\n"
        f'{comment}\n */\n#include "calls.h"\n\nstatic const struct call calls[] = {{\n{calls}\n}};\n\n'
        "int main(int argc, char **argv)\n{\n"
        "\treturn repeat_calls(argc, argv, calls, sizeof(calls) / sizeof(*calls));\n}\n"
    )
