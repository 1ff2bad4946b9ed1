"""How work ends that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from sim.txn.background import settled


def test_an_end_and_a_cancellation_are_nobodys_business() -> None:
    settled(None, None)
    settled(None, asyncio.CancelledError())


def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(ValueError, match="a bug"):
        settled(None, ValueError("a bug"))
