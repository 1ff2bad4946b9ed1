from __future__ import annotations

import msgspec

from txnsim.txn.open_txn_verdict import PROGRAM, OpenTxnStatus
from txnsim_spark.streaming._alerts import Alert, AlertChanges, AlertEvent, compare_probe
from txnsim_spark.streaming._lag_probe import OldestOpenTxn, PartitionLag

GHOST = OldestOpenTxn(
    producer_id=7,
    producer_epoch=1,
    start_offset=3,
    last_timestamp_ms=0,
    verdict=OpenTxnStatus.HANGING,
    reason="nobody knows it",
)


def lag(
    *blocking_txns: OldestOpenTxn,
    stable_offset: int = 3,
    high_watermark: int = 5,
    partition: int = 0,
) -> PartitionLag:
    return PartitionLag(
        topic="t",
        partition=partition,
        last_stable_offset=stable_offset,
        high_watermark=high_watermark,
        held_by=blocking_txns,
    )


def probe(standing_alerts: tuple[Alert, ...], *rows: PartitionLag, at_ms: int) -> AlertChanges:
    return compare_probe(standing_alerts, rows, probed_at_ms=at_ms, program=PROGRAM)


def test_an_alert_is_told_when_it_begins_and_when_it_is_over() -> None:
    first_changes = probe((), lag(GHOST), at_ms=1_000)
    (raise_alert,) = first_changes.events
    assert (raise_alert.event, raise_alert.lag, raise_alert.since_ms) == (
        AlertEvent.RAISED,
        2,
        1_000,
    )
    assert raise_alert.command == "txnsim txns repair --topic t --partition 0 --yes"
    second_changes = probe(first_changes.standing_alerts, lag(GHOST, high_watermark=9), at_ms=2_000)
    assert second_changes.events == ()
    (standing_alert,) = second_changes.standing_alerts
    assert (standing_alert.lag, standing_alert.at_ms, standing_alert.since_ms) == (6, 2_000, 1_000)
    third_changes = probe(
        second_changes.standing_alerts, lag(stable_offset=10, high_watermark=10), at_ms=3_000
    )
    (end_alert,) = third_changes.events
    assert (end_alert.event, end_alert.id, end_alert.lag) == (AlertEvent.ENDED, raise_alert.id, 0)
    assert (end_alert.at_ms, end_alert.since_ms) == (3_000, 1_000)
    assert third_changes.standing_alerts == ()


def test_who_could_not_be_asked_keeps_its_alert() -> None:
    standing_alerts = probe((), lag(GHOST), at_ms=1).standing_alerts
    for row in (
        PartitionLag(error="nobody answers"),
        PartitionLag(topic="t", partition=0, error="no leader"),
        msgspec.structs.replace(lag(), error="its coordinator did not answer"),
        lag(partition=1),
    ):
        assert probe(standing_alerts, row, at_ms=2) == AlertChanges(
            events=(), standing_alerts=standing_alerts
        )


def test_only_what_hangs_raises_one() -> None:
    alive_transaction = msgspec.structs.replace(GHOST, verdict=OpenTxnStatus.ALIVE)
    decided_transaction = msgspec.structs.replace(GHOST, verdict=OpenTxnStatus.DECIDED)
    assert probe((), lag(alive_transaction, decided_transaction), at_ms=1) == AlertChanges(
        events=(), standing_alerts=()
    )


def test_one_ends_as_the_next_begins() -> None:
    standing_alerts = probe((), lag(GHOST), at_ms=1).standing_alerts
    other_transaction = msgspec.structs.replace(GHOST, start_offset=8, transactional_id="app")
    alert_changes = probe(
        standing_alerts, lag(other_transaction, stable_offset=8, high_watermark=9), at_ms=2
    )
    assert [event.event for event in alert_changes.events] == [AlertEvent.ENDED, AlertEvent.RAISED]
    assert [alert.start_offset for alert in alert_changes.standing_alerts] == [8]


def test_people_are_told_who_since_when_and_what_to_do() -> None:
    named_transaction = msgspec.structs.replace(GHOST, transactional_id="app")
    (raise_alert,) = probe((), lag(named_transaction), at_ms=1).events
    assert raise_alert.sentence == (
        "HANGING t-0: 2 offsets are withheld behind offset 3; the transaction of producer 7 epoch 1"
        " (transactional id app) is open since offset 3 and its newest record is stamped"
        " 1970-01-01T00:00:00Z; nobody knows it."
        " To end it: txnsim txns repair --topic t --partition 0 --yes"
    )
    (end_alert,) = probe((raise_alert,), lag(stable_offset=5), at_ms=9_001).events
    assert end_alert.sentence == (
        "ENDED t-0: the transaction of producer 7 epoch 1 (transactional id app) at offset 3 is"
        " over after 9 s; lag is 0"
    )
