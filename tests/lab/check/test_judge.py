from __future__ import annotations

import msgspec
import pytest

from benchmarks.call_counts import count_calls_by_function, make_call_profile
from tests.support.hand_made_histories import FAILED, UNKNOWN, HistoryBuilder
from txnsim_lab.check.anomaly import Kind
from txnsim_lab.check.history import History, HistoryError
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Began, Ended, Position, Read, Record, SentOffsets, Wrote


def test_nothing_seen_is_healthy() -> None:
    verdict = judge(History())
    assert verdict.healthy
    assert str(verdict) == "healthy"


def test_a_verdict_names_each_kind_once_in_order() -> None:
    history_builder = HistoryBuilder()
    for label, value, offset in (("T1", "r1", 0), ("T2", "r2", 2)):
        history_builder.write(label, value, offset)
        history_builder.abort(label)
    history_builder.write(None, "r3", 4)
    history_builder.read(0, {0: "r1", 2: "r2"}, 5)
    verdict = judge(history_builder.history)
    assert verdict.kinds == (Kind.ABORTED_READ, Kind.LOST_WRITE)
    assert str(verdict) == "aborted-read, lost-write"
    assert len(verdict.anomalies) == 3
    assert not verdict.healthy


@pytest.mark.parametrize("second_transaction", ["T1", "T2", None])
def test_a_value_of_two_records_is_refused(second_transaction: str | None) -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r0", 0)
    history_builder.write("T1", "r1", 1)
    history_builder.write(second_transaction, "r1", 2)
    with pytest.raises(
        HistoryError, match=r"observations 2 and 3: the value 'r1' names two records of t-0"
    ):
        judge(history_builder.history)


def test_attempts_to_write_one_record_share_its_value() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=UNKNOWN)
    history_builder.write("T1", "r1")
    history_builder.write("T1", "r1", 1)
    history_builder.write("T1", "r1", 1)
    history_builder.write("T2", "r1", outcome=FAILED)
    history_builder.write("T2", "r1", 7, partition=1)
    assert judge(history_builder.history).healthy


WROTE = Wrote(at_ms=0, who="p", topic="a", partition=0, value="v", offset=0)
SENT = SentOffsets(at_ms=0, who="p", topic="a", partition=0, group="g", position=1)
READ = Read(
    at_ms=0,
    who="p",
    topic="a",
    partition=0,
    asked=0,
    next_offset=1,
    records=(Record(offset=0, value="v"),),
)


def test_a_place_for_each_record_takes_no_time_squared() -> None:
    def steps(count: int) -> int:
        history = History()
        for partition in range(count):
            transaction_label, function_before = f"t{partition}", msgspec.structs.replace
            began = Began(
                at_ms=partition,
                who="p",
                transaction=transaction_label,
                transactional_id=f"x{partition}",
            )
            history.add(began)
            input_position = Position(topic="a", partition=partition, offset=0)
            history.add(
                function_before(
                    WROTE, partition=partition, transaction=transaction_label, of=(input_position,)
                )
            )
            history.add(function_before(SENT, partition=partition, transaction=transaction_label))
            history.add(Ended(at_ms=partition, who="p", transaction=transaction_label, commit=True))
            history.add(function_before(READ, partition=partition))
        profile = make_call_profile()
        profile.enable()
        judge(history)
        profile.disable()
        return sum(count_calls_by_function(profile).values())

    assert steps(400) < 2.5 * steps(200)
