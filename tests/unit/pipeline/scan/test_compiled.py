"""How a function is compiled, and what becomes of that where nothing may be written."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from txnsim.pipeline.scan import compiled as module
from txnsim.pipeline.scan.compiled import compiled


def thrice(value: int) -> int:
    return 3 * value


def test_a_compiled_function_answers_as_the_function_does() -> None:
    assert compiled(thrice)(14) == thrice(14)


def test_without_a_place_for_machine_code_a_function_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'thrice': no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(module, "njit", njit)
    made = compiled(thrice)
    assert isinstance(made, numba.core.dispatcher.Dispatcher)
    assert made(14) == thrice(14)
