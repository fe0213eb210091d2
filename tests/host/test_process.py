# SPDX-License-Identifier: GPL-2.0-only
"""Children go with us, however we go."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import FAKE, Tool

from lull import process
from lull.errors import LullError, MissingError


def alive(pid: int) -> bool:
    """Is there a process that still runs (a zombie does not)?"""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(path: Path) -> str:
    """The contents of a file that is about to be written."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        if path.exists() and path.read_text().endswith("\n"):
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def test_children_end_with_the_body(tmp_path: Path) -> None:
    """A child that ignores SIGTERM, and its own child, are gone when the body is left."""
    script = f"trap '' TERM; sleep 100 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(ValueError), process.started(["sh", "-c", script]) as child:
        grandchild = int(wait_for(tmp_path / "pid"))
        raise ValueError
    assert child.poll() is not None
    limit = time.monotonic() + 5
    while alive(grandchild) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not alive(grandchild)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_build_ends_with_us(tool: Tool, fake_tree: Path, number: signal.Signals, heard: None) -> None:
    """Ctrl-C, a timeout, a lost terminal: make is gone too, and the exit code says interrupted."""
    pid = tool.cwd / "pid"
    makefile = fake_tree / "Makefile"
    makefile.write_text(
        makefile.read_text().replace('\t@echo "  CC      init/main.o"', f"\t@echo $$PPID > {pid}; sleep 100")
    )
    child = tool.start(
        "build", "--kernel", "stock", "--offline", "--base", str(FAKE / "bases/fake.toml"), "--tree", str(fake_tree)
    )
    make = int(wait_for(pid))
    child.send_signal(number)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130, errors
    assert not alive(make)


@pytest.mark.parametrize("new_group", [True, False])
def test_programs_of_other_threads_end_with_an_exception(new_group: bool) -> None:
    """Whether or not they have a process group of their own; none is listed as running afterwards."""
    begun = threading.Event()
    ended: list[int] = []

    def work() -> None:
        with process.started(["sleep", "60"], new_group=new_group) as program:
            begun.set()
            ended.append(program.wait(30))

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="enough"), process.ended_with_us():
        pool.submit(work)
        begun.wait(30)
        raise ValueError("enough")
    assert ended == [-signal.SIGTERM]
    assert process.running == {}


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    """As one that does not exist."""
    with pytest.raises(MissingError), process.started([tmp_path]):
        pass


def test_a_failing_command_shows_its_last_words(tmp_path: Path) -> None:
    """The command, the log, and the tail of it are in the error."""
    with pytest.raises(LullError) as caught:
        process.run_logged(["sh", "-c", "echo much; echo trouble >&2; exit 3"], tmp_path / "log")
    assert "status 3" in caught.value.what
    assert "trouble" in caught.value.tail
    assert str(tmp_path / "log") in caught.value.where
    assert (tmp_path / "log").read_text().startswith("$ sh -c")


def test_a_compiler_is_quoted(tmp_path: Path) -> None:
    """Its error, though make has gone on with other files."""
    script = "echo CC a.o; echo 'a.h:3:10: fatal err''or: b.h: No such file'; seq 100; exit 2"
    with pytest.raises(LullError) as caught:
        process.run_logged(["sh", "-c", script], tmp_path / "log")
    assert caught.value.tail.splitlines()[0] == "a.h:3:10: fatal error: b.h: No such file"
    assert len(caught.value.tail.splitlines()) == process.TAIL_LINES


def test_a_missing_program_is_told() -> None:
    """Not a traceback."""
    for call in (lambda: process.output_of(["no-such-program"]), lambda: process.complete(["no-such-program"])):
        with pytest.raises(MissingError):
            call()
    with pytest.raises(MissingError), process.started(["no-such-program"], stdout=subprocess.DEVNULL):
        pass


def test_a_command_that_takes_too_long() -> None:
    """It is ended, and named without its folder."""
    with pytest.raises(LullError, match=r"^sleep did not end within 0\.1 s"):
        process.complete(["/bin/sleep", "60"], seconds=0.1)
