"""Actions of faults as values: what makes sense, where, and in which words."""

from __future__ import annotations

import ast
import inspect
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from txnsim.errors import ErrorCode
from txnsim.faults import points
from txnsim.faults.absent_targets import doubt
from txnsim.faults.actions import (
    Corrupt,
    CrossingAction,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Fail,
    Hold,
    Pass,
    Reorder,
    Rewrite,
    Slice,
    Stall,
    Throttle,
)
from txnsim.faults.cluster_actions import (
    CLOCK_MS_MAX,
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.faults.damage import BATCH_HEADER_BYTES, CRC_OFFSET, damage_message
from txnsim.faults.interception import (
    Crossing,
    Damage,
    DamagedPart,
    FaultEffect,
    PassAll,
    RewriteHow,
    Rewriting,
    Slices,
    SubmitOutcome,
)
from txnsim.faults.meanings import (
    CLUSTER_ACTIONS,
    CROSSING_ACTIONS,
    TAKES,
    can_wait,
    name_of,
    refusal,
)
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import NO_SUBJECT

# Actions on crossings as values: checked when they are made, and said in words.


WORDS = [
    (Pass(), {"do": "pass"}, "pass"),
    (Hold(), {"do": "hold"}, "hold"),
    (Delay(delay_ms=5), {"do": "delay", "delay_ms": 5}, "delay 5 ms"),
    (Reorder(behind=2), {"do": "reorder", "behind": 2}, "reorder behind 2"),
    (Stall(), {"do": "stall", "stall_ms": None}, "stall"),
    (Stall(stall_ms=0), {"do": "stall", "stall_ms": 0}, "stall 0 ms"),
    (Drop(), {"do": "drop"}, "drop"),
    (DropAnswer(), {"do": "drop-answer"}, "drop-answer"),
    (
        Fail(error="not_coordinator"),
        {"do": "error", "error": "not_coordinator"},
        "error NOT_COORDINATOR",
    ),
    (Duplicate(times=3), {"do": "duplicate", "times": 3}, "duplicate 3"),
    (
        Rewrite(field="committed_offset", how=RewriteHow.ADD, value=5),
        {
            "do": "rewrite",
            "field": "committed_offset",
            "how": "add",
            "value": 5,
            "entry": None,
        },
        "rewrite committed_offset: add 5",
    ),
    (
        Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR),
        {
            "do": "rewrite",
            "field": "aborted_transactions",
            "how": "clear",
            "value": None,
            "entry": None,
        },
        "rewrite aborted_transactions: clear",
    ),
    (
        Rewrite(field="aborted_transactions", how=RewriteHow.INSERT, entry={"producer_id": 7}),
        {
            "do": "rewrite",
            "field": "aborted_transactions",
            "how": "insert",
            "value": None,
            "entry": {"producer_id": 7},
        },
        "rewrite aborted_transactions: insert producer_id=7",
    ),
    (Throttle(throttle_ms=70), {"do": "throttle", "throttle_ms": 70}, "throttle 70 ms"),
    (Corrupt(what=DamagedPart.CRC), {"do": "corrupt", "what": "crc"}, "corrupt crc"),
    (
        Slice(bytes=10, every_ms=5),
        {"do": "slice", "bytes": 10, "every_ms": 5},
        "slice 10 bytes every 5 ms",
    ),
    (Disconnect(), {"do": "disconnect"}, "disconnect"),
    (Disconnect(reset=True), {"do": "disconnect", "reset": True}, "disconnect with reset"),
]


def test_a_slice_is_told_to_who_writes() -> None:
    assert Slice(bytes=10, every_ms=5).slices == Slices(size=10, every_ms=5)


@pytest.mark.parametrize(("action", "value", "expected_text"), WORDS)
def test_actions_are_read_written_and_said(
    action: CrossingAction, value: dict[str, object], expected_text: str
) -> None:
    assert msgspec.to_builtins(action) == value
    assert msgspec.convert(value, CrossingAction) == action
    assert str(action) == expected_text


def test_every_action_is_here() -> None:
    assert {type(action) for action, _, _ in WORDS} == set(CrossingAction.__args__)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Delay(delay_ms=-1),
        lambda: Reorder(behind=0),
        lambda: Stall(stall_ms=-1),
        lambda: Duplicate(times=0),
        lambda: Throttle(throttle_ms=0),
        lambda: Fail(error="NO_SUCH"),
        lambda: Delay(delay_ms=10**15),
        lambda: Reorder(behind=2**40),
        lambda: Stall(stall_ms=10**15),
        lambda: Duplicate(times=1_001),
        lambda: Throttle(throttle_ms=2**31),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"expected \d to \d+|no Kafka error"):
        make()


@pytest.mark.parametrize(
    ("how", "value", "expected_reason"),
    [
        (RewriteHow.ADD, None, "value is missing: add needs one"),
        (RewriteHow.CLEAR, 1, "value has no meaning with clear"),
        (RewriteHow.INSERT, None, "entry is missing: insert needs one"),
        (RewriteHow.SET, 1 << 63, r"value.*expected -\d+ to \d+"),
    ],
)
def test_a_rewriting_that_makes_no_sense_is_refused(
    how: RewriteHow, value: int | None, expected_reason: str
) -> None:
    with pytest.raises(ValueError, match=expected_reason):
        Rewrite(field="committed_offset", how=how, value=value)


def test_an_entry_is_for_insert_alone() -> None:
    with pytest.raises(ValueError, match="entry has no meaning with clear"):
        Rewrite(field="aborted_transactions", how=RewriteHow.CLEAR, entry={"producer_id": 7})


def test_a_rewriting_is_what_an_answer_is_changed_by() -> None:
    rewrite = Rewrite(field="committed_offset", how=RewriteHow.ADD, value=3)
    assert rewrite.rewriting == Rewriting(field="committed_offset", how=RewriteHow.ADD, value=3)


def test_an_error_is_a_code() -> None:
    assert Fail(error="NOT_COORDINATOR").code is ErrorCode.not_coordinator


# Actions on the cluster as values: checked when they are made, and said in words.


CLUSTER_ACTIONS_WORDS: list[tuple[ClusterAction, str, int | None]] = [
    (Crash(), "crash the broker struck", None),
    (
        Crash(broker=2, lose_unflushed=True, restart_after_ms=5),
        "crash broker 2, unflushed data lost, restart after 5 ms",
        5,
    ),
    (MoveLeader(topic="t", partition=1), "move-leader t-1 to another replica", None),
    (MoveLeader(topic="t", partition=1, to=3), "move-leader t-1 to broker 3", None),
    (ResignLeader(topic="t", partition=1), "resign-leader t-1", None),
    (
        Partition(groups=((1,), (2, 3)), heal_after_ms=0),
        "partition 1 | 2 3, heal after 0 ms",
        0,
    ),
    (ClockJump(by_ms=-5), "clock -5 ms on every clock", None),
    (ClockJump(by_ms=5, broker=1), "clock +5 ms on the clock of broker 1", None),
    (FillDisk(broker=1, free_after_ms=9), "fill-disk broker 1, free after 9 ms", 9),
    (LagReplica(broker=3, topic="t", partition=0), "lag-replica t-0 on broker 3", None),
]


@pytest.mark.parametrize(("action", "expected_text", "ends_after_ms"), CLUSTER_ACTIONS_WORDS)
def test_actions_are_read_back_and_said(
    action: ClusterAction, expected_text: str, ends_after_ms: int | None
) -> None:
    assert msgspec.json.decode(msgspec.json.encode(action), type=ClusterAction) == action
    assert str(action) == expected_text
    assert action.ends_after_ms == ends_after_ms


def test_cluster_actions_every_action_is_here() -> None:
    assert {type(action) for action, _, _ in CLUSTER_ACTIONS_WORDS} == set(ClusterAction.__args__)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crash(restart_after_ms=-1), "restart_after_ms is -1"),
        (lambda: FillDisk(free_after_ms=-1), "free_after_ms is -1"),
        (lambda: Partition(groups=((1,), (2,)), heal_after_ms=-1), "heal_after_ms is -1"),
        (lambda: Partition(groups=((1, 2),)), "two sides"),
        (lambda: Partition(groups=((1, 2), ())), "two sides"),
        (lambda: Partition(groups=((1, 2), (2, 3))), "one side only"),
        (lambda: ClockJump(by_ms=0), "would not move"),
        (lambda: ClockJump(by_ms=1 << 70), "ten years"),
        (lambda: ClockJump(by_ms=-CLOCK_MS_MAX - 1), "ten years"),
    ],
)
def test_cluster_actions_what_makes_no_sense_is_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# What passes a fault point, and how it may go on.


@dataclass(frozen=True)
class Answer:
    f: object


def test_an_effect_that_lets_pass_changes_nothing() -> None:
    effect = FaultEffect(outcome=SubmitOutcome.PASS)
    assert (effect.error, effect.times, effect.throttle_ms, effect.damage) == (0, 0, 0, None)


def test_an_undisturbed_cluster_lets_everything_pass() -> None:
    crossing_point = Crossing(
        point="client.request",
        source="client/app",
        target="broker/2",
        api_key=26,
        api_version=4,
        correlation_id=1,
        subject=NO_SUBJECT,
    )
    assert not PassAll.is_armed
    assert PassAll().cross(crossing_point) is None


@pytest.mark.parametrize(
    ("how", "value_before", "value_after"),
    [
        (RewriteHow.SET, 7, 5),
        (RewriteHow.ADD, 7, 12),
        (RewriteHow.REVERSE, (1, 2, 3), (3, 2, 1)),
        (RewriteHow.REVERSE, None, None),
        (RewriteHow.CLEAR, (1, 2), ()),
        (RewriteHow.CLEAR, None, ()),
    ],
)
def test_a_field_of_an_answer_is_changed(
    how: RewriteHow, value_before: object, value_after: object
) -> None:
    answer = Answer(f=value_before)
    assert Rewriting(field="f", how=how, value=5).apply(answer) == Answer(f=value_after)
    inserting_rewriting = Rewriting(field="g", how=RewriteHow.INSERT, entry={"id": 1})
    assert inserting_rewriting.apply(answer) is answer, "it has no such list"


# Rules that can't strike in a cluster as it is.


BROKERS = (1, 2, 3)
TOPICS = {"orders": 2}


def doubt_of_drop(*, may_create: bool = False, point: FaultPoint, **drop_fields: Any) -> str | None:
    rule = FaultRule(id="r", point=point, action=Drop(), **drop_fields)
    return doubt(rule, brokers=BROKERS, topics=TOPICS, may_create=may_create)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, None),
        ({"broker": 3, "topic": "orders", "partition": 1}, None),
        ({"broker": 9}, "broker: no broker '9'; there are: 1, 2, 3"),
        ({"topic": "oders"}, "topic: no topic 'oders'; did you mean orders? there are: orders"),
        ({"topic": "orders", "partition": 2}, "partition: orders has no 2, only 0 to 1"),
        (
            {"broker": 0, "topic": "orders", "partition": 7},
            "broker: no broker '0'; there are: 1, 2, 3; partition: orders has no 7, only 0 to 1",
        ),
    ],
)
def test_a_rule_for_a_missing_thing_gets_a_warning(
    fields: dict[str, Any], message: str | None
) -> None:
    assert doubt_of_drop(point=FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", **fields) == message


def test_a_broker_that_asks_is_one_of_the_cluster_too() -> None:
    complaint = doubt_of_drop(point=FaultPoint.PEER_REQUEST, source="broker/9")
    assert complaint == "source: no broker '9'; there are: 1, 2, 3"
    assert doubt_of_drop(point=FaultPoint.PEER_REQUEST, source="broker/3") is None
    assert doubt_of_drop(point=FaultPoint.CLIENT_REQUEST, source="client/9") is None


def test_a_topic_that_may_come_by_itself_is_no_doubt_yet() -> None:
    assert doubt_of_drop(point=FaultPoint.CLIENT_REQUEST, topic="later", may_create=True) is None
    assert (
        doubt_of_drop(point=FaultPoint.CLIENT_REQUEST, topic="later", may_create=False) is not None
    )


# Which action means something where: the table is whole, and says no in words.


def test_every_point_and_every_action_is_in_the_table() -> None:
    assert list(TAKES) == list(FaultPoint)
    assert set(CROSSING_ACTIONS) == set(CrossingAction.__args__)
    assert set(CLUSTER_ACTIONS) == set(ClusterAction.__args__)
    assert {action for takes in TAKES.values() for action in takes} == set(CROSSING_ACTIONS)


def test_actions_on_the_cluster_are_allowed_everywhere() -> None:
    assert [refusal(point, Crash(broker=1)) for point in FaultPoint] == [None] * len(FaultPoint)


@pytest.mark.parametrize("point", list(FaultPoint))
def test_a_refusal_lists_what_the_point_takes(point: FaultPoint) -> None:
    refusal_text = refusal(point, Duplicate())
    if Duplicate in TAKES[point]:
        assert refusal_text is None
    else:
        assert refusal_text is not None
        assert refusal_text.startswith(f"duplicate has no meaning at {point}")
        for action in (*TAKES[point], *CLUSTER_ACTIONS):
            assert name_of(action) in refusal_text


def test_a_refusal_may_say_why() -> None:
    assert "there is no request to answer" in str(
        refusal(FaultPoint.CONNECTION_OPEN, Fail(error="NOT_COORDINATOR"))
    )


def test_where_nothing_can_wait() -> None:
    assert not can_wait("log.index")
    assert [point for point in FaultPoint if can_wait(point) != (Hold in TAKES[point])] == []


# Damaged bytes: the same noise does the same harm, and only where it should.


BATCH = bytes(range(BATCH_HEADER_BYTES)) + b"records"
BODY = b"\0\0\0\1head" + BATCH + b"tail"
MESSAGE = len(BODY).to_bytes(4, "big") + BODY
NOISES = [bytes(16), b"\xff" * 16, bytes(range(16)), bytes(range(200, 216))]


def differing(message: bytes) -> list[int]:
    return [position for position in range(len(MESSAGE)) if message[position] != MESSAGE[position]]


@pytest.mark.parametrize("noise", NOISES)
def test_a_damaged_length_says_fewer_bytes_than_there_are(noise: bytes) -> None:
    message = damage_message(MESSAGE, Damage(part=DamagedPart.LENGTH, noise=noise), batch=None)
    assert 0 <= int.from_bytes(message[:4], "big") < len(BODY)
    assert message[4:] == BODY


@pytest.mark.parametrize("noise", NOISES)
def test_a_damaged_crc_is_one_byte_of_the_first_batch(noise: bytes) -> None:
    message = damage_message(MESSAGE, Damage(part=DamagedPart.CRC, noise=noise), batch=BATCH)
    start = MESSAGE.index(BATCH) + CRC_OFFSET
    assert len(differing(message)) == 1
    assert start <= differing(message)[0] < start + 4


@pytest.mark.parametrize("noise", NOISES)
def test_some_bytes_anywhere_but_in_the_length_are_changed(noise: bytes) -> None:
    message = damage_message(MESSAGE, Damage(part=DamagedPart.BYTES, noise=noise), batch=None)
    assert len(message) == len(MESSAGE)
    assert len(differing(message)) == 4
    assert min(differing(message)) >= 4
    short_message = damage_message(
        b"\0\0\0\2ab", Damage(part=DamagedPart.BYTES, noise=noise), batch=None
    )
    assert short_message[:4] == b"\0\0\0\2"
    assert (short_message[4:5] != b"a", short_message[5:] != b"b") == (True, True)
    damaged_again = damage_message(MESSAGE, Damage(part=DamagedPart.BYTES, noise=noise), batch=None)
    assert zlib.crc32(damaged_again) == zlib.crc32(message), "chance is in the noise alone"


# Names of the fault points.


def test_points_have_dotted_names() -> None:
    assert {str(point) for point in FaultPoint} == {
        "client.request", "client.response", "clock.timer", "connection.open", "coordinator.load",
        "coordinator.unload", "group.completion", "log.append", "log.flush", "log.index",
        "log.read", "metadata.apply", "now", "peer.request", "peer.response", "process.start",
        "process.stop", "share.persist",
    }  # fmt: skip


def test_every_point_says_what_a_fault_does_there() -> None:
    body = next(
        node for node in ast.parse(inspect.getsource(points)).body if isinstance(node, ast.ClassDef)
    ).body
    undocumented = [
        ast.unparse(node)
        for node, next_node in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.Assign) and not isinstance(next_node, ast.Expr)
    ]
    assert undocumented == []
