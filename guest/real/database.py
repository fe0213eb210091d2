#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""redis-server writes a snapshot in the background while a client changes what is in it.

    database.py KEYS WRITES

A fork whose both sides use their memory: each first write to a page, by the server, is a copy. What the snapshot must
hold is what was there at the fork: another server loads it, and has the digest that the first had before.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from measure import verify, wait, window

PLACE = "/tmp/database"
BYTES = 1000
"""Of a value."""
BATCH = 100
"""Commands that are under way at once."""


def encoded(*words: str) -> bytes:
    """A command as it is sent."""
    data = [word.encode() for word in words]
    return b"".join([b"*%d\r\n" % len(data), *(b"$%d\r\n%s\r\n" % (len(d), d) for d in data)])


class Client:
    """A connection to a server (RESP: redis.io/docs/reference/protocol-spec)."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")

    def answer(self) -> str:
        """The answer to the next command, a text or a number."""
        line = self.lines.readline().decode().rstrip("\r\n")
        verify(line[:1] in ("+", ":", "$"), f"the server said {line!r}")
        if line[0] != "$":
            return line[1:]
        return self.lines.read(int(line[1:]) + 2)[:-2].decode() if line != "$-1" else ""

    def ask(self, *words: str) -> str:
        """Send a command, wait for its answer."""
        self.socket.sendall(encoded(*words))
        return self.answer()

    def info(self, section: str, name: str) -> str:
        """A value of INFO."""
        rows = (row.partition(":") for row in self.ask("INFO", section).splitlines())
        return next(value for key, _, value in rows if key == name)


@contextmanager
def server(name: str, *more: str) -> Iterator[str]:
    """A server with nothing but its memory and one file; the path of its socket."""
    path = f"{PLACE}/{name}.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", PLACE, "--save", "", "--dbfilename"]
    words += ["dump.rdb", "--enable-debug-command", "local", "--logfile", f"{PLACE}/{name}.log", *more]
    process = subprocess.Popen(words)
    try:
        wait(lambda: os.path.exists(path) or process.poll() is not None, "the server")
        verify(process.poll() is None, f"the server ended with status {process.returncode}")
        yield path
    finally:
        process.kill()
        process.wait()


def value(number: int, turn: str) -> str:
    """What a key is set to."""
    return f"{turn} {number:07}".ljust(BYTES, ".")


def changed(keys: int, writes: int) -> range:
    """The numbers of the keys that are written during the snapshot: spread over all of them."""
    return range(0, keys, keys // writes)[:writes]


def batches(numbers: range, turn: str) -> list[bytes]:
    """The commands that set keys, as many in a piece as are under way at once."""
    pieces = [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]
    return [b"".join(encoded("SET", f"key:{n}", value(n, turn)) for n in piece) for piece in pieces]


def put(client: Client, commands: list[bytes]) -> None:
    """Set keys."""
    for batch in commands:
        client.socket.sendall(batch)
        expected = b"+OK\r\n" * batch.count(b"SET\r\n")
        verify(client.lines.read(len(expected)) == expected, "a key was not set")


def loaded(client: Client) -> bool:
    """Whether the server has read its file."""
    return client.info("persistence", "loading") == "0"


def during(path: str, keys: int, writes: int) -> None:
    """What the window is about: a snapshot, and the writes meanwhile."""
    client, commands = Client(path), batches(changed(keys, writes), "later")
    client.ask("BGSAVE")
    put(client, commands)
    wait(lambda: client.info("persistence", "rdb_bgsave_in_progress") == "0", "the snapshot")


def main() -> None:
    """Load, snapshot under writes, and look at both."""
    keys, writes = int(sys.argv[1]), int(sys.argv[2])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.mkdir(PLACE)
    with server("first") as path:
        client = Client(path)
        put(client, batches(range(keys), "before"))
        digest = client.ask("DEBUG", "DIGEST")
        command = [sys.executable, sys.argv[0], "during", path, str(keys), str(writes)]
        window(command, operations=writes, unit="write")
        verify(client.info("persistence", "rdb_last_bgsave_status") == "ok", "the snapshot failed")
        copied = int(client.info("persistence", "rdb_last_cow_size"))
        # Where everything is slow, some of the writes come when the snapshot is over.
        verify(4 * copied >= writes * BYTES, f"{copied} bytes were copied: the snapshot was over before the writes")
        for number in changed(keys, writes):
            verify(client.ask("GET", f"key:{number}") == value(number, "later"), f"key {number} has lost a write")
        verify(client.ask("DEBUG", "DIGEST") != digest, "the writes changed nothing")
    with server("second") as path:
        client = Client(path)
        wait(lambda: loaded(client), "the snapshot to be read")
        verify(client.ask("DBSIZE") == str(keys), f"the snapshot has {client.ask('DBSIZE')} keys")
        verify(client.ask("DEBUG", "DIGEST") == digest, "the snapshot is not what was there at the fork")
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    if sys.argv[1] == "during":
        during(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
