"""Judges of share groups, at their edges; textbook cases are in tests/lab/checkers/histories."""

from __future__ import annotations

from typing import Any

import pytest

from txnsim_lab.check._share_groups import (
    delivered_after_acknowledgement,
    never_delivered,
    two_owners,
)
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    AcknowledgeType,
    AcquiredRecord,
    Isolation,
    Read,
    Seen,
    ShareAcknowledged,
    ShareFetched,
    ShareLeft,
    ShareStart,
    Wrote,
)

PLACE: dict[str, Any] = {"topic": "t", "partition": 0}


def wrote(at_ms: int, offset: int, **observation_fields: Any) -> Wrote:
    return Wrote(
        at_ms=at_ms, who="p", value=f"r{offset}", offset=offset, **PLACE, **observation_fields
    )


def share_fetch(
    at_ms: int, client_name: str, *offsets: int, group: str = "g", **request_fields: Any
) -> ShareFetched:
    records = tuple(AcquiredRecord(offset=offset, value=f"r{offset}") for offset in offsets)
    request_fields.setdefault("asked_ms", at_ms - 10)
    return ShareFetched(
        at_ms=at_ms, who=client_name, group=group, records=records, **PLACE, **request_fields
    )


def share_acknowledgement(
    at_ms: int, first_offset: int, last_offset: int, **request_fields: Any
) -> ShareAcknowledged:
    request_fields.setdefault("who", "m1")
    return ShareAcknowledged(
        at_ms=at_ms, group="g", first=first_offset, last=last_offset, **PLACE, **request_fields
    )


def start(at_ms: int, offset: int) -> ShareStart:
    return ShareStart(at_ms=at_ms, who="o", group="g", start_offset=offset, **PLACE)


def test_an_acknowledged_range_is_closed_and_of_its_group() -> None:
    history = History(
        [
            share_fetch(100, "m1", 0, 1, 2, 3),
            share_acknowledgement(200, 1, 2),
            share_fetch(300, "m2", 0, 1, 2, 3),
            share_fetch(400, "n1", 1, group="h"),
        ]
    )
    anomalies = delivered_after_acknowledgement(history)
    assert [
        (anomaly.because.split("@")[1].split()[0], anomaly.evidence) for anomaly in anomalies
    ] == [
        ("1", (1, 2)),
        ("2", (1, 2)),
    ]


@pytest.mark.parametrize(
    ("meanwhile", "is_told"),
    [
        (share_acknowledgement(300, 0, 0, type=AcknowledgeType.RELEASE), False),
        (share_acknowledgement(300, 1, 1), True),
        (share_acknowledgement(300, 0, 0, who="m3"), True),
        (ShareLeft(at_ms=300, who="m1", group="h"), True),
        (ShareLeft(at_ms=300, who="m1", group="g"), False),
    ],
)
def test_a_lock_holds_until_its_owner_says_anything_of_it(meanwhile: Seen, is_told: bool) -> None:
    first_fetch, second_fetch = share_fetch(200, "m1", 0, lock_ms=1_000), share_fetch(600, "m2", 0)
    assert bool(two_owners(History([first_fetch, meanwhile, second_fetch]))) == is_told


def test_what_is_said_after_the_second_delivery_ends_no_lock() -> None:
    first_fetch, second_fetch = share_fetch(200, "m1", 0, lock_ms=1_000), share_fetch(600, "m2", 0)
    late_acknowledgement = share_acknowledgement(700, 0, 0, asked_ms=650)
    (anomaly,) = two_owners(History([first_fetch, second_fetch, late_acknowledgement]))
    assert anomaly.evidence == (0, 1)
    assert not two_owners(
        History([first_fetch, second_fetch, share_acknowledgement(700, 0, 0, asked_ms=590)])
    )


@pytest.mark.parametrize(
    ("record", "more_observations"),
    [
        (wrote(50, 0, key="k"), []),
        (
            wrote(50, 0),
            [
                Read(
                    at_ms=250,
                    who="r",
                    asked=1,
                    next_offset=2,
                    log_start_offset=1,
                    isolation=Isolation.READ_UNCOMMITTED,
                    **PLACE,
                )
            ],
        ),
        (wrote(350, 0), []),
    ],
)
def test_what_may_be_gone_or_came_later_is_not_demanded(
    record: Wrote, more_observations: list[Seen]
) -> None:
    """A record of a known key, one that was deleted, and one that was acknowledged afterwards."""
    observations: list[Seen] = [
        start(10, 0),
        share_fetch(200, "m1", 1),
        *more_observations,
        start(300, 2),
        record,
    ]
    history = History(sorted(observations, key=lambda observation: observation.at_ms))
    assert not never_delivered(history)
    missed_history: list[Seen] = [
        start(10, 0),
        wrote(50, 0),
        share_fetch(200, "m1", 1),
        start(300, 2),
    ]
    assert [anomaly.evidence for anomaly in never_delivered(History(missed_history))] == [(1, 3)]
