"""What an error of the log is called towards clients; how work ends that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from txnsim.coordinators.txn.writer import append_error, settled
from txnsim.errors import ErrorCode

MAPPED = {3: 15, 19: 15, 20: 15, 7: 15, 6: 16, 56: 16, 10: -1, 18: -1}


@pytest.mark.parametrize("error", [each for each in ErrorCode if each is not ErrorCode.none])
def test_every_error_has_its_name(error: ErrorCode) -> None:
    assert append_error(error) == MAPPED.get(error, error)


def test_an_end_and_a_cancellation_are_nobodys_business() -> None:
    settled(None, None)
    settled(None, asyncio.CancelledError())


def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="a bug"):
        settled(None, ValueError("a bug"))
