# SPDX-License-Identifier: GPL-2.0-only
"""The parsers of foreign bytes, for AFL++: ``python tests/fuzz_target.py NAME FILE ERRORS``.

It speaks the protocol of AFL's fork server, and runs all inputs in one process. Edges are pairs of lines of src/lull.
What a parser raises and does not say that it raises is a crash; its traceback is added to the file ERRORS.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

from lull.check import image, plugin_output, unpack  # noqa: E402
from lull.errors import LullError  # noqa: E402
from lull.guest.runner import Follower  # noqa: E402
from lull.linux import apt, debian, kallsyms, symbols, toolchain  # noqa: E402
from lull.run.records import Results  # noqa: E402
from lull.selftests import ktap  # noqa: E402

FROM_FUZZER, TO_FUZZER = 198, 199
"""The file descriptors of the fork server."""
MAP = 1 << 16
PARSER = Path(__file__).parents[1] / "src/lull"
NOBODY = 1 << 30
"""AFL kills this process if an input takes too long. No process has this number."""


def whole_image(data: bytes) -> None:
    """What `lull check IMAGE` reads of the file, until its symbols."""
    if image.check_kind(data, "Image"):
        kallsyms.linked_at(data)
        image.with_sme_erratum(data, "Image")
    else:
        unpack.unpack_image(data, "Image", offline=True)


def some_symbols(data: bytes) -> None:
    """A System.map, and what is asked of it."""
    found = symbols.parse_map(data.decode(errors="replace"), "System.map")
    found.functions()
    image.with_8_bit_asids(bytes(4096), found, "Image")


def results_of_guest(data: bytes) -> None:
    """The lines that the guest writes."""
    follower = Follower(Path("results.jsonl"), 1, lambda job: 1, lambda text: None)
    for line in data.split(b"\n"):
        follower.take(line)


def reports(file: Path) -> Callable[[bytes], None]:
    """The lines of the plugin, in a file."""

    def target(data: bytes) -> None:
        file.write_bytes(data)
        output = plugin_output.read_reports([file])
        plugin_output.unseen(output.end)
        for report in output.reports:
            plugin_output.lines(report)

    return target


def sources(folder: Path) -> Callable[[bytes], None]:
    """A list of archives of apt, in both forms."""
    files = [folder / "fuzz.list", folder / "fuzz.sources"]

    def target(data: bytes) -> None:
        for file in files:
            file.write_bytes(data)
        apt.entry_options("http://a.example/debian", "stable", files)

    return target


def targets(folder: Path) -> dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...]]]:
    """Name -> a parser and the errors that it documents. ``folder`` takes what parsers read from files."""
    return {
        "image": (whole_image, (LullError,)),
        "symbols": (some_symbols, (LullError,)),
        "module": (debian.depends, ()),
        "ktap": (lambda data: ktap.parse(data.decode(errors="replace")), (ValueError,)),
        "guest": (results_of_guest, (LullError,)),
        "reports": (reports(folder / "reports.jsonl"), (LullError,)),
        "console": (lambda data: plugin_output.of_console(data.decode(errors="replace"), 0), ()),
        "results": (lambda data: Results.from_json(data.decode(errors="replace")), (ValueError,)),
        "sources": (sources(folder), ()),
    }


def shared_map() -> Any:
    """The bytes in which the fuzzer counts edges; without a fuzzer, bytes of our own."""
    if "__AFL_SHM_ID" not in os.environ:
        return (ctypes.c_ubyte * MAP)()
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    return (ctypes.c_ubyte * MAP).from_address(libc.shmat(int(os.environ["__AFL_SHM_ID"]), None, 0))


class Tracer:
    """Counts pairs of lines that follow each other, in ``seen``."""

    def __init__(self, seen: Any) -> None:
        self.seen, self.last, self.codes = seen, 0, dict[CodeType, int]()

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code not in self.codes:
            ours = Path(code.co_filename).is_relative_to(PARSER)
            self.codes[code] = zlib.crc32(f"{code.co_filename}:{code.co_qualname}".encode()) if ours else -1
        return self.line if self.codes[code] >= 0 else None

    def line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            place = (self.codes[frame.f_code] + frame.f_lineno * 0x9E3779B1) % MAP
            at = self.last ^ place
            self.seen[at] = min(self.seen[at] + 1, 255)
            self.last = place >> 1
        return self.line


def main(name: str, file: Path, errors: Path) -> None:
    """Run inputs as long as the fuzzer asks for it; or, without one, the one input that is there."""
    parser, allowed = targets(errors.parent)[name]
    tracer = Tracer(shared_map())

    def one() -> int:
        data, tracer.last = file.read_bytes(), 0
        sys.settrace(tracer)
        try:
            parser(data)
        except allowed:
            pass
        except Exception:
            sys.settrace(None)
            with errors.open("a") as log:
                print(repr(data[:200]), traceback.format_exc(limit=-3), file=log)
            return signal.SIGABRT
        finally:
            sys.settrace(None)
        return 0

    try:
        os.write(TO_FUZZER, bytes(4))
    except OSError:
        sys.exit(one())
    while len(os.read(FROM_FUZZER, 4)) == 4:
        os.write(TO_FUZZER, struct.pack("<I", NOBODY))
        os.write(TO_FUZZER, struct.pack("<I", one()))


if __name__ == "__main__":
    toolchain.slowness = lambda: 1.0  # it measures the host
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
