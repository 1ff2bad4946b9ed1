"""The version in the code is that of the distribution."""

from __future__ import annotations

import tomllib
from pathlib import Path

from txnsim import VERSION

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_it_is_the_one_of_pyproject() -> None:
    assert tomllib.loads(PROJECT.read_text("utf-8"))["project"]["version"] == VERSION
