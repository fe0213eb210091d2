#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Python program of all that an interpreter does with memory: threads, mappings, garbage, processes.

    program.py SIZE

What it makes of its numbers is known, and must come out.
"""

from __future__ import annotations

import gc
import hashlib
import mmap
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import weakref
from queue import Queue

from measure import verify, window

WORKERS = 4
MAPPED = 4 << 20
"""Bytes of a mapping."""


def digest(number: int, size: int) -> str:
    """Something to compute: of memory that is filled, and given back."""
    block = bytearray(number.to_bytes(4) * (64 << 10))
    for place in range(0, len(block), len(block) // size):
        block[place] ^= place & 0xFF
    return hashlib.sha256(block).hexdigest()


def threads(size: int) -> list[str]:
    """Threads that take numbers from a queue."""
    todo: Queue[int | None] = Queue()
    found: dict[int, str] = {}

    def work() -> None:
        while (number := todo.get()) is not None:
            found[number] = digest(number, size)

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for number in [*range(size), *(None for _ in workers)]:
        todo.put(number)
    for worker in workers:
        worker.join()
    return [found[number] for number in range(size)]


def mappings(size: int) -> list[str]:
    """Mappings of a file and of memory, written, compared, given back in parts."""
    found = []
    with tempfile.TemporaryFile() as file:
        file.truncate(MAPPED)
        for turn in range(size // 4):
            with mmap.mmap(file.fileno(), MAPPED) as shared, mmap.mmap(-1, MAPPED, mmap.MAP_PRIVATE) as own:
                for place in range(0, MAPPED, mmap.PAGESIZE):
                    shared[place : place + 4] = own[place : place + 4] = (turn + place).to_bytes(4)
                own.madvise(mmap.MADV_DONTNEED, 0, MAPPED // 2)
                shared.flush()
                verify(not any(own[: MAPPED // 2]), "what was given back is not empty")
                verify(own[MAPPED // 2 :] == shared[MAPPED // 2 :], "two mappings differ")
                found.append(hashlib.sha256(shared).hexdigest())
    return found


class Ring:
    """Half of something that only the collector of garbage can take apart."""

    def __init__(self, number: int) -> None:
        self.load = bytearray(1000)
        self.load[0] = number & 0xFF
        self.other: Ring | None = None


def garbage(size: int) -> int:
    """Cycles that are collected, while others are still in use; how many were collected."""
    kept, seen = [], []
    for number in range(100 * size):
        one, two = Ring(number), Ring(number + 1)
        one.other, two.other = two, one
        if number % 10:
            seen.append(weakref.ref(one))
        else:
            kept.append(one)
    del one, two
    gc.collect()
    verify(all(r.load[0] == 10 * n & 0xFF and r.other for n, r in enumerate(kept)), "something in use was collected")
    return sum(ref() is None for ref in seen)


def children(size: int) -> list[str]:
    """Programs that are started, and read from."""
    script = 'echo "$1" | sha256sum'
    done = [
        subprocess.run(["sh", "-c", script, "sh", str(n)], capture_output=True, text=True, check=True)
        for n in range(size)
    ]
    return [d.stdout.split()[0] for d in done]


def forked(size: int) -> list[str]:
    """Processes that are forks of this one, with all that it has."""
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        return pool.starmap(digest, [(number, size) for number in range(size)])


def work(size: int, output: str) -> None:
    """What the window is about."""
    found = [*threads(size), *mappings(size), garbage(size), *children(size), *forked(size)]
    with open(output, "w") as file:
        print(*found, file=file)


def expected(size: int) -> list[str]:
    """The same, by one thread that maps nothing and starts nobody."""
    digests = [digest(number, size) for number in range(size)]
    mapped = []
    for turn in range(size // 4):
        pages = ((turn + place).to_bytes(4) for place in range(0, MAPPED, mmap.PAGESIZE))
        mapped.append(hashlib.sha256(b"".join(page.ljust(mmap.PAGESIZE, b"\0") for page in pages)).hexdigest())
    texts = [hashlib.sha256(f"{number}\n".encode()).hexdigest() for number in range(size)]
    return [*digests, *mapped, str(90 * size), *texts, *digests]


def main() -> None:
    """Run it in a window, and compare."""
    size = int(sys.argv[1])
    with tempfile.NamedTemporaryFile("r") as output:
        window([sys.executable, sys.argv[0], "work", str(size), output.name], operations=size, unit="round")
        verify(output.read().split() == expected(size), "the results are not those of one thread alone")


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(int(sys.argv[2]), sys.argv[3])
    else:
        main()
