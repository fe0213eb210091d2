# SPDX-License-Identifier: GPL-2.0-only
"""guest/rare_storm.c on the host: each case reaches its state, and fails where the old entry stays in use."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support import host_programs

LIES = """
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int lie(const char *name)
{
	return getenv(name) != NULL;
}

/* Rights are not taken away. */
int mprotect(void *at, size_t size, int rights)
{
	if (lie("RIGHTS") && !(rights & PROT_WRITE) && !(rights & PROT_EXEC))
		return 0;
	return syscall(SYS_mprotect, at, size, rights);
}

/* Pages that were written after MADV_FREE are dropped, too, or none is dropped. */
int madvise(void *at, size_t size, int advice)
{
	if (lie("KEEP") && advice == MADV_DONTNEED)
		return 0;
	if (lie("LOSE") && advice == 21)
		advice = MADV_DONTNEED;
	return syscall(SYS_madvise, at, size, advice);
}

/* What is unmapped can still be read. */
int munmap(void *at, size_t size)
{
	return lie("MAPPED") && size == 2 * (size_t)getpagesize() ? 0 : syscall(SYS_munmap, at, size);
}

/* userfaultfd protects nothing, and leaves what it moves. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *argument;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	if (lie("UFFD") && (request & 0xff) < 0x10 && (request & 0xff) > 0x03)
		return 0;
	return syscall(SYS_ioctl, fd, request, argument);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program for the host, and a library that plays a kernel which is wrong."""
    return host_programs(tmp_path_factory.mktemp("rare"), ["rare_storm"], LIES)


def run(folder: Path, case: str, **lies: str) -> subprocess.CompletedProcess[str]:
    """One case, in one round. Skips the test where the host cannot run it, or does not reach its state."""
    environment = {**os.environ, "LD_PRELOAD": str(folder / "liar.so"), **lies}
    words = [folder / "rare_storm", f"only={case}", "rounds=1", f"patience={1 if lies else 60}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        pytest.skip(done.stderr)
    return done


@pytest.mark.parametrize(
    ("case", "lie", "complaint"),
    [
        ("exec", "RIGHTS", "still uses an entry"),
        ("thp_mprotect", "RIGHTS", "still uses an entry"),
        ("lazyfree", "LOSE", "is lost"),
        ("part", "MAPPED", "still uses an entry"),
        ("uffd_wp", "UFFD", "still writes"),
        ("uffd_move", "UFFD", "from a page that was moved"),
        ("uffd_copy", "KEEP", "still reads"),
        ("uffd_continue", "KEEP", "still reads"),
        ("zero_split", "", ""),
        ("hugetlb_cow", "", ""),
    ],
)
def test_reaches_its_state_and_notices(folder: Path, case: str, lie: str, complaint: str) -> None:
    """The counter of a case is that of its changes; the same case fails when the change has no effect elsewhere."""
    done = run(folder, case)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout.splitlines()[-1])["metrics"][f"reached_{case}"]
    assert 1 <= counted <= 8
    if lie:
        done = run(folder, case, **{lie: "1"})
        assert done.returncode == 1 and complaint in done.stderr, done.stderr
