"""The time that a request to the controller has.

A broker hands such a request on with what is left of its ``timeout``, and where nothing is left the
request itself is refused: REQUEST_TIMED_OUT everywhere in the answer, and nothing is looked at.
Everything else is done at once here. Kafka's counterpart: ForwardingManager.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from txnsim.api.request import Request

_NONE_LEFT: Final = timedelta(0)


def has_no_time(request: Request) -> bool:
    """Whether nothing can be done in the time that the request gives."""
    return bool(request.message.timeout <= _NONE_LEFT)
