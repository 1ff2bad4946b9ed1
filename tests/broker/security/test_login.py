"""The client's side of SASL, against the broker's side of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.security import credentials
from txnsim.errors import MissingExtraError
from txnsim.security import login as login_module
from txnsim.security.jaas import LoginModule
from txnsim.security.login import (
    Bearer,
    Credential,
    LoginError,
    Password,
    credential_from,
    login,
)
from txnsim.security.sasl import (
    MECHANISMS,
    OAUTHBEARER,
    Authenticated,
    Challenge,
    Refused,
    exchange,
)

NOW_MS = 1_000_000
ALICE = Password(user="alice", password="secret")
TOKEN = Bearer(claims={"sub": "alice"})


def begin(mechanism: str, credential: Credential | None = None) -> login_module.Login:
    default: Credential = TOKEN if mechanism == OAUTHBEARER else ALICE
    return login(mechanism, credential or default, now_ms=NOW_MS, nonce="clientnonce")


def broker(mechanism: str) -> Any:
    return exchange(
        mechanism,
        plain_users={"alice": "secret"},
        credentials=credentials(),
        nonce=lambda: "servernonce",
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_understand_each_other(mechanism: str) -> None:
    client, server = begin(mechanism), broker(mechanism)
    token: bytes | None = client.first()
    while token is not None:
        step = server.feed(token)
        assert not isinstance(step, Refused)
        token = client.next(step.token)
    assert isinstance(step, Authenticated)
    assert step.user == "alice"


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    client = begin("SCRAM-SHA-256", Password(user="alice", password="other"))
    server = broker("SCRAM-SHA-256")
    challenge = server.feed(client.first())
    assert isinstance(challenge, Challenge)
    assert client.next(challenge.token) is not None
    with pytest.raises(LoginError, match="token is wrong"):
        client.next(b"v=bm9uc2Vuc2U=")


@pytest.mark.parametrize("token", [b"nonsense", b"\xff", b"r=other,s=AAAA,i=4096"])
def test_what_is_no_message_of_a_broker_is_refused(token: bytes) -> None:
    client = begin("SCRAM-SHA-512")
    client.first()
    with pytest.raises(LoginError):
        client.next(token)


def test_plain_has_no_second_token() -> None:
    client = begin("PLAIN")
    assert client.first() == b"\0alice\0secret"
    with pytest.raises(LoginError):
        client.next(b"?")


def test_a_bearer_acknowledges_the_reason_of_a_refusal() -> None:
    assert begin(OAUTHBEARER).next(b'{"status":"invalid_token"}') == b"\x01"


def test_what_a_token_says() -> None:
    options = {
        "unsecuredLoginStringClaim_name": "bob",
        "unsecuredLoginPrincipalClaimName": "name",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginListClaim_scope": "|a||b|",
        "unsecuredLoginListClaim_some": ",a,b",
        "unsecuredLoginListClaim_none": "|",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
        "unsecuredLoginOther_x": "y",
        "unsecuredValidatorRequiredScope": "a",
    }
    found = credential_from(OAUTHBEARER, LoginModule(name="m", options=options))
    assert isinstance(found, Bearer)
    first = begin(OAUTHBEARER, found).first()
    start, head, extension, *end = first.split(b"\x01")
    assert (start, extension, end) == (b"n,,", b"traceId=123", [b"", b""])
    header, body, signature = head.removeprefix(b"auth=Bearer ").split(b".")
    assert json.loads(base64.urlsafe_b64decode(header + b"==")) == {"alg": "none"}
    assert signature == b""
    assert json.loads(base64.urlsafe_b64decode(body + b"==")) == {
        "iat": 1_000.0,
        "exp": 1_060.0,
        "name": "bob",
        "n": 1.5,
        "scope": ["a", "b", ""],
        "some": ["a", "b"],
        "none": [],
    }


SUB = {"unsecuredLoginStringClaim_sub": "alice"}


@pytest.mark.parametrize(
    ("mechanism", "options", "why"),
    [
        ("PLAIN", {"password": "x"}, "username is missing"),
        ("SCRAM-SHA-256", {"username": "x"}, "password is missing"),
        (OAUTHBEARER, {}, "unsecuredLoginStringClaim_sub is missing"),
        (OAUTHBEARER, {"unsecuredLoginStringClaim_sub": " "}, "claim_sub is missing|Claim_sub"),
        (OAUTHBEARER, {"unsecuredLoginNumberClaim_sub": "1"}, "no name"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginNumberClaim_exp": "1"}, "exp is made, not set"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginNumberClaim_n": "x"}, "expected a number"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginLifetimeSeconds": "x"}, "expected a number"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginExtension_auth": "x"}, "no such extension"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginExtension_a1": "x"}, "no such extension"),
        (OAUTHBEARER, {**SUB, "unsecuredLoginExtension_a": "\x01"}, "no such extension"),
    ],
)
def test_credentials_that_make_no_sense_are_refused(
    mechanism: str, options: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        credential_from(mechanism, LoginModule(name="m", options=options))


def test_a_password_comes_from_its_options() -> None:
    options = {"username": "alice", "password": "secret", "tokenauth": "false"}
    assert credential_from("PLAIN", LoginModule(name="m", options=options)) == ALICE


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise MissingExtraError(f"{name} is not installed")

    monkeypatch.setattr(login_module, "imported", absent)
    with pytest.raises(MissingExtraError):
        begin("SCRAM-SHA-256")
