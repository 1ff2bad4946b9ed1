"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible. Kafka's counterparts: KafkaApis, ControllerApis.handleAlterClientQuotas,
ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import ELEMENTS_PER_CHANGE, Reply, Request, error_fields, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.quotas import (
    Entity,
    QuotaChange,
    altered_quotas,
    altered_values,
    entity_of,
    entity_text,
)

API_KEY: Final = 49


async def handle(request: Request) -> Reply:
    """Alter each entity by itself. The second entry of an entity is refused as ignored."""
    rejection_by_entity: dict[Entity, Rejection | None] = {}
    changes_by_entity: dict[Entity, tuple[QuotaChange, ...]] = {}
    metadata = request.broker.metadata
    release_rules = request.broker.release.rules
    request.expect(len(request.message.entries) * ELEMENTS_PER_CHANGE)
    for alteration in request.message.entries:
        entity = _entity_of_alteration(alteration)
        quota_keys = [operation.key for operation in alteration.ops]
        if entity in rejection_by_entity or len(quota_keys) > len(set(quota_keys)):
            rejection_by_entity[entity] = invalid(
                f"Ignoring duplicate entity {entity_text(entity)}"
            )
        else:
            quota_changes = tuple(_quota_change(operation) for operation in alteration.ops)
            new_values = altered_values(metadata.image, entity, quota_changes, release_rules)
            if isinstance(new_values, Rejection):
                rejection_by_entity[entity] = new_values
            else:
                rejection_by_entity[entity] = None
                changes_by_entity[entity] = quota_changes
        await request.note_done(ELEMENTS_PER_CHANGE)
    if not request.message.validate_only:
        # All at once, as a controller appends them: an image for each would be copied as often.
        metadata.publish(altered_quotas(metadata.image, changes_by_entity, release_rules))
    return _answer(request, rejection_by_entity)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every entity."""
    rejection = Rejection(error=error, reason="")
    return _answer(
        request,
        {_entity_of_alteration(alteration): rejection for alteration in request.message.entries},
    )


def _entity_of_alteration(alteration: Any) -> Entity:
    return entity_of(
        (component.entity_type, component.entity_name) for component in alteration.entity
    )


def _quota_change(operation: Any) -> QuotaChange:
    return QuotaChange(key=operation.key, value=None if operation.remove else operation.value)


def _answer(request: Request, rejection_by_entity: dict[Entity, Rejection | None]) -> Reply:
    schema = request.schema
    return request.answer(
        entries=tuple(
            schema.EntryData(
                **error_fields(rejection),
                entity=tuple(
                    schema.EntityData(entity_type=entity_type, entity_name=entity_name)
                    for entity_type, entity_name in entity
                ),
            )
            for entity, rejection in rejection_by_entity.items()
        )
    )
