"""DescribeClientQuotas (key 48): quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible. Kafka's counterpart: ClientQuotasImage.describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import compress
from typing import Any, Final

from txnsim.api.request import Reply, Request, invalid, refuse_at_top_level
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.quotas import Entity, QuotaFilter, finds_quota

API_KEY: Final = 48

refuse = refuse_at_top_level(has_error_name=True, entries=None)

_MATCH_DEFAULT: Final = 1
_MATCH_ANY: Final = 2
_ENTITY_TYPES: Final = frozenset({"user", "client-id", "ip"})


async def handle(request: Request) -> Reply:
    """Check the filter, and answer with the quotas that it finds."""
    seen_entity_types: set[str] = set()
    for component in request.message.components:
        refusal = _component_refusal(component, seen_entity_types)
        if refusal is not None:
            return _answer(request, refusal.error, refusal.reason)
        seen_entity_types.add(component.entity_type)
    if "ip" in seen_entity_types and len(seen_entity_types) > 1:
        return _answer(
            request,
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    limits_by_entity, quota_filter = (
        request.broker.image.client_quotas,
        _quota_filter(request.message),
    )
    match_flags = await request.map_each(partial(finds_quota, quota_filter), limits_by_entity)
    matching_quotas = tuple(compress(limits_by_entity.items(), match_flags))
    quota_entries = await request.map_each(
        partial(_quota_entry, request.schema), matching_quotas, weight=4
    )
    return request.answer(error_code=ErrorCode.none, error_message="", entries=tuple(quota_entries))


def _quota_entry(schema: Any, entity_and_limits: tuple[Entity, Mapping[str, float]]) -> Any:
    entity, limit_by_quota_key = entity_and_limits
    return schema.EntryData(
        entity=tuple(
            schema.EntityData(entity_type=entity_type, entity_name=entity_name)
            for entity_type, entity_name in entity
        ),
        values=tuple(
            schema.ValueData(key=quota_key, value=limit)
            for quota_key, limit in limit_by_quota_key.items()
        ),
    )


def _quota_filter(message: Any) -> QuotaFilter:
    components = message.components
    return QuotaFilter(
        # The default is the entity without a name.
        exact={
            component.entity_type: component.match
            for component in components
            if component.match_type != _MATCH_ANY
        },
        kinds=frozenset(
            component.entity_type for component in components if component.match_type == _MATCH_ANY
        ),
        strict=message.strict,
    )


def _component_refusal(component: Any, seen_entity_types: set[str]) -> Rejection | None:
    entity_type = component.entity_type
    if not entity_type:
        return invalid("Invalid empty entity type.")
    if entity_type in seen_entity_types:
        return invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
    if entity_type not in _ENTITY_TYPES:
        return Rejection(
            error=ErrorCode.unsupported_version, reason=f"Unsupported entity type {entity_type}"
        )
    match component.match_type, component.match:
        case 0, None:
            return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        case (1 | 2) as match_number, str():
            match_type = "DEFAULT" if match_number == _MATCH_DEFAULT else "SPECIFIED"
            return invalid(
                f"Request specified MATCH_TYPE_{match_type}, but also specified a match string."
            )
        case ((0 | 1 | 2), _):
            return None
        case match_number, _:
            return invalid(f"Unknown match type {match_number}")


def _answer(request: Request, error: ErrorCode, message: str) -> Reply:
    return request.answer(error_code=error, error_message=message, entries=None)
