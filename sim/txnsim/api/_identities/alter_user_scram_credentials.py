"""AlterUserScramCredentials (key 51): set and forget the SCRAM credentials of users (KIP-554).

Only version 0. Clients send salted passwords; the cluster keeps the two keys of RFC 5802. Kafka's
counterpart: ScramControlManager.alterCredentials.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api.request import Reply, Request, error_fields
from txnsim.errors import ErrorCode, Rejection
from txnsim.security.scram import Deletion, ScramCredential, Upsertion, alter, derive_credential

API_KEY: Final = 51


async def handle(request: Request) -> Reply:
    """Alter each user separately. Credentials are derived in slices, then all are set in one
    step.
    """
    message = request.message
    metadata = request.broker.metadata
    upsertions = await request.map_each(_derive_credential, message.upsertions, weight=2)
    new_credentials, outcome_by_user = alter(
        metadata.image.scram,
        deletions=(
            Deletion(user=deletion.name, mechanism=int(deletion.mechanism))
            for deletion in message.deletions
        ),
        upsertions=upsertions,
    )
    if any(rejection is None for rejection in outcome_by_user.values()):
        metadata.publish(metadata.image.with_scram(new_credentials))
    return request.answer(
        results=tuple(await request.map_each(partial(_user_row, request), outcome_by_user.items()))
    )


def _derive_credential(upsertion_row: Any) -> tuple[Upsertion, ScramCredential | Rejection]:
    upsertion = Upsertion(
        user=upsertion_row.name,
        mechanism=int(upsertion_row.mechanism),
        iterations=int(upsertion_row.iterations),
        salt=upsertion_row.salt,
        salted_password=upsertion_row.salted_password,
    )
    return upsertion, derive_credential(upsertion)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every user."""
    message = request.message
    rejection = Rejection(error=error, reason="")
    user_names = dict.fromkeys(
        alteration.name for alteration in (*message.deletions, *message.upsertions)
    )
    return request.answer(
        results=tuple(_user_row(request, (user_name, rejection)) for user_name in user_names)
    )


def _user_row(request: Request, outcome: tuple[str, Rejection | None]) -> Any:
    user, rejection = outcome
    return request.schema.AlterUserScramCredentialsResult(user=user, **error_fields(rejection))
