"""Which authentications can pass, and which frames are no requests."""

from __future__ import annotations

import pytest

from txnsim.errors import ErrorCode
from txnsim.proxy import sasl
from txnsim.wire import codec


def handshake(mechanism: str, version: int) -> bytes:
    schema = codec.request_schema(17, version)
    return codec.encode_request(
        17, version, 3, "app", schema.SaslHandshakeRequest(mechanism=mechanism)
    )


@pytest.mark.parametrize("version", [0, 1])
def test_the_mechanism_is_read(version: int) -> None:
    assert sasl.mechanism_of(handshake("PLAIN", version)) == "PLAIN"
    assert sasl.mechanism_of(handshake("PLAIN", version)[:-2]) is None


@pytest.mark.parametrize(
    ("mechanism", "version", "is_refused", "tokens"),
    [
        ("GSSAPI", 0, True, 0),
        ("GSSAPI", 1, True, 0),
        ("PLAIN", 0, False, 1),
        ("PLAIN", 1, False, 0),
        ("SCRAM-SHA-256", 0, False, 2),
        ("SOMETHING-NEW", 0, True, 0),
        ("SOMETHING-NEW", 1, False, 0),
    ],
)
def test_what_passes_and_what_does_not(
    mechanism: str, version: int, is_refused: bool, tokens: int
) -> None:
    assert sasl.is_refused(mechanism, version) is is_refused
    assert sasl.bare_tokens(mechanism, version) == tokens


@pytest.mark.parametrize("version", [0, 1])
def test_a_refusal_names_no_other_mechanism(version: int) -> None:
    frame = sasl.refusal(version, 3)
    correlation_id, message = codec.read_response(17, version, frame[4:])
    assert correlation_id == 3
    assert message.error_code == ErrorCode.unsupported_sasl_mechanism
    assert message.mechanisms == ()
