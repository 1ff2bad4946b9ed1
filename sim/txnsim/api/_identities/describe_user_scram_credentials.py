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

KEY: Final = 50

refuse = refuse_at_top_level(has_error_name=True, results=())


async def handle(request: Request) -> Reply:
    schema = request.schema
    requested_users = [user.name for user in request.message.users or ()]
    credentials_by_user = _mechanisms_by_user(request, requested_users)
    requested_users = requested_users or list(credentials_by_user)
    times = Counter(requested_users)

    def describe(name: str) -> Any:
        if times[name] > 1:
            return _failure(
                request,
                name,
                ErrorCode.duplicate_resource,
                "Cannot describe SCRAM credentials for the same user twice in a single "
                f"request: {name}",
            )
        if name not in credentials_by_user:
            return _failure(
                request,
                name,
                ErrorCode.resource_not_found,
                "Attempt to describe a user credential that does not exist: " + name,
            )
        return schema.DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.none,
            error_message="",
            credential_infos=tuple(
                schema.CredentialInfo(mechanism=mechanism, iterations=iterations)
                for mechanism, iterations in credentials_by_user[name]
            ),
        )

    results = await request.map_each(describe, times)
    return request.answer(error_code=ErrorCode.none, error_message="", results=tuple(results))


def _mechanisms_by_user(request: Request, names: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Each user's (mechanism, iterations) pairs, in order; of all users if ``names`` is empty."""
    credentials_by_user: dict[str, list[tuple[int, int]]] = {}
    credentials = request.broker.image.scram
    both = ((name, kind) for name in set(names) for kind in ScramMechanism)
    credential_keys = (
        [credential_key for credential_key in both if credential_key in credentials]
        if names
        else credentials
    )
    for name, mechanism in sorted(credential_keys):
        mechanisms = credentials_by_user.setdefault(name, [])
        mechanisms.append((int(mechanism), credentials[name, mechanism].iterations))
    return credentials_by_user


def _failure(request: Request, name: str, error: ErrorCode, message: str) -> Any:
    return request.schema.DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message, credential_infos=()
    )
