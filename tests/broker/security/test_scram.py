"""SCRAM credentials, and how users are altered."""

from __future__ import annotations

import pytest

from tests.support.security import credentials
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.scram import (
    BY_SASL_NAME,
    Deletion,
    ScramCredential,
    ScramMechanism,
    Upsertion,
    alter,
    credential_of,
    derived,
)

SHA_256 = ScramMechanism.SCRAM_SHA_256
TWICE = ErrorCode.duplicate_resource


def upsertion(user: str = "bob", *, mechanism: int = SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(
        user=user, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"p"
    )


def test_the_keys_are_those_of_rfc_7677() -> None:
    # The exchange of RFC 7677, section 3: user "user", password "pencil".
    import base64
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = credential_of("pencil", mechanism=SHA_256, salt=salt)
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(found.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = hmac.digest(found.stored_key, message, "sha256")
    key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert hashlib.sha256(key).digest() == found.stored_key


def test_the_mechanisms_have_the_names_and_hashes_of_sasl() -> None:
    assert {name: mechanism.digest for name, mechanism in BY_SASL_NAME.items()} == {
        "SCRAM-SHA-256": "sha256",
        "SCRAM-SHA-512": "sha512",
    }


def with_credential(one: Upsertion) -> tuple[Upsertion, ScramCredential | Rejection]:
    return one, derived(one)


def test_a_user_is_set_and_forgotten() -> None:
    known = credentials()
    changed, outcomes = alter(
        known,
        deletions=[Deletion(user="alice", mechanism=SHA_256)],
        upsertions=[with_credential(upsertion())],
    )
    assert outcomes == {"alice": None, "bob": None}
    assert set(changed) == {("alice", ScramMechanism.SCRAM_SHA_512), ("bob", SHA_256)}
    assert ("alice", SHA_256) in known  # nothing is changed in place


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
    known = credentials()
    changed, outcomes = alter(
        known,
        deletions=[Deletion(user=user, mechanism=kind) for user, kind in deletions],
        upsertions=[
            with_credential(upsertion(user, mechanism=kind, iterations=count))
            for user, kind, count in upsertions
        ],
    )
    (refused,) = outcomes.values()
    assert refused is not None
    assert refused.error is error
    assert changed == known
