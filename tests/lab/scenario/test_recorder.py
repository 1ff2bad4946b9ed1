from __future__ import annotations

from tests.support.coordinator import ManualClock
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Began,
    Ended,
    Initialised,
    SentOffsets,
    Wrote,
)
from txnsim_lab.scenario.answers import CallResult
from txnsim_lab.scenario.recorder import Batch, Recorder

IDENTITY = ProducerIdAndEpoch(producer_id=ProducerId(7), producer_epoch=ProducerEpoch(1))


def test_a_batch_is_one_observation_per_record() -> None:
    recorder = Recorder(ManualClock())
    batch = Batch(
        partition=TopicPartition("t", 0), values=("a", "b"), identity=IDENTITY, sequence=4
    )
    recorder.wrote("P", "T1", batch, CallResult(offset=9))
    recorder.wrote("P", None, batch, CallResult(error="CONNECTION_LOST"))
    first, second, third, _ = [one for _, one in recorder.history.all_of(Wrote)]
    assert [(one.value, one.offset, one.sequence) for one in (first, second)] == [
        ("a", 9, 4), ("b", 10, 5),
    ]  # fmt: skip
    assert (third.offset, third.outcome, third.error) == (-1, "unknown", "CONNECTION_LOST")


def test_what_belongs_to_no_transaction_is_no_part_of_one() -> None:
    recorder = Recorder(ManualClock())
    recorder.ended("P", None, CallResult(), committed=True)
    recorder.added("P", None, (), CallResult(), IDENTITY)
    assert list(recorder.history) == []
    recorder.began("P", "app", "T1")
    recorder.ended("P", "T1", CallResult(error="PRODUCER_FENCED"), committed=True, asked_ms=3)
    began, ended = recorder.history
    assert isinstance(began, Began)
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.asked_ms) == ("failed", 3)
    assert (ended.producer_epoch, ended.next_producer_epoch) == (None, None)


def test_the_identity_that_was_sent_is_noted_and_the_one_that_follows() -> None:
    recorder = Recorder(ManualClock())
    following = ProducerIdAndEpoch(producer_id=ProducerId(8), producer_epoch=ProducerEpoch(0))
    recorder.added("P", "T1", (), CallResult(), IDENTITY)
    recorder.sent_offsets("P", "T1", "g", {TopicPartition("in", 0): 5}, CallResult(), IDENTITY)
    recorder.ended("P", "T1", CallResult(), committed=True, sent=IDENTITY, following=following)
    added, sent, ended = recorder.history
    assert isinstance(added, Added)
    assert isinstance(sent, SentOffsets)
    assert isinstance(ended, Ended)
    assert {(one.producer_id, one.producer_epoch) for one in (added, sent, ended)} == {(7, 1)}
    assert (ended.next_producer_id, ended.next_producer_epoch) == (8, 0)


def test_an_identity_that_was_refused_is_none() -> None:
    recorder = Recorder(ManualClock())
    recorder.initialised("P", "app", IDENTITY, CallResult(error="PRODUCER_FENCED"))
    (one,) = recorder.history
    assert isinstance(one, Initialised)
    assert (one.producer_id, one.error) == (-1, "PRODUCER_FENCED")
