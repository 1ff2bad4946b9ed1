"""SASL on one connection: the order of frames, and what each leads to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import scramp

from tests.support.security import bearer, credentials, unsecured_token
from txnsim.api.request import Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS
from txnsim.security.sasl import exchange
from txnsim.server._sasl import HANDLE, SaslRules, SaslSession, SaslState, SaslStep, Then
from txnsim.wire import codec

WALL_MS = 1_000_000


class Side:
    """A session, and the client's side of it."""

    def __init__(self, *, max_reauth_ms: int = 0) -> None:
        self.now_ms = 50_000
        self.session = SaslSession(
            SaslRules(
                mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
                max_reauth_ms=max_reauth_ms,
                begin=self._begin,
                now_ms=lambda: WALL_MS,
                monotonic_ms=lambda: self.now_ms,
            )
        )

    def _begin(self, mechanism: str) -> Any:
        return exchange(
            mechanism,
            plain_users={"alice": "secret", "bob": "secret"},
            credentials=credentials(),
            nonce=lambda: "servernonce",
            now_ms=WALL_MS,
        )

    def send(self, key: int, version: int, **values: Any) -> SaslStep:
        message = codec.build(codec.request_class(key, version), **values)
        return self.session.take(codec.encode_request(key, version, 7, "c", message)[4:])

    def handshake(self, mechanism: str = "PLAIN", *, version: int = 1) -> tuple[SaslStep, Any]:
        step = self.send(17, version, mechanism=mechanism)
        return step, read(17, version, step)

    def token(self, data: bytes, *, version: int = 2) -> tuple[SaslStep, Any]:
        step = self.send(36, version, auth_bytes=data)
        return step, read(36, version, step)

    def versions(self) -> SaslStep:
        step = self.send(18, 0)
        if step is HANDLE:
            self.session.handled(cast(Request, SimpleNamespace(api_version=0)))
        return step

    def log_in(self, user: str = "alice") -> Any:
        self.handshake()
        return self.token(f"\0{user}\0secret".encode())[1]


def read(key: int, version: int, step: SaslStep) -> Any:
    return codec.read_response(key, version, step.answer[4:])[1] if step.answer else None


def test_a_client_asks_for_versions_shakes_hands_and_says_who_it_is() -> None:
    side = Side()
    assert side.versions() is HANDLE
    step, answer = side.handshake()
    assert (step.then, answer.error_code) == (Then.SEND, ErrorCode.none)
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    assert side.session.principal == ANONYMOUS
    step, answer = side.token(b"\0alice\0secret")
    assert (step.then, answer.error_code) == (Then.SEND, ErrorCode.none)
    assert answer.session_lifetime.total_seconds() == 0
    assert side.session.principal == "User:alice"
    assert side.send(3, 1, topics=()) is HANDLE
    assert side.send(17, 1, mechanism="PLAIN") is HANDLE  # the handler: ILLEGAL_SASL_STATE


def test_versions_are_told_once() -> None:
    side = Side()
    side.versions()
    assert side.versions().then is Then.FAIL


def test_an_unknown_mechanism_is_answered_with_those_that_are_known() -> None:
    step, answer = Side().handshake("GSSAPI")
    assert step.then is Then.FAIL
    assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def test_anything_else_before_it_is_known_who_it_is_ends_the_connection() -> None:
    assert Side().send(3, 1, topics=()) == SaslStep(
        then=Then.FAIL, reason="Metadata during the SASL handshake"
    )
    side = Side()
    side.handshake()
    step = side.send(3, 1, topics=())
    assert (step.then, step.answer) == (Then.REFUSE, b"")


@pytest.mark.parametrize(("key", "reason"), [(17, "SaslHandshake v9"), (36, "SaslAuthenticate v9")])
def test_unknown_versions_end_the_connection(key: int, reason: str) -> None:
    side = Side()
    if key == 36:
        side.handshake()
    frame = key.to_bytes(2, "big") + b"\0\x09" + bytes(4) + b"\xff\xff\0"
    step = side.session.take(frame)
    assert (step.then, step.reason) == (Then.FAIL, f"{reason} is not supported")


def test_a_wrong_password_is_told_after_a_pause() -> None:
    side = Side()
    side.handshake()
    step, answer = side.token(b"\0alice\0wrong", version=0)
    assert step.then is Then.FAIL
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == "Authentication failed: Invalid username or password"


def test_scram_says_only_that_credentials_are_invalid() -> None:
    side = Side()
    side.handshake("SCRAM-SHA-256")
    _, answer = side.token(b"nonsense")
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_after_the_first_handshake_version_tokens_come_without_headers() -> None:
    side = Side()
    side.handshake("SCRAM-SHA-256", version=0)
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "secret", c_nonce="clientnonce")
    step = side.session.take(client.get_client_first().encode())
    assert int.from_bytes(step.answer[:4], "big") == len(step.answer) - 4
    client.set_server_first(step.answer[4:].decode())
    step = side.session.take(client.get_client_final().encode())
    client.set_server_final(step.answer[4:].decode())
    assert side.session.state is SaslState.COMPLETE
    side = Side()
    side.handshake(version=0)
    assert side.session.take(b"\0alice\0wrong").then is Then.FAIL


def test_a_session_ends_unless_the_client_authenticates_again() -> None:
    side = Side(max_reauth_ms=60_000)
    assert side.log_in().session_lifetime.total_seconds() == 60
    side.now_ms += 60_000
    assert side.send(3, 1, topics=()) is HANDLE
    side.now_ms += 1
    assert side.send(3, 1, topics=()).then is Then.FAIL
    assert side.log_in().error_code is ErrorCode.none
    assert side.send(3, 1, topics=()) is HANDLE


def test_nobody_authenticates_again_twice_in_a_second() -> None:
    side = Side(max_reauth_ms=60_000)
    side.log_in()
    assert side.log_in().error_code is ErrorCode.none
    side.now_ms += 999
    assert side.send(17, 1, mechanism="PLAIN") is HANDLE
    side.now_ms += 1
    assert side.handshake()[0].then is Then.SEND


def test_nobody_comes_back_as_somebody_else() -> None:
    side = Side(max_reauth_ms=60_000)
    side.log_in()
    answer = side.log_in("bob")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_nobody_comes_back_with_another_mechanism() -> None:
    side = Side(max_reauth_ms=60_000)
    side.log_in()
    step, answer = side.handshake("SCRAM-SHA-256")
    assert (step.then, answer.error_code) == (Then.SEND, ErrorCode.none)
    assert side.token(b"x")[0].then is Then.FAIL


def test_failing_again_says_so() -> None:
    side = Side(max_reauth_ms=60_000)
    side.log_in()
    side.handshake()
    _, answer = side.token(b"\0alice\0wrong")
    assert answer.error_code is ErrorCode.sasl_authentication_failed


def test_a_session_ends_with_its_token() -> None:
    side = Side(max_reauth_ms=60_000)
    side.handshake("OAUTHBEARER")
    token = unsecured_token({"sub": "alice", "exp": WALL_MS / 1_000 + 5})
    _, answer = side.token(bearer(token))
    assert answer.session_lifetime.total_seconds() == 5
    side.now_ms += 5_001
    assert side.send(3, 1, topics=()).then is Then.FAIL


@pytest.mark.parametrize("end", ["1e400", "1e30", "1e12"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_token_that_ends_later_than_a_session_can_closes_the_connection(
    end: str, version: int
) -> None:
    side = Side()
    side.handshake("OAUTHBEARER", version=version)
    token = bearer(unsecured_token(f'{{"sub":"alice","exp":{end}}}'.encode()))
    step = side.token(token)[0] if version else side.session.take(token)
    assert (step.then, step.answer) == (Then.FAIL, b"")
    assert step.reason == "the token ends later than a session can"
    assert side.session.principal == ANONYMOUS


def test_the_longest_session_has_kafkas_nanoseconds() -> None:
    side = Side()
    side.handshake("OAUTHBEARER")
    _, answer = side.token(bearer(unsecured_token({"sub": "alice", "exp": 9_000_000_000})))
    assert answer.session_lifetime.total_seconds() == 9_000_000_000 - WALL_MS / 1_000


def test_a_late_end_of_a_token_does_not_matter_where_sessions_end_sooner() -> None:
    side = Side(max_reauth_ms=3_000)
    side.handshake("OAUTHBEARER")
    token = bearer(unsecured_token(b'{"sub":"alice","exp":1e400}'))
    assert side.token(token)[1].session_lifetime.total_seconds() == 3
