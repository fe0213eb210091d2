# SPDX-License-Identifier: GPL-2.0-only
"""Read TOML tables into dataclasses, with an error that a user can act on when a file is not well formed."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from lull.errors import UsageError

T = TypeVar("T")
FORMS: dict[str, Callable[[Any], object]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "int | None": int,
    "tuple[str, ...]": lambda words: tuple(map(str, words)),
    "tuple[tuple[str, str], ...]": lambda table: tuple((str(key), str(value)) for key, value in table.items()),
}
"""The type of a field -> how its value is made of a value in TOML."""


@contextlib.contextmanager
def reading(what: str, path: Path, remedy: str = "") -> Iterator[None]:
    """In the body, turn the errors of a file that is not well formed into UsageError: not ``what``, and the reason."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"not {what}: {reason}", where=str(path), remedy=remedy) from error


def load_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file. Raises OSError, and ValueError when it is not TOML."""
    return tomllib.loads(path.read_text())


def made(kind: type[T], entry: Mapping[str, Any], **given: Any) -> T:
    """An object of the dataclass ``kind``, with the fields ``given`` and, for the others, the values in ``entry``.

    A field that ``entry`` lacks has its default. Raises KeyError for one without a default, and TypeError, ValueError
    or AttributeError for a value that has the wrong type.
    """
    if not isinstance(entry, Mapping):
        raise TypeError(f"{entry!r} is not a table")
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name not in given and (one.name in entry or one.default is MISSING):
            given[one.name] = FORMS[str(one.type)](entry[one.name])
    return kind(**given)
