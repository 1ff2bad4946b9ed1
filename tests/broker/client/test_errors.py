from __future__ import annotations

import pytest

from txnsim.client import errors
from txnsim.client.errors import ClientError, ErrorCode, code_name


@pytest.mark.parametrize(
    ("number", "name"), [(0, "NONE"), (48, "INVALID_TXN_STATE"), (999, "ERROR_999")]
)
def test_codes_are_spelled_as_kafka_does(number: int, name: str) -> None:
    assert code_name(number) == name


def test_every_error_is_a_client_error_with_the_brokers_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, ClientError)]
    assert len(ours) == 10
    for kind in ours:
        assert kind("x", error=ErrorCode.producer_fenced).error == ErrorCode.producer_fenced
        assert kind("x").error is None
