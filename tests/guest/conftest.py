# SPDX-License-Identifier: GPL-2.0-only
"""Real kernels are built into, and taken from, the user's cache. A test marked ``bases`` runs on each base.

``bases(whole=True)``: when all bases are tested, the test is also marked ``whole`` on others than the default.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import BASE_OF_TEST, REAL_CACHE

from lull import paths
from lull.base import DEFAULT

BASES = sorted(base.stem for base in paths.BASES.glob("*.toml"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked ``bases`` on each base, or on the only one that 'lull test' was asked for."""
    if mark := metafunc.definition.get_closest_marker("bases"):
        only = os.environ.get("LULL_TEST_ONLY")
        whole = [pytest.mark.whole] if mark.kwargs.get("whole") else []
        bases = [only] if only else [pytest.param(base, marks=whole if base != DEFAULT else []) for base in BASES]
        metafunc.parametrize("base_of_test", bases, indirect=True)


@pytest.fixture(autouse=True)
def base_of_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base of the lab under test, in a test that is marked ``bases``."""
    if hasattr(request, "param"):
        monkeypatch.setenv(BASE_OF_TEST, request.param)


@pytest.fixture(autouse=True)
def real_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache, in place of the empty one of each test."""
    monkeypatch.setenv("LULL_CACHE", str(REAL_CACHE))
