"""The time that a request to the controller has.

A broker forwards such a request with the rest of its ``timeout``. Where no time is left the whole
request is refused with REQUEST_TIMED_OUT, and nothing is looked at. Everything else is done at once
here. Kafka's counterpart: ForwardingManager.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from txnsim.api.request import Request

_NONE_LEFT: Final = timedelta(0)


def has_no_time(request: Request) -> bool:
    """Whether nothing can be done in the time that the request gives."""
    return bool(request.message.timeout <= _NONE_LEFT)
