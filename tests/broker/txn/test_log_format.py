"""Records of ``__transaction_state``: bytes that Kafka wrote, and damage."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.txn_entries import FOO_0, FOO_1, NOW_MS, TID, entry
from txnsim.errors import CorruptLogRecordError, ErrorCode
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.txn import log_format
from txnsim.txn.log_format import (
    decode_record,
    encode_batch,
    encode_key,
    encode_value,
    refuse_record,
    tombstone_batches,
)
from txnsim.txn.log_reader import CoordinatorLogEntries, read_log
from txnsim.txn.state import Tombstone, TransactionState, TxnTransition
from txnsim.txn.transitions import apply, to_complete, to_first, to_ongoing
from txnsim.types import (
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch import build_batch, control_batch, iter_batches, read_records
from txnsim.wire.batch_header import pack_new_batch
from txnsim.wire.codec import run_to_end
from txnsim.wire.records import Record

# Records of __transaction_state against bytes that Kafka wrote, and against damage.


TV_0, TV_1, TV_2 = TransactionVersion
UPDATE_MS = 1_700_000_000_000

EMPTY_V0 = "0000000000000000000700000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
EMPTY_V1 = (
    "0001000000000000000700000000ea6000000000018bcfe56800ffffffffffffffff0100080000000000000007"
)
OVERFLOW_V1 = (
    "000100000000000000077fff0000ea60020204666f6f030000000000000001000000018bcfe568000000018bcf"
    "e564180300080000000000000007010800000000000003e802020002"
)


def transition(
    *,
    previous_producer_id: int = 7,
    next_producer_id: int = -1,
    epoch: int = 0,
    state: TransactionState = TransactionState.EMPTY,
    partitions: frozenset[TopicPartition] = frozenset(),
    start_ms: int = -1,
    client_version: TransactionVersion = TV_0,
    transactional_id: TransactionalId = TID,
) -> TxnTransition:
    return TxnTransition(
        transactional_id=transactional_id,
        producer_id=ProducerId(7),
        prev_producer_id=ProducerId(previous_producer_id),
        next_producer_id=ProducerId(next_producer_id),
        producer_epoch=ProducerEpoch(epoch),
        last_producer_epoch=ProducerEpoch(-1),
        txn_timeout_ms=60_000,
        state=state,
        partitions=partitions,
        start_timestamp_ms=start_ms,
        last_update_timestamp_ms=UPDATE_MS,
        client_version=client_version,
    )


EMPTY = transition()
OVERFLOW = transition(
    next_producer_id=1000,
    epoch=32_767,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({FOO_1, FOO_0}),
    start_ms=1_699_999_999_000,
    client_version=TV_2,
)
ONE_TOPIC = transition(
    state=TransactionState.ONGOING, partitions=frozenset({FOO_0}), start_ms=UPDATE_MS
)


# Bytes


def test_key_bytes() -> None:
    assert encode_key(TID).hex() == "0000000574786e2d31"


@pytest.mark.parametrize(
    ("record", "transaction_version", "expected_text"),
    [
        (EMPTY, TV_0, EMPTY_V0),
        (EMPTY, TV_1, EMPTY_V1),
        (EMPTY, TV_2, EMPTY_V1),
        (OVERFLOW, TV_1, OVERFLOW_V1),
        (OVERFLOW, TV_2, OVERFLOW_V1),
    ],
)
def test_value_bytes(
    record: TxnTransition, transaction_version: TransactionVersion, expected_text: str
) -> None:
    assert (
        encode_value(
            record, finalized_version=transaction_version, release_rules=LATEST_RULES
        ).hex()
        == expected_text
    )


@pytest.mark.parametrize(
    ("record_value", "expected_transition"),
    [
        (EMPTY_V1, EMPTY),
        (OVERFLOW_V1, OVERFLOW),
        (EMPTY_V0, transition(previous_producer_id=-1)),  # version 0 has no tags
    ],
)
def test_reading_the_bytes_gives_the_record(
    record_value: str, expected_transition: TxnTransition
) -> None:
    assert (
        decode_record(encode_key(TID), bytes.fromhex(record_value), release_rules=LATEST_RULES)
        == expected_transition
    )


@pytest.mark.parametrize("partition_count", [126, 127, 128])
def test_partitions_are_read_whole_where_their_number_begins_to_take_two_bytes(
    partition_count: int,
) -> None:
    # The last byte of each is 0, as if an empty list of tags began there.
    partitions = frozenset(TopicPartition("foo", 256 * index) for index in range(partition_count))
    record = transition(state=TransactionState.ONGOING, partitions=partitions, start_ms=1)
    value = encode_value(record, finalized_version=TV_1, release_rules=LATEST_RULES)
    assert decode_record(encode_key(TID), value, release_rules=LATEST_RULES) == record


def test_long_names_and_lists_take_longer_varints() -> None:
    topic = "long" * 50
    partitions = frozenset(TopicPartition(topic, partition) for partition in range(300))
    record = transition(
        previous_producer_id=-1, state=TransactionState.ONGOING, partitions=partitions, start_ms=1
    )
    assert (
        decode_record(
            encode_key(TID),
            encode_value(record, finalized_version=TV_1, release_rules=LATEST_RULES),
            release_rules=LATEST_RULES,
        )
        == record
    )


def test_a_complete_transaction_has_an_empty_list_and_an_empty_one_none() -> None:
    complete_transition = transition(state=TransactionState.COMPLETE_COMMIT, start_ms=1)
    assert (
        encode_value(complete_transition, finalized_version=TV_1, release_rules=LATEST_RULES)[17:18]
        == b"\x01"
    )
    assert encode_value(EMPTY, finalized_version=TV_1, release_rules=LATEST_RULES)[17:18] == b"\x00"
    assert (
        encode_value(complete_transition, finalized_version=TV_0, release_rules=LATEST_RULES)[17:21]
        == b"\x00\x00\x00\x00"
    )
    assert (
        encode_value(EMPTY, finalized_version=TV_0, release_rules=LATEST_RULES)[17:21]
        == b"\xff\xff\xff\xff"
    )


PARTITIONS = st.builds(TopicPartition, st.text(min_size=1, max_size=200), st.integers(0, 2**31 - 1))
TRANSITIONS = st.builds(
    transition,
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    epoch=st.integers(0, 32_767),
    state=st.sampled_from(
        [
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
        ]
    ),
    partitions=st.frozensets(PARTITIONS, max_size=200),
    start_ms=st.integers(-1, 2**62),
    client_version=st.sampled_from([TV_0, TV_2]),
    transactional_id=st.text(max_size=300).map(TransactionalId),
)


@given(TRANSITIONS)
def test_what_is_written_can_be_read(record: TxnTransition) -> None:
    key = encode_key(record.transactional_id)
    assert (
        decode_record(
            key,
            encode_value(record, finalized_version=TV_2, release_rules=LATEST_RULES),
            release_rules=LATEST_RULES,
        )
        == record
    )


@given(TRANSITIONS)
def test_version_0_loses_exactly_the_tags(record: TxnTransition) -> None:
    key = encode_key(record.transactional_id)
    read = decode_record(
        key,
        encode_value(record, finalized_version=TV_0, release_rules=LATEST_RULES),
        release_rules=LATEST_RULES,
    )
    assert isinstance(read, TxnTransition)
    assert (read.prev_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)
    assert (read.partitions, read.producer_epoch) == (record.partitions, record.producer_epoch)


# What has no place in version 0


@pytest.mark.parametrize(("record", "is_refused"), [(OVERFLOW, True), (EMPTY, False)])
def test_the_protocol_version_is_not_dropped_in_silence(
    record: TxnTransition, *, is_refused: bool
) -> None:
    rejection = refuse_record(record)
    assert (rejection is not None) is is_refused
    if rejection is not None:
        assert rejection.error is ErrorCode.unsupported_version


# Batches


def test_a_batch_is_what_the_general_builder_makes() -> None:
    tombstone = Tombstone(transactional_id=TransactionalId("gone" * 20))
    batch = encode_batch(
        (EMPTY, OVERFLOW, tombstone),
        finalized_version=TV_2,
        now_ms=UPDATE_MS,
        release_rules=LATEST_RULES,
    )
    records = [
        Record(key=encode_key(TID), value=bytes.fromhex(EMPTY_V1)),
        Record(key=encode_key(TID), value=bytes.fromhex(OVERFLOW_V1)),
        Record(key=encode_key(tombstone.transactional_id), value=None),
    ]
    assert batch == build_batch(records, timestamp_ms=UPDATE_MS)


@given(TRANSITIONS)
def test_long_values_too(record: TxnTransition) -> None:
    batch = encode_batch(
        (record,), finalized_version=TV_2, now_ms=UPDATE_MS, release_rules=LATEST_RULES
    )
    ((position, header),) = iter_batches(batch)
    assert (position, header.size) == (0, len(batch))
    (read_record,) = read_records(batch)
    assert read_record.key is not None
    assert decode_record(read_record.key, read_record.value, release_rules=LATEST_RULES) == record


def test_tombstones_are_split_by_the_size_of_a_batch() -> None:
    tombstones = [Tombstone(transactional_id=TransactionalId(f"txn-{n:03}")) for n in range(100)]
    batches = split(tombstones, batch_bytes_max=1_000)
    assert [tombstone for batch in batches for tombstone in batch] == tombstones
    assert len(batches) > 1
    for batch, next_batch in zip(batches, [*batches[1:], []], strict=True):
        assert _size(batch) <= 1_000
        assert not next_batch or _size([*batch, next_batch[0]]) > 1_000, "each is full"
    assert split([], batch_bytes_max=1_000) == []


def test_each_tombstone_is_a_step_and_a_batch_has_the_bytes_of_all_at_once() -> None:
    """100,000 were one step of the loop."""
    tombstones = [Tombstone(transactional_id=TransactionalId(f"txn-{n:03}")) for n in range(100)]
    steps = tombstone_batches(tombstones, batch_bytes_max=1_000, release_rules=LATEST_RULES)
    assert list(steps) == [1] * 100
    for batch, encoded_records in run_to_end(
        tombstone_batches(tombstones, batch_bytes_max=1_000, release_rules=LATEST_RULES)
    ):
        assert pack_new_batch(encoded_records, timestamp_ms=UPDATE_MS) == encode_batch(
            batch, finalized_version=TV_2, now_ms=UPDATE_MS, release_rules=LATEST_RULES
        )


def split(
    tombstones: list[Tombstone], *, batch_bytes_max: int, rules: Rules = LATEST_RULES
) -> list[list[Tombstone]]:
    steps = tombstone_batches(tombstones, batch_bytes_max=batch_bytes_max, release_rules=rules)
    return [batch for batch, _ in run_to_end(steps)]


def test_before_kafka_13099_they_are_one_batch_of_any_size() -> None:
    tombstones = [Tombstone(transactional_id=TransactionalId(f"txn-{n:03}")) for n in range(100)]
    rules = Rules(expired_ids_take_many_batches=False)
    assert split(tombstones, batch_bytes_max=10, rules=rules) == [tombstones]
    assert split([], batch_bytes_max=10, rules=rules) == []


def _size(batch: list[Tombstone]) -> int:
    return len(
        encode_batch(batch, finalized_version=TV_2, now_ms=UPDATE_MS, release_rules=LATEST_RULES)
    )


# Damage and the unknown


def test_a_null_value_is_a_tombstone() -> None:
    assert decode_record(encode_key(TID), None, release_rules=LATEST_RULES) == Tombstone(
        transactional_id=TID
    )


@pytest.mark.parametrize(
    ("key", "record_value"),
    [("0001000574786e2d31", EMPTY_V1), ("0000000574786e2d31", "0002" + EMPTY_V1[4:])],
    ids=["key", "value"],
)
def test_unknown_versions_are_skipped(key: str, record_value: str) -> None:
    assert (
        decode_record(bytes.fromhex(key), bytes.fromhex(record_value), release_rules=LATEST_RULES)
        is None
    )


@pytest.mark.parametrize("state", ["06", "07", "08"])
def test_states_that_are_never_written_are_corruption(state: str) -> None:
    record_value = bytes.fromhex(EMPTY_V1[:32] + state + EMPTY_V1[34:])
    with pytest.raises(CorruptLogRecordError, match="unknown transaction state"):
        decode_record(encode_key(TID), record_value, release_rules=LATEST_RULES)


def test_unknown_tags_are_skipped_and_unknown_protocols_are_corruption() -> None:
    plain_value = bytes.fromhex(EMPTY_V1)
    assert decode_record(
        encode_key(TID), plain_value[:34] + b"\x01\x04\x02\x00\x05", release_rules=LATEST_RULES
    ) == transition(previous_producer_id=-1)
    with pytest.raises(CorruptLogRecordError, match="9 is not a valid TransactionVersion"):
        decode_record(
            encode_key(TID), plain_value[:34] + b"\x01\x02\x02\x00\x09", release_rules=LATEST_RULES
        )


def test_unknown_tags_of_a_topic_are_skipped() -> None:
    plain_value = encode_value(ONE_TOPIC, finalized_version=TV_1, release_rules=LATEST_RULES)
    tags_offset = plain_value.index(b"\x04foo") + 9
    assert plain_value[tags_offset] == 0
    tagged_value = plain_value[:tags_offset] + b"\x01\x05\x01\x09" + plain_value[tags_offset + 1 :]
    assert decode_record(encode_key(TID), tagged_value, release_rules=LATEST_RULES) == ONE_TOPIC


@pytest.mark.parametrize("record_value", [EMPTY_V0, EMPTY_V1, OVERFLOW_V1])
def test_a_record_that_is_cut_off_is_corruption(record_value: str) -> None:
    whole_value = bytes.fromhex(record_value)
    for size in range(len(whole_value)):
        with pytest.raises(CorruptLogRecordError):
            decode_record(encode_key(TID), whole_value[:size], release_rules=LATEST_RULES)


def test_a_key_that_is_cut_off_is_corruption() -> None:
    with pytest.raises(CorruptLogRecordError):
        decode_record(b"\x00", None, release_rules=LATEST_RULES)
    with pytest.raises(CorruptLogRecordError):
        decode_record(b"\x00\x00\x00\x01\xff", None, release_rules=LATEST_RULES)


@given(st.data())
def test_the_short_way_reads_what_the_long_way_reads(data: st.DataObject) -> None:
    """This holds also for damaged values: both give the same record or the same error text."""
    record = data.draw(st.sampled_from([EMPTY, OVERFLOW, ONE_TOPIC]))
    record_value = bytearray(
        encode_value(record, finalized_version=TV_1, release_rules=LATEST_RULES)
    )
    for _ in range(data.draw(st.integers(0, 2))):
        record_value[data.draw(st.integers(0, len(record_value) - 1))] = data.draw(
            st.integers(0, 255)
        )
    del record_value[data.draw(st.integers(0, len(record_value))) :]

    def decode_or_complain() -> object:
        try:
            return decode_record(encode_key(TID), bytes(record_value), release_rules=LATEST_RULES)
        except CorruptLogRecordError as error:
            return str(error)

    short_result = decode_or_complain()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_format, "_plain_body", lambda _value: None)
        assert decode_or_complain() == short_result


# From a log to entries.


LOG_READER_TV_2 = TransactionVersion.TV_2
OTHER_ID = TransactionalId("other")
FIRST = to_first(TID, producer_id=ProducerId(7), timeout_ms=1_000, now_ms=NOW_MS)
OPENED = to_ongoing(
    entry(epoch=0, timeout_ms=1_000),
    partitions=frozenset({FOO_0}),
    client_version=LOG_READER_TV_2,
    now_ms=1,
)
ELSE = to_first(OTHER_ID, producer_id=ProducerId(8), timeout_ms=1_000, now_ms=NOW_MS)


def batch(*records: object) -> bytes:
    return encode_batch(
        records, finalized_version=LOG_READER_TV_2, now_ms=NOW_MS, release_rules=LATEST_RULES
    )  # type: ignore[arg-type]


def test_the_last_record_of_each_id_stays() -> None:
    loaded_log = read_log([batch(FIRST) + batch(ELSE), batch(OPENED)], release_rules=LATEST_RULES)
    assert loaded_log == CoordinatorLogEntries(
        entries={
            TID: apply(None, OPENED, release_rules=LATEST_RULES),
            OTHER_ID: apply(None, ELSE, release_rules=LATEST_RULES),
        }
    )  # type: ignore[dict-item]


def test_a_compacted_log_may_begin_anywhere() -> None:
    completing_transition = to_complete(entry(TransactionState.PREPARE_COMMIT), now_ms=NOW_MS)
    assert (
        read_log([batch(completing_transition)], release_rules=LATEST_RULES).entries[TID].state
        is TransactionState.COMPLETE_COMMIT
    )


def test_tombstones_remove_what_is_there_and_what_is_not() -> None:
    log = [batch(FIRST, ELSE), batch(Tombstone(transactional_id=TID))]
    assert list(read_log(log, release_rules=LATEST_RULES).entries) == [OTHER_ID]
    assert (
        read_log([batch(Tombstone(transactional_id=TID))], release_rules=LATEST_RULES).entries == {}
    )


def test_what_is_not_known_and_markers_are_skipped() -> None:
    unknown_key = build_batch([Record(key=b"\x00\x09\x00\x00", value=b"")], timestamp_ms=NOW_MS)
    marker = control_batch(
        producer_id=7,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=0,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
    )
    loaded_log = read_log([unknown_key, marker, batch(FIRST)], release_rules=LATEST_RULES)
    assert (list(loaded_log.entries), loaded_log.read_error) == ([TID], None)


def test_damage_ends_the_reading_and_keeps_what_was_read() -> None:
    damaged_batch = build_batch(
        [Record(key=encode_key(OTHER_ID), value=b"\x00")], timestamp_ms=NOW_MS
    )
    loaded_log = read_log([batch(FIRST), damaged_batch, batch(OPENED)], release_rules=LATEST_RULES)
    assert loaded_log.entries == {TID: apply(None, FIRST, release_rules=LATEST_RULES)}
    assert loaded_log.read_error is not None


def test_a_record_without_a_key_is_damage() -> None:
    keyless = build_batch([Record(key=None, value=b"")], timestamp_ms=NOW_MS)
    assert "has no key" in str(read_log([keyless], release_rules=LATEST_RULES).read_error)


def test_a_growing_transaction_leaves_nothing_behind() -> None:
    """Small requests, a partition at a time: each record lists all partitions, and none is kept."""
    partitions: frozenset[TopicPartition] = frozenset()
    sizes_bytes = []
    tracemalloc.start()
    try:
        for partition_index in range(1_200):
            partitions |= {TopicPartition("wide", partition_index)}
            record = transition(state=TransactionState.ONGOING, partitions=partitions)
            encode_batch([record], finalized_version=TV_2, now_ms=1, release_rules=LATEST_RULES)
            if partition_index in (200, 1_199):
                sizes_bytes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    sent_bytes = 46 * 1_000
    assert sizes_bytes[1] - sizes_bytes[0] < 8 * sent_bytes


@pytest.mark.parametrize(
    ("character_count", "is_kept"),
    [
        (1, True),
        (log_format.CACHED_ID_CHARACTERS_MAX, True),
        (log_format.CACHED_ID_CHARACTERS_MAX + 1, False),
    ],
)
def test_the_key_of_a_very_long_id_is_not_kept(character_count: int, *, is_kept: bool) -> None:
    transactional_id = TransactionalId("k" * character_count)
    first_transition = to_first(
        transactional_id, producer_id=ProducerId(1), timeout_ms=1, now_ms=NOW_MS
    )
    log_format._cached_key_field.cache_clear()
    batch = encode_batch(
        (first_transition,), finalized_version=TV_2, now_ms=NOW_MS, release_rules=LATEST_RULES
    )
    assert log_format._cached_key_field.cache_info().currsize == is_kept
    assert list(read_log([batch], release_rules=LATEST_RULES).entries) == [transactional_id]


@pytest.mark.parametrize(
    "count",
    [
        1,
        log_format.CACHED_PARTITIONS_MAX - 1,
        log_format.CACHED_PARTITIONS_MAX,
        log_format.CACHED_PARTITIONS_MAX + 1,
    ],
)
def test_a_large_set_of_partitions_is_not_kept(count: int) -> None:
    partitions = frozenset(TopicPartition("foo", index) for index in range(count))
    record = transition(state=TransactionState.ONGOING, partitions=partitions, start_ms=NOW_MS)
    log_format._cached_partitions_field.cache_clear()
    log_format._cached_partitions.cache_clear()
    value = encode_value(record, finalized_version=TV_2, release_rules=LATEST_RULES)
    assert log_format._cached_partitions_field.cache_info().currsize == (
        count <= log_format.CACHED_PARTITIONS_MAX
    )
    decoded = decode_record(encode_key(TID), value, release_rules=LATEST_RULES)
    assert isinstance(decoded, TxnTransition)
    assert decoded.partitions == partitions
    # The encoded number is one too large.
    assert log_format._cached_partitions.cache_info().currsize == (
        count < log_format.CACHED_PARTITIONS_MAX
    )
