"""Encodes and decodes the records of ``__transaction_state``, byte for byte as Kafka does.

It follows TransactionLogKey.json and TransactionLogValue.json: value version 0 while
``transaction.version`` is finalized at 0, else version 1 with tagged fields. Both can always be
read. It does not know the log.

The encoder is written by hand: every state change of every transaction is a record, and a slow
coordinator slows everything down. It makes the whole record batch at once, uncompressed.

Counterpart in Kafka: TransactionLog.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from typing import Final

from txnsim.errors import CorruptLogRecordError, ErrorCode, Rejection
from txnsim.releases.rules import Rules
from txnsim.txn.state import NO_PARTITIONS, Tombstone, TransactionState, TxnRecord, TxnTransition
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch_header import pack_plain_batch
from txnsim.wire.records import FilledBatches, Record, build_batch
from txnsim.wire.records import encode_record as framed_record
from txnsim.wire.varint import read_uvarint, uvarint

_TAG_PREV_PRODUCER_ID: Final = 0
_TAG_NEXT_PRODUCER_ID: Final = 1
_TAG_CLIENT_VERSION: Final = 2
_TAG_NEXT_PRODUCER_EPOCH: Final = 3

_KEY_HEAD: Final = struct.Struct("!hh")
_VALUE_HEAD: Final = struct.Struct("!hqhib")
_VALUE_TIMES: Final = struct.Struct("!qq")
_INT16: Final = struct.Struct("!h")
_INT32: Final = struct.Struct("!i")
_INT64: Final = struct.Struct("!q")
_TAG_INT64: Final = struct.Struct("!BBq")
_TAG_INT16: Final = struct.Struct("!BBh")

_STATES: Final = {
    state.value: state
    for state in TransactionState
    # The other two states are never written: Kafka fails to load them
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}
CACHED_PARTITIONS_MAX: Final = 64
"""Most partitions of a cached set. A cache that kept every set of a transaction that grows by a
partition at a time would keep the square of what its client has sent.
"""
CACHED_ID_CHARACTERS_MAX: Final = 256
"""Longest transactional id whose key is cached. An id may have 32,767 bytes."""
_CLIENT_VERSIONS: Final = {version.value: version for version in TransactionVersion}

_LEVEL_0_RULE_IDS: Final = {
    TransactionState.EMPTY: "decide.init-after-2-to-0",
    TransactionState.ONGOING: "decide.add-at-0",
}
"""State -> row of docs/rules.md for a change that can't be logged at level 0, except for ends."""


# Writing


def refuse_record(record: TxnTransition) -> Rejection | None:
    """The error at level 0 for a record with a protocol version, which does not fit into value
    version 0 and must not be dropped; None if it fits.

    It occurs when ``transaction.version`` was lowered to 0 while transactions of version 2 were
    open.
    """
    if record.client_version == TransactionVersion.TV_0:
        return None
    return Rejection(
        error=ErrorCode.unsupported_version,
        reason=f"{record.transactional_id}: a transaction of version {record.client_version:d} "
        "cannot be logged while transaction.version is finalized at 0 (TransactionLogValue v0)",
        rule=_LEVEL_0_RULE_IDS.get(record.state, "decide.end-at-0"),
    )


def encode_batch(
    records: Sequence[TxnRecord],
    *,
    finalized_version: TransactionVersion,
    now_ms: int,
    release_rules: Rules,
) -> bytes:
    """Encode records as one uncompressed record batch, not transactional, without a producer."""
    if len(records) == 1 and isinstance(record := records[0], TxnTransition):
        # Every step of a transaction writes this, so it is encoded directly.
        has_short_id = len(record.transactional_id) <= CACHED_ID_CHARACTERS_MAX
        encode_key_field = _cached_key_field if has_short_id else _encode_key_field
        key = encode_key_field(record.transactional_id)
        value = encode_value(
            record, finalized_version=finalized_version, release_rules=release_rules
        )
        value_length = _length(len(value))
        record_length = 4 + len(key) + len(value_length) + len(value)
        payload = b"".join(
            # length, attributes and the two deltas, key, value, no headers
            (_length(record_length), b"\x00\x00\x00", key, value_length, value, b"\x00")
        )
        return pack_plain_batch(payload, timestamp_ms=now_ms)
    framed_records = [
        Record(
            key=encode_key(record.transactional_id),
            value=None
            if isinstance(record, Tombstone)
            else encode_value(
                record, finalized_version=finalized_version, release_rules=release_rules
            ),
        )
        for record in records
    ]
    return build_batch(framed_records, timestamp_ms=now_ms)


TombstoneBatch = tuple[list[Tombstone], list[bytes]]
"""Tombstones of a batch, and their encoded records."""


def tombstone_batches(
    tombstones: Iterable[Tombstone], *, batch_bytes_max: int, release_rules: Rules
) -> Generator[int, None, list[TombstoneBatch]]:
    """Split tombstones into batches of at most ``batch_bytes_max``, the limit of the topic, in
    slices. Releases before KAFKA-13099 write one batch of any size.

    Yields:
        How many tombstones were encoded.
    """
    has_many = release_rules.expired_ids_take_many_batches
    filled_batches = FilledBatches(
        _tombstone_record, batch_bytes_max=batch_bytes_max if has_many else None
    )
    batches: list[TombstoneBatch] = []
    for tombstone in tombstones:
        full_batch = filled_batches.add(tombstone)
        if full_batch is not None:
            batches.append(full_batch)
        yield 1
    return [*batches, filled_batches.last] if filled_batches.last[0] else batches


def _tombstone_record(tombstone: Tombstone, offset_delta: int) -> bytes:
    record = Record(key=encode_key(tombstone.transactional_id))
    return framed_record(record, offset_delta=offset_delta, timestamp_delta_ms=0)


@lru_cache(maxsize=4_096)
def _length(length: int) -> bytes:
    """Encode a length as records have it (zigzag)."""
    return uvarint(2 * length)


def _encode_key_field(transactional_id: TransactionalId) -> bytes:
    """Encode the key of a record with its length: the same in all records of a transactional id."""
    key = encode_key(transactional_id)
    return uvarint(2 * len(key)) + key  # zigzag


_cached_key_field: Final = lru_cache(maxsize=65_536)(_encode_key_field)


def encode_key(transactional_id: TransactionalId) -> bytes:
    """Encode TransactionLogKey version 0."""
    encoded_id = transactional_id.encode()
    return _KEY_HEAD.pack(0, len(encoded_id)) + encoded_id


def encode_value(
    transition: TxnTransition, *, finalized_version: TransactionVersion, release_rules: Rules
) -> bytes:
    """Encode TransactionLogValue in the version that ``finalized_version`` requires."""
    is_flexible = finalized_version >= _TV_1
    fixed_fields = _VALUE_HEAD.pack(
        1 if is_flexible else 0,
        transition.producer_id,
        transition.producer_epoch,
        transition.txn_timeout_ms,
        transition.state,
    )
    encoded_times = _VALUE_TIMES.pack(
        transition.last_update_timestamp_ms, transition.start_timestamp_ms
    )
    if transition.state is _EMPTY:
        partitions = b"\x00" if is_flexible else b"\xff\xff\xff\xff"
    else:
        is_cached = len(transition.partitions) <= CACHED_PARTITIONS_MAX
        encode = _cached_partitions_field if is_cached else _encode_partitions
        partitions = encode(transition.partitions, is_flexible=is_flexible)
    if not is_flexible:
        return fixed_fields + partitions + encoded_times
    # Tagged fields; one at its default is left out.
    tagged_fields = b""
    tag_count = 0
    prev_producer_id, next_producer_id = transition.prev_producer_id, transition.next_producer_id
    if not release_rules.swapped_ids_are_logged:
        prev_producer_id = next_producer_id = NO_PRODUCER_ID
    if prev_producer_id != NO_PRODUCER_ID:
        tag_count += 1
        tagged_fields += _TAG_INT64.pack(_TAG_PREV_PRODUCER_ID, 8, prev_producer_id)
    if next_producer_id != NO_PRODUCER_ID:
        tag_count += 1
        tagged_fields += _TAG_INT64.pack(_TAG_NEXT_PRODUCER_ID, 8, next_producer_id)
    if transition.client_version:
        tag_count += 1
        tagged_fields += _TAG_INT16.pack(_TAG_CLIENT_VERSION, 2, transition.client_version)
    if transition.next_producer_epoch != NO_PRODUCER_EPOCH:  # the text of KIP-939: no release
        tag_count += 1
        tagged_fields += _TAG_INT16.pack(
            _TAG_NEXT_PRODUCER_EPOCH, 2, transition.next_producer_epoch
        )
    return (
        fixed_fields + partitions + encoded_times + _ENCODED_TAG_COUNTS[tag_count] + tagged_fields
    )


def _encode_partitions(partitions: frozenset[TopicPartition], *, is_flexible: bool) -> bytes:
    """Encode partitions grouped by topic and sorted, so that equal runs write equal logs."""
    indexes_by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        indexes_by_topic.setdefault(partition.topic, []).append(partition.partition)
    topics = [
        (topic.encode(), sorted(indexes_by_topic[topic])) for topic in sorted(indexes_by_topic)
    ]
    encoded_parts = []
    if is_flexible:
        encoded_parts.append(uvarint(len(topics) + 1))
        for topic, partition_ids in topics:
            encoded_parts += (uvarint(len(topic) + 1), topic, uvarint(len(partition_ids) + 1))
            encoded_parts += (struct.pack(f"!{len(partition_ids)}i", *partition_ids), b"\x00")
    else:
        encoded_parts.append(_INT32.pack(len(topics)))
        for topic, partition_ids in topics:
            encoded_parts += (_INT16.pack(len(topic)), topic, _INT32.pack(len(partition_ids)))
            encoded_parts.append(struct.pack(f"!{len(partition_ids)}i", *partition_ids))
    return b"".join(encoded_parts)


_cached_partitions_field: Final = lru_cache(maxsize=2_048)(_encode_partitions)
"""As ``_encode_partitions``. The record that prepares an end repeats the partitions of the record
before, and most producers write to the same partitions in every transaction.
"""

# Module constants: looking a member up in its enum costs more than the comparison
_TV_1: Final = TransactionVersion.TV_1
_EMPTY: Final = TransactionState.EMPTY

_ENCODED_TAG_COUNTS: Final = (b"\x00", b"\x01", b"\x02", b"\x03", b"\x04")

# Reading

_NO_TAGS: Final = (-1, -1, 0, -1)
"""Values of the tagged fields of a record without tags."""


def decode_record(key: bytes, value: bytes | None, *, release_rules: Rules) -> TxnRecord | None:
    """Decode a record of the log.

    Returns:
        The record; None if key or value have an unknown version: Kafka skips these.

    Raises:
        CorruptLogRecordError: The bytes end too early, have a state that is never written, or have
            a version that this broker's release refuses.
    """
    try:
        key_version, id_length = _KEY_HEAD.unpack_from(key)
        if key_version != 0:
            return None
        transactional_id = TransactionalId(key[4 : 4 + id_length].decode())
        if value is None:
            return Tombstone(transactional_id=transactional_id)
        return _decode_value(transactional_id, value, release_rules)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __transaction_state: {error}, key {key.hex()}"
        ) from error


def _decode_value(
    transactional_id: TransactionalId, value: bytes, release_rules: Rules
) -> TxnTransition | None:
    (value_version,) = _INT16.unpack_from(value)
    if not 0 <= value_version <= (1 if release_rules.flexible_records_are_read else 0):
        if release_rules.unknown_records_are_skipped:
            return None
        raise CorruptLogRecordError(
            f"{transactional_id}: unknown version {value_version} of its record"
        )
    _, producer_id, producer_epoch, timeout_ms, state_id = _VALUE_HEAD.unpack_from(value)
    state = _STATES.get(state_id)
    if state is None:
        raise CorruptLogRecordError(f"{transactional_id}: unknown transaction state {state_id}")
    plain_body = _plain_body(value) if value_version == 1 else None
    if plain_body is None:
        cursor = _Cursor(value, _VALUE_HEAD.size)
        partitions = cursor.read_partitions(is_flexible=value_version == 1)
        last_update_ms, start_ms = cursor.read_int64(), cursor.read_int64()
        tagged_fields = cursor.read_tags() if value_version == 1 else _NO_TAGS
    else:
        partitions, last_update_ms, start_ms, tags_offset = plain_body
        is_tag_section_empty = value[tags_offset] == 0
        tagged_fields = (
            _NO_TAGS if is_tag_section_empty else _Cursor(value, tags_offset).read_tags()
        )
    if not release_rules.client_version_is_kept:  # tagged fields came with this rule
        tagged_fields = _NO_TAGS
    prev_producer_id, next_producer_id, version_number, next_producer_epoch = tagged_fields
    client_transaction_version = _CLIENT_VERSIONS.get(version_number)
    if client_transaction_version is None:
        raise CorruptLogRecordError(
            f"{transactional_id}: {version_number} is not a valid TransactionVersion"
        )
    return TxnTransition(
        transactional_id=transactional_id,
        producer_id=ProducerId(producer_id),
        prev_producer_id=ProducerId(prev_producer_id),
        next_producer_id=ProducerId(next_producer_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        txn_timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_timestamp_ms=start_ms,
        last_update_timestamp_ms=last_update_ms,
        client_version=client_transaction_version,
        next_producer_epoch=ProducerEpoch(next_producer_epoch),
    )


def _plain_body(value: bytes) -> tuple[frozenset[TopicPartition], int, int, int] | None:
    """Decode a common value of version 1 quickly: (partitions, update time, start time, position of
    the tags). None if it has several topics or long names, or is cut off.
    """
    offset = _VALUE_HEAD.size
    partitions = NO_PARTITIONS
    if offset + 1 >= len(value) or value[offset] > 2:
        return None
    if value[offset] < 2:  # null in Empty, no elements in CompleteX
        offset += 1
    else:  # one topic: mostly that of the record before
        count_offset = offset + 1 + value[offset + 1]
        if not 1 <= value[offset + 1] < 0x80 or count_offset >= len(value):
            return None
        partitions_end = (
            count_offset + 4 * value[count_offset] - 2
        )  # the encoded number is one too large
        if (
            not 1 <= value[count_offset] < 0x80
            or partitions_end > len(value)
            or value[partitions_end - 1]
        ):
            return None
        is_cached = value[count_offset] <= CACHED_PARTITIONS_MAX
        decode = _cached_partitions if is_cached else _decode_partitions
        partitions = decode(value[offset:partitions_end])
        offset = partitions_end
    times_end = offset + _VALUE_TIMES.size
    if times_end >= len(value):
        return None
    last_update_ms, start_ms = _VALUE_TIMES.unpack_from(value, offset)
    return partitions, last_update_ms, start_ms, times_end


def _decode_partitions(encoded_partitions: bytes) -> frozenset[TopicPartition]:
    return _Cursor(encoded_partitions, 0).read_partitions(is_flexible=True)


_cached_partitions: Final = lru_cache(maxsize=2_048)(_decode_partitions)


class _Cursor:
    """Decodes primitive values one after the other."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def read_int64(self) -> int:
        return self._unpack_fixed(_INT64)

    def read_partitions(self, *, is_flexible: bool) -> frozenset[TopicPartition]:
        topic_count = self._length(is_flexible=is_flexible, fixed_format=_INT32)
        if topic_count <= 0:  # null in Empty, no elements in CompleteX
            return NO_PARTITIONS
        partitions = []
        for _ in range(topic_count):
            topic = self._take_bytes(
                self._length(is_flexible=is_flexible, fixed_format=_INT16)
            ).decode()
            partition_count = self._length(is_flexible=is_flexible, fixed_format=_INT32)
            partition_ids = struct.unpack(
                f"!{partition_count}i", self._take_bytes(4 * partition_count)
            )
            partitions += [TopicPartition(topic, partition) for partition in partition_ids]
            if is_flexible:
                self.read_tags()
        return frozenset(partitions)

    def read_tags(self) -> tuple[int, int, int, int]:
        """Decode (previous producer id, next producer id, protocol version, next producer epoch);
        unknown tags are skipped.
        """
        prev_producer_id, next_producer_id, client_version, next_producer_epoch = _NO_TAGS
        for _ in range(self._uvarint()):
            tag = self._uvarint()
            field_cursor = _Cursor(self._take_bytes(self._uvarint()), 0)
            match tag:
                case 0:
                    prev_producer_id = field_cursor._unpack_fixed(_INT64)
                case 1:
                    next_producer_id = field_cursor._unpack_fixed(_INT64)
                case 2:
                    client_version = field_cursor._unpack_fixed(_INT16)
                case 3:
                    next_producer_epoch = field_cursor._unpack_fixed(_INT16)
                case _:
                    pass
        return prev_producer_id, next_producer_id, client_version, next_producer_epoch

    def _length(self, *, is_flexible: bool, fixed_format: struct.Struct) -> int:
        """Decode a length; -1 for null."""
        return self._uvarint() - 1 if is_flexible else self._unpack_fixed(fixed_format)

    def _unpack_fixed(self, number_format: struct.Struct) -> int:
        (number,) = number_format.unpack_from(self._data, self._offset)
        self._offset += number_format.size
        return int(number)

    def _uvarint(self) -> int:
        number, self._offset = read_uvarint(self._data, self._offset)
        return number

    def _take_bytes(self, byte_count: int) -> bytes:
        taken_bytes = self._data[self._offset : self._offset + byte_count]
        if len(taken_bytes) != byte_count:
            raise IndexError(
                f"{byte_count} bytes wanted at {self._offset}, {len(taken_bytes)} left"
            )
        self._offset += byte_count
        return taken_bytes
