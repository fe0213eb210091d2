# SPDX-License-Identifier: GPL-2.0-only
"""What patch(1) says, and what Kconfig drops, put into words."""

from __future__ import annotations

from pathlib import Path

import pytest

from lull import paths
from lull.errors import ApplyError
from lull.kernel import build, tree

PATCH_OUTPUT = """\
checking file a/b.c
Hunk #1 succeeded at 10 (offset 2 lines).
Hunk #2 FAILED at 123.
1 out of 2 hunks FAILED
patching file 'my file.h'
Hunk #1 FAILED at 7.
1 out of 1 hunk FAILED
"""


def test_failed_hunks_name_file_and_line() -> None:
    """Only those that failed."""
    assert tree.failed_hunks(PATCH_OUTPUT) == "a/b.c, hunk 2 (line 123); my file.h, hunk 1 (line 7)"


def test_unreadable_patch() -> None:
    """Something is said even when patch(1) says nothing we know."""
    assert "could not read" in tree.failed_hunks("patch: **** Only garbage was found")


HOOKS = """\
--- a/f.h
+++ b/f.h
@@ -1,3 +1,4 @@
 one
+two
 three
 four
@@ -11,3 +12,4 @@
 eleven
+twelve
 thirteen
 fourteen
"""


def test_hooks_are_read_to_their_end(tmp_path: Path) -> None:
    """A header that counts a line too few: patch(1) would leave out the hunks after it, and call that a success."""
    hooks = tmp_path / "6.12.patch"
    hooks.write_text(HOOKS)
    tree.check_hooks(hooks)
    hooks.write_text(HOOKS.replace("-1,3 +1,4", "-1,2 +1,3"))
    with pytest.raises(ApplyError, match="line 8"):
        tree.check_hooks(hooks)


def test_hooks_of_all_features_are_whole() -> None:
    """Those that are here."""
    found = sorted(paths.REPOSITORY.glob("kernel/*/hooks/*.patch"))
    assert len(found) > 10
    for hooks in found:
        tree.check_hooks(hooks)


def test_dropped_options() -> None:
    """Asked y and got n, asked n and got y, asked a value and got another."""
    asked = build.asked_options('CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="x y"\nCONFIG_D=3\n# a comment\n')
    config = 'CONFIG_B=y\nCONFIG_C="x y"\nCONFIG_D=4\n'
    assert build.dropped_options(asked, config) == ["CONFIG_A=y (is n)", "CONFIG_B=n (is y)", "CONFIG_D=3 (is 4)"]


def test_an_absent_option_is_off() -> None:
    """'is not set' is held by an option that Kconfig does not even offer."""
    assert build.dropped_options({"CONFIG_A": "n"}, "") == []
