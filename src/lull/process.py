# SPDX-License-Identifier: GPL-2.0-only
"""Run other programs: each command recorded, its output in a log, killed with its children when we go."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lull.errors import LullError, MissingError

commands: list[str] = []
"""Every command of this process, as a shell would take it; goes into results.json."""

running: set[subprocess.Popen[bytes]] = set()
"""The programs that have been started and have not ended."""
TAIL_LINES = 15
DEVNULL = subprocess.DEVNULL


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment with ``extra`` on top."""
    return {**os.environ, **(extra or {})}


def shown(argv: Sequence[str | Path]) -> str:
    """``argv`` as one shell line."""
    return shlex.join(str(a) for a in argv)


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, decoded leniently; empty when there is none."""
    if not path.exists():
        return ""
    with open(path, "rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 64 * 1024))
        text = handle.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def missing_program(name: str) -> MissingError:
    """The error for a program that is not there."""
    return MissingError(f"{name} is not installed", remedy="see './lull doctor' for the line that installs it")


@contextlib.contextmanager
def started(
    argv: Sequence[str | Path], *, new_group: bool = True, grace: float = 3.0, **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``argv``; when the body is left, however it is left, the process and its children are gone.

    Args:
        new_group: it gets a session of its own, and is ended with all that is in it.
        grace: seconds that it has to end by itself.

    Raises MissingError when the program does not exist.
    """
    words = [str(a) for a in argv]
    commands.append(shown(words))
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
            words, start_new_session=new_group, **options
        )
    except FileNotFoundError as error:
        raise MissingError(
            f"{words[0]} is not installed",
            remedy="see './lull doctor' for the line that installs it",
        ) from error
    running.add(process)
    try:
        yield process
    finally:
        stop(process, group=new_group, grace=grace)
        running.discard(process)


def stop(process: subprocess.Popen[bytes], *, group: bool = True, grace: float = 3.0) -> None:
    """End ``process`` (and its group): politely first, for good after ``grace`` seconds."""
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
    """When the body is left by an exception, also Ctrl-C, end what its other threads have started."""
    try:
        yield
    except BaseException:
        for process in list(running):
            stop(process)
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
    """Run ``argv`` to its end, its output appended to ``log`` behind a ``$ command`` line.

    Args:
        line: called with each line of output, for progress.
        error: raised, with the log's tail, when the exit status is not 0.
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
            tail=tail(log),
        )


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit status, its output, and its errors when they were kept apart."""

    status: int
    output: str
    errors: str = ""


def complete(argv: Sequence[str | Path], *, apart: bool = False, env: Mapping[str, str] | None = None) -> Done:
    """Run a short command to its end, whatever its status. Raises MissingError.

    Args:
        apart: keep what it writes to stderr apart from its output.
        env: more environment.
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
        )
    except (FileNotFoundError, PermissionError) as missing:
        raise missing_program(words[0]) from missing
    return Done(done.returncode, done.stdout, done.stderr or "")


def output_of(
    argv: Sequence[str | Path], *, error: type[LullError] = LullError, env: Mapping[str, str] | None = None
) -> str:
    """Standard output of a short command. Raises ``error`` with the last of its words when it fails."""
    done = complete(argv, apart=True, env=env)
    if done.status != 0:
        raise error(
            f"{Path(str(argv[0])).name} failed with status {done.status}",
            where=f"$ {shown(argv)}",
            tail="\n".join((done.errors or done.output).splitlines()[-TAIL_LINES:]),
        )
    return done.output
