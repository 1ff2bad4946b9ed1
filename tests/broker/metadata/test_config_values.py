"""How values of configs are written."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.metadata.config_keys import (
    ConfigKey,
    ConfigType,
    elements,
    invalid_config,
    invalid_request,
    shown,
)


def test_a_list_keeps_elements_that_are_empty() -> None:
    assert elements(" a ,, b") == ["a", "", "b"]
    assert elements("  ") == []


@pytest.mark.parametrize(
    ("kind", "written", "told"),
    [
        (ConfigType.LIST, "b, a,b", "b,a"),
        (ConfigType.INT, " 07 ", "7"),
        (ConfigType.BOOLEAN, " TRUE ", "true"),
        (ConfigType.STRING, " Latest ", "Latest"),
    ],
)
def test_a_value_is_shown_in_its_plain_form(kind: ConfigType, written: str, told: str) -> None:
    assert shown(ConfigKey(kind, ""), written) == told


def test_a_refusal_says_why() -> None:
    assert (invalid_config("so").error, invalid_config("so").reason) == (
        ErrorCode.invalid_config,
        "so",
    )
    assert invalid_request("so").error is ErrorCode.invalid_request
