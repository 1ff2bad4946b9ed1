"""Fault rules as values."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest
import yaml

from txnsim.errors import ErrorCode
from txnsim.faults.actions import Corrupt, Delay, Drop, Duplicate, Fail, Hold, Pass, Rewrite
from txnsim.faults.cluster_actions import Crash, ResignLeader
from txnsim.faults.interception import Crossing, DamagedPart, RewriteHow
from txnsim.faults.plan import Action, FaultRule, MessagePart, matches, needed_part, spent, strikes
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT, Subject, subject_of, trace_subjects
from txnsim.interbroker.replication import (
    AlterPartitionCommand,
    IsrChange,
    ReplicaFetchCommand,
    ReplicaOffsetCommand,
)
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AllocateProducerIdsCommand,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
)
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

# Fault rules as values.


T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
END_TXN = 26


def test_a_rule_says_what_its_action_is() -> None:
    def kind(action: Action) -> tuple[bool, bool]:
        rule = FaultRule(id="f", point=FaultPoint.CLIENT_REQUEST, action=action)
        return rule.is_on_cluster, rule.answers_with_error

    assert kind(Crash(broker=BrokerId(1))) == (True, False)
    assert kind(Fail(error="NOT_COORDINATOR")) == (False, True)
    assert kind(Hold()) == (False, False)


def rule(**criteria: Any) -> FaultRule:
    return FaultRule(id="f", point=FaultPoint.CLIENT_REQUEST, action=Hold(), **criteria)


def crossing(*, subject: Subject | None = None, **crossing_fields: Any) -> Crossing:
    values: dict[str, Any] = {
        "point": "client.request",
        "source": "client/app",
        "target": "broker/2",
        "api_key": END_TXN,
        "api_version": 4,
        "correlation_id": 1,
        "client_instance_id": "ABEiM0RVZneImaq7zN3u_w",
    }
    default_subject = Subject(
        transactional_id="tx", producer_id=7, partitions=(T0, U0), committed=False
    )
    return Crossing(**values | crossing_fields, subject=subject or default_subject)


@pytest.mark.parametrize(
    ("criteria", "is_expected"),
    [
        ({}, True),
        ({"api": "EndTxn"}, True),
        ({"api": END_TXN}, True),
        ({"api": "Produce"}, False),
        ({"api": 0}, False),
        ({"broker": 2}, True),
        ({"broker": 1}, False),
        ({"source": "client/app"}, True),
        ({"source": "broker/1"}, False),
        ({"client_id": "app"}, True),
        ({"client_id": "other"}, False),
        ({"client_instance_id": "ABEiM0RVZneImaq7zN3u_w"}, True),
        ({"client_instance_id": "_-7dzLuqmYh3ZlVEMyIRAA"}, False),
        ({"transactional_id": "tx"}, True),
        ({"transactional_id": "ty"}, False),
        ({"producer_id": 7}, True),
        ({"producer_id": 8}, False),
        ({"committed": False}, True),
        ({"committed": True}, False),
        ({"topic": "t"}, True),
        ({"topic": "v"}, False),
        ({"topic": "t", "partition": 0}, True),
        ({"topic": "t", "partition": 1}, False),
        ({"topic": "u", "partition": 0}, True),
        ({"api": "EndTxn", "transactional_id": "tx", "committed": False, "broker": 2}, True),
        ({"api": "EndTxn", "transactional_id": "tx", "committed": True, "broker": 2}, False),
    ],
)
def test_every_criterion_must_hold(criteria: dict[str, Any], *, is_expected: bool) -> None:
    assert matches(rule(**criteria), crossing()) is is_expected


def test_what_a_rule_leaves_out_matches_everything() -> None:
    required = {field.name for field in msgspec.structs.fields(FaultRule) if field.required}
    assert required == {"id", "point", "action"}


def test_another_point_is_another_place() -> None:
    assert not matches(rule(), crossing(point="client.response"))


def test_what_a_request_does_not_say_is_not_matched() -> None:
    empty_subject = Subject()
    for criteria in ({"transactional_id": "tx"}, {"producer_id": 7}, {"topic": "t"}):
        assert not matches(rule(**criteria), crossing(subject=empty_subject))
    assert not matches(rule(committed=False), crossing(subject=empty_subject))


@pytest.mark.parametrize(
    ("criteria", "fields", "is_expected"),
    [
        ({"role": "leader"}, {"role": "leader"}, True),
        ({"role": "leader"}, {"role": "follower"}, False),
        ({"kind": "marker"}, {"kind": "marker"}, True),
        ({"kind": "marker"}, {"kind": "data"}, False),
        ({"broker": 2}, {"source": "broker/2"}, True),
    ],
)
def test_what_a_replica_does_is_a_criterion(
    criteria: dict[str, Any], fields: dict[str, Any], *, is_expected: bool
) -> None:
    rule = FaultRule(id="f", point=FaultPoint.LOG_APPEND, action=Hold(), **criteria)
    assert matches(rule, crossing(point="log.append", **fields)) is is_expected


def test_some_actions_happen_only_to_what_they_can_happen_to() -> None:
    corrupt_rule = msgspec.structs.replace(
        rule(api="Produce"), action=Corrupt(what=DamagedPart.CRC)
    )
    for carries_batches in (True, False):
        produce_crossing = crossing(api_key=0, carries_batches=carries_batches)
        assert matches(corrupt_rule, produce_crossing) is carries_batches
    duplicating_rule = msgspec.structs.replace(rule(), action=Duplicate())
    assert [matches(duplicating_rule, crossing(is_copy=is_copy)) for is_copy in (False, True)] == [
        True,
        False,
    ]


def test_a_limit_of_likely_strikes_counts_those_that_struck() -> None:
    likely_rule = rule(probability=0.5, nth=2, limit=2)
    assert [strikes(likely_rule, occurrence, 0) for occurrence in (1, 2, 9)] == [False, True, True]
    assert not strikes(likely_rule, 9, 2)
    assert [spent(likely_rule, 9, struck) for struck in (1, 2)] == [False, True]


def test_an_unknown_api_key_matches_by_number_only() -> None:
    assert matches(rule(api=30_000), crossing(api_key=30_000))
    assert not matches(rule(api="Produce"), crossing(api_key=30_000))


def test_one_entry_of_a_batched_request_must_meet_all_criteria() -> None:
    batched_subject = Subject(
        producer_id=7,
        partitions=(T0,),
        committed=True,
        other_subjects=(Subject(producer_id=8, partitions=(T1,), committed=False),),
    )
    assert matches(rule(producer_id=8, committed=False), crossing(subject=batched_subject))
    assert matches(rule(topic="t", partition=1), crossing(subject=batched_subject))
    assert not matches(rule(producer_id=8, committed=True), crossing(subject=batched_subject))
    assert not matches(
        rule(producer_id=7, partition=1, topic="t"), crossing(subject=batched_subject)
    )


@pytest.mark.parametrize(
    ("counts", "expected_strikes", "spent_after"),
    [
        ({}, [1, 2, 3, 4, 5, 6], None),
        ({"limit": 1}, [1], 1),
        ({"nth": 3}, [3, 4, 5, 6], None),
        ({"nth": 2, "limit": 2}, [2, 3], 3),
        ({"occurrences": (5, 2)}, [2, 5], 5),
    ],
)
def test_counting_chooses_among_the_crossings_that_match(
    counts: dict[str, Any], expected_strikes: list[int], spent_after: int | None
) -> None:
    counted_rule = rule(**counts)
    assert [n for n in range(1, 7) if strikes(counted_rule, n, 0)] == expected_strikes
    assert [n for n in range(7) if spent(counted_rule, n, 0)] == (
        [] if spent_after is None else list(range(spent_after, 7))
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "id is empty"),
        ({"api": "Prodcue"}, "Prodcue"),
        ({"partition": 0}, "needs a topic"),
        ({"api": "WriteTxnMarkers", "transactional_id": "app"}, "does not carry it"),
        ({"nth": 0}, "count from 1"),
        ({"limit": 0}, "count from 1"),
        ({"occurrences": (0,)}, "count from 1"),
        ({"occurrences": tuple(range(1, 1_002))}, "1001 occurrences, expected at most 1000"),
        ({"occurrences": (1,), "nth": 2}, "excludes"),
        ({"occurrences": (1,), "limit": 2}, "excludes"),
    ],
)
def test_a_rule_that_could_never_strike_is_refused(fields: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"id": "f", "point": FaultPoint.CLIENT_REQUEST, "action": Hold()}
    with pytest.raises(ValueError, match=message):
        FaultRule(**values | fields)


def test_actions_are_checked_and_described() -> None:
    with pytest.raises(ValueError, match="-1"):
        Delay(delay_ms=-1)
    with pytest.raises(ValueError, match="NO_SUCH"):
        Fail(error="NO_SUCH")
    assert Fail(error="NOT_COORDINATOR").code is ErrorCode.not_coordinator
    actions: list[Action] = [Hold(), Delay(delay_ms=5), Drop(), Fail(error="not_coordinator")]
    assert [str(action) for action in actions] == [
        "hold", "delay 5 ms", "drop", "error NOT_COORDINATOR",
    ]  # fmt: skip


YAML = """
- {id: late, point: client.request, api: Produce, transactional_id: app, action: {do: hold}}
- {id: slow, point: peer.request, api: 27, broker: 2, action: {do: delay, delay_ms: 500}}
- {id: lost, point: peer.response, topic: t, partition: 1, limit: 1, action: {do: drop}}
- id: refused
  point: client.response
  occurrences: [2, 4]
  committed: false
  action: {do: error, error: NOT_COORDINATOR}
"""


def test_rules_are_read_from_yaml_and_written_back() -> None:
    rules = msgspec.convert(yaml.safe_load(YAML), list[FaultRule])
    assert [rule.action for rule in rules] == [
        Hold(),
        Delay(delay_ms=500),
        Drop(),
        Fail(error="NOT_COORDINATOR"),
    ]
    assert rules[1].point is FaultPoint.PEER_REQUEST
    assert rules[3].occurrences == (2, 4)
    assert yaml.safe_load(yaml.safe_dump(msgspec.to_builtins(rules))) == yaml.safe_load(YAML)
    assert msgspec.json.decode(msgspec.json.encode(rules), type=list[FaultRule]) == rules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{id: f, point: client.request, action: {do: hold}, apy: Produce}", "apy"),
        ("{id: f, point: client.reqest, action: {do: hold}}", "client.reqest"),
        ("{id: f, point: client.request, action: {do: hodl}}", "hodl"),
        ("{id: f, point: client.request, action: {do: hold, delay_ms: 1}}", "delay_ms"),
        ("{id: f, point: client.request, action: {do: drop}, nth: 0}", "count from 1"),
    ],
)
def test_mistakes_in_a_file_are_named(text: str, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(yaml.safe_load(text), FaultRule)


@pytest.mark.parametrize(
    ("action", "criteria", "needed"),
    [
        (Hold(), {}, MessagePart.HEADER),
        (Hold(), {"api": "EndTxn"}, MessagePart.HEADER),
        (Hold(), {"api": END_TXN, "client_id": "app", "broker": 1}, MessagePart.HEADER),
        (Hold(), {"api": "Produce"}, MessagePart.NOTHING),
        (Hold(), {"transactional_id": "tx"}, MessagePart.BODY),
        (Hold(), {"producer_id": 0}, MessagePart.BODY),
        (Hold(), {"topic": "t"}, MessagePart.BODY),
        (Hold(), {"committed": False}, MessagePart.BODY),
        (Fail(error="NOT_COORDINATOR"), {}, MessagePart.BODY),
        (Corrupt(what=DamagedPart.BYTES), {}, MessagePart.HEADER),
    ],
)
def test_a_rule_asks_for_no_more_of_a_message_than_it_needs(
    action: Action, criteria: dict[str, Any], needed: MessagePart
) -> None:
    point = FaultPoint.CLIENT_REQUEST
    rule = FaultRule(id="f", point=point, action=action, **criteria)
    assert needed_part(rule, point, END_TXN) is needed
    assert needed_part(rule, FaultPoint.CLIENT_RESPONSE, END_TXN) is MessagePart.NOTHING


def test_who_damages_a_batch_has_to_see_it() -> None:
    point = FaultPoint.CLIENT_REQUEST
    rule = FaultRule(id="f", point=point, action=Corrupt(what=DamagedPart.CRC), api="Produce")
    assert needed_part(rule, point, 0) is MessagePart.BODY


# Whom a command between brokers is about.


SUBJECTS_T0 = TopicPartition("t", 0)
SUBJECTS_T1 = TopicPartition("t", 1)


def txn(name: str, producer_id: int, *partitions: TopicPartition) -> TxnPartitions:
    return TxnPartitions(
        transactional_id=TransactionalId(name),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        verify_only=True,
        partitions=partitions,
    )


def marker(producer_id: int, *partitions: TopicPartition, committed: bool) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        committed=committed,
        coordinator_epoch=CoordinatorEpoch(0),
        transaction_version=2,
        partitions=partitions,
    )


def test_a_followers_fetch_is_about_its_whole_session() -> None:
    command = ReplicaFetchCommand(
        replica_id=BrokerId(2), replica_epoch=1, max_wait_ms=500, min_bytes=1, max_bytes=1_000,
        session_id=3, session_epoch=7, followed_partitions=(SUBJECTS_T0, SUBJECTS_T1),
    )  # fmt: skip
    assert subject_of(command) == Subject(partitions=(SUBJECTS_T0, SUBJECTS_T1))


def test_an_offset_and_a_change_of_the_isr_are_about_their_partitions() -> None:
    offset = ReplicaOffsetCommand(
        replica_id=BrokerId(2), topic_partition=SUBJECTS_T0, current_leader_epoch=1, timestamp_ms=-1
    )
    assert subject_of(offset) == Subject(partitions=(SUBJECTS_T0,))
    change = IsrChange(
        topic_id=uuid.UUID(int=1),
        topic_partition=SUBJECTS_T1,
        leader_epoch=LeaderEpoch(1),
        new_isr=(),
        partition_epoch=1,
    )  # fmt: skip
    alter = AlterPartitionCommand(broker_id=BrokerId(2), broker_epoch=1, partitions=(change,))
    assert subject_of(alter) == Subject(partitions=(SUBJECTS_T1,))


def test_one_transaction_is_the_subject() -> None:
    command = AddPartitionsToTxnCommand(transactions=(txn("app", 7, SUBJECTS_T0, SUBJECTS_T1),))
    assert subject_of(command) == Subject(
        transactional_id="app", producer_id=7, partitions=(SUBJECTS_T0, SUBJECTS_T1)
    )


def test_further_transactions_are_its_others() -> None:
    command = AddPartitionsToTxnCommand(
        transactions=(txn("a", 7, SUBJECTS_T0), txn("b", 8, SUBJECTS_T1))
    )
    assert subject_of(command) == Subject(
        transactional_id="a",
        producer_id=7,
        partitions=(SUBJECTS_T0,),
        other_subjects=(Subject(transactional_id="b", producer_id=8, partitions=(SUBJECTS_T1,)),),
    )


def test_markers_carry_their_result() -> None:
    command = WriteTxnMarkersCommand(
        markers=(marker(7, SUBJECTS_T0, committed=True), marker(8, SUBJECTS_T1, committed=False))
    )
    assert subject_of(command) == Subject(
        producer_id=7,
        partitions=(SUBJECTS_T0,),
        committed=True,
        other_subjects=(Subject(producer_id=8, partitions=(SUBJECTS_T1,), committed=False),),
    )


def test_commands_without_a_transaction_have_no_subject() -> None:
    assert (
        subject_of(AllocateProducerIdsCommand(broker_id=BrokerId(1), broker_epoch=0)) == NO_SUBJECT
    )
    assert subject_of(WriteTxnMarkersCommand(markers=())) == NO_SUBJECT


def test_a_trace_tells_whose_transactions_a_request_is_about() -> None:
    other_subject = Subject(transactional_id="a", partitions=(SUBJECTS_T1,))
    subject_of_two = Subject(
        producer_id=7, partitions=(SUBJECTS_T0,), other_subjects=(other_subject, NO_SUBJECT)
    )
    assert trace_subjects(subject_of_two) == [
        {"pid": 7, "partitions": [str(SUBJECTS_T0)]},
        {"id": "a", "partitions": [str(SUBJECTS_T1)]},
    ]
    assert trace_subjects(NO_SUBJECT) == []


# ``rule``: Rules that could never strike, or would not do what they say, are refused when they are
# made.


P = FaultPoint
CRASH = Crash(broker=1)
CRC = Corrupt(what=DamagedPart.CRC)
CLEAR = Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR)
INSERT = Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry={"producer_id": 7})
ADD = Rewrite(field="aborted_transactions", how=RewriteHow.ADD, value=1)
CODE = Rewrite(field="error_code", how=RewriteHow.SET, value=1)


def rule_with(fields: dict[str, Any]) -> FaultRule:
    values: dict[str, Any] = {"id": "f", "point": P.CLIENT_REQUEST, "action": Hold()}
    return FaultRule(**values | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "id is empty"),
        ({"id": "a/b"}, "id 'a/b': leave out the slash"),
        ({"point": P.PEER_RESPONSE, "action": Duplicate()}, "one answer per request"),
        ({"point": P.LOG_INDEX}, "hold has no meaning at log.index"),
        ({"point": P.NOW}, "hold has no meaning at now"),
        ({"then": Drop()}, "then needs an action on the cluster"),
        ({"point": P.LOG_INDEX, "action": CRASH, "then": Hold()}, "then: hold has no meaning"),
        ({"point": P.NOW, "action": Crash()}, "broker is missing"),
        ({"action": CRC}, "needs api Produce"),
        ({"action": CRC, "point": P.NOW}, "corrupt has no meaning at now"),
        ({"action": CRC, "api": "Fetch"}, "needs api Produce"),
        ({"action": CRC, "api": "Produce", "point": P.CLIENT_RESPONSE}, "needs api Fetch"),
        ({"action": CLEAR, "api": "Fetch"}, "it changes answers"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE}, "rewrite needs api"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE, "api": "EndTxn"}, "no field of that answer"),
        ({"action": ADD, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "add needs a number"),
        ({"action": INSERT, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "first_offset is missing"),
        ({"action": CODE, "point": P.CLIENT_RESPONSE, "api": "Fetch"}, "the action error does"),
        ({"action": CLEAR, "point": P.CLIENT_RESPONSE, "api": "Fetchh"}, "Fetchh"),
        ({"api": "Prodcue"}, "Prodcue"),
        ({"api": "Fetch", "point": P.LOG_READ}, "no request crosses it"),
        ({"client_id": "app", "point": P.PEER_REQUEST}, "no client's request crosses it"),
        ({"client_id": "app", "point": P.CONNECTION_OPEN}, "no client's request crosses it"),
        (
            {"client_instance_id": "ABEiM0RVZneImaq7zN3u_w", "point": P.PEER_REQUEST},
            "client_instance_id can't be matched",
        ),
        ({"client_instance_id": "app"}, "expected 22 letters"),
        ({"partition": 0}, "needs a topic"),
        ({"api": "WriteTxnMarkers", "transactional_id": "app"}, "does not carry it"),
        ({"api": 27, "transactional_id": "app"}, "on WriteTxnMarkers, which does not carry it"),
        ({"api": "Fetch", "producer_id": 1}, "producer_id can't be matched on Fetch"),
        ({"api": "Produce", "committed": True}, "only EndTxn, WriteTxnMarkers do"),
        ({"kind": "data"}, "it knows no kinds"),
        ({"kind": "date", "point": P.LOG_APPEND}, "it knows data, marker"),
        ({"role": "leader"}, "only log.append knows"),
        ({"role": "boss", "point": P.LOG_APPEND}, "only log.append knows"),
        ({"point": P.NOW, "action": CRASH, "topic": "t"}, "topic can't be asked for at now"),
        ({"point": P.NOW, "action": CRASH, "occurrences": (1,)}, "occurrences can't be asked"),
        ({"nth": 0}, "count from 1"),
        ({"limit": 0}, "count from 1"),
        ({"occurrences": (0,)}, "count from 1"),
        ({"occurrences": (1,), "nth": 2}, "excludes"),
        ({"occurrences": (1,), "limit": 2}, "excludes"),
        ({"probability": 0.0}, "probability is 0.0"),
        ({"probability": 1.5}, "probability is 1.5"),
        ({"after": "f"}, "after names the rule itself"),
        ({"until": "f"}, "until names the rule itself"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule_with(fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"point": P.NOW, "action": CRASH},
        {"point": P.NOW, "action": ResignLeader(topic="t", partition=0)},
        {"action": Crash(), "then": Drop()},
        {"action": CRC, "api": 0},
        {"api": 26, "transactional_id": "app", "producer_id": 1, "committed": False},
        {"action": Corrupt(what=DamagedPart.BYTES)},
        {"point": P.LOG_APPEND, "role": "follower", "kind": "marker"},
        {"point": P.CLOCK_TIMER, "kind": "cleaner", "action": Drop()},
        {"probability": 0.25, "after": "g", "until": "h"},
        {"action": Pass(), "occurrences": (1, 4)},
        {"point": P.CONNECTION_OPEN, "broker": 1, "action": Delay(delay_ms=1)},
    ],
)
def test_other_rules_are_made(fields: dict[str, Any]) -> None:
    assert rule_with(fields).id == "f"


def test_an_entry_that_the_list_can_have_makes_sense() -> None:
    entry = {"producer_id": 7, "first_offset": 3}
    insert_rewrite = Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry=entry)
    assert (
        FaultRule(id="lie", point=P.CLIENT_RESPONSE, api="Fetch", action=insert_rewrite).action
        == insert_rewrite
    )
