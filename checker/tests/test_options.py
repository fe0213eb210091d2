# SPDX-License-Identifier: GPL-2.0-only
"""The option parser against a second one, on arguments right, nearly right and wild."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from plugin_tools import Talk


@pytest.fixture(scope="module")
def cli(build: Callable[[str], Path]) -> Iterator[Talk]:
    talk = Talk(build("options-cli"))
    yield talk
    talk.close()


def ask(cli: Talk, arguments: list[bytes]) -> list[str]:
    return cli.ask(*(a.hex() or "-" for a in arguments))


INSNS = [b"segment", b"each", b"block"]
COSTS = [b"insn", b"tlbi", b"broadcast", b"latency", b"dsb"]
COUNTS = (b"insns", b"skip", b"cost", b"quantum", b"functions")
CHECKS = (b"speculation", b"ntlbpa", b"symbols", b"cover")
MODE_OF = {**dict.fromkeys(COUNTS, b"count"), **dict.fromkeys(CHECKS, b"check")}


def picoseconds(text: bytes) -> int | None:
    """Nanoseconds with up to three decimals; None: they are not."""
    found = re.fullmatch(rb"0*([0-9]{1,7})(?:\.([0-9]{1,3}))?", text)
    return int(found[1]) * 1000 + int((found[2] or b"0").ljust(3, b"0")) if found else None


def meaning(arguments: list[bytes]) -> list[str] | None:
    """What options-cli is to say; None: refused."""
    values: dict[bytes, bytes] = {}
    skips: list[tuple[int, int]] = []
    costs: list[tuple[bytes, int]] = []
    for argument in arguments:
        key, _, value = argument.partition(b"=")
        if key == b"skip":
            skip = re.fullmatch(rb"(0[xX])?([0-9a-fA-F]+)-(0[xX])?([0-9a-fA-F]+)", value)
            if not skip:
                return None
            start, end = int(skip[2], 16), int(skip[4], 16)
            if not start < end < 1 << 64:
                return None
            skips.append((start, end))
            values[key] = value
            continue
        if key == b"cost":
            name, colon, text = value.partition(b":")
            cost = picoseconds(text)
            if name not in COSTS or not colon or cost is None:
                return None
            costs.append((name, cost))
            values[key] = value
            continue
        if key in values:
            return None
        values[key] = value
        fine = {
            b"mode": value in (b"count", b"check"),
            b"out": value != b"",
            b"functions": value != b"",
            b"symbols": value != b"",
            b"cover": value != b"",
            b"insns": value in INSNS,
            b"speculation": value in (b"on", b"off"),
            b"ntlbpa": value in (b"0", b"1"),
            b"quantum": bool(picoseconds(value)),
        }
        if not fine.get(key):
            return None
    mode = values.get(b"mode", b"count")
    if any(MODE_OF.get(key, mode) != mode for key in values) or (mode == b"count" and b"out" not in values):
        return None
    if len(skips) > 16 or len(costs) > len(COSTS):
        return None
    if b"functions" in values and values.get(b"insns") == b"block":
        return None
    insns = INSNS.index(values.get(b"insns", b"segment"))
    said = [mode.decode(), str(insns), values.get(b"speculation", b"on").decode(), values.get(b"ntlbpa", b"2").decode()]
    said.append(values.get(b"out", b"").hex() or "-")
    said += [f"{start:x}-{end:x}" for start, end in skips]
    if costs:
        said.append(":".join(str(dict(costs).get(name, 0)) for name in COSTS))
    broadcast = dict(costs).get(b"broadcast", 0)
    quantum = min(max(broadcast // 4, 100_000), 10_000_000) if broadcast else 10_000_000
    said.append(f"quantum={picoseconds(values[b'quantum']) if b'quantum' in values else quantum}")
    said += [f"functions={values[b'functions'].hex()}"] if b"functions" in values else []
    said += [f"{key}={values[key.encode()].hex()}" for key in ("symbols", "cover") if key.encode() in values]
    return said


RIGHT = st.sampled_from(
    [b"out=f", b"mode=check", b"mode=count", b"speculation=off", b"speculation=on"]
    + [b"insns=" + i for i in INSNS]
    + [b"functions=f", b"functions="]
    + [b"ntlbpa=0", b"ntlbpa=1", b"ntlbpa=2"]
    + [b"symbols=System.map", b"symbols=", b"cover=f", b"cover="]
    + [b"cost=insn:1", b"cost=dsb:0.04", b"cost=broadcast:3390.125", b"cost=tlbi:1.2345", b"cost=tlbi:00000000000001"]
    + [b"quantum=5", b"quantum=0.001", b"quantum=0", b"quantum=10000000"]
    + [b"skip=ffff800080012340-ffff800080012380", b"skip=0x0-0XFf", b"skip=1-1"]
)
WORDS = (
    b"mode out insns skip speculation ntlbpa symbols cover cost quantum insn dsb = @ - : . count check each on off 0x"
)
WORDS += b" 4096 0 1 % \xff , -"
PIECES = st.lists(st.sampled_from(WORDS.split()) | st.binary(min_size=1, max_size=2), max_size=6).map(b"".join)
WILD = st.binary(max_size=700)
ARGUMENT = (RIGHT | PIECES | WILD).map(lambda a: a.replace(b"\0", b"0"))
SYMBOLS = st.sampled_from([[], [b"symbols=m"], [b"symbols=m", b"symbols=m"]])
SKIP = st.tuples(st.integers(0, (1 << 64) + 9), st.integers(0, (1 << 64) + 9)).map(b"skip=%x-%x".__mod__)
COST = st.tuples(st.sampled_from(COSTS), st.integers(0, 10**7 + 9), st.integers(0, 9999)).map(b"cost=%b:%d.%d".__mod__)
COUNT = st.builds(
    lambda skips, costs: [b"out=o", *skips, *costs], st.lists(SKIP, max_size=20), st.lists(COST, max_size=6)
)
SPECULATION = st.sampled_from([[], [b"speculation=on"], [b"speculation=off"]])
NTLBPA = st.sampled_from([[], [b"ntlbpa=0"], [b"ntlbpa=1"]])
CHECK = st.builds(
    lambda out, symbols, speculation, ntlbpa: [b"mode=check", *out, *symbols, *speculation, *ntlbpa],
    st.sampled_from([[], [b"out=o"]]),
    SYMBOLS,
    SPECULATION,
    NTLBPA,
)


@settings(max_examples=2000, deadline=None)
@given(st.lists(ARGUMENT, max_size=6) | CHECK | COUNT)
def test_options(cli: Talk, arguments: list[bytes]) -> None:
    said, want = ask(cli, arguments), meaning(arguments)
    event("taken" if want else "refused")
    if want is None:
        assert said[0] == "refused" and 10 < len(said[1]) / 2 < 255
    else:
        assert said == want


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mode=count", "option out=FILE is missing: where to write the counts"),
        ("out=x symbols=", "option symbols='' is not a file name"),
        (
            "out=x cost=insns:1",
            "option cost='insns:1' is not NAME:NS, below 10 ms, with up to three digits behind the point "
            "(names: insn tlbi broadcast latency dsb)",
        ),
        ("out=x quantum=0", "option quantum='0' is not a number of ns, decimal, more than 0 and below 10 ms"),
        ("out=x functions=", "option functions='' is not a file name"),
        (
            "out=x functions=f insns=block",
            "option functions is not for insns=block, which does not know how far a block came",
        ),
        ("out=x functions=f mode=check", "option functions is for mode=count only"),
        ("out=x mode=cheque", "option mode='cheque' is not one of: count check"),
        (
            "out=x memory=1",
            "unknown option 'memory' "
            "(known: mode out insns skip cost quantum functions speculation ntlbpa symbols cover)",
        ),
    ],
)
def test_messages(cli: Talk, arguments: str, message: str) -> None:
    """Each names the option, its value and what is possible."""
    refused, why = ask(cli, [a.encode() for a in arguments.split()])
    assert refused == "refused" and bytes.fromhex(why).decode() == message
