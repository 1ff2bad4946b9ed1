"""What a strike of a fault rule keeps, and what it costs when it is the thousandth.

For each fault point and each action that it takes, a rule strikes each of hundreds of crossings,
which small requests of new connections make. Memory that stays is at most ``KEPT_MAX`` times what
was sent, or for each crossing what ``KEPT`` states. The last strikes run no more lines of code than
the first ones did. Rules that are armed and disarmed over and over are held to the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import pytest

from tests.broker.simulation.test_costs import (
    STAMP_MS,
    Broker,
    _config,
    _fetched,
    _of_key,
    _shared,
    _written,
)
from tests.broker.simulation.test_small_steps import (
    ALLOWANCE_BYTES,
    FEW_LINES,
    KEPT_MAX,
    STEADY_MAX,
)
from tests.support.broker_api import KEYS
from tests.support.clusters import VirtualCluster, options, run_cluster
from tests.support.counted_steps import CountedSteps
from tests.support.raw_connection import WireClient
from txnsim.controller.elections import reelect_same_leader
from txnsim.errors import Rejection
from txnsim.faults.actions import (
    Corrupt,
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
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.faults.interception import DamagedPart, RewriteHow
from txnsim.faults.meanings import CLUSTER_ACTIONS, CROSSING_ACTIONS, TAKES, name_of
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.share_state import ShareKey
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    partition_for,
    uuid_text,
)
from txnsim.wire import codec
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.plain_values import message_from

COUNTED: Final = 3
WINDOWS: Final = 3
"""The lines of so many crossings are counted so often, and the fewest count: now and then a broker
does something else beside them.
"""
COUNTS: Final = (100, 1_000)
"""How often each step is repeated: in the gate, and in the nightly."""
HEAVY_COUNTS: Final = (40, 200)
"""Of steps that take a broker down and up again."""
ANSWER_S: Final = 0.05
"""Virtual time that is left for an answer; who gets none has been struck."""
SETTLE_S: Final = 70.0
"""After so long (virtual) brokers have given up each other's lost requests."""
ACTIONS: Final[Mapping[type[Any], tuple[Action, ...]]] = {
    Pass: (Pass(),),
    Hold: (Hold(),),
    Delay: (Delay(delay_ms=5, jitter_ms=5), Delay(delay_ms=86_400_000)),
    Reorder: (Reorder(),),
    Stall: (Stall(stall_ms=5), Stall()),
    Drop: (Drop(),),
    DropAnswer: (DropAnswer(),),
    Fail: (Fail(error="NOT_COORDINATOR"),),
    Duplicate: (Duplicate(times=2),),
    Throttle: (Throttle(throttle_ms=5),),
    Corrupt: (Corrupt(what=DamagedPart.LENGTH), Corrupt(what=DamagedPart.BYTES)),
    Rewrite: (Rewrite(field="controller_id", how=RewriteHow.SET, value=7),),
    Slice: (Slice(bytes=10, every_ms=1),),
    Disconnect: (Disconnect(), Disconnect(reset=True)),
    ClockJump: (ClockJump(by_ms=1),),
    ResignLeader: (ResignLeader(topic="orders", partition=0),),
    Crash: (Crash(broker=1, restart_after_ms=1_000),),
    FillDisk: (FillDisk(broker=1, free_after_ms=10_000),),
    MoveLeader: (MoveLeader(topic="orders", partition=0),),
    Partition: (Partition(groups=((1,), (2,)), heal_after_ms=100),),
    LagReplica: (LagReplica(broker=2, topic="orders", partition=0),),
}
"""What is done, for each kind of action."""

Rule = Mapping[str, Any]
Drive = Callable[["BrokerUnderStrikes", int], Awaitable[None]]


class BrokerUnderStrikes(Broker):
    """A broker whose messages rules strike, with the clients that send them."""

    def __init__(self, cluster: VirtualCluster, wire: WireClient, *, keeps_clients: bool) -> None:
        super().__init__(cluster, wire)
        self.keeps_clients = keeps_clients
        """Whether clients stay connected, as what they wait for is held."""
        self.sent_bytes = 0

    async def send(self, *requests: tuple[str, int, Mapping[str, Any]]) -> None:
        """Send requests one by one over a connection of their own, and await each answer a little
        while.
        """
        wire = await self.wire_more()
        for api, version, values in requests:
            message = message_from(codec.request_class(KEYS[api], version), values)
            frame = wire.frame(KEYS[api], version, message)
            self.sent_bytes += len(frame)
            wire.send(frame)
            with contextlib.suppress(TimeoutError, ConnectionError, EOFError):
                async with asyncio.timeout(ANSWER_S):
                    size_bytes = int.from_bytes(await wire.reader.readexactly(4), "big")
                    await wire.reader.readexactly(min(size_bytes, 1 << 16))
        if not self.keeps_clients:
            self.wires.pop()
            with contextlib.suppress(ConnectionError):
                await wire.close()


# A crossing of each point


async def _metadata(broker: BrokerUnderStrikes, _number: int) -> None:
    topics = [{"name": "orders"}]
    await broker.send(("Metadata", 12, {"topics": topics, "allow_auto_topic_creation": False}))


async def _produce(broker: BrokerUnderStrikes, _number: int) -> None:
    await broker.send(("Produce", 9, _written(_batch())))


async def _roll_segment(broker: BrokerUnderStrikes, number: int) -> None:
    batch = _batch(timestamp_ms=STAMP_MS + 1_000 * number)
    await broker.send(("Produce", 9, _written(batch, "rolled")))


async def _fetch(broker: BrokerUnderStrikes, _number: int) -> None:
    await broker.send(("Fetch", 12, _fetched()))


async def _verify(broker: BrokerUnderStrikes, number: int) -> None:
    """Produce in a transaction that the leader has to verify at the coordinator."""
    producer_id = 50_000 + number
    values = {**_written(_transactional(producer_id)), "transactional_id": "t"}
    await broker.send(("Produce", 9, values))


async def _abort(broker: BrokerUnderStrikes, number: int) -> None:
    producer_id = 60_000 + number
    values = {**_written(_transactional(producer_id)), "transactional_id": "t"}
    marker_topic = {"name": "orders", "partition_indexes": [0]}
    await broker.send(("Produce", 9, values), _marker(producer_id, marker_topic, committed=False))


async def _complete(broker: BrokerUnderStrikes, number: int) -> None:
    """Commit positions in a transaction, and write the marker that ends it."""
    producer_id = 70_000 + number
    partition_count = len(broker.image.topics[CONSUMER_OFFSETS_TOPIC].partitions)
    marker_topic = {
        "name": CONSUMER_OFFSETS_TOPIC,
        "partition_indexes": [partition_for("g", partition_count)],
    }
    position = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 0}]}
    commit = {
        "transactional_id": "t",
        "producer_id": producer_id,
        "producer_epoch": 0,
        "group_id": "g",
        "generation_id": -1,
        "member_id": "",
        "topics": [position],
    }
    await broker.send(
        ("TxnOffsetCommit", 3, commit), _marker(producer_id, marker_topic, committed=True)
    )


async def _share(broker: BrokerUnderStrikes, number: int) -> None:
    await broker.send(("ShareFetch", 2, _shared(broker, f"s{number}", "m")))


async def _change_metadata(broker: BrokerUnderStrikes, number: int) -> None:
    resources = [_config(2, "orders", "retention.ms", str(1_000_000 + number))]
    values = {"resources": resources, "validate_only": False}
    await broker.send(("IncrementalAlterConfigs", 1, values))


async def _resign(broker: BrokerUnderStrikes, _number: int) -> None:
    """A transaction coordinator gives up a partition and gets it again."""
    resigned = reelect_same_leader(broker.image, TopicPartition(TRANSACTION_STATE_TOPIC, 0))
    assert not isinstance(resigned, Rejection)
    for image in resigned:
        asyncio.get_running_loop().call_soon(broker.cluster.sim.metadata.publish, image)
        await asyncio.sleep(ANSWER_S)
    broker.sent_bytes += SENT_AT_LEAST


async def _scan(broker: BrokerUnderStrikes, _number: int) -> None:
    await asyncio.sleep(10)
    broker.sent_bytes += SENT_AT_LEAST


async def _restart(broker: BrokerUnderStrikes, _number: int) -> None:
    await broker.cluster.sim.stop_broker(BrokerId(1))
    await broker.cluster.sim.start_broker(BrokerId(1))
    broker.sent_bytes += SENT_AT_LEAST


SENT_AT_LEAST: Final = 100
"""Counts as sent for a crossing that no request makes."""


def _batch(timestamp_ms: int = STAMP_MS, **batch_fields: Any) -> bytes:
    return build_batch([Record(key=b"k", value=b"v")], timestamp_ms=timestamp_ms, **batch_fields)


def _transactional(producer_id: int) -> bytes:
    return _batch(producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def _marker(
    producer_id: int, marker_topic: Mapping[str, Any], *, committed: bool
) -> tuple[str, int, Mapping[str, Any]]:
    marker = {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "transaction_result": committed,
        "coordinator_epoch": 0,
        "topics": [marker_topic],
    }
    return "WriteTxnMarkers", 1, {"markers": [marker]}


class Place(msgspec.Struct, frozen=True):
    """A fault point, and the calls by which messages cross it."""

    drive: Drive
    criteria: Rule = {}
    verifies: bool = False
    """Whether a partition's leader asks the coordinator before it appends."""
    is_heavy: bool = False


PLACES: Final[Mapping[FaultPoint, Place]] = {
    FaultPoint.CONNECTION_OPEN: Place(_metadata),
    FaultPoint.CLIENT_REQUEST: Place(_metadata, {"api": "Metadata"}),
    FaultPoint.CLIENT_RESPONSE: Place(_metadata, {"api": "Metadata"}),
    FaultPoint.PEER_REQUEST: Place(_verify, {"api": "AddPartitionsToTxn"}, verifies=True),
    FaultPoint.PEER_RESPONSE: Place(_verify, {"api": "AddPartitionsToTxn"}, verifies=True),
    FaultPoint.COORDINATOR_LOAD: Place(_resign),
    FaultPoint.COORDINATOR_UNLOAD: Place(_resign),
    FaultPoint.LOG_APPEND: Place(_produce, {"topic": "orders"}),
    FaultPoint.LOG_READ: Place(_fetch, {"topic": "orders"}),
    FaultPoint.LOG_FLUSH: Place(_roll_segment, {"topic": "rolled"}),
    FaultPoint.LOG_INDEX: Place(_abort, {"kind": "aborted-range"}),
    FaultPoint.GROUP_COMPLETION: Place(_complete),
    FaultPoint.SHARE_PERSIST: Place(_share, {"kind": "read"}),
    FaultPoint.METADATA_APPLY: Place(_change_metadata),
    FaultPoint.CLOCK_TIMER: Place(_scan, {"kind": "transaction-timeouts"}),
    FaultPoint.PROCESS_START: Place(_restart, is_heavy=True),
    FaultPoint.PROCESS_STOP: Place(_restart, is_heavy=True),
}


class StrikeRepetition(msgspec.Struct, frozen=True):
    """The bytes and steps that the strikes of a rule cost."""

    sent_bytes: int
    kept_bytes: int
    strikes: int
    lines_at_few: int
    lines_at_many: int


def _waits(action: Action) -> bool:
    """Whether the action makes a message wait for longer than the test."""
    return isinstance(action, Hold | Reorder) or action in (Stall(), Delay(delay_ms=86_400_000))


async def _kept() -> int:
    await asyncio.sleep(SETTLE_S)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _repeat(broker: BrokerUnderStrikes, drive: Drive, count: int) -> StrikeRepetition:
    """Cross the fault point ``count`` times, and measure."""
    numbers = itertools.count()

    async def cross(repeat_count: int) -> None:
        for _ in range(repeat_count):
            await drive(broker, next(numbers))

    async def lines() -> int:
        windows = []
        for _ in range(WINDOWS):
            with CountedSteps() as step_counter:
                await cross(COUNTED)
            windows.append(step_counter.total)
        return min(windows)

    few_crossings = WINDOWS * COUNTED
    await cross(few_crossings)
    lines_at_few = await lines()
    kept_before = await _kept()
    broker.sent_bytes = 0
    await cross(count - 3 * few_crossings)
    lines_at_many = await lines()
    kept_bytes = await _kept() - kept_before
    return StrikeRepetition(broker.sent_bytes, kept_bytes, count, lines_at_few, lines_at_many)


def strike(point: FaultPoint, action: Action, count: int) -> StrikeRepetition:
    """The bytes and steps that an action costs when it strikes many messages at a fault point."""
    place = PLACES[point]

    async def story(broker: BrokerUnderStrikes) -> StrikeRepetition:
        await _of_key(broker, "g", 0)
        await _of_key(broker, "t", 1)
        share_key = ShareKey("s", uuid_text(broker.ids["orders"]), 0)
        await _of_key(broker, share_key.coordinator_key, 2)
        rolled = {**_config(2, "rolled", "segment.ms", "1")}
        await broker.sure(44, 1, {"resources": [rolled], "validate_only": False})
        await place.drive(broker, 1_000_000)
        rule = FaultRule(id="f", point=point, action=action, **place.criteria)
        armed_rule = broker.cluster.sim.injector.arm(rule)
        repetition = await _repeat(broker, place.drive, count)
        broker.cluster.sim.injector.disarm("f")
        return msgspec.structs.replace(repetition, strikes=armed_rule.struck)

    return _play(story, keeps_clients=_waits(action), verifies_partitions=place.verifies)


def act(action: Action, count: int) -> StrikeRepetition:
    """The bytes and steps that an action on the cluster costs when it is done many times."""

    async def story(broker: BrokerUnderStrikes) -> StrikeRepetition:
        return await _repeat(broker, lambda struck, number: _act(struck, number, action), count)

    return _play(story, brokers=2)


def repeat_rules(step_name: str, count: int) -> StrikeRepetition:
    """The bytes and steps that a step with rules costs when it is done many times."""

    async def story(broker: BrokerUnderStrikes) -> StrikeRepetition:
        repetition = await _repeat(broker, RULE_STEPS[step_name], count)
        broker.cluster.sim.injector.disarm_all()
        return repetition

    return _play(story, keeps_clients=step_name == "stall_another")


def _play(
    story: Callable[[BrokerUnderStrikes], Awaitable[StrikeRepetition]],
    *,
    brokers: int = 1,
    keeps_clients: bool = False,
    verifies_partitions: bool = False,
) -> StrikeRepetition:
    """Play a story beside a cluster, whose memory is traced."""

    async def play(cluster: VirtualCluster) -> StrikeRepetition:
        broker_image = cluster.sim.metadata.image.brokers[BrokerId(1)]
        wire = await WireClient.open(broker_image.host, broker_image.port)
        broker = BrokerUnderStrikes(cluster, wire, keeps_clients=keeps_clients)
        repetition = await story(broker)
        for open_wire in broker.wires:
            with contextlib.suppress(ConnectionError):
                await open_wire.close()
        return repetition

    tracemalloc.start()
    try:
        return run_cluster(
            play,
            cluster_options=options(
                brokers=brokers,
                level=0,
                topics=(("orders", 1), ("rolled", 1)),
                transaction_partition_verification_enable=verifies_partitions,
            ),
        )
    finally:
        tracemalloc.stop()


# Cluster actions, and rules themselves


async def _act(broker: BrokerUnderStrikes, number: int, action: Action) -> None:
    """Arm a rule that acts at once, await its action, and disarm it."""
    cluster = broker.cluster
    rule_id = f"f{number}"
    cluster.sim.injector.arm(FaultRule(id=rule_id, point=FaultPoint.NOW, action=action))
    await cluster.sim.injector.wait_until_struck(rule_id, timeout_ms=60_000)
    cluster.sim.injector.disarm(rule_id)
    await asyncio.sleep(ANSWER_S)
    broker.sent_bytes += SENT_AT_LEAST


async def _call(callback: Callable[..., object], *arguments: object) -> None:
    """Call a function as the loop does, so that its lines are counted as a broker's."""
    asyncio.get_running_loop().call_soon(callback, *arguments)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def _rule(rule_id: str, action: Action, **rule_fields: Any) -> FaultRule:
    return FaultRule(id=rule_id, point=FaultPoint.CLIENT_REQUEST, action=action, **rule_fields)


async def _arm_again(broker: BrokerUnderStrikes, _number: int) -> None:
    injector = broker.cluster.sim.injector
    await _call(injector.arm, _rule("again", Hold()))
    await _call(injector.disarm, "again")
    broker.sent_bytes += SENT_AT_LEAST


async def _arm_another(broker: BrokerUnderStrikes, number: int) -> None:
    injector = broker.cluster.sim.injector
    await _call(injector.arm, _rule(f"another{number}", Hold()))
    await _call(injector.disarm, f"another{number}")
    broker.sent_bytes += SENT_AT_LEAST


async def _follow_another(broker: BrokerUnderStrikes, number: int) -> None:
    """A rule that waits for one that is disarmed: each crossing asks whether that has struck."""
    injector = broker.cluster.sim.injector
    if number == 0:
        await _call(injector.arm, _rule("first", Drop()))
        await _call(injector.disarm, "first")
        await _call(injector.arm, _rule("follower", Drop(), after="first"))
    await _arm_another(broker, number)
    await _metadata(broker, number)


async def _strike_by_chance(broker: BrokerUnderStrikes, number: int) -> None:
    injector = broker.cluster.sim.injector
    await _call(injector.arm, _rule(f"chance{number}", Pass(), probability=0.5))
    await _metadata(broker, number)
    await _call(injector.disarm, f"chance{number}")
    broker.sent_bytes += SENT_AT_LEAST


async def _wait_in_vain(broker: BrokerUnderStrikes, number: int) -> None:
    injector = broker.cluster.sim.injector
    if number == 0:
        await _call(injector.arm, _rule("never", Hold(), api="DeleteTopics"))
    with contextlib.suppress(TimeoutError):
        await injector.wait_until_struck("never", timeout_ms=0)
    broker.sent_bytes += SENT_AT_LEAST


async def _stall_another(broker: BrokerUnderStrikes, number: int) -> None:
    """Stall one more connection for a limited time; all earlier ones stay stalled."""
    injector = broker.cluster.sim.injector
    if number == 0:
        await _call(injector.arm, _rule("stall", Stall(stall_ms=5), api="ApiVersions"))
        await _call(injector.arm, _rule("stalled", Stall(), api="Metadata"))
    await _metadata(broker, number)
    software = {"client_software_name": "a", "client_software_version": "1"}
    await broker.send(("ApiVersions", 4, software))


RULE_STEPS: Final[Mapping[str, Drive]] = {
    step.__name__.strip("_"): step
    for step in (
        _arm_again,
        _arm_another,
        _follow_another,
        _strike_by_chance,
        _wait_in_vain,
        _stall_another,
    )
}


# Limits

VIRTUAL_CONNECTION_BYTES: Final = 3_000
"""Kept by the virtual network for each connection there was: its stream of chance."""
WAITING_BYTES: Final = 24_000
"""Of a client that waits, with its own end of the connection, which is in this process too: its
task, its request and what it is about. A strike that waits keeps no more.
"""
KEPT: Final[Mapping[str, float]] = {
    # The coordinator's next epoch is waited for as well: a task, and the image.
    "coordinator.load": 5_000,
    "coordinator.unload": 5_000,
    # A segment of the log, its indexes and the state of its producers.
    "log.flush": 1_500,
    # An aborted transaction: its records, its entry in the index and its producer.
    "log.index": 1_500,
    # Positions of a transaction and its marker.
    "group.completion": 2_000,
    # A share partition of one more group.
    "share.persist": 2_000,
    # A rule that never struck is told as such at the end.
    "arm_again": 1_500,
    "arm_another": 1_500,
    "follow_another": 1_500,
    # Each rule has a stream of chance.
    "strike_by_chance": 4_500,
}
"""Point or step -> bytes kept for each, besides what every connection keeps."""
RISING: Final = frozenset({"share.persist"})
"""Points that are crossed by more as one thing grows: a ShareFetch looks at each session, a line or
two, up to 1,000 and 2,000 (``test_small_steps.RISING``).
"""


def _too_much(
    name: str, action: Action | None, repetition: StrikeRepetition, crossing_count: int
) -> list[str]:
    complaints = []
    kept_each = KEPT.get(name, 0) + VIRTUAL_CONNECTION_BYTES
    if name == "stall_another":
        kept_each += WAITING_BYTES + VIRTUAL_CONNECTION_BYTES
    elif action is not None and _waits(action):
        kept_each += WAITING_BYTES
    kept_max = ALLOWANCE_BYTES + KEPT_MAX * repetition.sent_bytes + kept_each * crossing_count
    if repetition.kept_bytes > kept_max:
        complaints.append(f"{name}, {action}: keeps {repetition.kept_bytes} of {crossing_count}")
    lines_max = STEADY_MAX * max(repetition.lines_at_few, FEW_LINES)
    if repetition.lines_at_many > lines_max and name not in RISING:
        complaints.append(
            f"{name}, {action}: {repetition.lines_at_few} lines for {COUNTED}, then"
            f" {repetition.lines_at_many}"
        )
    if not repetition.strikes:
        complaints.append(f"{name}, {action}: never struck")
    return complaints


def _actions_at(point: FaultPoint) -> list[Action]:
    """What a rule may do at a point; a broker whose start or stop is held can't be restarted."""
    actions = [action for make_kind in (*TAKES[point], ClockJump) for action in ACTIONS[make_kind]]
    return [action for action in actions if not (PLACES[point].is_heavy and _waits(action))]


OFTEN: Final = pytest.mark.parametrize(
    "is_often", [False, pytest.param(True, marks=pytest.mark.thorough)]
)


@pytest.mark.slow
@pytest.mark.costly
@OFTEN
@pytest.mark.parametrize("point", PLACES, ids=str)
def test_a_strike_keeps_and_costs_little_however_often_it_comes(
    point: FaultPoint, *, is_often: bool
) -> None:
    count = (HEAVY_COUNTS if PLACES[point].is_heavy else COUNTS)[is_often]
    complaints = []
    for action in _actions_at(point):
        complaints += _too_much(str(point), action, strike(point, action, count), count)
    assert not complaints, "\n".join(complaints)


@pytest.mark.slow
@pytest.mark.costly
@OFTEN
@pytest.mark.parametrize("action_kind", CLUSTER_ACTIONS, ids=name_of)
def test_an_action_on_the_cluster_keeps_and_costs_little(
    action_kind: type[ClusterAction], *, is_often: bool
) -> None:
    count = HEAVY_COUNTS[is_often]
    complaints = []
    for action in ACTIONS[action_kind]:
        complaints += _too_much("now", action, act(action, count), count)
    assert not complaints, "\n".join(complaints)


@pytest.mark.slow
@pytest.mark.costly
@OFTEN
@pytest.mark.parametrize("step_name", RULE_STEPS)
def test_rules_that_come_and_go_keep_and_cost_little(step_name: str, *, is_often: bool) -> None:
    count = COUNTS[is_often]
    complaints = _too_much(step_name, None, repeat_rules(step_name, count), count)
    assert not complaints, "\n".join(complaints)


def test_every_point_and_action_is_struck() -> None:
    assert PLACES.keys() == set(FaultPoint) - {FaultPoint.NOW}
    assert ACTIONS.keys() == {*CROSSING_ACTIONS, *CLUSTER_ACTIONS}
    assert KEPT.keys() <= {*PLACES, *RULE_STEPS}
