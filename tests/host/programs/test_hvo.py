# SPDX-License-Identifier: GPL-2.0-only
"""guest/hvo.c on the host, over a library that plays the kernel's pools: what it reports, what it notices."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import host_program

KERNEL = """
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static long giga, mega, optimize, demoted;
static char demote_size[32] = "32768kB", text[512];
static const char *opened[1024];

static int is(const char *what) { return getenv("KERNEL") && strstr(getenv("KERNEL"), what); }
static int ends(const char *path, const char *with) { return strstr(path, with) != NULL; }
static int ours(const char *path) { return ends(path, "/sys/") || ends(path, "/proc/sys/vm/"); }

static long given(void)
{
	long kept = is("lull") ? 2 : 1, pages = giga * (4096 - kept) + mega * (8 - kept);

	if (is("short"))
		pages -= giga;
	if (is("keeps") && mega > 1)
		pages--;
	if (is("leaks") && mega == 1 && demoted)
		pages++;
	return is("hvo") && optimize ? pages : is("eager") && giga;
}

static const char *content(const char *path)
{
	if (ends(path, "1048576kB/demote_size"))
		return demote_size;
	if (ends(path, "1048576kB/"))
		sprintf(text, "%ld", giga - (is("busy") && ends(path, "free_") && giga));
	else if (ends(path, "2048kB/"))
		sprintf(text, "%ld", mega);
	else if (ends(path, "optimize_vmemmap") && is("hvo"))
		sprintf(text, "%ld", optimize);
	else
		return NULL;
	return text;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	const char *found;

	if (!strcmp(path, "/proc/vmstat")) {
		sprintf(text, "nr_memmap_pages %ld\\nnr_memmap_boot_pages %ld\\n", giga, 32768 - given() - giga);
		return fmemopen(text, strlen(text), "r");
	}
	if (!strcmp(path, "/proc/cmdline")) {
		sprintf(text, "quiet hugetlb_free_vmemmap=%s panic=-1\\n", is("off") ? "off" : "on");
		return fmemopen(text, strlen(text), "r");
	}
	if (!ours(path))
		return real(path, mode);
	found = content(path);
	errno = ENOENT;
	return found ? fmemopen((void *)found, strlen(found), "r") : NULL;
}

int open(const char *path, int flags, ...)
{
	int fd;

	if (ours(path) && ends(path, "optimize_vmemmap") && !is("hvo"))
		return errno = ENOENT, -1;
	fd = syscall(SYS_openat, AT_FDCWD, ours(path) ? "/dev/null" : path, flags, 0);
	if (fd >= 0 && ours(path))
		opened[fd] = strdup(path);
	return fd;
}

int close(int fd)
{
	if (fd >= 0 && fd < 1024)
		opened[fd] = NULL;
	return syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
	const char *path = fd < 1024 ? opened[fd] : NULL;
	char word[32] = "";
	long n;

	if (!path)
		return syscall(SYS_write, fd, buffer, size);
	memcpy(word, buffer, size < 31 ? size : 31);
	n = atol(word);
	if (ends(path, "1048576kB/nr_hugepages"))
		giga = n - (is("small") && n);
	else if (ends(path, "2048kB/nr_hugepages"))
		mega = n;
	else if (ends(path, "demote_size"))
		strcpy(demote_size, word);
	else if (ends(path, "/demote")) {
		if (is("refuses"))
			return errno = ENOMEM, -1;
		giga -= n;
		demoted = 1;
		mega += 512 * n - is("loses");
	} else if (ends(path, "optimize_vmemmap"))
		optimize = n;
	return size;
}

/* The kernel's log. In one that is full, the messages from boot are gone. */
int klogctl(int type, char *log, int size)
{
	int kept = !is("hvo") ? 0 : is("lull") ? 2 : 1;

	if (type == 10)
		return 1 << 16;
	if (is("full"))
		return snprintf(log, size, "<6>[    9.1] later\\n");
	return snprintf(log, size,
			"<6>[    0.1] HugeTLB: %d KiB vmemmap can be freed for a 1.00 GiB page\\n"
			"<6>[    0.1] HugeTLB: %d KiB vmemmap can be freed for a 2.00 MiB page\\n",
			kept ? 4 * (4096 - kept) : 0, kept ? 4 * (8 - kept) : 0);
}

/* HugeTLB memory; in a kernel that mixes pages up, its second half is the first once more. */
void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	char *memory;

	if (flags & MAP_HUGETLB && is("mixes")) {
		fd = memfd_create("pool", 0);
		if (ftruncate(fd, size / 2))
			return MAP_FAILED;
		memory = (void *)syscall(SYS_mmap, NULL, size, prot, MAP_SHARED, fd, 0);
		syscall(SYS_mmap, memory + size / 2, size / 2, prot, MAP_SHARED | MAP_FIXED, fd, 0);
		return memory;
	}
	if (flags & MAP_HUGETLB)
		flags &= ~(MAP_HUGETLB | MAP_HUGE_MASK << MAP_HUGE_SHIFT);
	return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
}

__attribute__((destructor)) static void left(void)
{
	fprintf(stderr, "left: %ld %ld %ld %s\\n", giga, mega, optimize, demote_size);
}
"""
CLEAN = "left: 0 0 0 32768kB\n"
GIVEN, GIVEN_LULL = [8190, 7168, 0, 0], [8188, 6144, 0, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, for the host, and the library."""
    made = tmp_path_factory.mktemp("hvo")
    host_program("hvo", made)
    (made / "kernel.c").write_text(KERNEL)
    flags = ["-shared", "-fPIC", "-D_GNU_SOURCE", "-fno-builtin"]
    subprocess.run(["gcc", *flags, "-o", made / "kernel.so", made / "kernel.c", "-ldl"], check=True)
    return made


def play(folder: Path, kernel: str, *words: str) -> CompletedProcess[str]:
    """Run it on such a kernel; a HugeTLB page of 1 GiB is not touched unless asked for."""
    environment = {**os.environ, "KERNEL": kernel, "LD_PRELOAD": str(folder / "kernel.so")}
    command = [folder / "hvo", "touch=0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def windows(done: CompletedProcess[str]) -> list[dict[str, Any]]:
    """What it reported."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("kernel", "given"),
    [("hvo", GIVEN), ("hvo lull", GIVEN_LULL), ("stock", [0] * 4)],
)
def test_each_operation_is_reported_in_a_window_of_its_own(folder: Path, kernel: str, given: list[int]) -> None:
    """Whatever the kernel gives back; the pools are empty afterwards, and settings what they were."""
    done = play(folder, kernel)
    found = windows(done)
    assert [w["window"] for w in found] == [1, 2, 3, 4]
    cases = [("allocate-1g", 2), ("demote", 2), ("free-2m", 1024), ("free-1g", 2)]
    assert [(w["case"], w["operations"]) for w in found] == cases
    assert [w["metrics"]["memmap_given_back"] for w in found] == given
    assert ("has no HVO" in done.stdout) == (kernel == "stock")
    assert done.stderr == CLEAN


def test_operations_of_one_page(folder: Path) -> None:
    """The numbers of operations follow pages=."""
    assert [w["operations"] for w in windows(play(folder, "hvo lull", "pages=1"))] == [1, 1, 512, 1]


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("hvo lull off", "was not booted with hugetlb_free_vmemmap=on"),
        ("hvo full", "the kernel's log does not say how much vmemmap a page of 2 MiB gives back"),
    ],
)
def test_what_is_to_be_given_back_must_be_known(folder: Path, kernel: str, says: str) -> None:
    """Otherwise the program is skipped: it does not pass."""
    done = play(folder, kernel)
    assert done.returncode == 77 and says in done.stderr and done.stderr.endswith(CLEAN)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("hvo keeps", "7167 pages of vmemmap are given back, and not 7168"),
        ("hvo short", "8188 pages of vmemmap are given back, and not 8190"),
        ("hvo leaks", "1 pages of vmemmap are given back, and not 0"),
        ("stock eager", "1 pages of vmemmap are given back, and not 0"),
        ("hvo loses", "2048kB/: 1024 pages, 1024 of them free, and not 1025"),
        ("hvo busy", "1048576kB/: 2 pages, 1 of them free, and not 2"),
        ("hvo refuses", "demote: cannot write 2"),
        ("hvo mixes", "of a HugeTLB mapping is not empty"),
    ],
)
def test_what_is_wrong_is_noticed(folder: Path, kernel: str, says: str) -> None:
    """The program fails, says why, and leaves nothing behind."""
    done = play(folder, kernel, "touch=1")
    assert done.returncode == 1 and says in done.stderr
    assert done.stderr.endswith(CLEAN)


def test_a_guest_that_is_too_small(folder: Path) -> None:
    """Without room for the pages it is skipped, not failed; a mistake is one."""
    done = play(folder, "hvo small")
    assert done.returncode == 77 and "only 1 of 2 pages of 1 GiB" in done.stderr and done.stderr.endswith(CLEAN)
    assert play(folder, "hvo", "pages=0").returncode == 2
    assert play(folder, "hvo", "pages=1", "touch=513").returncode == 2
