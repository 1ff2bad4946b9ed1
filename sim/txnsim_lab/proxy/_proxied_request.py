"""A client's request at the proxy, and what happens to its answer. ``server.relayed_request``
defines what a fault does to either.
"""

from __future__ import annotations

import re
from typing import Final

from txnsim.server.relayed_request import RelayedRequest

_BROKER_CLIENT_ID: Final = re.compile(r"(\d+)|broker-(\d+)-.*|.*-client-(\d+)")
"""Client ids of connections between Kafka's brokers: ``1``, ``broker-1-fetcher-0``,
``AddPartitionsManager-client-1``.
"""


ORDINARY_ANSWER: Final = 0
SASL_TOKEN: Final = 1
"""The frame is no request, but a SASL token, as before SaslAuthenticate; its answer has no
correlation id.
"""
ANSWER_MADE_HERE: Final = 2
"""The proxy makes the answer: the request was not forwarded."""
LOST_ANSWER: Final = 3
"""The answer is dropped."""


class ProxiedRequest(RelayedRequest):
    """A request that was forwarded, or that the proxy answers."""

    answer_fate: int = ORDINARY_ANSWER
    """What happens to the answer."""
    is_answered: bool = True
    """Whether the broker answers; False for a Produce with acks=0."""
    mute_ms: int = 0
    """Time for which the client is throttled, in milliseconds."""


def peer_of(client_id: str | None) -> str:
    """The broker that sent a request to another broker, from its client id."""
    match = _BROKER_CLIENT_ID.fullmatch(client_id or "")
    return f"broker/{match[match.lastindex or 0]}" if match else f"client/{client_id or ''}"
