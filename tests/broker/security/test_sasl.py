"""SASL mechanisms, token by token."""

from __future__ import annotations

import importlib
import time  # noqa: TID251 - measures the CPU time of a pure function
from typing import Any

import pytest
import scramp

from tests.support.security import bearer, credentials, unsecured_token
from txnsim.errors import MissingExtraError
from txnsim.security.sasl import (
    MECHANISMS,
    Authenticated,
    BearerExchange,
    BearerMessage,
    BearerRules,
    Challenge,
    Exchange,
    Refused,
    Step,
    exchange,
    read_message,
)

NOW_MS = 1_000_000
CLAIMS = {"sub": "alice", "iat": 900, "exp": 2_000.5}


def begin(mechanism: str) -> Exchange:
    return exchange(
        mechanism,
        plain_users={"alice": "secret"},
        credentials=credentials(),
        nonce=lambda: "servernonce",
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"\0alice\0secret", Authenticated(user="alice")),
        (b"alice\0alice\0secret", Authenticated(user="alice")),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id that is different from username"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"alice", "expected 3 tokens, got 1"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0", "expected 3 tokens, got 4"),
    ],
)
def test_plain(token: bytes, expected: Authenticated | str) -> None:
    step = begin("PLAIN").feed(token)
    if isinstance(expected, str):
        assert isinstance(step, Refused)
        assert expected in (step.message or "")
    else:
        assert step == expected


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_knows_a_password_without_hearing_it(mechanism: str) -> None:
    client = scramp.ScramClient([mechanism], "alice", "secret", c_nonce="clientnonce")
    server = begin(mechanism)
    first = server.feed(client.get_client_first().encode())
    assert isinstance(first, Challenge)
    client.set_server_first(first.token.decode())
    last = server.feed(client.get_client_final().encode())
    assert isinstance(last, Authenticated)
    assert last.user == "alice"
    client.set_server_final(last.token.decode())  # it knows the server's signature


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "secret")])
def test_scram_does_not_show_which_users_there_are(user: str, password: str) -> None:
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, password, c_nonce="clientnonce")
    server = begin("SCRAM-SHA-256")
    step = server.feed(client.get_client_first().encode())
    if isinstance(step, Challenge):
        client.set_server_first(step.token.decode())
        step = server.feed(client.get_client_final().encode())
    assert step == Refused()


@pytest.mark.parametrize("token", [b"", b"\xff", b"n,,x=1", b"y,,n=alice,r=abc,"])
def test_scram_refuses_what_is_no_message(token: bytes) -> None:
    assert begin("SCRAM-SHA-256").feed(token) == Refused()


@pytest.mark.parametrize(
    "letter", ["a", "=2C", "é", "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"]
)
def test_scram_refuses_a_name_that_is_longer_than_any_users_at_once(letter: str) -> None:
    server = begin("SCRAM-SHA-256")
    began = time.process_time()
    assert server.feed(f"n,,n={letter * 150_000},r=x".encode()) == Refused()
    assert time.process_time() - began < 0.5


def test_scram_takes_a_name_that_needs_escapes() -> None:
    user = ",=," * 10
    server = exchange(
        "SCRAM-SHA-256",
        plain_users={},
        credentials=credentials(user),
        nonce=lambda: "servernonce",
        now_ms=NOW_MS,
    )
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, "secret")
    assert isinstance(server.feed(client.get_client_first().encode()), Challenge)


def test_a_bearer_is_who_the_token_says_until_it_ends() -> None:
    step = begin("OAUTHBEARER").feed(bearer(unsecured_token(CLAIMS)))
    assert step == Authenticated(user="alice", expires_ms=2_000_500)
    own = bearer(unsecured_token(CLAIMS), authorization_id="a=alice")
    assert isinstance(begin("OAUTHBEARER").feed(own), Authenticated)
    without_iat = bearer(unsecured_token({"sub": "alice", "exp": 2_000}))
    assert isinstance(begin("OAUTHBEARER").feed(without_iat), Authenticated)


@pytest.mark.parametrize(
    "token",
    [
        unsecured_token({**CLAIMS, "exp": 1_000}),
        unsecured_token({**CLAIMS, "exp": "soon"}),
        unsecured_token({**CLAIMS, "exp": True}),
        unsecured_token({**CLAIMS, "sub": " "}),
        unsecured_token({**CLAIMS, "sub": 7}),
        unsecured_token({**CLAIMS, "iat": "then"}),
        unsecured_token({**CLAIMS, "iat": 1_001}),
        unsecured_token({**CLAIMS, "iat": 900, "exp": 2}),
        unsecured_token({"sub": "alice"}),
        unsecured_token(CLAIMS, header={"alg": "HS256"}),
        unsecured_token(CLAIMS, signature="c2ln"),
        "nonsense",
    ],
)
def test_a_bad_token_is_challenged_before_it_is_refused(token: str) -> None:
    server = begin("OAUTHBEARER")
    assert server.feed(bearer(token)) == Challenge(token=b'{"status":"invalid_token"}')
    assert server.feed(b"\x01") == Refused(message='{"status":"invalid_token"}')


@pytest.mark.parametrize(
    "claims",
    [
        '{"sub":"alice","exp":NaN}',
        '{"sub":"alice","exp":2000,"iat":NaN}',
        '{"sub":"alice","exp":2000,"iat":1e400}',
        '{"sub":"alice","exp":-1e400}',
        '{"sub":"alice","exp":' + "9" * 5_000 + "}",
        '{"sub":"alice","exp":2000,"x":' + "[" * 100_000 + "]" * 100_000 + "}",
        "[" * 100_000,
    ],
    ids=["nan", "iat-nan", "iat-infinite", "past", "digits", "deep", "open"],
)
def test_absurd_claims_make_a_bad_token(claims: str) -> None:
    server = begin("OAUTHBEARER")
    token = bearer(unsecured_token(claims.encode()))
    assert server.feed(token) == Challenge(token=b'{"status":"invalid_token"}')


@pytest.mark.parametrize("end", ["1e400", "1e30", "1" + 30 * "0"])
def test_an_end_that_is_absurdly_late_is_cut_to_a_long(end: str) -> None:
    token = unsecured_token(f'{{"sub":"alice","exp":{end}}}'.encode())
    step = begin("OAUTHBEARER").feed(bearer(token))
    assert step == Authenticated(user="alice", expires_ms=2**63 - 1)


def test_a_bearer_can_not_be_another_user() -> None:
    step = begin("OAUTHBEARER").feed(bearer(unsecured_token(CLAIMS), authorization_id="a=bob"))
    assert isinstance(step, Refused)
    assert "(bob) that is different" in (step.message or "")


def test_what_is_no_bearers_message_is_refused() -> None:
    assert begin("OAUTHBEARER").feed(b"\0alice\0secret") == Refused()


def test_a_listener_may_ask_more_of_a_token() -> None:
    rules = BearerRules(
        principal_claim="name",
        scope_claim="may",
        required_scope=("read", "write"),
        clock_skew_ms=2_000,
    )
    claims = {"name": "bob", "iat": 1_001, "exp": 998.5 + 1_000, "may": ["read", " write ", "", 7]}

    def fed(**changed: Any) -> Step:
        token = bearer(unsecured_token({**claims, **changed}))
        return BearerExchange(now_ms=NOW_MS, rules=rules).feed(token)

    assert fed() == Authenticated(user="bob", expires_ms=1_998_500)
    missing = b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    for scope in ("read", ["write"], None, 7):
        assert fed(may=scope) == Challenge(token=missing)
    invalid = Challenge(token=b'{"status":"invalid_token"}')
    assert fed(name=None) == invalid
    assert fed(iat=1_003) == invalid
    assert fed(iat=900, exp=998) == invalid
    assert isinstance(fed(iat=900, exp=998.5), Authenticated)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_rest: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    for mechanism in MECHANISMS[1:]:
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[security\]'"):
            begin(mechanism)
    begin("PLAIN")


TOKEN_BYTES = 500_000
CPU_SECONDS_MAX = 2.0
"""Much more than half a megabyte takes on a slow machine; what was quadratic took 45 s."""


@pytest.mark.parametrize(
    ("text", "token", "authorization_id"),
    [
        ("n,,\x01auth=Bearer a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=BEARER a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer   a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer a==\x01\x01", "a==", ""),
        ("n,,\x01auth=Bearer ~+/\x01\x01", "~+/", ""),
        ("n,a=u,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u"),
        ("n,a=u=2C,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u=2C"),
        ("n,a=u\x01,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u\x01"),
        ("n,,\x01auth=Bearer a.b.\x01ext=1=2\x01\x01", "a.b.", ""),
        ("n,,\x01ext=a\t\r\n b\x01auth=Bearer a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer first\x01auth=Bearer last\x01\x01", "last", ""),
    ],
)
def test_a_message_that_is_taken(text: str, token: str, authorization_id: str) -> None:
    assert read_message(text) == BearerMessage(token=token, authorization_id=authorization_id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n,",
        "n,,",
        "n,,\x01",
        "n,,\x01\x01",
        "y,,\x01auth=Bearer a\x01\x01",
        "n,a=,\x01auth=Bearer a\x01\x01",
        "n,b=u,\x01auth=Bearer a\x01\x01",
        "n,a=u=,\x01auth=Bearer a\x01\x01",
        "n,,x\x01auth=Bearer a\x01\x01",
        "n,,\x01auth=Bearer a\x01",
        "n,,\x01auth=Bearer a\x01\x01\n",
        "n,,\x01\x01auth=Bearer a\x01\x01",
        "n,,\x01auth=Bearer a\x01x=\x01\x01",
        "n,,\x01auth=Bearer a\x01x1=y\x01\x01",
        "n,,\x01auth=Bearer a\x01x=\x02\x01\x01",
        "n,,\x01auth=Bearer a\x01x=é\x01\x01",
        "n,,\x01auth\x01\x01",
        "n,,\x01auth=Bearer\ta\x01\x01",
        "n,,\x01auth=Bearer a \x01\x01",
        "n,,\x01auth=Bearer a=b\x01\x01",
        "n,,\x01auth=Bearer a*b\x01\x01",
        "n,,\x01auth=Basic a\x01\x01",
        "n,,\x01Auth=Bearer a\x01\x01",
        "n,,\x01x=y\x01\x01",
    ],
)
def test_a_message_that_is_refused(text: str) -> None:
    assert read_message(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "n,,\x01" + "a=b\x01" * (TOKEN_BYTES // 4),
        "n,,\x01" + "a=\x01" * (TOKEN_BYTES // 3) + "\x01",
        "n,,\x01" + "auth=Bearer " + "a" * TOKEN_BYTES + "*\x01\x01",
        "n,,\x01" + "auth=" + "a" * TOKEN_BYTES + "\x01\x01",
        "n,,\x01" + "auth=Bearer" + " " * TOKEN_BYTES + "\x01\x01",
        "n,a=" + "=2C" * (TOKEN_BYTES // 3) + "=,\x01auth=Bearer a\x01\x01",
        "n," + "," * TOKEN_BYTES,
        "a" * TOKEN_BYTES,
        "\x01" * TOKEN_BYTES,
    ],
    ids=["pairs", "empty", "token", "scheme", "blanks", "name", "commas", "letters", "ends"],
)
def test_reading_takes_time_in_proportion_to_the_length(text: str) -> None:
    began = time.process_time()
    assert read_message(text) is None
    assert time.process_time() - began < CPU_SECONDS_MAX
