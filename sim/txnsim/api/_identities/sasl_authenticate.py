"""SaslAuthenticate (key 36): a token of the mechanism (KIP-152).

All versions get the same answer. ``server._sasl`` handles the request during authentication. This
handler gets it too late, or on a listener without SASL. Kafka's counterpart:
KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.wire import codec

API_KEY: Final = 36

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


async def handle(request: Request) -> Reply:
    """Answer ILLEGAL_SASL_STATE."""
    return refuse(request, ErrorCode.illegal_sasl_state)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return codec.build(
        codec.response_class(API_KEY, request.api_version),
        error_code=error,
        error_message=_TOO_LATE if error is ErrorCode.illegal_sasl_state else error.name,
        auth_bytes=b"",
        session_lifetime=timedelta(0),
    )
