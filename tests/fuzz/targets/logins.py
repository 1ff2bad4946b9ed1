"""SASL exchanges and tokens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, cast

import scramp

from tests.fuzz.target import Target, Violation
from tests.support.security import bearer, credentials, unsecured_token
from txnsim.api.registry import SHIPPED
from txnsim.api.request import Request
from txnsim.errors import BadInputError
from txnsim.security.sasl import MECHANISMS, OAUTHBEARER, Authenticated, BearerExchange, exchange
from txnsim.security.scram import ScramMechanism
from txnsim.server._sasl import FrameTreatment, SaslRules, SaslSession, SaslState
from txnsim.wire import codec

_WALL_MS: Final = 1_700_000_000_000
_NONCE: Final = "servernonce"
_SIZE: Final = 2
_FINAL: Final = 0xFFFF
"""Stands for the client's sound final message of SCRAM: a fuzzer can't compute one."""
_FRAMES_MAX: Final = 8
_API_VERSIONS: Final = 18


def _begin_exchange(mechanism: str) -> Any:
    return exchange(
        mechanism,
        plain_users={"alice": "secret"},
        credentials=credentials(),
        make_nonce=lambda: _NONCE,
        now_ms=_WALL_MS,
    )


_RULES: Final = SaslRules(
    mechanisms=MECHANISMS,
    max_reauth_ms=10_000,
    begin_exchange=_begin_exchange,
    now_ms=lambda: _WALL_MS,
    monotonic_ms=lambda: 50_000,
)


def _request(api_key: int, version: int, **request_fields: Any) -> bytes:
    message = codec.build(codec.request_class(api_key, version), **request_fields)
    return codec.encode_request(api_key, version, 7, "c", message)[4:]


def _join_frames(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(_SIZE, "big") + frame for frame in frames)


def _sasl_seeds() -> Iterator[bytes]:
    token = bearer(unsecured_token({"sub": "alice", "exp": 1_800_000_000}))
    first_message = b"n,,n=alice,r=clientnonce"
    for version in (0, 1):
        for mechanism, message in (
            ("PLAIN", b"\0alice\0secret"),
            ("SCRAM-SHA-256", first_message),
            ("OAUTHBEARER", token),
        ):
            handshake = _request(17, version, mechanism=mechanism)
            token_frame = _request(36, 2, auth_bytes=message) if version else message
            final = _FINAL.to_bytes(_SIZE, "big") if message is first_message else b""
            yield _join_frames(_request(18, 0), handshake, token_frame) + final
            yield (
                _join_frames(handshake, token_frame) + final + _join_frames(handshake, token_frame)
            )
    yield _join_frames(_request(3, 1, topics=()))


def _play_sasl(fuzz_bytes: bytes) -> None:
    session = SaslSession(_RULES)
    position = 0
    for _ in range(_FRAMES_MAX):
        if position + _SIZE > len(fuzz_bytes):
            return
        size_bytes = int.from_bytes(fuzz_bytes[position : position + _SIZE], "big")
        position += _SIZE
        frame = (
            _final_message(session)
            if size_bytes == _FINAL
            else fuzz_bytes[position : position + size_bytes]
        )
        position += 0 if size_bytes == _FINAL else size_bytes
        was_known = session.state is SaslState.COMPLETE
        principal_before = session.principal
        # A token names whomever it likes, as none of them is signed.
        is_bearer = session._mechanism == OAUTHBEARER
        try:
            step = session.treat_frame(frame)
        except BadInputError:
            return
        if step.treatment in (FrameTreatment.FAIL, FrameTreatment.REFUSE):
            return
        if step.treatment is FrameTreatment.HANDLE:
            try:
                _handle(session, frame, was_known=was_known)
            except BadInputError:
                return
        elif session.principal not in (principal_before, "User:alice") and not is_bearer:
            raise Violation(f"a stranger became {session.principal}")


def _handle(session: SaslSession, frame: bytes, *, was_known: bool) -> None:
    header = codec.read_request_header(frame)
    if was_known:
        return
    if header.api_key != _API_VERSIONS:
        raise Violation(f"API {header.api_key} is handled before it is known who asks")
    lowest_version, highest_version = SHIPPED.accepted[_API_VERSIONS]
    if lowest_version <= header.api_version <= highest_version:
        message = codec.decode_request(header, frame)
        request = SimpleNamespace(api_version=header.api_version, message=message)
        session.expect_handshake(cast(Request, request))


def _final_message(session: SaslSession) -> bytes:
    """The right final SCRAM message of the user ``alice``."""
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "secret", c_nonce="clientnonce")
    client.get_client_first()
    with contextlib.suppress(scramp.ScramException):
        server = scramp.ScramMechanism("SCRAM-SHA-256").make_server(
            lambda _: _credential(), s_nonce=_NONCE
        )
        server.set_client_first("n,,n=alice,r=clientnonce")
        client.set_server_first(server.get_server_first())
        token: bytes = client.get_client_final().encode()
        is_raw = session.state is SaslState.RAW_TOKENS
        return token if is_raw else _request(36, 2, auth_bytes=token)
    return b""


@cache
def _credential() -> tuple[bytes, bytes, bytes, int]:
    credential = credentials()["alice", ScramMechanism.SCRAM_SHA_256]
    return credential.salt, credential.stored_key, credential.server_key, credential.iterations


# Tokens: the input is JSON of header and claims, encoded here, since no fuzzer writes base64


def _token_seeds() -> Iterator[bytes]:
    claims: list[Any] = [
        {"sub": "alice", "exp": 1_800_000_000, "iat": 1_600_000_000, "scope": ["a", "b"]},
        {"sub": "alice", "exp": 1.8e9, "scope": "a"},
        {"sub": "alice", "exp": 1, "nbf": "x", "aud": []},
        {"sub": "", "exp": None, "jti": 1, "iss": 5},
    ]
    for header in ({"alg": "none"}, {"alg": "HS256", "crit": ["x"]}):
        for claim_set in claims:
            yield json.dumps(header).encode() + b"\0" + json.dumps(claim_set).encode()
    yield b'{"alg":"none"}\0{"sub":"alice","exp":1e400}'
    yield b"\x01n,a=alice,\x01auth=Bearer a.b.c\x01k=v\x01\x01"


def _play_token(fuzz_bytes: bytes) -> None:
    bearer_exchange = BearerExchange(now_ms=_WALL_MS)
    if fuzz_bytes[:1] == b"\x01":
        step = bearer_exchange.feed(fuzz_bytes[1:])
    else:
        header, _, claims = fuzz_bytes.partition(b"\0")
        step = bearer_exchange.feed(bearer(unsecured_token(claims, header=header)))
    if isinstance(step, Authenticated):
        if not isinstance(step.user, str) or not step.user.strip():
            raise Violation(f"a user without a name: {step.user!r}")
    else:
        bearer_exchange.feed(b"\x01")


TARGETS: Final[dict[str, Target]] = {
    "sasl": Target(play=_play_sasl, seeds=_sasl_seeds, length_max=2048),
    "bearer-tokens": Target(play=_play_token, seeds=_token_seeds, length_max=2048),
}
