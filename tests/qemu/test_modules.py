# SPDX-License-Identifier: GPL-2.0-only
"""A QEMU of the cache, on a machine whose own QEMU has the modules that the copy lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from plugin_tools import run

from lull.guest.qemu import BUNDLE, PROGRAM, Qemu, set_up

# Preloaded into QEMU: writes down which modules QEMU looks for in the folder of the machine's own.
WATCH = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int access(const char *path, int mode)
{
    const char *out = getenv("LOOKED_FOR");
    size_t length = strlen(path);
    int fd;

    if (out && !strncmp(path, "/usr/lib/", 9) && length > 3 && !strcmp(path + length - 3, ".so")) {
        fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || write(fd, path, length) < 0 || write(fd, "\\n", 1) < 0)
            abort();
        close(fd);
    }
    return syscall(SYS_faccessat, AT_FDCWD, path, mode);
}
"""


@pytest.fixture
def copy(qemu: Qemu, tmp_path: Path) -> Path:
    """The folder of such a QEMU, as links, but for the programs that look where they are."""
    folder = qemu.program.parent
    if not (folder / "usr/bin" / PROGRAM).exists():
        pytest.skip(f"{qemu.program} is the machine's own")
    copied = tmp_path / "qemu"
    shutil.copytree(folder, copied, symlinks=True, copy_function=os.symlink)
    for program in [copied / PROGRAM, copied / "usr/bin" / PROGRAM, *copied.glob("**/ld-linux-*.so.*")]:
        if program.readlink().is_absolute():
            real = program.resolve()
            program.unlink()
            shutil.copy2(real, program)
    return copied


def looked_for(copied: Path, preload: Path, out: Path) -> tuple[str, str]:
    """Paths of the machine's modules that it looks for when it makes a machine and then ends; what it says of them."""
    words = [copied / PROGRAM, "-M", "virt", "-nic", "none", "-display", "none", "-serial", "none", "-monitor", "stdio"]
    env = {**os.environ, "LD_PRELOAD": str(preload), "LOOKED_FOR": str(out)}
    done = subprocess.run(words, input="quit\n", capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0
    return out.read_text() if out.exists() else "", done.stderr


def test_modules_are_of_the_copy(copy: Path, tmp_path: Path) -> None:
    """A copy that an older lab made is corrected. Without the links, QEMU looks for modules of the machine's own."""
    watch = tmp_path / "watch.so"
    watch.with_suffix(".c").write_text(WATCH)
    run("cc", "-shared", "-fPIC", "-o", watch, watch.with_suffix(".c"))
    set_up(copy)
    assert looked_for(copy, watch, tmp_path / "linked") == ("", "")
    for link in copy.glob(f"**/{BUNDLE}"):
        link.unlink()
    assert "/qemu/ui-opengl.so\n" in looked_for(copy, watch, tmp_path / "bare")[0]
