"""The exception tree is the one that its docstring draws."""

from __future__ import annotations

import inspect
import re

import pytest

from txnsim import errors
from txnsim.errors import (
    SHOWN_MAX,
    ClientError,
    ErrorCode,
    PeerAnsweredError,
    Rejection,
    TxnsimError,
    in_short,
)

EXCEPTIONS = [
    value
    for _name, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, Exception) and value.__module__ == "txnsim.errors"
]


def test_the_drawing_shows_every_exception_below_its_base() -> None:
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in inspect.getsource(errors).split('"""')[1].splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w*Error|InvariantViolation)\b", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn[match[2]] = path[depth - 1] if depth else None
    real = {
        value.__name__: None if value is TxnsimError else value.__base__.__name__
        for value in EXCEPTIONS
        if value.__base__ is not None
    }
    assert drawn == real


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_one_except_clause_catches_them_all(exception: type[Exception]) -> None:
    assert issubclass(exception, TxnsimError)


def test_a_client_error_may_carry_kafkas_code() -> None:
    refused = ClientError("no", error=ErrorCode.producer_fenced)
    assert (str(refused), refused.error) == ("no", ErrorCode.producer_fenced)
    assert ClientError("no").error is None


def test_a_broker_that_only_answers_a_code_hands_it_over() -> None:
    refused = PeerAnsweredError("no", error=6)
    assert (str(refused), refused.error) == ("no", 6)


def test_a_rejection_is_a_value() -> None:
    first = Rejection(error=ErrorCode.invalid_txn_state, reason="expected Ongoing, found Empty")
    assert first == Rejection(error=ErrorCode.invalid_txn_state, reason=first.reason)
    assert not isinstance(first, Exception)


def test_every_public_name_is_exported() -> None:
    assert {value.__name__ for value in EXCEPTIONS} <= set(errors.__all__)


def test_a_long_value_is_cut_in_a_message() -> None:
    assert in_short("x") == "'x'"
    assert in_short("x" * 1_000) == f"'{'x' * (SHOWN_MAX - 1)}… (1002 characters)"
