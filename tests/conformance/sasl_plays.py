"""Sequences of frames at listeners with SASL, for a real Kafka and for the simulator.

Two listeners: ``SASL``, whose sessions have no end, and ``SHORT``, whose sessions end after
``SHORT_MS`` (KIP-368). Users are those of PLAIN; nobody is a user of SCRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.support.broker_api import KEYS
from tests.support.denials import plainly
from tests.support.patience import until
from tests.support.security import bearer, unsecured_token
from txnsim.client.raw.connection import NoAnswer, RawConnection
from txnsim.errors import ErrorCode

SHORT_MS: Final = 3_000
ADMIN: Final = b"\0admin\0admin-secret"
GUEST: Final = b"\0guest\0guest-secret"
MORE_THAN_A_TOKEN: Final = 600_000
"""More bytes than ``sasl.server.max.receive.size`` of Kafka's default."""
HELLO: Final = bytes.fromhex("16030100c8010000c40303") + bytes(200)
"""How a client of TLS begins."""
ENDLESS: Final = {"sub": "admin", "exp": 4_000_000_000}


class Talk:
    """A connection, and the answers that it got."""

    def __init__(self, addresses: Mapping[str, str], listener: str) -> None:
        self._connection = RawConnection(addresses[listener])
        self.said: list[Any] = []

    def close(self) -> None:
        self._connection.close()

    def ask(self, api: str, version: int, **request_fields: Any) -> Any:
        """Send a request, and note its answer."""
        answer = self.quietly(api, version, **request_fields)
        if api == "ApiVersions" and not isinstance(answer, NoAnswer):
            error_name = ErrorCode(answer.error_code).name.upper()
        elif api == "Metadata" and not isinstance(answer, NoAnswer):
            error_name = "known"
        else:
            error_name = plainly(answer, api=api)
        self.said.append({"asked": f"{api} v{version}", "answered": error_name})
        return answer

    def quietly(self, api: str, version: int, **request_fields: Any) -> Any:
        """Send a request without noting its answer."""
        try:
            return self._connection.ask(KEYS[api], version, **request_fields)
        except ConnectionError:
            return NoAnswer.CLOSED

    def raw(self, token: bytes, *, size: int | None = None) -> None:
        """Send a token without a header (SaslHandshake v0); the answer is kept."""
        claimed = len(token) if size is None else size
        self._connection.send_bytes(claimed.to_bytes(4, "big", signed=claimed < 0) + token)
        answer = self._connection.receive_frame()
        self.said.append({"asked": "a token", "answered": plainly(answer, api="")})

    def log_in(self, token: bytes = ADMIN, *, version: int = 2, mechanism: str = "PLAIN") -> None:
        """Send a handshake and one token."""
        self.ask("SaslHandshake", 1, mechanism=mechanism)
        self.ask("SaslAuthenticate", version, auth_bytes=token)

    def still_there(self) -> None:
        """Ask for Metadata, to see whether requests are still answered."""
        self.ask("Metadata", 9, topics=[])


Play = Callable[[Mapping[str, str]], list[Any]]


def play_on(listener: str, play: Callable[[Talk], None]) -> Play:
    """A play on one connection."""

    def played(addresses: Mapping[str, str]) -> list[Any]:
        talk = Talk(addresses, listener)
        try:
            play(talk)
        finally:
            talk.close()
        return talk.said

    return played


def _log_in(talk: Talk) -> None:
    talk.ask("ApiVersions", 3, client_software_name="a", client_software_version="1")
    talk.log_in()
    talk.still_there()


def _handshake_of_the_known(talk: Talk) -> None:
    talk.log_in()
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.ask("SaslAuthenticate", 2, auth_bytes=ADMIN)
    talk.still_there()


def _versions_twice(talk: Talk) -> None:
    for _ in range(2):
        talk.ask("ApiVersions", 3, client_software_name="a", client_software_version="1")


def _versions_again_after_a_refusal(talk: Talk) -> None:
    talk.ask("ApiVersions", 3, client_software_name="", client_software_version="1")
    _log_in(talk)


def _other_request(talk: Talk) -> None:
    talk.still_there()


def _other_request_between(talk: Talk) -> None:
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.still_there()
    talk.still_there()


def _unknown_mechanism(talk: Talk) -> None:
    talk.ask("SaslHandshake", 1, mechanism="GSSAPI")
    talk.still_there()


def _token_first(talk: Talk) -> None:
    talk.ask("SaslAuthenticate", 2, auth_bytes=ADMIN)


def _handshake_twice(talk: Talk) -> None:
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")


def _raw_tokens(talk: Talk) -> None:
    talk.ask("SaslHandshake", 0, mechanism="PLAIN")
    talk.raw(ADMIN)
    talk.still_there()


def _raw_and_wrong(talk: Talk) -> None:
    talk.ask("SaslHandshake", 0, mechanism="PLAIN")
    talk.raw(b"\0admin\0wrong")


def _refused_login(token: bytes, *, mechanism: str = "PLAIN", version: int = 2) -> Play:
    def play(talk: Talk) -> None:
        talk.log_in(token, mechanism=mechanism, version=version)
        talk.still_there()

    return play_on("SASL", play)


def _token(**claims: Any) -> bytes:
    return bearer(unsecured_token(claims))


def _bad_bearer(token: bytes) -> Play:
    def play(talk: Talk) -> None:
        talk.log_in(token, mechanism="OAUTHBEARER")
        talk.ask("SaslAuthenticate", 2, auth_bytes=b"\x01")
        talk.still_there()

    return play_on("SASL", play)


def _large_token(auth_bytes: int) -> Play:
    def play(talk: Talk) -> None:
        talk.ask("SaslHandshake", 1, mechanism="PLAIN")
        talk.ask("SaslAuthenticate", 2, auth_bytes=bytes(auth_bytes))
        talk.still_there()

    return play_on("SASL", play)


def _large_request_of_the_known(talk: Talk) -> None:
    talk.log_in()
    talk.ask("RenewDelegationToken", 2, hmac=bytes(MORE_THAN_A_TOKEN))
    talk.still_there()


def _frame(frame: bytes, *, size: int | None = None) -> Play:
    """A frame of bytes that are no request; ``size`` is the value of its size field."""

    def play(talk: Talk) -> None:
        talk.raw(frame, size=len(frame) if size is None else size)

    return play_on("SASL", play)


def _play_foreign_bytes(data: bytes) -> Play:
    """Send bytes of another protocol; the broker takes the first four for the size of a frame."""
    return _frame(data[4:], size=int.from_bytes(data[:4], "big"))


def _frame_after_the_handshake(talk: Talk) -> None:
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.raw(b"\0")


def _tokens_after_the_end(talk: Talk) -> None:
    talk.log_in()
    talk.raw(ADMIN)


# Sessions with an end


def _log_in_twice(talk: Talk) -> None:
    talk.log_in()
    talk.log_in()
    talk.still_there()


def _again_too_soon(talk: Talk) -> None:
    for _ in range(2):
        talk.log_in()
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.still_there()


def _again_as_somebody_else(talk: Talk) -> None:
    talk.log_in()
    talk.log_in(GUEST)
    talk.still_there()


def _again_with_a_wrong_password(talk: Talk) -> None:
    talk.log_in()
    talk.log_in(b"\0admin\0wrong")
    talk.still_there()


def _again_by_another_mechanism(talk: Talk) -> None:
    talk.log_in()
    talk.log_in(_token(**ENDLESS), mechanism="OAUTHBEARER")
    talk.still_there()


def _again_but_something_else_comes(talk: Talk) -> None:
    talk.log_in()
    talk.ask("SaslHandshake", 1, mechanism="PLAIN")
    talk.still_there()
    talk.still_there()


def _token_without_a_handshake(talk: Talk) -> None:
    talk.log_in()
    talk.ask("SaslAuthenticate", 2, auth_bytes=ADMIN)
    talk.still_there()


def _until_the_end(talk: Talk) -> None:
    until(
        lambda: talk.quietly("Metadata", 9, topics=[]),
        lambda answer: isinstance(answer, NoAnswer),
        "the session ends",
    )


def _outlive_session(talk: Talk) -> None:
    talk.log_in()
    _until_the_end(talk)
    talk.still_there()


def _again_after_the_end(addresses: Mapping[str, str]) -> list[Any]:
    talk, later_talk = Talk(addresses, "SHORT"), Talk(addresses, "SHORT")
    try:
        talk.log_in()
        later_talk.log_in()
        _until_the_end(later_talk)
        talk.log_in()
        talk.still_there()
    finally:
        talk.close()
        later_talk.close()
    return talk.said


PLAYS: Final[dict[str, Play]] = {
    "a password": play_on("SASL", _log_in),
    "the handshake of somebody who is known": play_on("SASL", _handshake_of_the_known),
    "ApiVersions twice": play_on("SASL", _versions_twice),
    "ApiVersions again after a refusal": play_on("SASL", _versions_again_after_a_refusal),
    "another request first": play_on("SASL", _other_request),
    "another request after the handshake": play_on("SASL", _other_request_between),
    "a mechanism that is not enabled": play_on("SASL", _unknown_mechanism),
    "a token first": play_on("SASL", _token_first),
    "the handshake twice": play_on("SASL", _handshake_twice),
    "tokens without headers": play_on("SASL", _raw_tokens),
    "a wrong token without a header": play_on("SASL", _raw_and_wrong),
    "a wrong password": _refused_login(b"\0admin\0wrong"),
    "a wrong password in the first version": _refused_login(b"\0admin\0wrong", version=0),
    "nobody": _refused_login(b"\0nobody\0secret"),
    "no password": _refused_login(b"\0admin\0"),
    "no user": _refused_login(b"\0\0secret"),
    "no token of PLAIN": _refused_login(b"admin"),
    "for somebody else": _refused_login(b"guest\0admin\0admin-secret"),
    "nobody by SCRAM": _refused_login(b"n,,n=nobody,r=abc", mechanism="SCRAM-SHA-256"),
    "no message of SCRAM": _refused_login(b"nonsense", mechanism="SCRAM-SHA-256"),
    "a bearer": _refused_login(_token(**ENDLESS), mechanism="OAUTHBEARER", version=0),
    "a bearer for somebody else": _refused_login(
        bearer(unsecured_token(ENDLESS), authorization_id="a=guest"), mechanism="OAUTHBEARER"
    ),
    "no message of a bearer": _refused_login(b"nonsense", mechanism="OAUTHBEARER"),
    "a bearer whose time is over": _bad_bearer(_token(sub="admin", exp=1)),
    "a bearer without a name": _bad_bearer(_token(exp=4_000_000_000)),
    "a bearer with a signature": _bad_bearer(bearer(unsecured_token(ENDLESS, signature="c2ln"))),
    "a bearer of nothing": _bad_bearer(bearer("")),
    "a bearer of garbage": _bad_bearer(bearer("garbage")),
    "a bearer of three pieces of garbage": _bad_bearer(bearer("gar.ba.ge")),
    "a bearer of no object": _bad_bearer(bearer(unsecured_token([1]))),
    "a bearer without an end": _bad_bearer(_token(sub="admin")),
    "a bearer whose time has not begun": _bad_bearer(
        _token(sub="admin", iat=4_000_000_000, exp=4_000_000_001)
    ),
    "a bearer whose end is no number": _bad_bearer(_token(sub="admin", exp="tomorrow")),
    "a bearer signed by somebody": _bad_bearer(
        bearer(unsecured_token(ENDLESS, header={"alg": "RS256"}, signature="c2ln"))
    ),
    "an empty token": _refused_login(b""),
    "more than a password": _refused_login(b"\0admin\0admin-secret\0more"),
    "no text": _refused_login(b"\0admin\xff\0admin-secret"),
    "SCRAM bound to a channel": _refused_login(b"p=tls-unique,,n=a,r=b", mechanism="SCRAM-SHA-256"),
    "SCRAM that could be bound": _refused_login(b"y,,n=a,r=b", mechanism="SCRAM-SHA-256"),
    "SCRAM without a nonce": _refused_login(b"n,,n=a", mechanism="SCRAM-SHA-256"),
    "SCRAM with an extension": _refused_login(b"n,,m=x,n=a,r=b", mechanism="SCRAM-SHA-256"),
    "the mechanism in small letters": play_on("SASL", lambda talk: talk.log_in(mechanism="plain")),
    "no mechanism": play_on("SASL", lambda talk: talk.log_in(mechanism="")),
    "a large token": _large_token(500_000),
    "a token that is too large": _large_token(MORE_THAN_A_TOKEN),
    "a large request of somebody who is known": play_on("SASL", _large_request_of_the_known),
    "a client of TLS": _play_foreign_bytes(HELLO),
    "a client of HTTP": _play_foreign_bytes(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
    "nothing in a frame": _frame(b""),
    "less than a header": _frame(b"\0\x11"),
    "a frame of less than nothing": _frame(b"", size=-1),
    "a handshake of a later version": _frame(
        bytes.fromhex("0011 0063 00000001 ffff 0005") + b"PLAIN"
    ),
    "a request that there is not": _frame(bytes.fromhex("03e8 0000 00000001 ffff")),
    "less than a header after the handshake": play_on("SASL", _frame_after_the_handshake),
    "a token of somebody who is known": play_on("SASL", _tokens_after_the_end),
    "authenticated again": play_on("SHORT", _log_in_twice),
    "authenticated again too soon": play_on("SHORT", _again_too_soon),
    "again as somebody else": play_on("SHORT", _again_as_somebody_else),
    "again with a wrong password": play_on("SHORT", _again_with_a_wrong_password),
    "again by another mechanism": play_on("SHORT", _again_by_another_mechanism),
    "again, but something else comes": play_on("SHORT", _again_but_something_else_comes),
    "a token without a handshake": play_on("SHORT", _token_without_a_handshake),
    "the session is over": play_on("SHORT", _outlive_session),
    "again after the end": _again_after_the_end,
}
"""By name: what is asked and answered, in order."""
