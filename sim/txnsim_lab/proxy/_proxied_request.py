"""A client's request at the proxy, and what is to become of its answer. What a fault does to either
is ``server.relayed_request``'s.
"""

from __future__ import annotations

import re
from typing import Final

from txnsim.server.relayed_request import RelayedRequest

_BROKER: Final = re.compile(r"(\d+)|broker-(\d+)-.*|.*-client-(\d+)")
"""Client ids of Kafka's brokers among themselves: ``1``, ``broker-1-fetcher-0``,
``AddPartitionsManager-client-1``.
"""


ORDINARY: Final = 0
TOKEN: Final = 1
"""No request: a token of SASL, as before SaslAuthenticate; answers have no correlation id."""
MADE_HERE: Final = 2
"""The answer is made here: the request went nowhere."""
LOST: Final = 3
"""The answer is thrown away."""


class Sent(RelayedRequest):
    """A forwarded request, or one answered by the proxy."""

    fate: int = ORDINARY
    """What becomes of its answer."""
    is_answered: bool = True
    """The broker answers it; not so a Produce with acks=0."""
    mute_ms: int = 0
    """Time for which the client is throttled."""


def peer_of(client_id: str | None) -> str:
    """Which broker a request between brokers comes from, by its client id."""
    match = _BROKER.fullmatch(client_id or "")
    return f"broker/{match[match.lastindex or 0]}" if match else f"client/{client_id or ''}"
