"""Quotas: whom they may be for, what they may be, and which a filter finds."""

from __future__ import annotations

import pytest

from txnsim.errors import Rejection
from txnsim.metadata.image import ClusterImage
from txnsim.metadata.quotas import (
    Entity,
    QuotaChange,
    QuotaFilter,
    altered_quotas,
    altered_values,
    entity_of,
    entity_text,
    found_quotas,
)
from txnsim.releases import Rules

EMPTY = ClusterImage(cluster_id="c")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), float("-inf")])
def test_a_quota_is_a_finite_number(value: float) -> None:
    change = [QuotaChange(key="request_percentage", value=value)]
    found = altered_values(EMPTY, (("user", "u"),), change)
    assert isinstance(found, Rejection)
    assert found.reason == "Quota request_percentage must be a finite number"


def test_before_4_4_a_quota_might_be_without_end() -> None:
    change = [QuotaChange(key="request_percentage", value=float("inf"))]
    found = altered_values(EMPTY, (("user", "u"),), change, Rules(quotas_are_finite=False))
    assert found == {"request_percentage": float("inf")}


RATE = "producer_byte_rate"
CONNECTIONS = "connection_creation_rate"


def refused(entity: Entity, key: str = RATE, value: float = 1.0) -> str | None:
    outcome = altered_values(EMPTY, entity, [QuotaChange(key=key, value=value)])
    return outcome.reason if isinstance(outcome, Rejection) else None


@pytest.mark.parametrize(
    ("entity", "key", "complaint"),
    [
        ((), RATE, "Invalid empty client quota entity"),
        ((("group", "g"),), RATE, "Unhandled client quota entity type: group"),
        ((("user", ""),), RATE, "Empty user not supported"),
        ((("user", None),), RATE, None),
        ((("client-id", "c"), ("user", "u")), RATE, None),
        ((("user", "u"), ("ip", "::1")), RATE, "Invalid quota entity combination, IP entity"),
        ((("ip", "nowhere!"),), CONNECTIONS, "nowhere! is not a valid IP or resolvable host."),
        ((("ip", "192.0.2.1"),), CONNECTIONS, None),
        ((("ip", "localhost"),), CONNECTIONS, None),
        ((("ip", None),), CONNECTIONS, None),
        ((("ip", None),), RATE, f"Invalid configuration key {RATE}"),
        ((("user", "u"),), CONNECTIONS, f"Invalid configuration key {CONNECTIONS}"),
    ],
)
def test_whom_a_quota_may_be_for(entity: Entity, key: str, complaint: str | None) -> None:
    found = refused(entity, key)
    assert found is None if complaint is None else found is not None and complaint in found


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        (RATE, -1.0, f"Quota {RATE} must be greater than 0"),
        (RATE, 1.5, f"{RATE} cannot be a fractional value."),
        (RATE, 1e30, f"Proposed value for {RATE} is too large for a LONG."),
        ("request_percentage", 1.5, None),
    ],
)
def test_what_a_value_may_be(key: str, value: float, complaint: str | None) -> None:
    assert refused((("user", "u"),), key, value) == complaint


def test_connections_are_counted_in_ints() -> None:
    complaint = refused((("ip", None),), CONNECTIONS, 2.0**31)
    assert complaint == f"Proposed value for {CONNECTIONS} is too large for an INT."


def test_an_entity_has_one_order_and_one_name_of_a_kind() -> None:
    entity = entity_of([("user", "u"), ("group", "g"), ("client-id", None), ("user", "v")])
    assert entity == (("client-id", None), ("user", "v"), ("group", "g"))
    assert entity_text(entity) == "ClientQuotaEntity(entries={client-id=null, user=v, group=g})"


ENTITIES: tuple[Entity, ...] = (
    (("user", "u"),),
    (("user", None),),
    (("client-id", "c"), ("user", "u")),
    (("client-id", "c"),),
)


@pytest.mark.parametrize(
    ("exact", "kinds", "strict", "expected"),
    [
        ({}, (), False, (0, 1, 2, 3)),
        ({}, (), True, ()),
        ({"user": "u"}, (), False, (0, 2)),
        ({"user": "u"}, (), True, (0,)),
        ({"user": None}, (), False, (1,)),
        ({}, ("user",), False, (0, 1, 2)),
        ({}, ("user",), True, (0, 1)),
        ({"client-id": "c"}, ("user",), True, (2,)),
        ({"ip": "::1"}, (), False, ()),
    ],
)
def test_what_a_filter_finds(
    exact: dict[str, str | None], kinds: tuple[str, ...], strict: bool, expected: tuple[int, ...]
) -> None:
    change = [QuotaChange(key="request_percentage", value=1.0)]
    image = altered_quotas(EMPTY, dict.fromkeys(ENTITIES, change))
    assert image.offset == EMPTY.offset + len(ENTITIES), "a record each"
    wanted = QuotaFilter(exact=exact, kinds=frozenset(kinds), strict=strict)
    assert [entity for entity, _ in found_quotas(image, wanted)] == [ENTITIES[i] for i in expected]


def test_a_quota_is_taken_back_and_what_changes_nothing_is_the_image_itself() -> None:
    user: Entity = (("user", "u"),)
    limited = altered_quotas(EMPTY, {user: [QuotaChange(key=RATE, value=1.0)]})
    assert limited.client_quotas == {user: {RATE: 1.0}}
    assert altered_quotas(limited, {user: [QuotaChange(key=RATE, value=1.0)]}) is limited
    freed = altered_quotas(limited, {user: [QuotaChange(key=RATE, value=None)]})
    assert freed.client_quotas == {}
    assert altered_quotas(freed, {user: [QuotaChange(key=RATE, value=None)]}) is freed


def test_what_is_refused_is_left_out_of_what_changes_at_once() -> None:
    good, bad = (("user", "u"),), (("group", "g"),)
    change = [QuotaChange(key=RATE, value=1.0)]
    assert altered_quotas(EMPTY, {good: change, bad: change}).client_quotas == {good: {RATE: 1.0}}
    assert altered_quotas(EMPTY, {bad: change}) is EMPTY
