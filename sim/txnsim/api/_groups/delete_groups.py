"""DeleteGroups (key 42): delete groups without members, with their positions (KIP-229).

Versions: 2 is the first flexible one, 3 (Kafka 4.4) has a message field, which consumer groups
never need. Kafka's counterpart: KafkaApis.handleDeleteGroupsRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode

API_KEY: Final = 42


async def handle(request: Request) -> Reply:
    """Delete each group; answer once the tombstones are replicated."""
    errors_by_group = {}
    request.expect(len(request.message.groups_names) * 4)
    for group_id in request.message.groups_names:
        if group_id not in errors_by_group:
            refusal = await request.broker.groups.delete(group_id)
            errors_by_group[group_id] = ErrorCode.none if refusal is None else refusal.error
            await request.note_done(4)
    return _answer(request, errors_by_group)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    return _answer(request, dict.fromkeys(request.message.groups_names, error))


def _answer(request: Request, errors_by_group: dict[str, ErrorCode]) -> Reply:
    schema = request.schema
    return request.answer(
        results=tuple(
            schema.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in errors_by_group.items()
        )
    )
