"""The token that the environment sets."""

from __future__ import annotations

import pytest

from txnsim.cli._control_token import token_from
from txnsim.errors import ConfigError


@pytest.mark.parametrize("environment", [{}, {"TXNSIM_TOKEN": ""}, {"TOKEN": "x" * 20}])
def test_none_is_set(environment: dict[str, str]) -> None:
    assert token_from(environment) is None


@pytest.mark.parametrize("token", ["0123456789abcdef", "x" * 256, "-._~+/=-._~+/=-._~+/="])
def test_one_is_set(token: str) -> None:
    assert token_from({"TXNSIM_TOKEN": token}) == token


@pytest.mark.parametrize(
    "token", ["short", "x" * 257, "with a blank in it", "with\nlines in it..."]
)
def test_a_bad_one_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ConfigError, match="TXNSIM_TOKEN: expected 16 to 256") as error_info:
        token_from({"TXNSIM_TOKEN": token})
    assert token not in str(error_info.value)
