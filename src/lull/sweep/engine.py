# SPDX-License-Identifier: GPL-2.0-only
"""Distribute the jobs of a sweep with Dask's scheduler, which runs in this process.

Without an address only this machine works; with one, other machines may join. Each machine has one Dask worker with as
many threads as jobs run on it at once. A job is a process, and a thread waits for its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lull import cache, extras
from lull.errors import LullError, UsageError
from lull.sweep import job as sweep_job
from lull.sweep.job import JobEnd, Order, Stopped, stopping

EXTRA = "sweep"
"""The NAME in requirements-NAME.txt with the packages of Dask."""
BEGUN = "lull-begun"
"""The topic under which workers announce the jobs that they begin."""
FINGERPRINT = "lull-fingerprint"
"""The key under which the scheduler keeps the fingerprint of its Lull (sweep.job.fingerprint)."""
LOST = -1
"""Stands for the exit code of a job whose machine was lost."""
PATIENCE = 60.0
"""Seconds within which a machine that joins must find a sweep."""
INTERVAL = 0.3
PAGES = "127.0.0.1:0"
"""The address of Dask's web pages. load() removes all pages, but Dask opens a port in any case: this one is local."""


@dataclass(frozen=True)
class Address:
    """The scheduler's address: ``tcp://HOST:PORT``, or ``tls://`` with the certificates of Dask's configuration."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol}://{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address that ``text`` names. Raises UsageError when it is malformed."""
    match = re.fullmatch(r"(tcp|tls)://([^/\s]+):(\d+)", text)
    if not match or not 0 < int(match[3]) < 1 << 16:
        raise UsageError(f"'{text}' is not an address", remedy="write tcp://HOST:PORT or tls://HOST:PORT")
    return Address(match[1], match[2], int(match[3]))


def load(*, offline: bool) -> Any:
    """Import Dask's module ``distributed``, configure it, and silence its log. Raises FetchError."""
    extras.use(EXTRA, offline=offline)
    import dask
    import distributed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    dask.config.set(
        {
            "temporary-directory": str(cache.root() / "dask"),
            # A job stays at the scheduler until a worker has a free thread. Jobs take minutes, so that Dask finds it
            # worthwhile to move one from a worker with several to an idle worker.
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.scheduler.default-task-durations": {"job": "10m"},
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            # Lost machines after which a job is given up. A job that fails does not count: it has an exit code.
            "distributed.scheduler.allowed-failures": 3,
        }
    )
    return distributed


def worker_options(distributed: Any) -> dict[str, Any]:
    """Options of each machine's worker. Jobs are processes of their own, so that Dask must not limit memory."""

    class Stop(distributed.WorkerPlugin):  # type: ignore[misc]
        """Ends the jobs of a worker when it closes."""

        def teardown(self, worker: Any) -> None:
            """End the jobs; Dask calls this before the worker waits for its threads."""
            stopping.set()

    return {"memory_limit": 0, "plugins": [Stop()]}


def perform(client: Any, orders: Sequence[Order]) -> Iterator[JobEnd | str | None]:
    """Perform all orders with the scheduler of Dask's ``client``.

    Yields a job's name when it begins, a JobEnd when it ends, and None every INTERVAL seconds. A job whose machine was
    lost three times ends with status LOST.
    """
    begun: list[str] = []
    client.subscribe_topic(BEGUN, lambda event: begun.append(event[1]))
    # Dask takes the first part of a key for the kind of task; default-task-durations refers to it.
    futures = {client.submit(performed, order, key=("job", order.name)): order for order in orders}
    while futures:
        for future in [future for future in futures if future.done()]:
            if done := ended(future, futures[future]):
                del futures[future]
                yield done
        while begun:
            yield begun.pop(0)
        yield None
        time.sleep(INTERVAL)


def ended(future: Any, order: Order) -> JobEnd | None:
    """The end of a job; None when its machine left, after which the job is given to another machine.

    Any other exception of the task is a defect, and is raised.
    """
    from distributed import KilledWorker

    try:
        done: JobEnd = future.result()
    except Stopped:
        future.retry()
        return None
    except KilledWorker:
        return JobEnd(order.name, LOST, 0.0)
    return done


def performed(order: Order) -> JobEnd:
    """Perform an order in a thread of a worker, and announce that it begins. Raises Stopped."""
    from distributed import get_worker

    get_worker().log_event(BEGUN, order.name)
    return sweep_job.perform(order)


@contextlib.contextmanager
def running(workers: int, listen: Address | None, *, offline: bool) -> Iterator[Any]:
    """Run a scheduler for the body. Yields Dask's client.

    Args:
        workers: jobs to run at once on this machine; 0: only other machines work.
        listen: the address where other machines may join; None: none may.

    Raises: FetchError; LullError when it cannot listen at the address.
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
                f"Dask's scheduler does not start: {reason}",
                where=str(listen or ""),
                remedy="name an address of this machine and a free port with --listen",
            ) from error
        client.set_metadata([FINGERPRINT], sweep_job.fingerprint())
        try:
            yield client
        finally:
            stopping.set()


def join(address: Address, workers: int, *, offline: bool) -> None:
    """Work for the sweep of another machine until it is over.

    Args:
        address: the address at which that sweep listens.
        workers: jobs to run at once on this machine.

    Raises: LullError when there is no sweep; UsageError when the sources of Lull differ between the machines.
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
    """Compare the sources of Lull on this machine and on that of the sweep.

    Raises: UsageError when they differ; LullError when no sweep answers within PATIENCE seconds.
    """
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
        raise LullError(f"there is no sweep at {address}", remedy="start it with 'lull sweep --listen', then join")
    if theirs != sweep_job.fingerprint():
        raise UsageError(
            f"the sweep at {address} has other sources of Lull than this machine",
            remedy="check out the same commit on both, without changes",
        )
