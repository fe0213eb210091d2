# SPDX-License-Identifier: GPL-2.0-only
"""Python packages: pip installs one that is made here, and finds that another was changed or half fetched."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lull import extras
from lull.errors import FetchError

FILES = {
    "lull_example.py": "def main() -> None:\n    print('example')\n",
    "lull_example-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lull-example\nVersion: 1.0\n",
    "lull_example-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "lull_example-1.0.dist-info/entry_points.txt": "[console_scripts]\nexample = lull_example:main\n",
    "lull_example-1.0.data/scripts/binary": "\x7fELF, not a script\n",
}


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """requirements-example.txt, and a private cache."""
    wheel = tmp_path / "lull_example-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
        archive.writestr("lull_example-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in FILES))
    listed = tmp_path / "requirements-example.txt"
    listed.write_text(f"{wheel} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    listed.with_suffix(".in").write_text("# a comment\nlull-example==1.0\n")
    monkeypatch.setattr(extras, "listed", lambda name: listed)
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "cache"))
    return listed


def test_packages_are_fetched_once_and_can_be_moved(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an interrupted run left is not taken for whole; no script with a dead first line is left."""
    with pytest.raises(FetchError, match="offline"):
        extras.fetched("example", offline=True)
    (key,) = (path.name.removeprefix("python-") for path in (tmp_path / "cache/locks").iterdir())
    (tmp_path / "cache/python" / f"{key}.part/.pip/bin").mkdir(parents=True)
    (tmp_path / "cache/python" / f"{key}.part/half.py").touch()
    place = extras.fetched("example", offline=False)
    assert {path.name for path in place.iterdir()} == {"lull_example.py", "lull_example-1.0.dist-info", "bin"}
    assert [path.name for path in (place / "bin").iterdir()] == ["binary"]
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setenv("LULL_CACHE", str(tmp_path / "moved"))
    moved = extras.fetched("example", offline=True)
    done = subprocess.run(
        [sys.executable, "-c", "import lull_example; lull_example.main()"],
        env={"PYTHONPATH": str(moved)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "example\n"
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert not extras.importable("example")
    extras.use("example", offline=True)
    assert sys.path[-1] == str(moved) and extras.importable("example")
    pinned.with_suffix(".in").write_text("lull-example==1.1\n")
    assert not extras.importable("example"), "another version"


def test_a_package_with_another_hash(pinned: Path) -> None:
    """It is refused, and nothing is kept of it; the right one is fetched by the next run."""
    right = pinned.read_text()
    wheel = Path(right.split()[0])
    content = wheel.read_bytes()
    wheel.write_bytes(content + b" ")
    with pytest.raises(FetchError, match="could not be fetched") as caught:
        extras.fetched("example", offline=False)
    assert "hash" in caught.value.tail.lower()
    wheel.write_bytes(content)
    assert (extras.fetched("example", offline=False) / "lull_example.py").exists()
