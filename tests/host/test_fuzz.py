# SPDX-License-Identifier: GPL-2.0-only
"""AFL++ on the parsers of foreign bytes: whatever they get, they read it or say what is wrong."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fuzz_target
import pytest
from made_up_results import run as results
from plugin_tools import CHECKER, HERE, run
from support import DATA, REPOSITORY

SECONDS = 20
IMAGE = bytearray(0x1000)
IMAGE[:2], IMAGE[56:60], IMAGE[60:64], IMAGE[0x40:0x44] = b"MZ", b"ARM\x64", b"\x40\0\0\0", b"PE\0\0"
IMAGE[0x46], IMAGE[0x54], IMAGE[0x100:0x10E] = 1, 16, b"Linux version "
SEEDS = {
    "image": [bytes(IMAGE[:0x200]), gzip.compress(b"a kernel"), b"\x7fELF\2\1\1" + bytes(11) + b"\xb7\0"],
    "symbols": [b"ffff800080000000 T _text\nffff800080000000 t asids_init\nffff800080000100 T _end\n"],
    "module": [b"\0depends=a-b,c\0"],
    "ktap": [
        (DATA / "kunit.log").read_bytes()[-2000:],
        b"KTAP version 1\n1..1\n    # Subtest: a\n    1..1\n    ok 1 b\nok 1 a\n",
    ],
    "guest": [b'{"event":"ready","kernel":"6"}\n{"event":"end","job":1,"status":0}\n'],
    "reports": [(DATA / "check/reports.jsonl").read_bytes()[:2000]],
    "console": [(DATA / "panic-no-root.log").read_bytes()[-1000:]],
    "results": [results().to_json().encode()[:4000]],
    "sources": [
        b"deb [signed-by=/a] http://a.example/debian stable main\n",
        b"URIs: http://a.example/debian\nSuites: stable\n",
    ],
    "symbols-cli": [b"ffff800080000000 T _text\n"],
    "trace-cli": [(HERE / f"traces/{name}.txt").read_bytes() for name in ("bad_pending_local", "good_moved")],
}
"""What the fuzzer varies, for each parser in Python and each program of checker/tests that reads such bytes."""

FOUND = [
    ("image", bytes(IMAGE[:0x46]) + b"\xff\xff" + bytes(IMAGE[0x48:])),
    ("symbols", b"ffff800080000000 T _text\n0 t asids_init\nffff800080000100 T _end\n"),
    ("module", b"\0depends=\xd2\0"),
    ("guest", b'{"event":"end","job":1,"status":1e999}'),
    ("guest", b"[" * 100_000),
    ("reports", b'{"window":1e999,"tlb":{}}\n' + b"[" * 100_000 + b"\n"),
    ("results", b"[" * 100_000),
    ("sources", b"\xa3"),
]
"""Inputs that once ended a parser with a traceback."""


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found(name: str, data: bytes, tmp_path: Path) -> None:
    """What they raise now is what they document."""
    parser, documented = fuzz_target.targets(tmp_path)[name]
    with contextlib.suppress(*documented):
        parser(data)


@pytest.mark.whole
@pytest.mark.skipif(not shutil.which("afl-fuzz"), reason="afl-fuzz is not installed (apt install afl++)")
@pytest.mark.parametrize("name", SEEDS)
def test_foreign_bytes(name: str, tmp_path: Path) -> None:
    """No crash and no undocumented exception; and the fuzzer found inputs that go further than those it had."""
    seeds, errors = tmp_path / "seeds", tmp_path / "errors"
    seeds.mkdir()
    for number, seed in enumerate(SEEDS[name]):
        (seeds / str(number)).write_bytes(seed)
    if name in fuzz_target.targets(tmp_path):
        target = [sys.executable, REPOSITORY / "tests/fuzz_target.py", name, tmp_path / "input", errors]
    else:
        run("make", "-s", "-C", CHECKER, f"OUT={tmp_path}", "CC=afl-cc", name)
        target = [tmp_path / name, *([tmp_path / "input", "0"] if name == "symbols-cli" else [])]
    words = ["-i", seeds, "-o", tmp_path / "out", "-V", str(SECONDS), "-t", "2000+", "-m", "none"]
    environment = dict.fromkeys(("AFL_SKIP_BIN_CHECK", "AFL_NO_UI", "AFL_SKIP_CPUFREQ", "AFL_NO_AFFINITY"), "1")
    environment |= {"AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_MAP_SIZE": str(fuzz_target.MAP), **os.environ}
    words += ["-f", tmp_path / "input"] if name != "trace-cli" else []
    done = subprocess.run(["afl-fuzz", *words, "--", *target], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    crashes = [path.read_bytes()[:300] for path in (tmp_path / "out/default/crashes").glob("id*")]
    assert not crashes, f"{crashes[0]!r}\n{errors.read_text() if errors.exists() else ''}"
    assert len(list((tmp_path / "out/default/queue").glob("id*"))) > len(SEEDS[name])
