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
from txnsim.releases.rules import LATEST, Rules

CLIENT_ID: Final = "client-id"
USER: Final = "user"
IP: Final = "ip"

Entity = tuple[tuple[str, str | None], ...]
"""The (kind, name) pairs of a quota's entity, in order of ``_ORDER``; the name None stands for the
default entity.
"""

_ORDER: Final = (CLIENT_ID, USER, IP)

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


_OF_CLIENTS: Final = {
    "producer_byte_rate": QuotaType.LONG,
    "consumer_byte_rate": QuotaType.LONG,
    "request_percentage": QuotaType.DOUBLE,
    "controller_mutation_rate": QuotaType.DOUBLE,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": QuotaType.INT}
_FRACTION_MAX: Final = 1e-6


class QuotaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value to set; None removes it."""

    key: str
    value: float | None


class QuotaFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for quotas."""

    exact: Mapping[str, str | None]
    """Kind -> name; None finds the default."""
    kinds: frozenset[str]
    """Kinds for which any name matches."""
    strict: bool
    """Whether an entity with further kinds does not match."""


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity with its kinds in order; if a kind is repeated, the last name counts."""
    names = dict(pairs)
    ordered = tuple((kind, names.pop(kind)) for kind in _ORDER if kind in names)
    return ordered + tuple(names.items())


def altered_values(
    image: ClusterImage, entity: Entity, changes: Iterable[QuotaChange], rules: Rules = LATEST
) -> dict[str, float] | Rejection:
    """An entity's quotas after all changes, or the error, in which case none is applied."""
    keys = _keys_of(entity)
    if isinstance(keys, Rejection):
        return keys
    values = dict(image.client_quotas.get(entity, {}))
    for change in changes:
        if change.value is None:
            values.pop(change.key, None)
            continue
        refusal = _value_refusal(keys, change.key, change.value, rules)
        if refusal is not None:
            return refusal
        values[change.key] = change.value
    return values


def altered_quotas(
    image: ClusterImage,
    changes: Mapping[Entity, Iterable[QuotaChange]],
    rules: Rules = LATEST,
) -> ClusterImage:
    """The image after changes of many entities (ClientQuotaControlManager.alterClientQuotas);
    refused changes are left out.
    """
    changed: dict[Entity, dict[str, float]] = {}
    for entity, of_it in changes.items():
        values = altered_values(image, entity, of_it, rules)
        if not isinstance(values, Rejection) and values != image.client_quotas.get(entity, {}):
            changed[entity] = values
    return image.with_client_quotas(changed) if changed else image


def finds_quota(quota_filter: QuotaFilter, entity: Entity) -> bool:
    """Whether a filter matches an entity."""
    named = dict(entity)
    if quota_filter.strict and len(named) > len(quota_filter.exact) + len(quota_filter.kinds):
        return False
    return quota_filter.kinds <= named.keys() and quota_filter.exact.items() <= named.items()


def entity_text(entity: Entity) -> str:
    """The entity as ClientQuotaEntity.toString prints it."""
    inside = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{inside}}})"


def _keys_of(entity: Entity) -> Mapping[str, QuotaType] | Rejection:
    if not entity:
        return invalid_request("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in _ORDER:
            return invalid_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            return invalid_request(f"Empty {kind} not supported")
    named = dict(entity)
    if IP not in named:
        return _OF_CLIENTS
    if len(named) > 1:
        return invalid_request(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    if named[IP] is not None and not _is_address(named[IP] or ""):
        return invalid_request(f"{named[IP]} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _is_address(text: str) -> bool:
    if text == "localhost":
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _value_refusal(
    keys: Mapping[str, QuotaType], key: str, value: float, rules: Rules
) -> Rejection | None:
    kind = keys.get(key)
    if kind is None:
        return invalid_request(f"Invalid configuration key {key}")
    if rules.quotas_are_finite and not isfinite(value):
        return invalid_request(f"Quota {key} must be a finite number")
    if value <= 0:
        return invalid_request(f"Quota {key} must be greater than 0")
    if kind is QuotaType.DOUBLE:
        return None
    if value > float(kind.value):
        article = "an INT" if kind is QuotaType.INT else "a LONG"
        return invalid_request(f"Proposed value for {key} is too large for {article}.")
    if abs(value % 1.0) > _FRACTION_MAX:
        return invalid_request(f"{key} cannot be a fractional value.")
    return None
