"""Sequences of frames at listeners with SASL, for a real Kafka and for the simulator.

Two listeners: ``SASL``, whose sessions have no end, and ``SHORT``, whose sessions end after
``SHORT_MS`` (KIP-368). Users are those of PLAIN; nobody is a user of SCRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sim.errors import ErrorCode
from tests.support.denials import plainly
from tests.support.handlers import KEYS
from tests.support.patience import until
from tests.support.raw_wire import Outcome, RawConnection
from tests.support.security import bearer, unsecured_token

SHORT_MS: Final = 1_500
ADMIN: Final = b"\0admin\0admin-secret"
GUEST: Final = b"\0guest\0guest-secret"
ENDLESS: Final = {"sub": "admin", "exp": 4_000_000_000}


class Talk:
    """One connection and what was said on it."""

    def __init__(self, addresses: Mapping[str, str], listener: str) -> None:
        self._connection = RawConnection(addresses[listener])
        self.said: list[Any] = []

    def close(self) -> None:
        """End it."""
        self._connection.__exit__(None, None, None)

    def ask(self, api: str, version: int, **values: Any) -> Any:
        """Send a request; its answer is kept."""
        answer = self.quietly(api, version, **values)
        if api == "ApiVersions" and not isinstance(answer, Outcome):
            plain = ErrorCode(answer.error_code).name.upper()
        elif api == "Metadata" and not isinstance(answer, Outcome):
            plain = "known"
        else:
            plain = plainly(answer, api=api)
        self.said.append({"asked": f"{api} v{version}", "answered": plain})
        return answer

    def quietly(self, api: str, version: int, **values: Any) -> Any:
        """Send a request; nothing is kept."""
        try:
            return self._connection.ask(KEYS[api], version, **values)
        except ConnectionError:
            return Outcome.CLOSED

    def raw(self, token: bytes) -> None:
        """Send a token without a header (SaslHandshake v0); the answer is kept."""
        self._connection.send_bytes(len(token).to_bytes(4, "big") + token)
        answer = self._connection.receive_frame()
        self.said.append({"asked": "a token", "answered": plainly(answer, api="")})

    def log_in(self, token: bytes = ADMIN, *, version: int = 2, mechanism: str = "PLAIN") -> None:
        """Handshake and one token."""
        self.ask("SaslHandshake", 1, mechanism=mechanism)
        self.ask("SaslAuthenticate", version, auth_bytes=token)

    def still_there(self) -> None:
        """Whether requests are answered."""
        self.ask("Metadata", 9, topics=[])


Play = Callable[[Mapping[str, str]], list[Any]]


def on(listener: str, play: Callable[[Talk], None]) -> Play:
    """A play on one connection."""

    def played(addresses: Mapping[str, str]) -> list[Any]:
        talk = Talk(addresses, listener)
        try:
            play(talk)
        finally:
            talk.close()
        return talk.said

    return played


def _known(talk: Talk) -> None:
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
    _known(talk)


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


def _refused(token: bytes, *, mechanism: str = "PLAIN", version: int = 2) -> Play:
    def play(talk: Talk) -> None:
        talk.log_in(token, mechanism=mechanism, version=version)
        talk.still_there()

    return on("SASL", play)


def _token(**claims: Any) -> bytes:
    return bearer(unsecured_token(claims))


def _bad_bearer(token: bytes) -> Play:
    def play(talk: Talk) -> None:
        talk.log_in(token, mechanism="OAUTHBEARER")
        talk.ask("SaslAuthenticate", 2, auth_bytes=b"\x01")
        talk.still_there()

    return on("SASL", play)


# Sessions with an end


def _again(talk: Talk) -> None:
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
        lambda answer: isinstance(answer, Outcome),
        "the session ends",
    )


def _over(talk: Talk) -> None:
    talk.log_in()
    _until_the_end(talk)
    talk.still_there()


def _again_after_the_end(addresses: Mapping[str, str]) -> list[Any]:
    """A session that was begun before another one has ended when that one has."""
    talk, later = Talk(addresses, "SHORT"), Talk(addresses, "SHORT")
    try:
        talk.log_in()
        later.log_in()
        _until_the_end(later)
        talk.log_in()
        talk.still_there()
    finally:
        talk.close()
        later.close()
    return talk.said


PLAYS: Final[dict[str, Play]] = {
    "a password": on("SASL", _known),
    "the handshake of somebody who is known": on("SASL", _handshake_of_the_known),
    "ApiVersions twice": on("SASL", _versions_twice),
    "ApiVersions again after a refusal": on("SASL", _versions_again_after_a_refusal),
    "another request first": on("SASL", _other_request),
    "another request after the handshake": on("SASL", _other_request_between),
    "a mechanism that is not enabled": on("SASL", _unknown_mechanism),
    "a token first": on("SASL", _token_first),
    "the handshake twice": on("SASL", _handshake_twice),
    "tokens without headers": on("SASL", _raw_tokens),
    "a wrong token without a header": on("SASL", _raw_and_wrong),
    "a wrong password": _refused(b"\0admin\0wrong"),
    "a wrong password in the first version": _refused(b"\0admin\0wrong", version=0),
    "nobody": _refused(b"\0nobody\0secret"),
    "no password": _refused(b"\0admin\0"),
    "no user": _refused(b"\0\0secret"),
    "no token of PLAIN": _refused(b"admin"),
    "for somebody else": _refused(b"guest\0admin\0admin-secret"),
    "nobody by SCRAM": _refused(b"n,,n=nobody,r=abc", mechanism="SCRAM-SHA-256"),
    "no message of SCRAM": _refused(b"nonsense", mechanism="SCRAM-SHA-256"),
    "a bearer": _refused(_token(**ENDLESS), mechanism="OAUTHBEARER", version=0),
    "a bearer for somebody else": _refused(
        bearer(unsecured_token(ENDLESS), authorization_id="a=guest"), mechanism="OAUTHBEARER"
    ),
    "no message of a bearer": _refused(b"nonsense", mechanism="OAUTHBEARER"),
    "a bearer whose time is over": _bad_bearer(_token(sub="admin", exp=1)),
    "a bearer without a name": _bad_bearer(_token(exp=4_000_000_000)),
    "a bearer with a signature": _bad_bearer(bearer(unsecured_token(ENDLESS, signature="c2ln"))),
    "authenticated again": on("SHORT", _again),
    "authenticated again too soon": on("SHORT", _again_too_soon),
    "again as somebody else": on("SHORT", _again_as_somebody_else),
    "again with a wrong password": on("SHORT", _again_with_a_wrong_password),
    "again by another mechanism": on("SHORT", _again_by_another_mechanism),
    "again, but something else comes": on("SHORT", _again_but_something_else_comes),
    "a token without a handshake": on("SHORT", _token_without_a_handshake),
    "the session is over": on("SHORT", _over),
    "again after the end": _again_after_the_end,
}
"""By name: what is asked and answered, in order."""
