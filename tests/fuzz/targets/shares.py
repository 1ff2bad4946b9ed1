"""Share groups: members, the records that they share, and states at the share coordinator."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.broker.codec.golden.record import HERE
from tests.fuzz.target import Target, Violation
from tests.fuzz.targets.batches import NOW_MS
from tests.support.consumer_groups import image, topic_id
from tests.support.share_groups import ShareDriver, state_of
from tests.support.share_walks import LineWalk, Player
from txnsim.errors import CorruptLogRecordError, Rejection
from txnsim.group._topics_hash import topics_hash
from txnsim.group.sharing.share_topics import records_without_topics
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareKey,
    StateBatch,
    WriteShareState,
)
from txnsim.share_state._combining import combine_in_steps
from txnsim.share_state.decisions import ShareStateDecisions
from txnsim.share_state.log_format import decode_record, encode_record
from txnsim.share_state.shard import ShareStateShard
from txnsim.types import uuid_text
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.codec import run_to_end

TOPIC_NAMES: Final = ("a", "b", "c", "gone")
_MEMBERS: Final = 4
_SIZES: Final = (1, 2, 3)


def _steps(fuzz_bytes: bytes) -> Iterator[tuple[int, int, int]]:
    """(act, number, detail) of each step."""
    for index in range(0, len(fuzz_bytes) - 1, 2):
        yield fuzz_bytes[index] // _MEMBERS, fuzz_bytes[index] % _MEMBERS, fuzz_bytes[index + 1]


# Members


def _play_members(fuzz_bytes: bytes) -> None:
    driver = ShareDriver(image(a=1, b=3, c=4), max_size=_MEMBERS - 1)
    for act_number, member_number, detail in _steps(fuzz_bytes):
        member_id = f"m{member_number}"
        member = driver.group.members.get(member_id)
        epoch = 0 if member is None else member.member_epoch
        names = [name for bit, name in enumerate(TOPIC_NAMES) if detail >> bit & 1]
        match act_number % 7:
            case 0:
                driver.beat(member_id, 0, *names)
            case 1:
                driver.beat(member_id, epoch - (detail >> 4 & 1), *names)
            case 2:
                driver.beat(member_id, -1)
            case 3:
                driver.take(
                    driver.protocol.remove_late_member(driver.group, member_id, image=driver.image)
                )
            case 4 if driver.initializations:
                driver.complete_initialization() if detail & 1 else driver.refuse_initialization()
            case 5:
                _change_topics(driver, detail)
            case _:
                driver.now_ms += detail * 1_000
        _check_members(driver)
    reloaded_group = driver.reload_shard().groups.get(driver.group.group_id)
    if reloaded_group is not None and state_of(reloaded_group) != state_of(driver.group):
        raise Violation("the log makes another group")


def _change_topics(driver: ShareDriver, detail: int) -> None:
    """Create, enlarge or delete a topic."""
    name = TOPIC_NAMES[detail % len(TOPIC_NAMES)]
    sizes = {topic.name: len(topic.partitions) for topic in driver.image.topics.values()}
    if detail & 64:
        sizes.pop(name, None)
        deleted_ids = frozenset({topic_id(name)})
        driver.write(records_without_topics(driver.group, deleted_ids, now_ms=driver.now_ms))
    else:
        sizes[name] = sizes.get(name, 0) + 1
    driver.image = image(driver.image.offset + 1, **sizes)


def _check_members(driver: ShareDriver) -> None:
    group = driver.group
    consumed_topics = {
        topic_name for member in group.members.values() for topic_name in member.topic_names
    }
    if any(group.has_subscriber(name) != (name in consumed_topics) for name in TOPIC_NAMES):
        raise Violation("topics are counted that nobody consumes, or the other way round")
    if group.tally.topics_hash(driver.image) != topics_hash(consumed_topics, driver.image):
        raise Violation("the hash is not that of the topics consumed")
    if len(group.members) >= _MEMBERS:
        raise Violation("the group has more members than it may have")


# Records of a share partition


class _InputChoices(random.Random):
    """Choices that an input makes; the first ones once it is used up."""

    def __init__(self, fuzz_bytes: bytes) -> None:
        super().__init__(0)
        self._data = iter(fuzz_bytes)

    def random(self) -> float:
        """The next byte, of 256."""
        return next(self._data, 0) / 256


def _play_records(fuzz_bytes: bytes) -> None:
    player = Player()
    walk = LineWalk(0, player)
    walk.random = _InputChoices(fuzz_bytes)
    for line in walk.lines():
        player.play(line)
        _check_records(player)


def _check_records(player: Player) -> None:
    partition = player.partition
    ranges = [(batch.first_offset, batch.last_offset) for batch in partition.in_flight_ranges()]
    if any(first_offset > last_offset for first_offset, last_offset in ranges):
        raise Violation("a range ends before it begins")
    if any(
        earlier_range[1] >= later_range[0]
        for earlier_range, later_range in itertools.pairwise(ranges)
    ):
        raise Violation("a record is there twice")
    if not partition.start_offset <= partition.next_fetch_offset() <= partition.end_offset + 1:
        raise Violation("the next fetch begins elsewhere than in the records and behind them")
    if partition.delivery_complete_count < 0:
        raise Violation("fewer deliveries than none are complete")


# The share coordinator


def _keys() -> tuple[ShareKey, ...]:
    text = uuid_text(topic_id("a"))
    return tuple(ShareKey("g", text, partition) for partition in (0, 1, -1))


_KEYS: Final = _keys()


def _play_states(fuzz_bytes: bytes) -> None:
    shard = ShareStateShard(partition=0, coordinator_epoch=0, updates_per_snapshot=2)
    decisions = ShareStateDecisions(shard=shard, count_partitions=lambda _: 2, now_ms=NOW_MS)
    log: list[tuple[bytes, bytes | None]] = []
    steps = iter(fuzz_bytes)
    for step in steps:
        decision = _decide_step(decisions, step, steps)
        if isinstance(decision, Rejection):
            continue
        for record in decision.records:
            key, record_value = encode_record(record)
            if decode_record(key, record_value) != record:
                raise Violation("what is written is not read back")
            shard.apply(record, record_offset=len(log))
            log.append((key, record_value))
    reloaded_shard = ShareStateShard(partition=0, coordinator_epoch=0, updates_per_snapshot=2)
    records = [Record(key=key, value=value) for key, value in log]
    if records:
        list(reloaded_shard.read([build_batch(records, timestamp_ms=NOW_MS)]))
    if (reloaded_shard.states, reloaded_shard.leader_epochs) != (shard.states, shard.leader_epochs):
        raise Violation("the log makes other states")


def _decide_step(decisions: ShareStateDecisions, step: int, choices: Iterator[int]) -> Any:
    key = _KEYS[step // 8 % len(_KEYS)]
    epoch, start = next(choices, 0) % 4 - 1, next(choices, 0) % 16 - 1
    match step % 8:
        case 0 | 1:
            return decisions.initialize(
                InitializeShareState(key=key, state_epoch=epoch, start_offset=start)
            )
        case 2:
            return decisions.read(ReadShareState(key=key, leader_epoch=epoch))
        case 3:
            return decisions.delete(DeleteShareState(key=key))
        case 4:
            return decisions.summarize(ReadShareState(key=key))
    batches = tuple(_batch(choices) for _ in range(next(choices, 0) % 6))
    _check_combined(decisions.shard, key, batches, start)
    return decisions.write(
        WriteShareState(
            key=key,
            state_epoch=epoch,
            leader_epoch=epoch,
            start_offset=start,
            delivery_complete_count=start,
            batches=batches,
        )
    )


def _batch(choices: Iterator[int]) -> StateBatch:
    first_offset, size, state = next(choices, 0) % 16, next(choices, 0) % 8 - 1, next(choices, 0)
    return StateBatch(first_offset, first_offset + size, state % 5, state // 5 % 3)


def _check_combined(
    shard: ShareStateShard, key: ShareKey, newer_batches: tuple[StateBatch, ...], start: int
) -> None:
    """Check that each offset has its strongest state, and equal neighbours are joined."""
    share_snapshot = shard.states.get(key)
    older_batches = () if share_snapshot is None else share_snapshot.batches
    if len(older_batches) + len(newer_batches) < 2 or any(
        batch.last_offset < batch.first_offset for batch in (*older_batches, *newer_batches)
    ):
        return
    combined = run_to_end(combine_in_steps(older_batches, newer_batches, start_offset=start))
    if len(combined) > 1 and combined != run_to_end(
        combine_in_steps((), combined, start_offset=start)
    ):
        raise Violation("what is combined can be combined once more")
    for offset in range(max(start, 0), 24):
        covering = [
            (batch.delivery_count, batch.delivery_state)
            for batch in (*older_batches, *newer_batches)
            if batch.first_offset <= offset <= batch.last_offset
        ]
        combined_here = [
            (batch.delivery_count, batch.delivery_state)
            for batch in combined
            if batch.first_offset <= offset <= batch.last_offset
        ]
        if combined_here != sorted(covering)[-1:]:
            raise Violation(f"at {offset} stands {combined_here}, not the strongest of {covering}")


def _play_record(fuzz_bytes: bytes) -> None:
    size_bytes = int.from_bytes(fuzz_bytes[:2], "big")
    key, value = fuzz_bytes[2 : 2 + size_bytes], fuzz_bytes[2 + size_bytes :]
    for content in (value, None):
        with contextlib.suppress(CorruptLogRecordError):
            record = decode_record(key, content)
            if record is not None and decode_record(*encode_record(record)) != record:
                raise Violation("what was read is written otherwise")
    shard = ShareStateShard(partition=0, coordinator_epoch=0)
    list(shard.read([build_batch([Record(key=key, value=value)], timestamp_ms=NOW_MS)] * 2))


def _record_seeds() -> Iterator[bytes]:
    for line in (HERE / "share_state.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "key" not in record:
            continue
        key, record_value = bytes.fromhex(record["key"]), bytes.fromhex(record["value"] or "")
        yield len(key).to_bytes(2, "big") + key + record_value


def _member_seeds() -> Iterator[bytes]:
    yield bytes((0, 7, 16, 1, 4, 7, 1, 3, 16, 0, 20, 2, 4, 7, 8, 0, 12, 0))
    yield bytes((0, 15, 20, 3, 16, 1, 5, 1, 20, 67, 4, 0, 12, 1, 13, 1))


def _walk_seeds() -> Iterator[bytes]:
    for number in range(8):
        yield random.Random(number).randbytes(400)


def _state_seeds() -> Iterator[bytes]:
    yield bytes((0, 1, 1, 5, 1, 1, 2, 0, 4, 6, 4, 4, 5, 5, 1, 2, 1, 2, 3, 6, 2, 2, 0, 4, 1, 1))
    for number in range(4):
        yield random.Random(number).randbytes(100)


TARGETS: Final = {
    "share-groups": Target(play=_play_members, seeds=_member_seeds, length_max=128),
    "share-partitions": Target(play=_play_records, seeds=_walk_seeds, length_max=512),
    "share-states": Target(play=_play_states, seeds=_state_seeds, length_max=256),
    "share-logs": Target(play=_play_record, seeds=_record_seeds, length_max=1024),
}
