"""Damage at many places of a file: at some in ``make test``, at more in ``make nightly``."""

from __future__ import annotations

from typing import Final

import pytest

_FEWER: Final = 6
"""How much sparser ``make test`` samples. An odd or prime step still meets every field."""


def every(step: int) -> pytest.MarkDecorator:
    """Ask for ``step``, how far apart places are: so many bytes in a thorough run, else more."""
    wide_step = step * _FEWER + 1
    steps = [
        pytest.param(wide_step, id=f"every {wide_step} bytes"),
        pytest.param(step, id=f"every {step} bytes", marks=pytest.mark.thorough),
    ]
    return pytest.mark.parametrize("step", steps)
