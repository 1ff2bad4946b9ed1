"""What a proxy has to know of SASL: that GSSAPI can't pass it, and which frames are no requests.

A ticket of Kerberos is for one host name, and the client would ask for one of the proxy. Everything
else passes unread. After SaslHandshake v0 a client sends bare tokens in place of requests; how many
of them there are is up to the mechanism (KafkaClient's SaslClientAuthenticator, KIP-43, KIP-152).
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import BadInputError, ErrorCode
from txnsim.wire import codec

SASL_HANDSHAKE: Final = 17
_TOKENS: Final = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""Mechanism -> tokens that a client sends."""


def mechanism_of(frame: bytes) -> str | None:
    """The mechanism that a SaslHandshake asks for; None where it can't be read."""
    try:
        header = codec.read_request_header(frame[4:])
        message = codec.decode_request(header, frame[4:])
    except BadInputError:
        return None
    return str(message.mechanism)


def bare_tokens(mechanism: str, api_version: int) -> int:
    """How many frames behind a SaslHandshake are tokens without a header."""
    return _TOKENS.get(mechanism, 0) if api_version == 0 else 0


def is_refused(mechanism: str, api_version: int) -> bool:
    """Whether an authentication by that mechanism can't pass."""
    return mechanism == "GSSAPI" or (api_version == 0 and mechanism not in _TOKENS)


def refusal(api_version: int, correlation_id: int) -> bytes:
    """The answer that refuses a mechanism and names none instead."""
    schema = codec.response_schema(SASL_HANDSHAKE, api_version)
    message = codec.build(
        schema.SaslHandshakeResponse,
        error_code=ErrorCode.unsupported_sasl_mechanism,
        mechanisms=(),
    )
    body = codec.encode_body(message)
    return codec.frame_response(SASL_HANDSHAKE, api_version, correlation_id, body)
