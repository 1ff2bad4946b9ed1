"""SCRAM credentials: what a broker stores of a password, and how credentials are altered.

A credential holds what RFC 5802 lets a server keep: neither the password nor the salted password.
Kafka's counterparts: ScramCredential, ScramFormatter, ScramControlManager.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection

ITERATIONS_MIN: Final = 4_096
"""Fewest iterations of both mechanisms (ScramMechanism.minIterations)."""
ITERATIONS_MAX: Final = 16_384
"""Most iterations (ScramControlManager.MAX_ITERATIONS)."""


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in the protocol."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The mechanism's name in SASL: ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The mechanism's hash function, by its name in ``hashlib``."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


MECHANISM_BY_SASL_NAME: Final = {
    mechanism.sasl_name: mechanism
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
}


class ScramCredential(msgspec.Struct, frozen=True, kw_only=True):
    """What a server stores of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


Credentials = Mapping[tuple[str, int], ScramCredential]
"""(user, mechanism) -> credential."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes a user's credential."""

    user: str
    mechanism: int


class Upsertion(msgspec.Struct, frozen=True, kw_only=True):
    """Sets a user's credential; the client has salted the password itself."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


Outcomes = dict[str, Rejection | None]
"""User -> error; None for success."""


def credential_of(password: str, *, mechanism: ScramMechanism, salt: bytes) -> ScramCredential:
    """Make the credential of a password, with Kafka's fewest iterations (RFC 5802's ``Hi``)."""
    salted_password = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, ITERATIONS_MIN)
    return _credential_from_salted(
        salted_password, mechanism=mechanism, salt=salt, iterations=ITERATIONS_MIN
    )


def derive_credential(upsertion: Upsertion) -> ScramCredential | Rejection:
    """The credential to set, or an error. It does not depend on state, and takes most of the time
    of a request.
    """
    rejection = _upsertion_complaint(upsertion)
    if rejection is not None:
        return rejection
    return _credential_from_salted(
        upsertion.salted_password,
        mechanism=ScramMechanism(upsertion.mechanism),
        salt=upsertion.salt,
        iterations=upsertion.iterations,
    )


def alter(
    credentials: Credentials,
    *,
    deletions: Iterable[Deletion],
    upsertions: Iterable[tuple[Upsertion, ScramCredential | Rejection]],
) -> tuple[Credentials, Outcomes]:
    """Apply a request that alters users; each user may be altered once in a request.

    Returns:
        The new credentials, and the result for each user.
    """
    deletion_by_user: dict[str, Deletion] = {}
    credential_by_user: dict[str, tuple[int, ScramCredential]] = {}
    refusals: Outcomes = {}
    for deletion in deletions:
        if deletion.user in refusals:
            continue
        if deletion_by_user.pop(deletion.user, None) is not None:
            refusals[deletion.user] = _ALTERED_TWICE
        elif (rejection := _deletion_complaint(credentials, deletion)) is not None:
            refusals[deletion.user] = rejection
        else:
            deletion_by_user[deletion.user] = deletion
    for upsertion, new_credential in upsertions:
        user = upsertion.user
        if user in refusals:
            continue
        if (
            deletion_by_user.pop(user, None) is not None
            or credential_by_user.pop(user, None) is not None
        ):
            refusals[user] = _ALTERED_TWICE
        elif isinstance(new_credential, Rejection):
            refusals[user] = new_credential
        else:
            credential_by_user[user] = upsertion.mechanism, new_credential
    changed_credentials = dict(credentials)
    for deletion in deletion_by_user.values():
        del changed_credentials[deletion.user, deletion.mechanism]
    for user, (mechanism, credential) in credential_by_user.items():
        changed_credentials[user, mechanism] = credential
    return changed_credentials, {
        **dict.fromkeys((*deletion_by_user, *credential_by_user)),
        **refusals,
    }


def _credential_from_salted(
    salted_password: bytes, *, mechanism: ScramMechanism, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.digest),
        iterations=iterations,
    )


_ALTERED_TWICE: Final = Rejection(
    error=ErrorCode.duplicate_resource,
    reason="A user credential cannot be altered twice in the same request",
)


def _deletion_complaint(credentials: Credentials, deletion: Deletion) -> Rejection | None:
    rejection = _name_complaint(deletion.user, deletion.mechanism)
    if rejection is None and (deletion.user, deletion.mechanism) not in credentials:
        return Rejection(
            error=ErrorCode.resource_not_found,
            reason="Attempt to delete a user credential that does not exist",
        )
    return rejection


def _upsertion_complaint(upsertion: Upsertion) -> Rejection | None:
    rejection = _name_complaint(upsertion.user, upsertion.mechanism)
    if rejection is not None:
        return rejection
    if upsertion.iterations < ITERATIONS_MIN:
        return _unacceptable_credential("Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        return _unacceptable_credential("Too many iterations")
    return None


def _name_complaint(user: str, mechanism: int) -> Rejection | None:
    if not user:
        return _unacceptable_credential("Username must not be empty")
    if mechanism not in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        return Rejection(
            error=ErrorCode.unsupported_sasl_mechanism, reason="Unknown SCRAM mechanism"
        )
    return None


def _unacceptable_credential(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unacceptable_credential, reason=reason)
