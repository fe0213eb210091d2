# SPDX-License-Identifier: GPL-2.0-only
"""Commands that build and boot print nothing but their result with --quiet."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from support import Tool

Fake = Callable[..., CompletedProcess[str]]


@pytest.mark.parametrize("command", [["build"], ["run", "--repeat", "1"], ["boot", "--", "true"]])
def test_quiet(fake: Fake, tool: Tool, command: list[str]) -> None:
    """Nothing but the result; and without --quiet there is something."""
    name, *rest = command
    before = fake(name, *rest[: rest.index("--") if "--" in rest else None])
    assert "building" in before.stderr
    for kind in ("build", "results"):
        subprocess.run(["rm", "-rf", tool.cache / kind, tool.cwd / kind], check=True)
    done = fake(name, "--quiet", *rest)
    assert done.stderr == "" and "\x1b" not in done.stdout
