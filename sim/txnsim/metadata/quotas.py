"""Quotas of users, client ids and addresses: validation, and lookup by filter (KIP-546).

Pure. They are stored and described, but don't throttle clients. Kafka's counterparts:
ClientQuotaControlManager, ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from ipaddress import ip_address
from math import isfinite
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.metadata.config_keys import invalid_request
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES, Rules

CLIENT_ID: Final = "client-id"
USER: Final = "user"
IP: Final = "ip"

Entity = tuple[tuple[str, str | None], ...]
"""The (kind, name) pairs of a quota's entity, in order of ``_KIND_ORDER``; the name None stands for
the default entity.
"""

_KIND_ORDER: Final = (CLIENT_ID, USER, IP)

DEVIATIONS: Final = (
    "Client quotas are kept and described, but they throttle no client, and every answer has a "
    "throttle time of 0.",
    "A quota of an address takes addresses and localhost; Apache Kafka looks names of hosts up.",
)


class QuotaType(Enum):
    """The type of a value."""

    DOUBLE = "any number"
    INT = 2_147_483_647
    LONG = 9_223_372_036_854_775_807


_CLIENT_QUOTAS: Final = {
    "producer_byte_rate": QuotaType.LONG,
    "consumer_byte_rate": QuotaType.LONG,
    "request_percentage": QuotaType.DOUBLE,
    "controller_mutation_rate": QuotaType.DOUBLE,
}
_ADDRESS_QUOTAS: Final = {"connection_creation_rate": QuotaType.INT}
_FRACTION_MAX: Final = 1e-6


class QuotaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value to set; None removes it."""

    key: str
    value: float | None


class QuotaFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entities DescribeClientQuotas asks about."""

    exact: Mapping[str, str | None]
    """Kind -> name; None finds the default."""
    kinds: frozenset[str]
    """Kinds for which any name matches."""
    strict: bool
    """Whether an entity with further kinds does not match."""


def entity_of(kinds_and_names: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity with its kinds in order; if a kind is repeated, the last name counts."""
    names_by_kind = dict(kinds_and_names)
    ordered_kinds = tuple(
        (entity_kind, names_by_kind.pop(entity_kind))
        for entity_kind in _KIND_ORDER
        if entity_kind in names_by_kind
    )
    return ordered_kinds + tuple(names_by_kind.items())


def altered_values(
    image: ClusterImage,
    entity: Entity,
    quota_changes: Iterable[QuotaChange],
    release_rules: Rules = LATEST_RULES,
) -> dict[str, float] | Rejection:
    """An entity's quotas after all changes, or the error, in which case none is applied."""
    quota_types = _quotas_of(entity)
    if isinstance(quota_types, Rejection):
        return quota_types
    quota_values = dict(image.client_quotas.get(entity, {}))
    for quota_change in quota_changes:
        if quota_change.value is None:
            quota_values.pop(quota_change.key, None)
            continue
        refusal = _value_refusal(quota_types, quota_change.key, quota_change.value, release_rules)
        if refusal is not None:
            return refusal
        quota_values[quota_change.key] = quota_change.value
    return quota_values


def altered_quotas(
    image: ClusterImage,
    changes_by_entity: Mapping[Entity, Iterable[QuotaChange]],
    release_rules: Rules = LATEST_RULES,
) -> ClusterImage:
    """The image after changes of many entities (ClientQuotaControlManager.alterClientQuotas);
    refused changes are left out.
    """
    changed_quotas: dict[Entity, dict[str, float]] = {}
    for entity, entity_changes in changes_by_entity.items():
        quota_values = altered_values(image, entity, entity_changes, release_rules)
        if not isinstance(quota_values, Rejection) and quota_values != image.client_quotas.get(
            entity, {}
        ):
            changed_quotas[entity] = quota_values
    return image.with_client_quotas(changed_quotas) if changed_quotas else image


def finds_quota(quota_filter: QuotaFilter, entity: Entity) -> bool:
    """Whether a filter matches an entity."""
    names_by_kind = dict(entity)
    if quota_filter.strict and len(names_by_kind) > len(quota_filter.exact) + len(
        quota_filter.kinds
    ):
        return False
    return (
        quota_filter.kinds <= names_by_kind.keys()
        and quota_filter.exact.items() <= names_by_kind.items()
    )


def entity_text(entity: Entity) -> str:
    """The entity as ClientQuotaEntity.toString prints it."""
    entries_text = ", ".join(
        f"{entity_kind}={'null' if name is None else name}" for entity_kind, name in entity
    )
    return f"ClientQuotaEntity(entries={{{entries_text}}})"


def _quotas_of(entity: Entity) -> Mapping[str, QuotaType] | Rejection:
    if not entity:
        return invalid_request("Invalid empty client quota entity")
    for entity_kind, name in entity:
        if entity_kind not in _KIND_ORDER:
            return invalid_request(f"Unhandled client quota entity type: {entity_kind}")
        if name == "":
            return invalid_request(f"Empty {entity_kind} not supported")
    names_by_kind = dict(entity)
    if IP not in names_by_kind:
        return _CLIENT_QUOTAS
    if len(names_by_kind) > 1:
        return invalid_request(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    if names_by_kind[IP] is not None and not _is_address(names_by_kind[IP] or ""):
        return invalid_request(f"{names_by_kind[IP]} is not a valid IP or resolvable host.")
    return _ADDRESS_QUOTAS


def _is_address(text: str) -> bool:
    if text == "localhost":
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _value_refusal(
    quota_types: Mapping[str, QuotaType], quota_name: str, quota_value: float, release_rules: Rules
) -> Rejection | None:
    quota_type = quota_types.get(quota_name)
    if quota_type is None:
        return invalid_request(f"Invalid configuration key {quota_name}")
    if release_rules.quotas_are_finite and not isfinite(quota_value):
        return invalid_request(f"Quota {quota_name} must be a finite number")
    if quota_value <= 0:
        return invalid_request(f"Quota {quota_name} must be greater than 0")
    if quota_type is QuotaType.DOUBLE:
        return None
    if quota_value > float(quota_type.value):
        article = "an INT" if quota_type is QuotaType.INT else "a LONG"
        return invalid_request(f"Proposed value for {quota_name} is too large for {article}.")
    if abs(quota_value % 1.0) > _FRACTION_MAX:
        return invalid_request(f"{quota_name} cannot be a fractional value.")
    return None
