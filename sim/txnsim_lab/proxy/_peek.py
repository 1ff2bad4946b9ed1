"""What a proxy reads of a request without decoding it: its header, whether a Produce will be
answered, that GSSAPI can't pass, and which frames are no requests.

A ticket of Kerberos is for one host name, and the client would ask for one of the proxy. Everything
else passes unread. After SaslHandshake v0 a client sends bare tokens in place of requests; how many
of them there are is up to the mechanism (KafkaClient's SaslClientAuthenticator, KIP-43, KIP-152).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from txnsim.errors import BadInputError, ErrorCode
from txnsim.wire import codec
from txnsim.wire.varint import read_uvarint

PRODUCE: Final = 0
HEAD_BYTES: Final = 14
"""Of a request: its size, and the part of its header that all versions share."""
REQUEST_BYTES_MAX: Final = 0x16 << 24
"""What claims to be larger is no request of Kafka's (socket.request.max.bytes is 100 MB): so TLS
begins, at a listener in clear.
"""

head: Final = Struct(">ihhih").unpack_from
"""(size, API key, version, correlation id, length of the client id) of a request."""
answer_head: Final = Struct(">ii").unpack_from
"""(size, correlation id) of an answer."""

_SHORT: Final = Struct(">h").unpack_from
_PRODUCE_FLEXIBLE_FROM: Final = 9
_TRANSACTIONAL_FROM: Final = 3
_TWO_BYTES_FROM: Final = 0x80
"""A varint below takes one byte."""


def client_id_of(data: bytes, position: int, length: int) -> str | None:
    """Client id in the request header at ``position``; None for a null one."""
    if length < 0:
        return None
    start = position + HEAD_BYTES
    return data[start : start + length].decode("utf-8", "replace")


def produce_is_answered(data: bytes, position: int, version: int, length: int) -> bool | None:
    """Whether a Produce asks for an answer (``acks`` is not 0); None if bytes are missing."""
    at = position + HEAD_BYTES + max(length, 0)
    try:
        if (
            version >= _PRODUCE_FLEXIBLE_FROM
            and not data[at]
            and (size := data[at + 1]) < _TWO_BYTES_FROM
        ):
            at += 1 + max(size, 1)  # nearly always: no tags, and a short transactional id or none
        elif version >= _PRODUCE_FLEXIBLE_FROM:
            tags, at = read_uvarint(data, at)
            for _ in range(tags):
                _, at = read_uvarint(data, at)
                size, at = read_uvarint(data, at)
                at += size
            size, at = read_uvarint(data, at)
            at += max(size - 1, 0)
        elif version >= _TRANSACTIONAL_FROM:
            if at + 2 > len(data):
                return None
            at += 2 + max(_SHORT(data, at)[0], 0)
    except IndexError:
        return None
    except ValueError:
        return True  # no Produce that a broker could read: it closes the connection
    if at + 2 > len(data):
        return None
    return bool(_SHORT(data, at)[0])


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
