"""What holds in every run, also for members and in single moments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lab.simulation.test_invariants import ORDERS_0, leader, use
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.hand_made_histories import FAILED, OK, UNKNOWN, HistoryBuilder
from tests.support.markers import append_marker
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.rng import RandomStreams
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition, partition_for
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Position, PositionsRead, SentOffsets
from txnsim_lab.simulation import _broker_promises as promises
from txnsim_lab.simulation import _running_invariants as moments
from txnsim_lab.simulation._broker_promises import (
    GRANTED_TO_REPLACED,
    LOST_POSITION,
    UNSTABLE_POSITION,
    broken_promises,
)
from txnsim_lab.simulation._running_invariants import MomentChecks

# What brokers promise beyond the anomalies: each is told from a history, and only where it must
# hold.


IDENTITY: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}


def kinds(story: HistoryBuilder, *, keeps_positions: bool = True) -> list[str]:
    return [
        fault_kind
        for fault_kind, _ in broken_promises(story.history, keeps_positions=keeps_positions)
    ]


# Who was replaced


def story_of_replaced(**fields: Any) -> HistoryBuilder:
    story = HistoryBuilder()
    story.initialise("p")
    story.begin("T1", "p")
    story.initialise("q", **({"producer_epoch": 1} | fields))
    return story


@pytest.mark.parametrize("do", ["added", "wrote", "sent"])
def test_nothing_is_granted_at_an_epoch_that_was_replaced(do: str) -> None:
    story = story_of_replaced()
    fields: Any = {**IDENTITY, "asked_ms": 3_500}
    match do:
        case "added":
            story.add_partitions("T1", **fields)
        case "wrote":
            story.write("T1", "a", **fields)
        case _:
            story.send_offsets("T1", 5, **fields)
    assert kinds(story) == [GRANTED_TO_REPLACED]


@pytest.mark.parametrize(
    ("fields_of_init", "fields_of_wrote"),
    [
        pytest.param({}, {"asked_ms": 2_500}, id="asked before"),
        pytest.param({}, {"asked_ms": 3_500, "outcome": FAILED}, id="refused"),
        pytest.param({}, {"asked_ms": 3_500, "outcome": UNKNOWN}, id="not answered"),
        pytest.param({}, {}, id="nobody knows when it was asked"),
        pytest.param({"producer_id": 8}, {"asked_ms": 3_500}, id="another producer"),
        pytest.param({"outcome": UNKNOWN}, {"asked_ms": 3_500}, id="the newer one got no answer"),
        pytest.param({"producer_epoch": 0}, {"asked_ms": 3_500}, id="the same epoch"),
    ],
)
def test_what_may_be_granted(
    fields_of_init: dict[str, Any], fields_of_wrote: dict[str, Any]
) -> None:
    story = story_of_replaced(**fields_of_init)
    story.write("T1", "a", **IDENTITY, **fields_of_wrote)
    assert kinds(story) == []


# Positions of groups


@pytest.mark.parametrize(
    ("end", "expected_kinds"), [("commit", [UNSTABLE_POSITION]), ("abort", [])]
)
def test_a_position_is_not_told_while_an_open_transaction_has_one(
    end: str, expected_kinds: list[str]
) -> None:
    """A transaction whose abort is granted may have been aborted at its timeout before."""
    story = HistoryBuilder()
    story.send_offsets("T1", 5)
    story.positions(3, asked_ms=1_500)
    getattr(story, end)("T1", asked_ms=2_500)
    assert kinds(story) == expected_kinds


@pytest.mark.parametrize(
    ("sent_fields", "read", "end"),
    [
        pytest.param({"outcome": UNKNOWN}, {}, {}, id="nobody knows that it came"),
        pytest.param({}, {"asked_ms": 900}, {}, id="asked before"),
        pytest.param({}, {}, {"asked_ms": 1_900}, id="its end was asked for"),
        pytest.param({}, {}, {"outcome": FAILED}, id="it was over by itself"),
    ],
)
def test_where_a_position_may_be_told(
    sent_fields: dict[str, Any], read: dict[str, Any], end: dict[str, Any]
) -> None:
    story = HistoryBuilder()
    story.send_offsets("T1", 5, **sent_fields)
    story.positions(3, **({"asked_ms": 1_500} | read))
    story.commit("T1", **({"asked_ms": 2_500} | end))
    assert UNSTABLE_POSITION not in kinds(story)


def test_a_position_that_was_taken_stays() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 5, asked_ms=500)
    story.positions(-1, asked_ms=1_500)
    assert kinds(story) == [LOST_POSITION]
    assert kinds(story, keeps_positions=False) == []


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_a_later_position_may_take_its_place(outcome: str) -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 5, asked_ms=500)
    story.send_offsets(None, 2, asked_ms=1_500, outcome=outcome)
    story.positions(2, asked_ms=2_500)
    assert kinds(story) == []


def test_an_earlier_one_or_that_of_an_aborted_transaction_may_not() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 2, asked_ms=500)
    story.send_offsets(None, 5, asked_ms=1_500)
    story.send_offsets("T1", 9)
    story.abort("T1", asked_ms=3_500)
    story.positions(2, asked_ms=4_500)
    story.positions(9, asked_ms=5_500)
    story.positions(5, asked_ms=6_500)
    assert kinds(story) == [LOST_POSITION, LOST_POSITION]


def test_a_position_that_somebody_was_told_stays_too() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 5, asked_ms=500)
    story.send_offsets(None, 9, asked_ms=1_500, outcome=UNKNOWN)
    story.positions(9, asked_ms=2_500)
    story.positions(5, asked_ms=3_500)
    assert kinds(story) == [LOST_POSITION]
    story.send_offsets(None, 5, asked_ms=4_500, outcome=UNKNOWN)
    assert kinds(story) == [LOST_POSITION]


def test_it_is_not_known_which_of_two_equal_positions_was_told() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 9, asked_ms=500, outcome=UNKNOWN)
    story.send_offsets(None, 5, asked_ms=1_500)
    story.send_offsets(None, 9, asked_ms=2_500, outcome=UNKNOWN)
    story.positions(9, asked_ms=3_500)
    story.positions(5, asked_ms=4_500)
    assert kinds(story) == []


def test_who_watches_may_be_told_late_and_what_is_open() -> None:
    story = HistoryBuilder()
    story.send_offsets(None, 2, asked_ms=500)
    story.send_offsets(None, 5, asked_ms=1_500)
    story.send_offsets("T1", 9)
    story.positions(2, asked_ms=3_500)
    story.commit("T1", asked_ms=4_500)
    assert kinds(story) == [UNSTABLE_POSITION, LOST_POSITION]
    watchers = frozenset({"r"})
    assert [*broken_promises(story.history, keeps_positions=True, watchers=watchers)] == []


def story_of_overtaken(offset: int, *, asked_ms: int) -> HistoryBuilder:
    """A plain commit of 5, answered after 9 was sent in a transaction, and before its end."""
    story = HistoryBuilder()
    story.send_offsets("T1", 9)
    story.send_offsets(None, 5, asked_ms=asked_ms)
    story.commit("T1", asked_ms=2_500)
    story.positions(offset, asked_ms=3_500)
    return story


def test_a_plain_commit_stays_when_the_marker_of_an_older_one_comes() -> None:
    assert kinds(story_of_overtaken(9, asked_ms=1_500)) == [LOST_POSITION]
    assert kinds(story_of_overtaken(5, asked_ms=1_500)) == []


@pytest.mark.parametrize("offset", [5, 9])
def test_of_two_that_were_sent_at_once_either_may_stay(offset: int) -> None:
    assert kinds(story_of_overtaken(offset, asked_ms=500)) == []


def test_an_older_one_gives_way_to_a_plain_commit_though_somebody_was_told_it() -> None:
    story = HistoryBuilder()
    story.send_offsets("T1", 9)
    story.send_offsets(None, 5, asked_ms=1_500)
    story.commit("T1", asked_ms=2_500)
    story.positions(9, asked_ms=1_800)  # before the plain commit was answered
    story.positions(5, asked_ms=4_500)
    assert kinds(story) == []
    story.positions(9, asked_ms=5_500)
    assert kinds(story) == [LOST_POSITION]


# A register by chance: commits take effect one after the other, and readers are told what is there


def by_chance(random: Any, *, forgets_values: bool) -> History:
    """Commits take effect at a moment between question and answer, or later where nobody hears of
    it. Readers are told what is there at a moment of theirs; or, of a register that forgets, what
    was there ten seconds before.
    """
    observations: list[SentOffsets | PositionsRead] = []
    effects: list[tuple[int, int]] = []
    place_fields: dict[str, Any] = {"topic": "in", "partition": 0}
    for _ in range(random.randint(1, 6)):
        asked_ms = random.randrange(60_000)
        at_ms = asked_ms + random.randrange(1, 10_000)
        outcome = random.choice([OK, UNKNOWN, FAILED])
        offset = random.randrange(4)
        if outcome is OK or (outcome is UNKNOWN and random.random() < 0.5):
            late_ms = 0 if outcome is OK else 30_000
            effects.append((random.randint(asked_ms, at_ms + late_ms), offset))
        fields = {"asked_ms": asked_ms, "outcome": outcome, "group": "g", "position": offset}
        observations.append(SentOffsets(at_ms=at_ms, who="p", **place_fields, **fields))
    for _ in range(random.randint(1, 6)):
        asked_ms = random.randrange(100_000)
        at_ms = asked_ms + random.randrange(1, 5_000)
        moment = random.randint(asked_ms, at_ms) - (10_000 if forgets_values else 0)
        offsets_there = [-1, *(offset for when, offset in sorted(effects) if when <= moment)]
        position = Position(topic="in", partition=0, offset=offsets_there[-1])
        fields = {"asked_ms": asked_ms, "group": "g", "positions": (position,)}
        observations.append(PositionsRead(at_ms=at_ms, who="r", **fields))
    return History(sorted(observations, key=lambda observation: observation.at_ms))


def test_what_one_register_tells_is_never_called_lost() -> None:
    for seed in range(3_000):
        history = by_chance(RandomStreams(seed).stream("register"), forgets_values=False)
        assert list(broken_promises(history, keeps_positions=True)) == [], seed


def test_what_a_register_forgets_is_called_lost_often() -> None:
    seeds_with_loss = [
        seed
        for seed in range(300)
        if [
            *broken_promises(
                by_chance(RandomStreams(seed).stream("register"), forgets_values=True),
                keeps_positions=True,
            )
        ]
    ]
    assert len(seeds_with_loss) > 30


# The rule as it reads, and what it costs


def lost_as_the_rule_reads(history: History, watchers: frozenset[str]) -> Iterator[str]:
    """The rule over all positions, anew for every reader: it takes the cube of their number."""
    sent_by_partition = {
        key: [write for write in every if write.may_count]
        for key, every in promises._positions_by_place(history).items()
    }
    for _, read in history.all_of(PositionsRead):
        asked_ms = read.at_ms if read.asked_ms is None else read.asked_ms
        for position in read.positions:
            every = sent_by_partition.get((read.group, position.place), [])
            indexes = [
                index
                for index, write in enumerate(every)
                if write.offset == position.offset and write.earliest_ms <= read.at_ms
            ]
            if len(indexes) == 1:
                position_told = every[indexes[0]]
                latest_ms = min(position_told.latest_ms, read.at_ms)
                every[indexes[0]] = position_told._replace(is_certain=True, latest_ms=latest_ms)
            if read.who in watchers:
                continue
            certain = [write for write in every if write.is_certain and write.latest_ms < asked_ms]
            plain_times = [write.earliest_ms for write in certain if write.transaction is None]
            since_ms = max(plain_times, default=0)
            every = [
                write
                for write in every
                if write.transaction is None or write.written_ms >= since_ms
            ]
            last_ms = max((write.earliest_ms for write in certain if write in every), default=None)
            if last_ms is not None and position.offset not in {
                write.offset
                for write in every
                if write.latest_ms >= last_ms and write.earliest_ms <= read.at_ms
            }:
                yield f"{read.who} got {position.offset} at {read.at_ms}"


def mixed_by_chance(random: Any) -> HistoryBuilder:
    """A history of commits of positions, with and without transactions, and of drawn answers."""
    story, open_now = HistoryBuilder(), {"T0"}
    for number in range(1, random.randint(4, 40)):
        now_ms = number * 1_000
        asked_ms = max(0, now_ms - random.randrange(1, 5_000))
        outcome = random.choice([OK, OK, OK, UNKNOWN, FAILED])
        offset = random.randrange(5)
        do = random.choice(["plain", "sent", "committed", "aborted", "read", "read", "watched"])
        label = random.choice(sorted(open_now))
        if do == "plain":
            story.send_offsets(None, offset, asked_ms=asked_ms, outcome=outcome)
        elif do == "sent":
            story.send_offsets(label, offset, asked_ms=asked_ms, outcome=outcome)
        elif do in ("committed", "aborted"):
            end = story.commit if do == "committed" else story.abort
            end(label, asked_ms=asked_ms, outcome=outcome)
            if outcome is OK:
                open_now.remove(label)
            open_now.add(f"T{number}")
        else:
            story.positions(offset, client_name="r" if do == "read" else "m", asked_ms=asked_ms)
    return story


def test_lost_positions_are_those_of_the_rule_as_it_reads() -> None:
    watchers, losses_found, healthy = frozenset({"m"}), 0, 0
    for seed in range(400):
        history = mixed_by_chance(RandomStreams(seed).stream("mixed")).history
        lost_positions = [
            because
            for fault_kind, because in broken_promises(
                history, keeps_positions=True, watchers=watchers
            )
            if fault_kind == LOST_POSITION
        ]
        as_it_reads = [*lost_as_the_rule_reads(history, watchers)]
        assert [loss.split(" of g")[0] for loss in lost_positions] == [
            line.split(" at ")[0] for line in as_it_reads
        ], seed
        losses_found, healthy = losses_found + len(lost_positions), healthy + (not lost_positions)
    assert losses_found > 500
    assert healthy > 50


Judge = Callable[[History, frozenset[str]], Iterator[promises.BrokenPromise]]


def moves(move_kind: str, count: int) -> History:
    """A history in which a group commits ``count`` positions and reads each of them."""
    story, asked_ms = HistoryBuilder(), 500
    for record_number in range(count):
        is_in_transaction = move_kind == "transactions" or (
            move_kind == "first transactions" and record_number < count / 2
        )
        offset = 7 if move_kind == "one offset" else record_number
        if is_in_transaction or (move_kind == "both" and record_number % 2):
            story.send_offsets(f"T{record_number}", offset, asked_ms=asked_ms)
            story.commit(f"T{record_number}", asked_ms=asked_ms + 1_000)
            asked_ms += 2_000
        else:
            story.send_offsets(None, offset, asked_ms=asked_ms)
            asked_ms += 1_000
        story.positions(offset, asked_ms=asked_ms)
        asked_ms += 1_000
    return story.history


def steps(judge: Judge, history: History) -> int:
    """The number of lines of ``_broker_promises`` that a judge runs through."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != promises.__file__:
            return None
        count += 1
        return trace

    trace_before = sys.gettrace()
    sys.settrace(trace)
    try:
        anomalies = [*judge(history, frozenset())]
    finally:
        sys.settrace(trace_before)
    assert anomalies == []
    return count


@pytest.mark.parametrize("judge", [promises._lost_positions, promises._unstable_positions])
@pytest.mark.parametrize(
    "move_kind", ["plain", "transactions", "both", "first transactions", "one offset"]
)
def test_twice_as_many_positions_take_twice_as_many_steps(move_kind: str, judge: Judge) -> None:
    assert steps(judge, moves(move_kind, 400)) < 2.1 * steps(judge, moves(move_kind, 200))


# Each look at a cluster convicts one in which something is true too early, or no more.


def raise_the_watermark_of_a_follower(cluster: VirtualCluster) -> None:
    follower_broker = next(
        broker for broker in cluster.sim.brokers.values() if ORDERS_0 not in broker.replicas.led
    )
    follower_broker.replicas.hosted[ORDERS_0].high_watermark += 9


def show_a_transaction_before_its_marker_is_replicated(cluster: VirtualCluster) -> None:
    """A bug: the log forgets the marker at 3 before it is replicated."""
    lower_the_watermark(cluster)
    follower_broker = next(
        broker for broker in cluster.sim.brokers.values() if ORDERS_0 not in broker.replicas.led
    )
    follower_broker.replicas.hosted[ORDERS_0].truncate_to(3, now_ms=0)


def show_a_transaction_where_a_follower_has_another_record(cluster: VirtualCluster) -> None:
    """As if a follower had not cut off yet what another leader wrote in place of the marker."""
    show_a_transaction_before_its_marker_is_replicated(cluster)
    for broker in cluster.sim.brokers.values():
        log = broker.replicas.hosted[ORDERS_0]
        if log.log_end_offset == 3:
            append_marker(log, now_ms=0, producer_id=99)


def lower_the_watermark(cluster: VirtualCluster) -> None:
    """Lower the high watermark, as a new leader may do that knows a lower one."""
    assert leader(cluster).replicas.led[ORDERS_0].last_stable_offset == 4
    for broker in cluster.sim.brokers.values():
        broker.replicas.hosted[ORDERS_0].high_watermark = 3


def look_at(image: ClusterImage, cluster: VirtualCluster) -> None:
    cluster.sim.metadata.image = image


def let_somebody_lead_who_is_not_in_sync(cluster: VirtualCluster) -> None:
    image = cluster.sim.metadata.image
    partition = image.topics[ORDERS_0.topic].partitions[ORDERS_0.partition]
    other_replicas = tuple(broker for broker in partition.isr if broker != partition.leader)
    look_at(image.with_partitions({ORDERS_0: replace(partition, isr=other_replicas)}), cluster)


def let_somebody_be_in_sync_who_is_no_replica(cluster: VirtualCluster) -> None:
    image = cluster.sim.metadata.image
    partition = image.topics[ORDERS_0.topic].partitions[ORDERS_0.partition]
    look_at(
        image.with_partitions({ORDERS_0: replace(partition, replicas=(partition.leader,))}), cluster
    )


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (raise_the_watermark_of_a_follower, moments.HIGH_WATERMARK_KIND),
        (show_a_transaction_before_its_marker_is_replicated, moments.STABLE_OFFSET_KIND),
        (show_a_transaction_where_a_follower_has_another_record, moments.STABLE_OFFSET_KIND),
        (let_somebody_lead_who_is_not_in_sync, moments.UNSOUND_ISR_KIND),
        (let_somebody_be_in_sync_who_is_no_replica, moments.UNSOUND_ISR_KIND),
    ],
)
def test_harm_is_found_once_and_nothing_before(
    harm: Callable[[VirtualCluster], None], kind: str
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        assert MomentChecks(cluster.sim).look() == []
        image = cluster.sim.metadata.image
        harm(cluster)
        moment_checks = MomentChecks(cluster.sim)
        assert [kind_found for kind_found, _ in moment_checks.look()] == [kind]
        assert moment_checks.look() == []
        look_at(image, cluster)

    run_cluster(main)


def test_a_marker_is_replicated_when_all_in_sync_have_it_whatever_the_watermark() -> None:
    """Seed 6505: the high watermark was above the marker, and fell when the leader moved."""

    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        lower_the_watermark(cluster)
        assert MomentChecks(cluster.sim).look() == []
        follower_id = next(
            broker_id for broker_id in cluster.sim.brokers if broker_id != cluster.leader(ORDERS_0)
        )
        await cluster.sim.kill_broker(follower_id)
        # It is in sync until its session ends. Its log can not be seen.
        assert [fault_kind for fault_kind, _ in MomentChecks(cluster.sim).look()] == [
            moments.STABLE_OFFSET_KIND
        ]

    run_cluster(main)


@pytest.mark.parametrize(
    ("offset", "offset_lag", "is_early"),
    [(3, 1, True), (3, 0, False), (2, 1, False), (-1, 1, False)],
)
def test_a_position_is_told_when_it_is_replicated(
    offset: int, offset_lag: int, is_early: bool
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        topic = cluster.sim.metadata.image.topics[CONSUMER_OFFSETS_TOPIC]
        home_partition = TopicPartition(
            CONSUMER_OFFSETS_TOPIC, partition_for("g", len(topic.partitions))
        )
        leader(cluster, home_partition).replicas.led[home_partition].high_watermark -= offset_lag
        position = Position(topic=ORDERS_0.topic, partition=ORDERS_0.partition, offset=offset)
        read = PositionsRead(at_ms=1, who="monitor", group="g", positions=(position,))
        kinds_found = [
            fault_kind for fault_kind, _ in MomentChecks(cluster.sim).early_positions(read)
        ]
        assert kinds_found == ([moments.EARLY_POSITION_KIND] if is_early else [])

    run_cluster(main)
