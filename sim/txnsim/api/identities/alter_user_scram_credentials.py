"""AlterUserScramCredentials (key 51): set and forget the SCRAM credentials of users (KIP-554).

Versions: 0 only. Passwords come salted; what is kept are the two keys of RFC 5802. Kafka's
counterpart: ScramControlManager.alterCredentials.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.identities.acl_entries import told
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.scram import Deletion, Outcomes, Upsertion, alter

KEY: Final = 51
VERSIONS: Final = (0, 0)


async def handle(request: Request) -> Reply:
    """Alter each user by itself."""
    message = request.message
    metadata = request.broker.metadata
    changed, outcomes = alter(
        metadata.image.scram,
        deletions=(
            Deletion(user=one.name, mechanism=int(one.mechanism)) for one in message.deletions
        ),
        upsertions=(
            Upsertion(
                user=one.name,
                mechanism=int(one.mechanism),
                iterations=int(one.iterations),
                salt=one.salt,
                salted_password=one.salted_password,
            )
            for one in message.upsertions
        ),
    )
    if any(refused is None for refused in outcomes.values()):
        metadata.publish(metadata.image.with_scram(changed))
    return _answer(request, outcomes)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every user."""
    message = request.message
    rejection = Rejection(error=error, reason="")
    names = [one.name for one in (*message.deletions, *message.upsertions)]
    return _answer(request, dict.fromkeys(names, rejection))


def _answer(request: Request, outcomes: Outcomes) -> Reply:
    result = request.schema.AlterUserScramCredentialsResult
    return request.answer(
        results=tuple(result(user=user, **told(refused)) for user, refused in outcomes.items())
    )
