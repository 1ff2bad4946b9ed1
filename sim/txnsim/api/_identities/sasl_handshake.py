"""SaslHandshake (key 17): which mechanisms there are (KIP-43).

All versions get the same answer. ``server._sasl`` handles the request during authentication. This
handler gets it too late, or on a listener without SASL. Kafka's counterpart:
KafkaApis.handleSaslHandshakeRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.wire import codec

API_KEY: Final = 17


async def handle(request: Request) -> Reply:
    """Answer ILLEGAL_SASL_STATE."""
    return refuse(request, ErrorCode.illegal_sasl_state)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return codec.build(
        codec.response_class(API_KEY, request.api_version), error_code=error, mechanisms=()
    )
