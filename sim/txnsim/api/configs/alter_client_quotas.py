"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible. Kafka's counterparts: KafkaApis, ControllerApis.handleAlterClientQuotas,
ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.quotas import (
    Entity,
    QuotaChange,
    altered_quotas,
    entity_of,
    entity_text,
)

KEY: Final = 49
VERSIONS: Final = (0, 1)


async def handle(request: Request) -> Reply:
    """Alter each entity by itself; who is named twice is told that the second one is ignored."""
    outcomes: dict[Entity, Rejection | None] = {}
    for entry in request.message.entries:
        entity = _entity(entry)
        keys = [op.key for op in entry.ops]
        if entity in outcomes or len(keys) > len(set(keys)):
            outcomes[entity] = Rejection(
                error=ErrorCode.invalid_request,
                reason=f"Ignoring duplicate entity {entity_text(entity)}",
            )
        else:
            outcomes[entity] = _altered(request, entity, entry)
    return _answer(request, outcomes)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every entity."""
    rejection = Rejection(error=error, reason="")
    return _answer(request, {_entity(entry): rejection for entry in request.message.entries})


def _entity(entry: Any) -> Entity:
    return entity_of((one.entity_type, one.entity_name) for one in entry.entity)


def _altered(request: Request, entity: Entity, entry: Any) -> Rejection | None:
    metadata = request.broker.metadata
    changed = altered_quotas(
        metadata.image,
        entity,
        (QuotaChange(key=op.key, value=None if op.remove else op.value) for op in entry.ops),
    )
    if isinstance(changed, Rejection):
        return changed
    if not request.message.validate_only:
        metadata.publish(changed)
    return None


def _answer(request: Request, outcomes: dict[Entity, Rejection | None]) -> Reply:
    schema = request.schema
    return request.answer(
        entries=tuple(
            schema.EntryData(
                error_code=ErrorCode.none if rejection is None else rejection.error,
                error_message=None if rejection is None else rejection.reason or None,
                entity=tuple(
                    schema.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ),
            )
            for entity, rejection in outcomes.items()
        )
    )
