# SPDX-License-Identifier: GPL-2.0-only
"""The engine of a sweep, Dask's scheduler: in this process for this machine alone, at an address for others to join.

Each machine has one worker with as many threads as it runs jobs at once; a job is a process that its thread waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lull import cache, extras
from lull.errors import LullError, UsageError
from lull.sweep import job as sweep_job
from lull.sweep.job import Done, Order, Stopped, stopping

EXTRA = "sweep"
"""requirements-sweep.txt"""
BEGUN = "lull-begun"
FINGERPRINT = "lull-fingerprint"
"""What the engine's machines tell each other."""
LOST = -1
"""Instead of an exit code: the machine that had the job is gone."""
PATIENCE = 60.0
"""Seconds in which a machine that joins must find a sweep."""
INTERVAL = 0.3
PAGES = "127.0.0.1:0"
"""Where its pages for people are, of which we leave none: it has a port for them in any case."""


@dataclass(frozen=True)
class Address:
    """Where the scheduler listens: ``tcp://HOST:PORT``, or ``tls://`` with Dask's own configuration of certificates."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}://{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """An address of the command line. Raises UsageError."""
    match = re.fullmatch(r"(tcp|tls)://([^/\s]+):(\d+)", text)
    if not match or not 0 < int(match[3]) < 1 << 16:
        raise UsageError(f"'{text}' is no address", remedy="write tcp://HOST:PORT or tls://HOST:PORT")
    return Address(match[1], match[2], int(match[3]))


def load(*, offline: bool) -> Any:
    """The module ``distributed``, silent, and set to how we use it."""
    extras.use(EXTRA, offline=offline)
    import dask
    import distributed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    dask.config.set(
        {
            "temporary-directory": str(cache.root() / "dask"),
            # A job waits at the scheduler until a thread is free, and is moved from who has several to who has none.
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.scheduler.default-task-durations": {"job": "10m"},
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            # A machine that is lost, not a job that failed: that is told by its exit code.
            "distributed.scheduler.allowed-failures": 3,
        }
    )
    return distributed


def worker_options(distributed: Any) -> dict[str, Any]:
    """Options of each machine's worker. The jobs' memory is not its own to limit."""

    class Stop(distributed.WorkerPlugin):  # type: ignore[misc]
        """When the worker closes, its jobs end."""

        def teardown(self, worker: Any) -> None:
            """Called before the worker waits for its threads."""
            stopping.set()

    return {"memory_limit": 0, "plugins": [Stop()]}


@dataclass
class Engine:
    """A scheduler under way.

    Args:
        client: Dask's.
    """

    client: Any
    _begun: list[tuple[str, str]] = field(default_factory=list)

    def perform(self, orders: Sequence[Order]) -> Iterator[Done | str | None]:
        """Have all orders performed. Yields a job's name when it is begun, how each ended, and None now and then.

        A job whose machine was lost, three times over, ended with status LOST.
        """

        def heard(event: tuple[float, str]) -> None:
            begun.append(event[1])

        begun: list[str] = []
        self.client.subscribe_topic(BEGUN, heard)
        # The first part of a key is what Dask takes for the kind of a task.
        futures = {self.client.submit(performed, order, key=("job", order.name)): order for order in orders}
        while futures:
            for future in [future for future in futures if future.done()]:
                if done := ended(future, futures[future]):
                    del futures[future]
                    yield done
            while begun:
                yield begun.pop(0)
            yield None
            time.sleep(INTERVAL)


def ended(future: Any, order: Order) -> Done | None:
    """How a job ended; None when its machine left, and another gets it. Raises what the engine, or we, did wrong."""
    from distributed import KilledWorker

    try:
        done: Done = future.result()
    except Stopped:
        future.retry()
        return None
    except KilledWorker:
        return Done(order.name, LOST, 0.0)
    return done


def performed(order: Order) -> Done:
    """Perform an order in a worker's thread, and say that it has begun."""
    from distributed import get_worker

    get_worker().log_event(BEGUN, order.name)
    return sweep_job.perform(order)


@contextlib.contextmanager
def running(workers: int, listen: Address | None, *, offline: bool) -> Iterator[Engine]:
    """An engine with a worker in this process, which runs ``workers`` jobs at once (0: only others work).

    Args:
        listen: where other machines may join; None: nobody can.

    Raises: FetchError, and LullError when it cannot listen there.
    """
    distributed = load(offline=offline)
    stopping.clear()
    where: dict[str, Any] = (
        {"protocol": listen.protocol, "host": listen.host, "scheduler_port": listen.port} if listen else {}
    )
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=min(workers, 1),
                    threads_per_worker=max(workers, 1),
                    processes=False,
                    dashboard_address=PAGES,
                    worker_dashboard_address=PAGES,
                    silence_logs=logging.CRITICAL,
                    **where,
                    **worker_options(distributed),
                )
            )
            client = stack.enter_context(distributed.Client(cluster))
        except (OSError, RuntimeError, ValueError) as error:
            reason = error.__cause__ or error
            raise LullError(
                f"the engine does not start: {reason}",
                where=str(listen or ""),
                remedy="--listen takes an address of this machine and a free port",
            ) from error
        client.set_metadata([FINGERPRINT], sweep_job.fingerprint())
        try:
            yield Engine(client)
        finally:
            stopping.set()


def join(address: Address, workers: int, *, offline: bool) -> None:
    """Work for a sweep elsewhere until it is over.

    Raises: LullError when there is no sweep; UsageError when it is of another Lull than this.
    """
    distributed = load(offline=offline)
    stopping.clear()
    check_same(distributed, address)

    async def serve() -> None:
        options = {"nthreads": workers, "dashboard_address": PAGES, "silence_logs": logging.CRITICAL}
        async with distributed.Worker(str(address), **options, **worker_options(distributed)) as worker:
            await worker.finished()

    try:
        asyncio.run(serve())
    finally:
        stopping.set()


def check_same(distributed: Any, address: Address) -> None:
    """Raise UsageError unless the sweep's machine has the same Lull as this one; LullError when there is no sweep."""
    deadline = time.monotonic() + PATIENCE
    theirs = None
    while theirs is None and time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            distributed.Client(str(address), timeout=deadline - time.monotonic()) as client,
        ):
            theirs = client.get_metadata([FINGERPRINT], default=None)
        time.sleep(INTERVAL)
    if theirs is None:
        raise LullError(f"there is no sweep at {address}", remedy="begin it with 'lull sweep --listen', then join")
    if theirs != sweep_job.fingerprint():
        raise UsageError(
            f"the sweep at {address} is of another Lull than this", remedy="check out the same commit, without changes"
        )
