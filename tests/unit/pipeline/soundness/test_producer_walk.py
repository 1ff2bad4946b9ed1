"""What producers do in a stretch."""

from __future__ import annotations

from txnsim.pipeline.soundness.producer_walk import ProducerWalk
from txnsim.pipeline.soundness.violations import Invariant
from txnsim.wire.batch import BatchHeader, ControlRecord

DAY_MS = 86_400_000


def walk(*, has_sequences: bool = True) -> ProducerWalk:
    return ProducerWalk("f.log", 0, has_sequences=has_sequences, expiration_ms=DAY_MS)


def header(
    offset: int,
    sequence: int = -1,
    *,
    pid: int = 7,
    epoch: int = 0,
    at_ms: int = 0,
    txn: bool = True,
) -> BatchHeader:
    return BatchHeader(
        offset, 100, 0, 2, 0, 0x10 if txn else 0, 0, at_ms, at_ms, pid, epoch, sequence, 1
    )


def marker(kind: int = 1, coordinator_epoch: int = 0) -> ControlRecord:
    return ControlRecord(type=kind, version=0, coordinator_epoch=coordinator_epoch)


def rules(found: ProducerWalk) -> list[Invariant]:
    return [one.rule for one in found.broken]


def test_what_depends_on_the_past_is_left_to_others() -> None:
    found = walk()
    found.take_data(header(0, 17), 0)
    found.take_marker(header(1), 100, marker())
    assert found.broken == []
    (producer,) = found.stretch(2).producers
    assert producer.first_data is not None
    assert not producer.first_data.is_judged
    assert producer.first_marker is not None
    assert producer.first_marker.opened_at == 0
    assert (producer.left.txn_first_offset, producer.last_offset) == (-1, 1)


def test_sequences_go_on_and_begin_anew_in_a_new_epoch() -> None:
    found = walk()
    found.take_data(header(0, 0), 0)
    found.take_data(header(1, 1), 100)
    found.take_data(header(2, 0, epoch=1), 200)
    assert found.broken == []
    found.take_data(header(3, 5, epoch=1), 300)
    found.take_data(header(4, 3, epoch=2), 400)
    assert rules(found) == [Invariant.SEQUENCE, Invariant.SEQUENCE]
    assert [one.position for one in found.broken] == [300, 400]


def test_coordinators_write_without_sequences() -> None:
    found = walk(has_sequences=False)
    found.take_data(header(0, 0), 0)
    found.take_data(header(1, 0), 100)
    assert found.broken == []


def test_a_producer_that_was_silent_for_long_may_begin_anew() -> None:
    found = walk()
    found.take_data(header(0, 0), 0)
    found.take_data(header(1, 7, at_ms=DAY_MS), 100)
    assert found.broken == []


def test_epochs_never_go_back() -> None:
    found = walk()
    found.take_data(header(0, 0, epoch=3), 0)
    found.take_data(header(1, 1, epoch=2), 100)
    assert rules(found) == [Invariant.PRODUCER_EPOCH]
    found = walk()
    found.take_data(header(0, 0, epoch=3), 0)
    found.take_marker(header(1, epoch=2), 100, marker())
    assert rules(found) == [Invariant.PRODUCER_EPOCH]


def test_coordinator_epochs_never_go_back() -> None:
    found = walk()
    for offset in (0, 2):
        found.take_data(header(offset, offset // 2), 0)
        found.take_marker(header(offset + 1), 100, marker(coordinator_epoch=9 - offset))
    assert rules(found) == [Invariant.COORDINATOR_EPOCH]


def test_nothing_is_written_outside_of_an_open_transaction() -> None:
    found = walk()
    found.take_data(header(0, 0), 0)
    found.take_data(header(1, 1, txn=False), 100)
    assert rules(found) == [Invariant.OUTSIDE_TRANSACTION]


def test_a_second_marker_is_a_notice() -> None:
    found = walk()
    found.take_marker(header(0), 0, marker())
    assert found.broken == []  # what was open before is not known
    found.take_marker(header(1), 100, marker())
    (idle,) = found.broken
    assert (idle.rule, idle.is_notice, idle.offset) == (Invariant.IDLE_MARKER, True, 1)


def test_behind_a_marker_of_its_epoch_a_sequence_goes_on_from_before() -> None:
    found = walk()
    found.take_marker(header(0, epoch=1), 0, marker())
    found.take_data(header(1, 5, epoch=1), 100)
    (producer,) = found.stretch(2).producers
    assert producer.first_data is not None
    assert not producer.first_data.is_judged
    found = walk()
    found.take_marker(header(0, epoch=1), 0, marker())
    found.take_marker(header(1, epoch=2), 100, marker())
    found.take_data(header(2, 5, epoch=2), 200)
    assert rules(found) == [Invariant.IDLE_MARKER, Invariant.SEQUENCE]


def test_an_abort_knows_since_when_others_are_open() -> None:
    found = walk()
    found.take_data(header(0, 0, pid=1), 0)
    found.take_data(header(1, 0, pid=2), 0)
    found.take_marker(header(2, pid=1), 0, marker(0))
    found.take_marker(header(3, pid=2), 0, marker(0))
    found.take_marker(header(4, pid=3), 0, marker(0))
    assert [(one.opened_at, one.others_since) for one in found.stretch(5).aborted] == [
        (0, 1),
        (1, -1),
        (-1, -1),
    ]
