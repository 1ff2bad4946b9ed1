"""SASL mechanisms, token by token, and where logins come from."""

from __future__ import annotations

import base64
import importlib
import json
import time  # noqa: TID251 - measures the CPU time of a pure function
from typing import Any

import msgspec
import pytest
import scramp

from tests.support.security import acl, bearer, credentials, unsecured_token
from txnsim.errors import ConfigError, ErrorCode, MissingExtraError, Rejection
from txnsim.security import login as login_module
from txnsim.security.acls import AclOperation, ResourceType
from txnsim.security.jaas import LoginModule, parse_login
from txnsim.security.login import Bearer, Credential, LoginError, Password, credential_from, login
from txnsim.security.options import (
    NO_SECURITY,
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsFiles,
    TlsPem,
    check_security,
)
from txnsim.security.sasl import (
    MECHANISMS,
    OAUTHBEARER,
    Authenticated,
    BearerExchange,
    BearerMessage,
    BearerRules,
    Challenge,
    SaslExchange,
    SaslRefusal,
    Step,
    exchange,
    read_message,
)
from txnsim.security.scram import (
    MECHANISM_BY_SASL_NAME,
    Deletion,
    ScramCredential,
    ScramMechanism,
    Upsertion,
    alter,
    credential_of,
    derive_credential,
)

# SASL mechanisms, token by token.


NOW_MS = 1_000_000
CLAIMS = {"sub": "alice", "iat": 900, "exp": 2_000.5}


def begin(mechanism: str) -> SaslExchange:
    return exchange(
        mechanism,
        plain_users={"alice": "secret"},
        credentials=credentials(),
        make_nonce=lambda: "servernonce",
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
        assert isinstance(step, SaslRefusal)
        assert expected in (step.message or "")
    else:
        assert step == expected


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_knows_a_password_without_hearing_it(mechanism: str) -> None:
    client = scramp.ScramClient([mechanism], "alice", "secret", c_nonce="clientnonce")
    server = begin(mechanism)
    challenge = server.feed(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    last_message = server.feed(client.get_client_final().encode())
    assert isinstance(last_message, Authenticated)
    assert last_message.user == "alice"
    client.set_server_final(last_message.token.decode())  # it knows the server's signature


@pytest.mark.parametrize(("user_name", "password"), [("alice", "wrong"), ("bob", "secret")])
def test_scram_does_not_show_which_users_there_are(user_name: str, password: str) -> None:
    client = scramp.ScramClient(["SCRAM-SHA-256"], user_name, password, c_nonce="clientnonce")
    server = begin("SCRAM-SHA-256")
    step = server.feed(client.get_client_first().encode())
    if isinstance(step, Challenge):
        client.set_server_first(step.token.decode())
        step = server.feed(client.get_client_final().encode())
    assert step == SaslRefusal()


@pytest.mark.parametrize("token", [b"", b"\xff", b"n,,x=1", b"y,,n=alice,r=abc,"])
def test_scram_refuses_what_is_no_message(token: bytes) -> None:
    assert begin("SCRAM-SHA-256").feed(token) == SaslRefusal()


@pytest.mark.parametrize(
    "letter", ["a", "=2C", "é", "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"]
)
def test_scram_refuses_a_name_that_is_longer_than_any_users_at_once(letter: str) -> None:
    server = begin("SCRAM-SHA-256")
    began = time.process_time()
    assert server.feed(f"n,,n={letter * 150_000},r=x".encode()) == SaslRefusal()
    assert time.process_time() - began < 0.5


def test_scram_takes_a_name_that_needs_escapes() -> None:
    user_name = ",=," * 10
    server = exchange(
        "SCRAM-SHA-256",
        plain_users={},
        credentials=credentials(user_name),
        make_nonce=lambda: "servernonce",
        now_ms=NOW_MS,
    )
    client = scramp.ScramClient(["SCRAM-SHA-256"], user_name, "secret")
    assert isinstance(server.feed(client.get_client_first().encode()), Challenge)


def test_a_bearer_is_who_the_token_says_until_it_ends() -> None:
    step = begin("OAUTHBEARER").feed(bearer(unsecured_token(CLAIMS)))
    assert step == Authenticated(user="alice", expires_ms=2_000_500)
    own_bearer = bearer(unsecured_token(CLAIMS), authorization_id="a=alice")
    assert isinstance(begin("OAUTHBEARER").feed(own_bearer), Authenticated)
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
    assert server.feed(b"\x01") == SaslRefusal(message='{"status":"invalid_token"}')


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
    assert isinstance(step, SaslRefusal)
    assert "(bob) that is different" in (step.message or "")


def test_what_is_no_bearers_message_is_refused() -> None:
    assert begin("OAUTHBEARER").feed(b"\0alice\0secret") == SaslRefusal()


def test_a_listener_may_ask_more_of_a_token() -> None:
    rules = BearerRules(
        principal_claim="name",
        scope_claim="may",
        required_scope=("read", "write"),
        clock_skew_ms=2_000,
    )
    claims = {"name": "bob", "iat": 1_001, "exp": 998.5 + 1_000, "may": ["read", " write ", "", 7]}

    def fed(**changed_claims: Any) -> Step:
        token = bearer(unsecured_token({**claims, **changed_claims}))
        return BearerExchange(now_ms=NOW_MS, bearer_rules=rules).feed(token)

    assert fed() == Authenticated(user="bob", expires_ms=1_998_500)
    missing = b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    for scope in ("read", ["write"], None, 7):
        assert fed(may=scope) == Challenge(token=missing)
    invalid_challenge = Challenge(token=b'{"status":"invalid_token"}')
    assert fed(name=None) == invalid_challenge
    assert fed(iat=1_003) == invalid_challenge
    assert fed(iat=900, exp=998) == invalid_challenge
    assert isinstance(fed(iat=900, exp=998.5), Authenticated)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_args: Any) -> Any:
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
    ("message_text", "token", "authorization_id"),
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
def test_a_message_that_is_taken(message_text: str, token: str, authorization_id: str) -> None:
    assert read_message(message_text) == BearerMessage(
        token=token, authorization_id=authorization_id
    )


@pytest.mark.parametrize(
    "message_text",
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
def test_a_message_that_is_refused(message_text: str) -> None:
    assert read_message(message_text) is None


@pytest.mark.parametrize(
    "message_text",
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
def test_reading_takes_time_in_proportion_to_the_length(message_text: str) -> None:
    began = time.process_time()
    assert read_message(message_text) is None
    assert time.process_time() - began < CPU_SECONDS_MAX


# The client's side of SASL, against the broker's side of it.


ALICE = Password(user="alice", password="secret")
TOKEN = Bearer(claims={"sub": "alice"})


def begin_of_login(mechanism: str, credential: Credential | None = None) -> login_module.Login:
    default: Credential = TOKEN if mechanism == OAUTHBEARER else ALICE
    return login(mechanism, credential or default, now_ms=NOW_MS, nonce="clientnonce")


def broker(mechanism: str) -> Any:
    return exchange(
        mechanism,
        plain_users={"alice": "secret"},
        credentials=credentials(),
        make_nonce=lambda: "servernonce",
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_understand_each_other(mechanism: str) -> None:
    client, server = begin_of_login(mechanism), broker(mechanism)
    token: bytes | None = client.first_token()
    while token is not None:
        step = server.feed(token)
        assert not isinstance(step, SaslRefusal)
        token = client.next(step.token)
    assert isinstance(step, Authenticated)
    assert step.user == "alice"


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    client = begin_of_login("SCRAM-SHA-256", Password(user="alice", password="other"))
    server = broker("SCRAM-SHA-256")
    challenge = server.feed(client.first_token())
    assert isinstance(challenge, Challenge)
    assert client.next(challenge.token) is not None
    with pytest.raises(LoginError, match="token is wrong"):
        client.next(b"v=bm9uc2Vuc2U=")


@pytest.mark.parametrize("token", [b"nonsense", b"\xff", b"r=other,s=AAAA,i=4096"])
def test_what_is_no_message_of_a_broker_is_refused(token: bytes) -> None:
    client = begin_of_login("SCRAM-SHA-512")
    client.first_token()
    with pytest.raises(LoginError):
        client.next(token)


def test_plain_has_no_second_token() -> None:
    client = begin_of_login("PLAIN")
    assert client.first_token() == b"\0alice\0secret"
    with pytest.raises(LoginError):
        client.next(b"?")


def test_a_bearer_acknowledges_the_reason_of_a_refusal() -> None:
    assert begin_of_login(OAUTHBEARER).next(b'{"status":"invalid_token"}') == b"\x01"


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
    credential = credential_from(OAUTHBEARER, LoginModule(name="m", options=options))
    assert isinstance(credential, Bearer)
    first_token = begin_of_login(OAUTHBEARER, credential).first_token()
    start, head, extension, *end = first_token.split(b"\x01")
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
    ("mechanism", "options", "expected_reason"),
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
    mechanism: str, options: dict[str, str], expected_reason: str
) -> None:
    with pytest.raises(ValueError, match=expected_reason):
        credential_from(mechanism, LoginModule(name="m", options=options))


def test_a_password_comes_from_its_options() -> None:
    options = {"username": "alice", "password": "secret", "tokenauth": "false"}
    assert credential_from("PLAIN", LoginModule(name="m", options=options)) == ALICE


def test_login_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise MissingExtraError(f"{name} is not installed")

    monkeypatch.setattr(login_module, "import_library", absent)
    with pytest.raises(MissingExtraError):
        begin_of_login("SCRAM-SHA-256")


# SCRAM credentials, and how users are altered.


SHA_256 = ScramMechanism.SCRAM_SHA_256
TWICE = ErrorCode.duplicate_resource


def upsertion(
    user_name: str = "bob", *, mechanism: int = SHA_256, iteration_count: int = 4096
) -> Upsertion:
    return Upsertion(
        user=user_name,
        mechanism=mechanism,
        iterations=iteration_count,
        salt=b"s",
        salted_password=b"p",
    )


def test_the_keys_are_those_of_rfc_7677() -> None:
    # The exchange of RFC 7677, section 3: user "user", password "pencil".
    import base64
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    scram_credential = credential_of("pencil", mechanism=SHA_256, salt=salt)
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(scram_credential.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = hmac.digest(scram_credential.stored_key, message, "sha256")
    key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert hashlib.sha256(key).digest() == scram_credential.stored_key


def test_the_mechanisms_have_the_names_and_hashes_of_sasl() -> None:
    assert {
        sasl_name: mechanism.digest for sasl_name, mechanism in MECHANISM_BY_SASL_NAME.items()
    } == {
        "SCRAM-SHA-256": "sha256",
        "SCRAM-SHA-512": "sha512",
    }


def with_credential(upsertion: Upsertion) -> tuple[Upsertion, ScramCredential | Rejection]:
    return upsertion, derive_credential(upsertion)


def test_a_user_is_set_and_forgotten() -> None:
    credentials_before = credentials()
    changed_credentials, outcomes = alter(
        credentials_before,
        deletions=[Deletion(user="alice", mechanism=SHA_256)],
        upsertions=[with_credential(upsertion())],
    )
    assert outcomes == {"alice": None, "bob": None}
    assert set(changed_credentials) == {("alice", ScramMechanism.SCRAM_SHA_512), ("bob", SHA_256)}
    assert ("alice", SHA_256) in credentials_before  # nothing is changed in place


@pytest.mark.parametrize(
    ("deletions", "upsertions", "error"),
    [
        ([("alice", 1), ("alice", 2)], [], TWICE),
        ([("alice", 1), ("alice", 2), ("alice", 1)], [], TWICE),
        ([("alice", 1)], [("alice", 1, 4096)], TWICE),
        ([], [("alice", 1, 4096), ("alice", 2, 4096)], TWICE),
        ([], [("alice", 1, 4096), ("alice", 2, 4096), ("alice", 2, 4096)], TWICE),
        ([("bob", 1)], [], ErrorCode.resource_not_found),
        ([("", 1)], [], ErrorCode.unacceptable_credential),
        ([("alice", 9)], [], ErrorCode.unsupported_sasl_mechanism),
        ([], [("", 1, 4096)], ErrorCode.unacceptable_credential),
        ([], [("alice", 0, 4096)], ErrorCode.unsupported_sasl_mechanism),
        ([], [("alice", 1, 4095)], ErrorCode.unacceptable_credential),
        ([], [("alice", 1, 16_385)], ErrorCode.unacceptable_credential),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    deletions: list[tuple[str, int]], upsertions: list[tuple[str, int, int]], error: ErrorCode
) -> None:
    credentials_before = credentials()
    changed_credentials, outcomes = alter(
        credentials_before,
        deletions=[
            Deletion(user=user_name, mechanism=mechanism) for user_name, mechanism in deletions
        ],
        upsertions=[
            with_credential(upsertion(user_name, mechanism=mechanism, iteration_count=count))
            for user_name, mechanism, count in upsertions
        ],
    )
    (rejection,) = outcomes.values()
    assert rejection is not None
    assert rejection.error is error
    assert changed_credentials == credentials_before


# What a cluster's security is made of has to make sense.


SASL = SecureListener(name="SASL", protocol=SecurityProtocol.SASL_PLAINTEXT)
TLS = SecureListener(name="TLS", protocol=SecurityProtocol.SSL)
FILES = TlsFiles(certificate="c", key="k")
MUTUAL = msgspec.structs.replace(TLS, client_auth=ClientAuth.REQUIRED)


@pytest.mark.parametrize(
    ("protocol", "with_tls", "with_sasl"),
    [
        (SecurityProtocol.PLAINTEXT, False, False),
        (SecurityProtocol.SSL, True, False),
        (SecurityProtocol.SASL_PLAINTEXT, False, True),
        (SecurityProtocol.SASL_SSL, True, True),
    ],
)
def test_a_protocol_is_encrypted_or_authenticated_or_both(
    protocol: SecurityProtocol, *, with_tls: bool, with_sasl: bool
) -> None:
    assert (protocol.has_tls, protocol.has_sasl) == (with_tls, with_sasl)


def test_what_makes_sense_is_taken() -> None:
    check_security(NO_SECURITY)
    tls_files = msgspec.structs.replace(FILES, authority="a")
    check_security(SecurityOptions(listeners=(SASL, MUTUAL), tls=tls_files))
    own_listener = msgspec.structs.replace(
        MUTUAL, tls=TlsPem(certificate="c", key="k", authority="a")
    )
    check_security(SecurityOptions(listeners=(own_listener,), has_plain_listener=False))
    check_security(
        SecurityOptions(
            acls=(acl(ResourceType.TOPIC, "orders", AclOperation.READ),), listeners=(SASL,)
        )
    )


@pytest.mark.parametrize(
    ("options", "expected_reason"),
    [
        (SecurityOptions(listeners=(SASL, SASL)), "two listeners named SASL"),
        (SecurityOptions(listeners=(TLS,)), "SSL needs TLS files"),
        (
            SecurityOptions(listeners=(msgspec.structs.replace(SASL, mechanisms=("GSSAPI",)),)),
            "no such SASL mechanism: GSSAPI",
        ),
        (SecurityOptions(listeners=(MUTUAL,), tls=FILES), "need an authority"),
        (SecurityOptions(has_plain_listener=False), "there is no listener"),
        (SecurityOptions(principal_mapping_rules="x"), "mapping.rules: 'x' is no rule"),
        (
            SecurityOptions(
                listeners=(msgspec.structs.replace(SASL, principal_mapping_rules="x"),)
            ),
            "mapping.rules: 'x' is no rule",
        ),
        (
            SecurityOptions(acls=(acl(ResourceType.TOPIC, "", AclOperation.READ),)),
            "Invalid empty resource name",
        ),
    ],
)
def test_what_does_not_is_refused(options: SecurityOptions, expected_reason: str) -> None:
    with pytest.raises(ConfigError, match=expected_reason):
        check_security(options)


# ``sasl.jaas.config`` as JaasConfig reads it.


@pytest.mark.parametrize(
    ("jaas_text", "name", "options"),
    [
        ("a.B required;", "a.B", {}),
        ("B REQUISITE x=y ;", "B", {"x": "y"}),
        (
            'a.PlainLoginModule required username="al ice" user_bob=\'b"ob\';',
            "a.PlainLoginModule",
            {"username": "al ice", "user_bob": 'b"ob'},
        ),
        ('B optional // why\n k="v" /* and\nso on */ ; / the end', "B", {"k": "v"}),
        (r'B sufficient k="\"\\\t\n\q\101";', "B", {"k": '"\\\t\nqA'}),
        ('B required k="";', "B", {"k": ""}),
        (
            "B required unsecuredLoginStringClaim_sub=me-too;",
            "B",
            {"unsecuredLoginStringClaim_sub": "me-too"},
        ),
    ],
)
def test_a_module_and_its_options(jaas_text: str, name: str, options: dict[str, str]) -> None:
    login = parse_login(jaas_text)
    assert (login.name, login.options) == (name, options)


@pytest.mark.parametrize(
    ("jaas_text", "expected_reason"),
    [
        ("", "no login module"),
        (" // nothing", "no login module"),
        ("a.B", "a flag is expected"),
        ("a.B wanted;", "a flag is expected"),
        ("; required;", "a flag is expected"),
        ("a.B required k;", "the option k has no value"),
        ("a.B required k=1;", "the option k has no value"),
        ("a.B required k==x;", "the option k has no value"),
        ("a.B required k=", "the option k has no value"),
        ("a.B required k=x", "semicolon"),
        ("a.B required; c.D required;", "2 login modules"),
    ],
)
def test_what_is_none_is_refused(jaas_text: str, expected_reason: str) -> None:
    with pytest.raises(ValueError, match=expected_reason):
        parse_login(jaas_text)
