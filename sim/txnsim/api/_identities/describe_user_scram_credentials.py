"""DescribeUserScramCredentials (key 50): which users can log in by SCRAM, and with how many
iterations (KIP-554).

Only version 0. A request without users asks for all. Kafka's counterparts: ScramImage.describe,
KafkaApis.handleDescribeUserScramCredentialsRequest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.security.scram import ScramMechanism

API_KEY: Final = 50

refuse = refuse_at_top_level(has_error_name=True, results=())


async def handle(request: Request) -> Reply:
    schema = request.schema
    requested_users = [user.name for user in request.message.users or ()]
    credentials_by_user = _mechanisms_by_user(request, requested_users)
    requested_users = requested_users or list(credentials_by_user)
    user_counts = Counter(requested_users)

    def describe(user_name: str) -> Any:
        if user_counts[user_name] > 1:
            return _failure(
                request,
                user_name,
                ErrorCode.duplicate_resource,
                "Cannot describe SCRAM credentials for the same user twice in a single "
                f"request: {user_name}",
            )
        if user_name not in credentials_by_user:
            return _failure(
                request,
                user_name,
                ErrorCode.resource_not_found,
                "Attempt to describe a user credential that does not exist: " + user_name,
            )
        return schema.DescribeUserScramCredentialsResult(
            user=user_name,
            error_code=ErrorCode.none,
            error_message="",
            credential_infos=tuple(
                schema.CredentialInfo(mechanism=mechanism, iterations=iterations)
                for mechanism, iterations in credentials_by_user[user_name]
            ),
        )

    user_rows = await request.map_each(describe, user_counts)
    return request.answer(error_code=ErrorCode.none, error_message="", results=tuple(user_rows))


def _mechanisms_by_user(
    request: Request, user_names: Sequence[str]
) -> dict[str, list[tuple[int, int]]]:
    """Each user's (mechanism, iterations) pairs, in order; all users if ``user_names`` is empty."""
    credentials_by_user: dict[str, list[tuple[int, int]]] = {}
    credentials = request.broker.image.scram
    possible_keys = (
        (user_name, scram_mechanism)
        for user_name in set(user_names)
        for scram_mechanism in ScramMechanism
    )
    credential_keys = (
        [credential_key for credential_key in possible_keys if credential_key in credentials]
        if user_names
        else credentials
    )
    for user_name, mechanism in sorted(credential_keys):
        mechanisms = credentials_by_user.setdefault(user_name, [])
        mechanisms.append((int(mechanism), credentials[user_name, mechanism].iterations))
    return credentials_by_user


def _failure(request: Request, user_name: str, error: ErrorCode, message: str) -> Any:
    return request.schema.DescribeUserScramCredentialsResult(
        user=user_name, error_code=error, error_message=message, credential_infos=()
    )
