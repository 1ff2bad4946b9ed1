"""Requests that are sent without waiting for an answer."""

from __future__ import annotations

from typing import Final

from tests.attacks.sending import exchange, request
from tests.attacks.target import Attack, Target

API_VERSIONS: Final = 18
SMALL_REQUESTS: Final = 50_000


def small_requests(target: Target) -> int:
    """50,000 small requests in one go, whose answers are read."""
    data = request(API_VERSIONS, 0) * SMALL_REQUESTS
    with target.socket() as connection:
        exchange(connection, data, answers=SMALL_REQUESTS)
    return len(data)


ATTACKS: Final = (Attack("pipelined-small-requests", small_requests),)
