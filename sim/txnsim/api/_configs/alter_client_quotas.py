"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible. Kafka's counterparts: KafkaApis, ControllerApis.handleAlterClientQuotas,
ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import CHANGE_WEIGHT, Reply, Request, error_fields, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.quotas import (
    Entity,
    QuotaChange,
    altered_quotas,
    altered_values,
    entity_of,
    entity_text,
)

KEY: Final = 49


async def handle(request: Request) -> Reply:
    """Alter each entity by itself. The second entry of an entity is refused as ignored."""
    outcomes: dict[Entity, Rejection | None] = {}
    changes_by_entity: dict[Entity, tuple[QuotaChange, ...]] = {}
    metadata = request.broker.metadata
    rules = request.broker.release.rules
    request.expect(len(request.message.entries) * CHANGE_WEIGHT)
    for entry in request.message.entries:
        entity = _entity(entry)
        keys = [op.key for op in entry.ops]
        if entity in outcomes or len(keys) > len(set(keys)):
            outcomes[entity] = invalid(f"Ignoring duplicate entity {entity_text(entity)}")
        else:
            changes = tuple(_change(op) for op in entry.ops)
            values = altered_values(metadata.image, entity, changes, rules)
            if isinstance(values, Rejection):
                outcomes[entity] = values
            else:
                outcomes[entity] = None
                changes_by_entity[entity] = changes
        await request.have_done(CHANGE_WEIGHT)
    if not request.message.validate_only:
        # All at once, as a controller appends them: an image for each would be copied as often.
        metadata.publish(altered_quotas(metadata.image, changes_by_entity, rules))
    return _answer(request, outcomes)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every entity."""
    rejection = Rejection(error=error, reason="")
    return _answer(request, {_entity(entry): rejection for entry in request.message.entries})


def _entity(entry: Any) -> Entity:
    return entity_of((part.entity_type, part.entity_name) for part in entry.entity)


def _change(op: Any) -> QuotaChange:
    return QuotaChange(key=op.key, value=None if op.remove else op.value)


def _answer(request: Request, outcomes: dict[Entity, Rejection | None]) -> Reply:
    schema = request.schema
    return request.answer(
        entries=tuple(
            schema.EntryData(
                **error_fields(rejection),
                entity=tuple(
                    schema.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ),
            )
            for entity, rejection in outcomes.items()
        )
    )
