# SPDX-License-Identifier: GPL-2.0-only
"""Run other programs.

``commands`` has every command. ``run_logged`` also logs the output. ``started`` ends the program when its with-block is
left, and with it the programs that it started and that are still in its process group.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull.errors import LullError, MissingError

commands: list[str] = []
"""Every command that this tool started or tried to start, as a shell line; results.json lists them."""

running: dict[subprocess.Popen[bytes], bool] = {}
"""The programs whose with-block of ``started`` has not been left, and whether each has a process group of its own."""
TAIL_LINES = 15
DEVNULL = subprocess.DEVNULL


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of this process, with the variables of ``extra`` added or replaced."""
    return {**os.environ, **(extra or {})}


def shown(argv: Sequence[str | Path]) -> str:
    """``argv`` as one shell line."""
    return shlex.join(str(a) for a in argv)


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, of its last 64 KiB; undecodable bytes are replaced. Empty when there is no such file."""
    if not path.exists():
        return ""
    with open(path, "rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 64 * 1024))
        text = handle.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def reason(log: Path) -> str:
    """What a failed command said: its log from the compiler's or linker's first error on, or else the log's end."""
    text = tail(log, 10000).splitlines()
    wrong = (i for i, line in enumerate(text) if re.search(r":\d+: (fatal )?error: |: undefined reference to ", line))
    first = min(next(wrong, len(text)), max(0, len(text) - TAIL_LINES))
    return "\n".join(text[first : first + TAIL_LINES])


def missing_program(name: str) -> MissingError:
    """The error for a program that is not installed."""
    return MissingError(f"{name} is not installed", remedy="'./lull doctor' prints the command that installs it")


@contextlib.contextmanager
def started(
    argv: Sequence[str | Path], *, new_group: bool = True, grace: float = 3.0, **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``argv`` while the with-block runs; see ``stop`` for what happens when the block is left.

    Args:
        new_group: start it in a session of its own, so that Ctrl-C does not reach it, and stop its whole process group.
        grace: seconds to wait after SIGTERM, and again after SIGKILL.
        options: further arguments of subprocess.Popen.

    Raises: MissingError when the program is not installed.
    """
    words = [str(a) for a in argv]
    commands.append(shown(words))
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
            words, start_new_session=new_group, **options
        )
    except (FileNotFoundError, PermissionError) as error:
        raise missing_program(words[0]) from error
    running[process] = new_group
    try:
        yield process
    finally:
        stop(process, group=new_group, grace=grace)
        del running[process]


def stop(process: subprocess.Popen[bytes], *, group: bool = True, grace: float = 3.0) -> None:
    """Send SIGTERM to ``process`` and, if it has not ended after ``grace`` seconds, SIGKILL. Nothing if it has ended.

    Args:
        group: send the signals to its process group.
        grace: seconds to wait after each signal.
    """
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, sig)
            else:
                process.send_signal(sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)


@contextlib.contextmanager
def ended_with_us() -> Iterator[None]:
    """If an exception, also Ctrl-C, leaves the with-block, stop every running program, whichever thread started it."""
    try:
        yield
    except BaseException:
        for process, group in list(running.items()):
            stop(process, group=group)
        raise


def run_logged(
    argv: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    line: Callable[[str], None] | None = None,
    error: type[LullError] = LullError,
    what: str = "",
    remedy: str = "",
) -> None:
    """Run ``argv`` to its end, and append a line ``$ COMMAND`` and its output to ``log``.

    Args:
        cwd: the folder to run it in.
        env: variables to add to the environment.
        line: called with each line of output, to show progress.
        error: the error to raise, with the log's tail, when the exit status is not 0.
        what: the message of that error; by default that the program failed.
        remedy: what the user can do about it.

    Raises: ``error``, and MissingError when the program is not installed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(log, "ab", buffering=0) as out,
        started(
            argv,
            cwd=cwd,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        out.write(f"$ {shown(argv)}\n".encode())
        assert process.stdout is not None
        for raw in process.stdout:
            out.write(raw)
            if line:
                line(raw.decode(errors="replace").rstrip("\n"))
        status = process.wait()
    if status != 0:
        raise error(
            what or f"{Path(str(argv[0])).name} failed with status {status}",
            where=f"{log} ($ {shown(argv)})",
            remedy=remedy,
            tail=reason(log),
        )


@dataclass(frozen=True)
class ProcessEnd:
    """The exit status of a command, its output, and its standard error if that was kept apart."""

    status: int
    output: str
    errors: str = ""


def complete(
    argv: Sequence[str | Path],
    *,
    apart: bool = False,
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> ProcessEnd:
    """Run a short command to its end, and return its status and output. A failure raises nothing.

    Args:
        apart: keep standard error apart from standard output.
        env: variables to add to the environment.
        seconds: how long it may take; None: as long as it likes.

    Raises: MissingError when the program is not installed; LullError when it takes longer than it may.
    """
    words = [str(a) for a in argv]
    commands.append(shown(words))
    try:
        done = subprocess.run(
            words,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as late:
        raise LullError(f"{Path(words[0]).name} did not end within {seconds:g} s") from late
    except (FileNotFoundError, PermissionError) as missing:
        raise missing_program(words[0]) from missing
    return ProcessEnd(done.returncode, done.stdout, done.stderr or "")


def output_of(
    argv: Sequence[str | Path], *, error: type[LullError] = LullError, env: Mapping[str, str] | None = None
) -> str:
    """The standard output of a short command. When it fails, raise ``error`` with the last lines that it wrote."""
    done = complete(argv, apart=True, env=env)
    if done.status != 0:
        raise error(
            f"{Path(str(argv[0])).name} failed with status {done.status}",
            where=f"$ {shown(argv)}",
            tail="\n".join((done.errors or done.output).splitlines()[-TAIL_LINES:]),
        )
    return done.output
