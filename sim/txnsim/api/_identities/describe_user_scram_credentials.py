"""DescribeUserScramCredentials (key 50): which users can log in by SCRAM, and with how many
iterations (KIP-554).

Versions: 0 only. No user named means all. Kafka's counterparts: ScramImage.describe,
KafkaApis.handleDescribeUserScramCredentialsRequest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from txnsim.api.request import Reply, Request, at_top
from txnsim.errors import ErrorCode
from txnsim.security.scram import ScramMechanism

KEY: Final = 50

refuse = at_top(names_it=True, results=())


async def handle(request: Request) -> Reply:
    schema = request.schema
    asked = [user.name for user in request.message.users or ()]
    known = _known(request, asked)
    asked = asked or list(known)
    times = Counter(asked)

    def describe(name: str) -> Any:
        if times[name] > 1:
            return _failed(
                request,
                name,
                ErrorCode.duplicate_resource,
                "Cannot describe SCRAM credentials for the same user twice in a single "
                f"request: {name}",
            )
        if name not in known:
            return _failed(
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
                for mechanism, iterations in known[name]
            ),
        )

    results = await request.each(describe, times)
    return request.answer(error_code=ErrorCode.none, error_message="", results=tuple(results))


def _known(request: Request, names: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """User -> its mechanisms and their iterations, in order; of all users unless named."""
    known: dict[str, list[tuple[int, int]]] = {}
    credentials = request.broker.image.scram
    both = ((name, kind) for name in set(names) for kind in ScramMechanism)
    wanted = [one for one in both if one in credentials] if names else credentials
    for name, mechanism in sorted(wanted):
        found = known.setdefault(name, [])
        found.append((int(mechanism), credentials[name, mechanism].iterations))
    return known


def _failed(request: Request, name: str, error: ErrorCode, message: str) -> Any:
    return request.schema.DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message, credential_infos=()
    )
