# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel that has KUnit, and read from its console how the cases ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lull.errors import GuestGarbage
from lull.guest.qemu import Machine
from lull.guest.runner import Guest, launch_retrying
from lull.progress import say
from lull.selftests import HVO_APPEND, ktap

MEMORY_MIB = 6144
"""Memory of the guest: some cases need HugeTLB pages of 1 GiB."""
ONLINE = 4
OFFLINE = 9
"""CPUs that stay offline: a flush reads 8 CPUs before it looks, and the KUnit suite of residency needs one more."""
LIMIT_FACTOR = 4
"""Factor on the time limit until user space, before which the suites run: all of Lull's take 46 s where the host's CPUs
are idle, 37 of them in test_reference."""


def machine(cpu: str = Machine.cpu) -> Machine:
    """The machine to boot on."""
    return Machine(vcpus=ONLINE + OFFLINE, cpu=cpu, memory_mib=MEMORY_MIB)


def cases(guest: Guest, folder: Path, tell: Callable[[str], None]) -> list[ktap.Case]:
    """The cases of all suites that the parameters of ``guest`` choose, booted with its logs in ``folder``.

    Args:
        tell: called with what the guest begins to do.

    Raises: GuestGarbage when the results on the console are incomplete; the errors of ``launch_retrying``.
    """
    arguments = guest.arguments.replace("quiet loglevel=4", f"loglevel=7 maxcpus={ONLINE} {HVO_APPEND}")
    guest = replace(guest, arguments=arguments, limit_factor=LIMIT_FACTOR * guest.limit_factor)
    launch_retrying(guest, "true\n", folder, job_seconds=lambda number: 60, tell=tell, say=say)
    log = folder / "console.log"
    try:
        return ktap.parse(log.read_text(errors="replace"))
    except ValueError as error:
        raise GuestGarbage(
            f"the results of KUnit are incomplete: {error}",
            where=str(log),
            remedy="boot a kernel with CONFIG_KUNIT, and look for the last messages in the console log",
        ) from error
