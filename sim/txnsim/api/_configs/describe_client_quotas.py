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

KEY: Final = 48

refuse = refuse_at_top_level(has_error_name=True, entries=None)

_MATCH_DEFAULT: Final = 1
_MATCH_ANY: Final = 2
_KINDS: Final = frozenset({"user", "client-id", "ip"})


async def handle(request: Request) -> Reply:
    """Check the filter, and answer with the quotas that it finds."""
    seen_kinds: set[str] = set()
    for component in request.message.components:
        refusal = _component_refusal(component, seen_kinds)
        if refusal is not None:
            return _answer(request, refusal.error, refusal.reason)
        seen_kinds.add(component.entity_type)
    if "ip" in seen_kinds and len(seen_kinds) > 1:
        return _answer(
            request,
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    quotas, quota_filter = request.broker.image.client_quotas, _filter(request.message)
    is_found = await request.map_each(partial(finds_quota, quota_filter), quotas)
    matching_quotas = tuple(compress(quotas.items(), is_found))
    entries = await request.map_each(partial(_entry, request.schema), matching_quotas, weight=4)
    return request.answer(error_code=ErrorCode.none, error_message="", entries=tuple(entries))


def _entry(schema: Any, quota: tuple[Entity, Mapping[str, float]]) -> Any:
    entity, values = quota
    return schema.EntryData(
        entity=tuple(
            schema.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ),
        values=tuple(schema.ValueData(key=key, value=value) for key, value in values.items()),
    )


def _filter(message: Any) -> QuotaFilter:
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


def _component_refusal(component: Any, seen_kinds: set[str]) -> Rejection | None:
    kind = component.entity_type
    if not kind:
        return invalid("Invalid empty entity type.")
    if kind in seen_kinds:
        return invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _KINDS:
        return Rejection(
            error=ErrorCode.unsupported_version, reason=f"Unsupported entity type {kind}"
        )
    match component.match_type, component.match:
        case 0, None:
            return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        case (1 | 2) as number, str():
            name = "DEFAULT" if number == _MATCH_DEFAULT else "SPECIFIED"
            return invalid(
                f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
        case ((0 | 1 | 2), _):
            return None
        case number, _:
            return invalid(f"Unknown match type {number}")


def _answer(request: Request, error: ErrorCode, message: str) -> Reply:
    return request.answer(error_code=error, error_message=message, entries=None)
